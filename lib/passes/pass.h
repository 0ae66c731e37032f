// What a pass is: a function from a module to "changed?" and counts. It is idempotent: run again at once, it changes nothing. It
// reads its options from the context, records every decision (fused, or why not) where it is taken, and does not log, read the
// environment or abort. Each pass recurses into sub-graphs where that preserves the meaning. The runner (runner.h) times,
// verifies and dumps.
#pragma once
#include <bitset>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/cost.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

enum class PrecisionPolicy : uint8_t {
  F32,
  F16,
  AutoMixed,
  AutoMixedConservative,
  AutoMixedBf16,
  Custom,
  Fp8E4M3,  // operands of products as 8-bit floats with one scale each, or with one for each block of 32
  Fp8E5M2,
  MxFp8E4M3,
  MxFp8E5M2
};

// How HIR blocks are lowered: into primitive chains that the fusion passes see whole, or into fused operations at once.
enum class FusionPolicy : uint8_t { Fusable, Direct };

// What the target can do, as far as passes need to know. Filled from the target's capability row.
struct TargetTraits {
  std::string name = "cpu";
  std::bitset<kOpCount> native;     // op kinds with a kernel; the others must be decomposed
  std::bitset<kOpCount> epilogues;  // activations that a matmul or convolution kernel can end with
  bool strides = true;              // products can end in another order of axes than that of their rows (product_ends_in)
  uint32_t region_max_steps = 64, region_max_inputs = 16;
  Machine machine;  // of the cost decision
  // Whether one launch can run these nodes one after another; if not, why not. Null: the target has no such kernels.
  std::function<bool(const Graph&, std::span<const NodeId>, const std::function<bool(ValueId)>& known_on_load, std::string* why)>
      joins;
  TargetTraits() { native.set(), epilogues.set(); }
};

// A fusion that was made, or was looked at and declined. `reason` is a stable code ("fused", "multi_consumer", ...).
struct Decision {
  std::string pattern;  // "matmul_bias_act", "attention", ...
  std::string reason;
  ForeignText node;  // label of the node that the decision is about
  GraphId graph;
  std::vector<ForeignText> members;  // labels of the nodes that were merged
  std::string detail;                // numbers and names behind the reason
  std::string hint;                  // what the author of the model could do
  bool fused = false;
  int64_t launches_saved = 0;
  int64_t bytes_saved = 0;  // traffic to memory; 0 when sizes are symbolic
};

// One cast that the precision pass placed, or one Q/DQ pair.
struct PrecisionNote {
  std::string value, from, to, reason;
};

struct PrecisionClassMap {  // of --precision custom:FILE: class or op name -> dtype
  std::vector<std::pair<std::string, DType>> rules;
};

struct CalibrationEntry {
  std::optional<int64_t> axis;
  std::vector<double> scales;
  std::vector<int64_t> zero_points;
};
struct CalibrationRecord {
  std::vector<std::pair<std::string, CalibrationEntry>> entries;  // by tensor name
};

// Values as codes of few bits times scales: the largest absolute value that shares a scale becomes the largest code.
struct CastConfig {
  DType to = DType::I8;     // i8, i4 or an 8-bit float
  int64_t block = 0;        // elements of the summed axis of a product that share a scale; 0: all
  bool per_tensor = false;  // one scale for all
  bool power_of_two = false;
};

struct PassOptions {
  FusionPolicy fusion = FusionPolicy::Fusable;
  PrecisionPolicy precision = PrecisionPolicy::F32;
  PrecisionClassMap custom_precision;
  std::optional<CalibrationRecord> calibration;
  std::optional<CastConfig> weight_cast, operand_cast;  // of products: constant weights, other operands
  uint64_t fold_max_bytes = 1 << 16;                    // a folded result may not be larger
  std::optional<uint64_t> fuse_attn_threshold;          // rows up to which a block is one launch; absent: a cost decision
  std::optional<uint64_t> max_packed;                   // bytes that may be made of weights when they are loaded
  bool fast_math = false;                               // rewrites that are not exact in IEEE arithmetic
  uint64_t unroll_max_nodes = 0;             // a loop of known trip count is written out when that takes no more nodes; 0: never
  std::vector<std::string> promoted_params;  // Params that become Inputs
  std::vector<std::string> specialised_params;  // Params whose bytes become Constants
};

// The rewrites of a whole compile, counted one by one, so that the one that breaks something can be found.
struct RewriteCounter {
  int64_t limit = -1;  // so many are made; negative: all
  int64_t made = 0;
};

struct PassContext {
  const TargetTraits& target;
  const PassOptions& options;
  Diagnostics& diagnostics;
  std::vector<Decision>& decisions;
  std::vector<PrecisionNote>& precision;
  RewriteCounter* rewrites = nullptr;  // null: all are made

  // Runs `attempt`, which makes one rewrite (the least change that keeps the meaning) and returns true, or none and false; not
  // when as many as allowed have been made.
  template <class F>
  bool rewrite(F attempt) const {
    if (rewrites && rewrites->limit >= 0 && rewrites->made >= rewrites->limit) return false;
    const bool made = attempt();
    if (rewrites) rewrites->made += made;
    return made;
  }
};

struct PassResult {
  bool changed = false;
  std::vector<std::pair<std::string_view, int64_t>> counts;  // what was done how often, in a fixed order
};

using PassFn = PassResult (*)(Module&, PassContext&);

struct PassInfo {
  std::string_view name;   // "fuse_matmul_bias_act"
  std::string_view group;  // "simplify", "recognise", "fuse", "precision", "quantise", "lower", "legalise"
  PassFn run;
  std::string_view doc;
};

const std::vector<PassInfo>& all_passes();  // in a fixed order, from passes.def
const PassInfo* find_pass(std::string_view name);

}  // namespace rlxc
