// For tests of kernels: the same kernel interpreted and built as C, on the same random inputs, against a scalar reference.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernel/builder.h"
#include "kernel/mapping.h"

namespace rlxc::target {

// One argument as doubles (exact for every dtype but large i64); outputs are given as what is expected.
struct CheckBuffer {
  DType dtype = DType::F32;
  std::vector<double> values;
  bool output = false;
};

struct KernelCase {
  std::string name;
  std::function<void(kernel::Builder&, const kernel::Mapping&)> build;
  std::vector<CheckBuffer> buffers;
  std::vector<int64_t> symbols;
  double rtol = 1e-4, atol = 1e-5;
  // Elements at the end of each buffer that WGSL may treat as it likes (infinities, NaN, subnormals).
  size_t special = 0;
};

// Builds every case for every mapping (scalar and vector loops on threads, grids of lanes with and without shuffles, with the
// matrix units of a target), verifies and simplifies it, interprets it before and after, and where it is for threads also runs it
// as C; where it is for a grid, as CUDA, HIP and MSL on fibers, and as WGSL where RLXC_WEBGPU is set (one call of each compiler
// for all cases). Returns what went wrong, empty when nothing did.
std::vector<std::string> check_kernels(const std::vector<KernelCase>&);

// Uniform in [low, high) (integers: inclusive), the same on every machine for the same seed; rounded to the dtype.
std::vector<double> random_values(size_t n, DType, double low, double high, uint64_t seed);

}  // namespace rlxc::target
