// Kernels rendered as C, built by the C compiler of this machine and loaded: how tests, `run` and calibration execute them.
// Kernels rendered as CUDA, HIP or MSL run as C++, lanes by fibers: slow, but it is their own text that runs.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/language.h"

namespace rlxc::target {

enum class Dialect : uint8_t { C, Cuda, Hip, Metal };  // all but C run on the fibers of emulation.h

struct NativeOptions {
  Dialect dialect = Dialect::C;
  std::string compiler = "cc";
  std::vector<std::string> flags = {"-O2", "-march=native", "-Wall", "-Wextra"};
  bool threads = false;
};

class NativeModule {
 public:
  // One compiler call for all kernels. Null and `*error` (the compiler's messages) where that fails or says anything at all.
  static std::unique_ptr<NativeModule> build(const std::vector<const kernel::Kernel*>&, const NativeOptions&, std::string* error);
  ~NativeModule();
  NativeModule(const NativeModule&) = delete;
  NativeModule& operator=(const NativeModule&) = delete;

  // Calls kernel number i with its buffers and symbols, in the order of its argument list. `grid` and `lanes` are the launch
  // geometry of kernels for a device.
  void call(size_t kernel, std::span<void* const> buffers, std::span<const int64_t> symbols,
            std::array<int64_t, 3> grid = {1, 1, 1}, std::array<int64_t, 3> lanes = {1, 1, 1}) const;

 private:
  using Entry = void (*)(void* const* buffers, const int64_t* symbols, const int64_t* grid, const int64_t* lanes);
  NativeModule() = default;
  void* library_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace rlxc::target
