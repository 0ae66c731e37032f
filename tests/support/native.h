// Builds rendered kernels with the C compiler of this machine and loads them. CUDA, HIP and MSL kernels run as C++ with threads
// as fibers: slow, but their unmodified source.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/language.h"

namespace rlxc::target {

enum class Dialect : uint8_t { C, Cuda, Hip, Metal };  // all but C use the fibers of runtime/emulation.h

struct NativeOptions {
  Dialect dialect = Dialect::C;
  std::string compiler = "cc";
  std::vector<std::string> flags = {"-O1", "-march=native", "-Wall", "-Wextra"};
  bool threads = false;
};

class NativeModule {
 public:
  // Compiles all kernels in one call. Returns null and sets `*error` to the compiler's messages if there are any.
  static std::unique_ptr<NativeModule> build(const std::vector<const kernel::Kernel*>&, const NativeOptions&, std::string* error);
  ~NativeModule();
  NativeModule(const NativeModule&) = delete;
  NativeModule& operator=(const NativeModule&) = delete;

  // Calls kernel number i with buffers and symbols in the order of its argument list. `grid` and `lanes`: the launch geometry of
  // a device kernel.
  void call(size_t kernel, std::span<void* const> buffers, std::span<const int64_t> symbols,
            std::array<int64_t, 3> grid = {1, 1, 1}, std::array<int64_t, 3> lanes = {1, 1, 1}) const;

 private:
  using Entry = void (*)(void* const* buffers, const int64_t* symbols, const int64_t* grid, const int64_t* lanes);
  NativeModule() = default;
  void* library_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace rlxc::target
