// The row of the cpu target.
#include "backend/c/cpu.h"
#include "backend/c/cpu_dot.h"
#include "backend/registry.h"

namespace rlxc {
namespace {

class CBackend : public Backend {
 public:
  using Backend::Backend;
  std::optional<std::vector<TextFile>> write(const codegen::Package& p, const CpuPackageOptions& options,
                                             Diagnostics&) const override {
    return write_cpu_package(p, options);
  }
};

}  // namespace

static constexpr TargetInfo kCpu = {.name = "cpu",
                                    .emits = "C11 with vector extensions",
                                    .extension = "c",
                                    .language = target::cpu,
                                    .supports = has_kernels,
                                    .dtypes = kKernelTypesAndF64,
                                    .mapping = target::cpu_mapping(),
                                    .region_steps = 64,
                                    .machine = {50, 50, 200, 8, 0},
                                    .claims = 0};

const Backend& cpu_backend() {
  static const CBackend backend(kCpu);
  return backend;
}

}  // namespace rlxc
