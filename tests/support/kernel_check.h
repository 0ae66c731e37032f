// Kernel tests: interprets a kernel and runs it as native code on the same random inputs, and compares with a scalar reference.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernel/builder.h"
#include "kernel/mapping.h"

namespace rlxc::target {

// An argument as doubles (exact for every dtype but large i64). Outputs have the expected values.
struct CheckBuffer {
  DType dtype = DType::F32;
  std::vector<double> values;
  bool output = false;
};

struct KernelCase {
  std::string name;
  std::function<void(kernel::Builder&, const kernel::Mapping&)> build;
  std::function<bool(const kernel::Mapping&)> fits = {};  // the mappings to build it for; absent: all
  std::vector<CheckBuffer> buffers;
  std::vector<int64_t> symbols;
  double rtol = 1e-4, atol = 1e-5;
  // Number of elements at the end of each buffer that WGSL does not define (infinities, NaN, subnormals).
  size_t special = 0;
};

// Builds every case for every mapping (scalar and vector loops on CPU threads, grids with and without shuffles, matrix units),
// verifies, simplifies, and interprets it before and after. Also runs CPU kernels as C, and grid kernels as CUDA, HIP and MSL on
// fibers and, if RLXC_WEBGPU is set, as WGSL (one compiler call for all cases). Returns the failures.
std::vector<std::string> check_kernels(const std::vector<KernelCase>&);

// Uniform in [low, high) (integers: inclusive), reproducible by seed on every machine, rounded to the dtype.
std::vector<double> random_values(size_t n, DType, double low, double high, uint64_t seed);

}  // namespace rlxc::target
