// The capability rows of the seven targets: everything that passes, builders and the cost model ask of a target. A new
// C-like target is a row here and a file with its CLike.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "backend/c/c_like.h"
#include "kernel/mapping.h"
#include "support/dtype.h"

namespace rlxc::target {

enum class TargetId : uint8_t { Cpu, Metal, Mlx, Wgpu, Cuda, Rocm, Tpu };
inline constexpr int kTargetCount = 7;

// Roofline figures of a typical device, for the cost model.
struct Costs {
  double bytes_per_ns;      // memory bandwidth
  double f32_flops_per_ns;  // peak, multiply and add counted as two
  double f16_flops_per_ns;  // with matrix units, where there are any
  double launch_ns;         // one kernel
  double round_trip_ns;     // one run: submit and wait
};

struct Target {
  TargetId id;
  std::string_view name;       // as on the command line
  std::string_view emits;      // what a person gets
  const CLike& (*language)();  // null: emitted as a graph, without kernels
  std::string_view extension;  // of its kernel sources
  kernel::Mapping mapping;
  std::span<const DType> dtypes;    // that buffers may have
  int region_steps, region_inputs;  // limits of an elementwise region; 0: none
  bool float_atomics;
  uint64_t max_binding;  // bytes of a buffer that a kernel can be given at a time; 0: any
  int max_arguments;     // of a kernel, where few; with max_binding all memory but the weights counts as one. 0: any
  Costs costs;
};

std::span<const Target> targets();  // in the order of TargetId
const Target& target(TargetId);
std::optional<TargetId> target_from_name(std::string_view);
bool has_dtype(const Target&, DType);

// Whether the reference compiler claims this op kind ("MatMul", "FusedSwiGLU") on the target: which fusions to form.
bool claims(TargetId, std::string_view op_kind);

}  // namespace rlxc::target
