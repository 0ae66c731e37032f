// What a run of the driver is asked to do. Flags, environment and configuration are resolved into this once; nothing below the
// driver reads the environment.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/dim_range.h"
#include "passes/pass.h"

namespace rlxc {

enum class Emit : uint8_t { Lir, Plan, Fusion, Dispatch, Precision, Quant, Graph, Arena, Kernels };
// "svg" names both pictures, graph and arena.
inline constexpr std::string_view kEmitNames[] = {"lir",   "plan",  "fusion", "dispatch", "precision",
                                                  "quant", "graph", "arena",  "kernels"};

struct Options {
  std::string input;
  std::vector<std::string> targets{"cpu"};
  std::string output = "out";  // a folder, or "-" for standard output with a single artefact
  std::set<Emit> emit;         // empty: all
  DimBindings bind;
  SymbolRanges ranges;                                      // of symbols, constants: the plan is for sizes in them
  DimBindings bounds;                                       // of sizes that only a run tells
  std::vector<std::pair<std::string, std::string>> states;  // an input and an output that are one buffer
  std::string input_data;     // folder of test data: contents of inputs that decide shapes (then the program is for these)
  bool need_weights = false;  // a weights file that is missing is an error, always (running a model)
  bool plan_only = false;     // the contents of weights are not needed
  bool allow_missing_weights = false;  // it never is; without either flag, only when none of the model's files is there

  std::string precision = "f32";           // f32, f16, automixed, automixed-conservative, automixed-bf16, [mx]fp8-.., custom:FILE
  std::string weights;                     // of products: int8, int4, fp8-e4m3 or fp8-e5m2, and :BLOCK; empty: as they are
  std::string calibration;                 // file
  std::string hir_policy = "fusable";      // or "direct": how HIR blocks are lowered
  std::string kernel_dispatch = "native";  // prefer-native "native", or "common": decompose what has a decomposition

  std::string supported_ops;  // file of the operations that may be left; empty: those of the target

  std::vector<std::string> passes;  // replaces the pipeline of the target; empty: that pipeline
  std::set<std::string, std::less<>> disabled_passes;
  std::string stop_after;     // a pass, or the stages hir, mir
  std::string stop_before;    // a part of the pipeline ("quantise"): it and the later ones do not run
  int64_t bisect_limit = -1;  // make only so many rewrites of those that can be left out; -1: all
  int64_t most_runs = -1;     // stop after so many passes of any kind; -1: all

  std::string dump;          // folder (or a file, if it does not end in '/') of the text of every stage; empty: none
  bool verify = false;       // verify the graph after every pass that changed it, and the plan
  bool verify_each = false;  // evaluate before and after every pass on random inputs
  bool time_passes = false;
  bool print_fusion = false, print_dispatch = false;
  bool quiet = false, verbose = false;
  uint64_t alignment = 0;                       // of arena slots; 0: that of the target
  uint64_t max_arena = 0;                       // bytes of activations; 0: no limit
  std::optional<uint64_t> fuse_attn_threshold;  // rows up to which an attention block is one launch; absent: a cost decision
  std::optional<uint64_t> max_packed;           // bytes of what is made of weights when they are loaded
  uint64_t max_binding = 0;                     // bytes that a device binds at a time; 0: that of the target
  int64_t element_bytes = 1;  // that an element of an input, output or activation takes at least; above 1, nothing but a plan
  bool in_place = true;
  bool reorder = true;  // run nodes in another order where that takes less memory
  bool fast_math = false;
  uint64_t unroll_max_nodes = 0;                                 // loops of known trip count are written out up to so many nodes
  bool lint = false;                                             // warn of computations that give infinities or not-a-number
  std::vector<std::string> promoted_params, specialised_params;  // Params that become Inputs, Constants

  uint64_t max_nodes = 10'000'000;
  uint64_t fold_max_bytes = 1 << 16;
};

// Environment variables that set options: name, meaning, effect. A flag on the command line wins.
struct EnvVariable {
  std::string_view name, values, doc;
  void (*apply)(Options&, const std::string& value);
};
const std::vector<EnvVariable>& env_variables();
// `get` answers the value of a variable or null (getenv, or a fake in tests).
void apply_environment(Options&, const char* (*get)(const char*));
bool env_flag(std::string_view value);  // empty, 0, 00, false, off, no (any case, trimmed) are false

}  // namespace rlxc
