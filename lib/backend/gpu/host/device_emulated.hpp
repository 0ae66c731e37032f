// A device for tests: kernels built for this machine (a shared library per source file, threads as fibers), and malloc with guard
// bytes.
#pragma once
#include <dlfcn.h>

#include <cstdio>

#include "program.hpp"

namespace rlxc {

class EmulatedDevice : public Device {
 public:
  // RLXC_DEVICE_MEMORY=1: says how much memory the program held at most.
  ~EmulatedDevice() override {
    if (std::getenv("RLXC_DEVICE_MEMORY")) std::fprintf(stderr, "device memory: %zu bytes at most\n", most_);
  }
  int allocate(size_t bytes) override {
    const size_t rounded = (bytes + 63) / 64 * 64;
    buffers_.push_back(static_cast<char*>(std::aligned_alloc(64, rounded + 64)));
    std::memset(buffers_.back(), 0xA5, rounded + 64);  // also exposes reads of uninitialised memory
    lengths_.push_back(rounded);
    owned_.push_back(true);
    most_ = std::max(most_, now_ += rounded);
    return static_cast<int>(buffers_.size()) - 1;
  }
  int adopt(void* memory) override {
    buffers_.push_back(static_cast<char*>(memory));
    lengths_.push_back(0);
    owned_.push_back(false);
    return static_cast<int>(buffers_.size()) - 1;
  }
  void release(int buffer) override {
    if (!owned_[buffer]) return void(buffers_[buffer] = nullptr);
    for (size_t i = 0; i < 64; ++i)
      if (static_cast<unsigned char>(buffers_[buffer][lengths_[buffer] + i]) != 0xA5) {
        std::fprintf(stderr, "a kernel wrote beyond its buffer\n");
        std::_Exit(1);  // the end of a program ignores exceptions
      }
    std::free(buffers_[buffer]);
    buffers_[buffer] = nullptr;
    now_ -= lengths_[buffer];
  }
  void write(Address to, const void* from, size_t bytes) override { std::memcpy(pointer(to), from, bytes); }
  void read(void* to, Address from, size_t bytes) override { std::memcpy(to, pointer(from), bytes); }
  void copy(Address to, Address from, size_t bytes) override { std::memmove(pointer(to), pointer(from), bytes); }
  void wait() override {}

  void* pointer(Address a) const override { return buffers_[static_cast<size_t>(a.buffer)] + a.offset; }

  int load(const std::vector<Kernel>& kernels, const std::string& folder) override {
    const int first = static_cast<int>(kernels_.size());
    kernels_.insert(kernels_.end(), kernels.begin(), kernels.end());
    std::map<std::string, void*> libraries;
    for (size_t i = 0; i < kernels.size(); ++i) {
      const std::string path = folder + "/" + kernels[i].file.substr(0, kernels[i].file.find('.')) + ".so";
      if (!libraries.count(path)) libraries[path] = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!libraries[path]) fail(dlerror());
      entries_.push_back(reinterpret_cast<Entry>(dlsym(libraries[path], ("rlxc_entry_" + std::to_string(i)).c_str())));
      if (!entries_.back()) fail(path + ": no kernel " + kernels[i].name);
    }
    return first;
  }

  void launch(int kernel, const std::vector<Address>& places, const std::vector<int64_t>& sizes, const uint32_t grid[3]) override {
    const Kernel& k = kernels_[static_cast<size_t>(kernel)];
    std::vector<void*> pointers;
    for (Address a : places) pointers.push_back(pointer(a));
    const int64_t groups[3] = {grid[0], grid[1], grid[2]}, lanes[3] = {k.group[0], k.group[1], k.group[2]};
    entries_[static_cast<size_t>(kernel)](pointers.data(), sizes.data(), groups, lanes);
  }

 private:
  using Entry = void (*)(void* const* buffers, const int64_t* symbols, const int64_t* grid, const int64_t* lanes);
  std::vector<char*> buffers_;
  std::vector<size_t> lengths_;
  std::vector<bool> owned_;  // buffers that are not the application's
  size_t now_ = 0, most_ = 0;  // bytes
  std::vector<Kernel> kernels_;
  std::vector<Entry> entries_;
};

inline std::unique_ptr<Device> make_device(int, void*) { return std::make_unique<EmulatedDevice>(); }

}  // namespace rlxc
