// Runs a device package without its device. cuda, rocm and metal: the C++ compiler builds sources and shipped host, threads as
// fibers (runtime/emulation.h). wgpu: Dawn under Node, if RLXC_WEBGPU names a folder with the npm package `webgpu`. mlx: python3
// with the mlx.core that it finds. tpu: the Python script in RLXC_STABLEHLO (for example tests/support/python/run_stablehlo.py).
// cpu: built with AddressSanitizer; the arena is poisoned except for the buffers of the running node. A package for several
// devices is built by mpicc and started by mpirun (Open MPI) with a process a device. With `on_device`, the Makefile of a cuda,
// rocm or metal package builds it, and it runs on the device.
#pragma once
#include <memory>
#include <string>

#include "backend/package_options.h"
#include "runtime/run_kernels.h"

namespace rlxc {

struct EmulationOptions {
  std::string folder;  // folder for the package; empty: a temporary folder, removed afterwards
  std::vector<std::string> flags = {"-O1"};
  bool sanitize = true;  // cpu: AddressSanitizer
  bool on_device = false;
  std::string tpu_precision = CpuPackageOptions().tpu_precision;
  std::string model_folder;  // cpu: reads large weights from the model's files in it; empty: copies all to the package
};

// Returns null with Code::UnsupportedOnTarget or Code::ToolFailed. The module must outlive the runner. `lowerings` as for
// make_kernel_runner.
std::unique_ptr<KernelRunner> make_emulated_runner(const LirModule&, const std::string& target, Diagnostics&,
                                                   const EmulationOptions& = {}, codegen::LoweringCache* lowerings = nullptr);

}  // namespace rlxc
