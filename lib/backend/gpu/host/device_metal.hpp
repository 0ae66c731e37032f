// Metal as the device of a program (Objective-C++ with ARC). Each kernel source file is compiled to a library.
#pragma once
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include "program.hpp"

namespace rlxc {

class MetalDevice : public Device {
 public:
  // `queue`: an id<MTLCommandQueue> of the application, or null.
  MetalDevice(int number, void* queue) {
    if (number == 0) device_ = MTLCreateSystemDefaultDevice();
    else if (NSArray<id<MTLDevice>>* all = MTLCopyAllDevices(); static_cast<NSUInteger>(number) < all.count) device_ = all[number];
    if (!device_) fail("no Metal device " + std::to_string(number));
    queue_ = queue ? (__bridge id<MTLCommandQueue>)queue : [device_ newCommandQueue];
  }

  int allocate(size_t bytes) override {
    id<MTLBuffer> b = [device_ newBufferWithLength:std::max<size_t>(bytes, 16) options:MTLResourceStorageModeShared];
    if (!b) fail("out of memory");
    return add(b);
  }
  int adopt(void* buffer) override { return add((__bridge id<MTLBuffer>)buffer); }  // an id<MTLBuffer>
  void release(int buffer) override { buffers_[buffer] = nil; }  // command buffers keep what they use
  void write(Address to, const void* from, size_t bytes) override { finish(), std::memcpy(pointer(to), from, bytes); }
  void read(void* to, Address from, size_t bytes) override { finish(), std::memcpy(to, pointer(from), bytes); }
  void copy(Address to, Address from, size_t bytes) override {
    if (bytes == 0) return;
    if ((to.offset | from.offset | bytes) % 4 != 0) return finish(), (void)std::memmove(pointer(to), pointer(from), bytes);
    end_encoding();
    id<MTLBlitCommandEncoder> blit = [commands() blitCommandEncoder];
    [blit copyFromBuffer:buffers_[from.buffer] sourceOffset:from.offset toBuffer:buffers_[to.buffer] destinationOffset:to.offset size:bytes];
    [blit endEncoding];
  }
  void wait() override { finish(); }
  void submit() override {
    end_encoding();
    if (!commands_) return;
    [commands_ commit];
    submitted_ = commands_;
    commands_ = nil;
  }

  int load(const std::vector<Kernel>& kernels, const std::string& folder) override {
    const int first = static_cast<int>(kernels_.size());
    kernels_.insert(kernels_.end(), kernels.begin(), kernels.end());
    std::map<std::string, id<MTLLibrary>> libraries;
    for (const Kernel& k : kernels) {
      const std::string path = folder + "/" + k.file.substr(0, k.file.find('.')) + ".metallib";
      NSError* error = nil;
      if (!libraries.count(path)) libraries[path] = [device_ newLibraryWithURL:[NSURL fileURLWithPath:@(path.c_str())] error:&error];
      id<MTLFunction> function = [libraries[path] newFunctionWithName:@(k.name.c_str())];
      id<MTLComputePipelineState> pipeline = function ? [device_ newComputePipelineStateWithFunction:function error:&error] : nil;
      if (!pipeline) fail(path + ": " + k.name + ": " + (error ? error.localizedDescription.UTF8String : "no such function"));
      pipelines_.push_back(pipeline);
    }
    return first;
  }

  // Dispatches of one encoder run in order, and each sees the writes of earlier ones.
  void launch(int kernel, const std::vector<Address>& places, const std::vector<int64_t>& sizes, const uint32_t grid[3]) override {
    const Kernel& k = kernels_[static_cast<size_t>(kernel)];
    if (!encoder_) encoder_ = [commands() computeCommandEncoder];
    [encoder_ setComputePipelineState:pipelines_[static_cast<size_t>(kernel)]];
    NSUInteger slot = 0;
    for (Address a : places) [encoder_ setBuffer:buffers_[a.buffer] offset:a.offset atIndex:slot++];
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int32_t narrow = static_cast<int32_t>(sizes[i]);
      if (k.narrow[i]) [encoder_ setBytes:&narrow length:sizeof narrow atIndex:slot++];
      else [encoder_ setBytes:&sizes[i] length:sizeof sizes[i] atIndex:slot++];
    }
    [encoder_ dispatchThreadgroups:MTLSizeMake(grid[0], grid[1], grid[2]) threadsPerThreadgroup:MTLSizeMake(k.group[0], k.group[1], k.group[2])];
  }

 private:
  int add(id<MTLBuffer> b) {
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (!buffers_[i]) return buffers_[i] = b, static_cast<int>(i);
    buffers_.push_back(b);
    return static_cast<int>(buffers_.size()) - 1;
  }
  char* pointer(Address a) { return static_cast<char*>(buffers_[a.buffer].contents) + a.offset; }
  id<MTLCommandBuffer> commands() {
    if (!commands_) commands_ = [queue_ commandBuffer];
    return commands_;
  }
  void end_encoding() {
    [encoder_ endEncoding];
    encoder_ = nil;
  }
  void finish() {
    submit();
    if (!submitted_) return;
    [submitted_ waitUntilCompleted];
    id<MTLCommandBuffer> done = submitted_;
    submitted_ = nil;
    if (done.error) fail(done.error.localizedDescription.UTF8String);
  }

  id<MTLDevice> device_;
  id<MTLCommandQueue> queue_;
  id<MTLCommandBuffer> commands_ = nil, submitted_ = nil;  // being encoded; the last of those that run
  id<MTLComputeCommandEncoder> encoder_ = nil;
  std::vector<id<MTLBuffer>> buffers_;
  std::vector<id<MTLComputePipelineState>> pipelines_;
  std::vector<Kernel> kernels_;
};

inline std::unique_ptr<Device> make_device(int number, void* queue) { return std::make_unique<MetalDevice>(number, queue); }

}  // namespace rlxc
