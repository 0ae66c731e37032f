#include "runtime/run_kernels.h"

#include "backend/backend.h"
#include "backend/registry.h"

namespace rlxc {
namespace {

class PackageRunner : public KernelRunner {
 public:
  bool build(const LirModule& lir, const RunOptions& o, codegen::LoweringCache* lowerings, Diagnostics& d) {
    package_ = cpu_backend().program(lir, d, lowerings);
    if (package_) loaded_ = LoadedPackage::build(*package_, o, d);
    return loaded_ != nullptr;
  }
  std::optional<std::vector<eval::HostValue>> run(const std::vector<eval::HostValue>& inputs, Diagnostics& d) override {
    return loaded_->run(inputs, d);
  }

 private:
  std::optional<codegen::Package> package_;
  std::unique_ptr<LoadedPackage> loaded_;
};

}  // namespace

std::unique_ptr<KernelRunner> make_kernel_runner(const LirModule& lir, Diagnostics& d, const RunOptions& o,
                                                 codegen::LoweringCache* lowerings) {
  auto runner = std::make_unique<PackageRunner>();
  return runner->build(lir, o, lowerings, d) ? std::move(runner) : nullptr;
}

}  // namespace rlxc
