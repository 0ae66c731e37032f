// Runs a device package without its device: cuda, rocm and metal sources are built by the C++ compiler of this machine (lanes as
// fibers, see target/emulation.h) together with the very host they are shipped with; wgpu runs on Dawn by Node where RLXC_WEBGPU
// names a folder with the npm package `webgpu`; mlx by python3 with whatever mlx.core it finds; tpu by the
// Python script that RLXC_STABLEHLO names (tests/support/python/run_stablehlo.py is one). A cpu package is built with
// AddressSanitizer and guards: each step may touch the buffers of its node, all else in the arena is poisoned.
#pragma once
#include <memory>
#include <string>

#include "runtime/run_kernels.h"

namespace rlxc {

struct EmulationOptions {
  std::string folder;  // where the package is kept; empty: a temporary folder, removed afterwards
  std::vector<std::string> flags = {"-O1"};
  std::string model_folder;  // cpu: large weights are read from the model's files in it; empty: all are copied to the package
};

// Null with Code::UnsupportedOnTarget or Code::ToolFailed. The module must outlive it.
std::unique_ptr<KernelRunner> make_emulated_runner(const LirModule&, const std::string& target, Diagnostics&,
                                                   const EmulationOptions& = {});

}  // namespace rlxc
