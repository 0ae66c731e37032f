// Kernels rendered as C, built by the C compiler of this machine and loaded: how tests, `run` and calibration execute them.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/language.h"

namespace rlxc::target {

struct NativeOptions {
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

  // Calls kernel number i with its buffers and symbols, in the order of its argument list.
  void call(size_t kernel, std::span<void* const> buffers, std::span<const int64_t> symbols) const;

 private:
  using Entry = void (*)(void* const* buffers, const int64_t* symbols);
  NativeModule() = default;
  void* library_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace rlxc::target
