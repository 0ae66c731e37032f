// The row of the cpu target.
#include "backend/backend.h"
#include "backend/c/cpu.h"
#include "backend/c/cpu_dot.h"
#include "backend/c/cpu_package.h"
#include "backend/registry.h"
#include "backend/weight_files.h"

namespace rlxc {
namespace {

constexpr uint64_t kMostEmbedded = 2'000'000'000;

class CBackend : public Backend {
 public:
  using Backend::Backend;
  std::optional<std::vector<TextFile>> write(const codegen::Package& p, const CpuPackageOptions& options,
                                             Diagnostics& d) const override {
    // Code addresses its constants with 31-bit offsets.
    const uint64_t embedded = options.embed_weights ? locate_weights(p, options).packed_bytes : 0;
    if (embedded > kMostEmbedded) {
      d.error(Code::TooLarge,
              "a library can hold weights of 2000000000 bytes, --embed-weights asks for " + std::to_string(embedded));
      return std::nullopt;
    }
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
                                    .region_steps = 128,
                                    .region_inputs = 64,
                                    .machine = {50, 50, 200, 8, 0},
                                    .collectives = true,
                                    .claims = 0};

const Backend& cpu_backend() {
  static const CBackend backend(kCpu);
  return backend;
}

}  // namespace rlxc
