// The CUDA driver API (HIP with RLXC_HIP) as the device of a program. Each kernel source file is compiled to a module.
#pragma once
#ifdef RLXC_HIP
#include <hip/hip_runtime.h>
#define RLXC_MODULE ".hsaco"
using DevicePointer = hipDeviceptr_t;
using Module = hipModule_t;
using Function = hipFunction_t;
using Stream = hipStream_t;
using Graph = hipGraph_t;
using GraphRun = hipGraphExec_t;
#define RLXC_CHECK(call) check(call, hipSuccess, #call)
#define RLXC_RECORD hipStreamCaptureModeThreadLocal
#define cuMemAlloc hipMalloc
#define cuMemFree hipFree
#define cuMemcpyHtoDAsync hipMemcpyHtoDAsync
#define cuMemcpyDtoHAsync hipMemcpyDtoHAsync
#define cuMemcpyDtoDAsync hipMemcpyDtoDAsync
#define cuStreamCreate hipStreamCreateWithFlags
#define cuStreamSynchronize hipStreamSynchronize
#define cuStreamBeginCapture hipStreamBeginCapture
#define cuStreamEndCapture hipStreamEndCapture
#define cuGraphInstantiate hipGraphInstantiateWithFlags
#define cuGraphDestroy hipGraphDestroy
#define cuGraphExecDestroy hipGraphExecDestroy
#define cuGraphLaunch hipGraphLaunch
#define cuModuleLoad hipModuleLoad
#define cuModuleGetFunction hipModuleGetFunction
#define cuLaunchKernel hipModuleLaunchKernel
#else
#include <cuda.h>
#define RLXC_MODULE ".fatbin"
using DevicePointer = CUdeviceptr;
using Module = CUmodule;
using Function = CUfunction;
using Stream = CUstream;
using Graph = CUgraph;
using GraphRun = CUgraphExec;
#define RLXC_CHECK(call) check(call, CUDA_SUCCESS, #call)
#define RLXC_RECORD CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#endif

#include "program.hpp"

namespace rlxc {

class CudaDevice : public Device {
 public:
  CudaDevice() {
#ifdef RLXC_HIP
    RLXC_CHECK(hipInit(0));
    RLXC_CHECK(hipSetDevice(0));
#else
    CUdevice device;
    CUcontext context;
    RLXC_CHECK(cuInit(0));
    RLXC_CHECK(cuDeviceGet(&device, 0));
    RLXC_CHECK(cuDevicePrimaryCtxRetain(&context, device));
    RLXC_CHECK(cuCtxSetCurrent(context));
#endif
    RLXC_CHECK(cuStreamCreate(&stream_, 0));  // in order with the default stream, which a link uses
  }

  int allocate(size_t bytes) override {
    DevicePointer p{};
    RLXC_CHECK(cuMemAlloc(&p, std::max<size_t>(bytes, 1)));
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (!buffers_[i]) return buffers_[i] = p, static_cast<int>(i);
    buffers_.push_back(p);
    return static_cast<int>(buffers_.size()) - 1;
  }
  void release(int buffer) override {
    wait();
    RLXC_CHECK(cuMemFree(buffers_[buffer]));
    buffers_[buffer] = DevicePointer{};
  }
  void write(Address to, const void* from, size_t bytes) override {
    if (bytes) RLXC_CHECK(cuMemcpyHtoDAsync(at(to), const_cast<void*>(from), bytes, stream_));
    wait();
  }
  void read(void* to, Address from, size_t bytes) override {
    if (bytes) RLXC_CHECK(cuMemcpyDtoHAsync(to, at(from), bytes, stream_));
    wait();
  }
  void copy(Address to, Address from, size_t bytes) override {
    if (bytes) RLXC_CHECK(cuMemcpyDtoDAsync(at(to), at(from), bytes, stream_));
  }
  void wait() override { RLXC_CHECK(cuStreamSynchronize(stream_)); }

  void* pointer(Address a) const override { return (char*)buffers_[static_cast<size_t>(a.buffer)] + a.offset; }

  void load(const std::vector<Kernel>& kernels, const std::string& folder) override {
    kernels_ = kernels;
    std::map<std::string, Module> modules;
    for (const Kernel& k : kernels) {
      const std::string path = folder + "/" + k.file.substr(0, k.file.find('.')) + RLXC_MODULE;
      if (!modules.count(path)) RLXC_CHECK(cuModuleLoad(&modules[path], path.c_str()));
      functions_.emplace_back();
      RLXC_CHECK(cuModuleGetFunction(&functions_.back(), modules[path], k.name.c_str()));
#ifndef RLXC_HIP
      if (dynamic_shared(k)) RLXC_CHECK(cuFuncSetAttribute(functions_.back(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(k.shared_bytes)));
#endif
    }
  }

  void launch(int kernel, const std::vector<Address>& places, const std::vector<int64_t>& sizes, const uint32_t grid[3]) override {
    const Kernel& k = kernels_[static_cast<size_t>(kernel)];
    std::vector<DevicePointer> pointers;
    std::vector<int32_t> narrow(sizes.begin(), sizes.end());
    std::vector<void*> arguments;
    for (Address a : places) pointers.push_back(at(a));
    for (DevicePointer& p : pointers) arguments.push_back(&p);
    for (size_t i = 0; i < sizes.size(); ++i) arguments.push_back(k.narrow[i] ? static_cast<void*>(&narrow[i]) : const_cast<int64_t*>(&sizes[i]));
    RLXC_CHECK(cuLaunchKernel(functions_[static_cast<size_t>(kernel)], grid[0], grid[1], grid[2], k.group[0], k.group[1], k.group[2], dynamic_shared(k), stream_, arguments.data(), nullptr));
  }

  bool record() override {
    RLXC_CHECK(cuStreamBeginCapture(stream_, RLXC_RECORD));
    return true;
  }
  void end_record() override {
    Graph graph;
    RLXC_CHECK(cuStreamEndCapture(stream_, &graph));
    if (recorded_) RLXC_CHECK(cuGraphExecDestroy(recorded_));
    RLXC_CHECK(cuGraphInstantiate(&recorded_, graph, 0));
    RLXC_CHECK(cuGraphDestroy(graph));
  }
  void replay() override { RLXC_CHECK(cuGraphLaunch(recorded_, stream_)); }

 private:
  template <class Status>
  static void check(Status status, Status success, const char* call) {
    if (status != success) fail(std::string(call) + ": error " + std::to_string(static_cast<int>(status)));
  }
  // Kernels declare arrays up to 48 KiB, and take more from the launch.
  static uint32_t dynamic_shared(const Kernel& k) { return k.shared_bytes > 48 << 10 ? k.shared_bytes : 0; }
  DevicePointer at(Address a) const { return (DevicePointer)pointer(a); }

  Stream stream_{};
  GraphRun recorded_{};
  std::vector<DevicePointer> buffers_;
  std::vector<Kernel> kernels_;
  std::vector<Function> functions_;
};

inline std::unique_ptr<Device> make_device() { return std::make_unique<CudaDevice>(); }

}  // namespace rlxc
