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
#define cuModuleUnload hipModuleUnload
#define cuStreamDestroy hipStreamDestroy
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
  CudaDevice(int number, void* stream) : stream_(static_cast<Stream>(stream)), owns_stream_(!stream) {
#ifdef RLXC_HIP
    RLXC_CHECK(hipInit(0));
    RLXC_CHECK(hipSetDevice(number));
#else
    CUcontext context;
    RLXC_CHECK(cuInit(0));
    RLXC_CHECK(cuDeviceGet(&device_, number));
    RLXC_CHECK(cuDevicePrimaryCtxRetain(&context, device_));
    RLXC_CHECK(cuCtxSetCurrent(context));
#endif
    if (owns_stream_) RLXC_CHECK(cuStreamCreate(&stream_, 0));  // in order with the default stream, which a link uses
  }
  ~CudaDevice() override {
    (void)cuStreamSynchronize(stream_);
    for (GraphRun r : recordings_)
      if (r) (void)cuGraphExecDestroy(r);
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i] && owned_[i]) (void)cuMemFree(buffers_[i]);
    for (Module m : modules_) (void)cuModuleUnload(m);
    if (owns_stream_) (void)cuStreamDestroy(stream_);
#ifndef RLXC_HIP
    (void)cuDevicePrimaryCtxRelease(device_);
#endif
  }

  int allocate(size_t bytes) override {
    DevicePointer p{};
    RLXC_CHECK(cuMemAlloc(&p, std::max<size_t>(bytes, 1)));
    return add(p, true);
  }
  int adopt(void* memory) override { return add((DevicePointer)memory, false); }
  void release(int buffer) override {
    const size_t i = static_cast<size_t>(buffer);
    if (owned_[i]) {
      wait();
      RLXC_CHECK(cuMemFree(buffers_[i]));
    }
    buffers_[i] = DevicePointer{};
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

  int load(const std::vector<Kernel>& kernels, const std::string& folder) override {
    const int first = static_cast<int>(kernels_.size());
    std::map<std::string, Module> modules;
    for (const Kernel& k : kernels) {
      const std::string path = folder + "/" + k.file.substr(0, k.file.find('.')) + RLXC_MODULE;
      if (!modules.count(path)) {
        RLXC_CHECK(cuModuleLoad(&modules[path], path.c_str()));
        modules_.push_back(modules[path]);
      }
      kernels_.push_back(k);
      functions_.emplace_back();
      RLXC_CHECK(cuModuleGetFunction(&functions_.back(), modules[path], k.name.c_str()));
#ifndef RLXC_HIP
      if (dynamic_shared(k)) RLXC_CHECK(cuFuncSetAttribute(functions_.back(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(k.shared_bytes)));
#endif
    }
    return first;
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
  int end_record() override {
    Graph graph;
    RLXC_CHECK(cuStreamEndCapture(stream_, &graph));
    recordings_.emplace_back();
    RLXC_CHECK(cuGraphInstantiate(&recordings_.back(), graph, 0));
    RLXC_CHECK(cuGraphDestroy(graph));
    return static_cast<int>(recordings_.size()) - 1;
  }
  void replay(int recording) override { RLXC_CHECK(cuGraphLaunch(recordings_[static_cast<size_t>(recording)], stream_)); }
  void forget(int recording) override {
    wait();
    GraphRun& r = recordings_[static_cast<size_t>(recording)];
    RLXC_CHECK(cuGraphExecDestroy(r));
    r = {};
  }

 private:
  template <class Status>
  static void check(Status status, Status success, const char* call) {
    if (status == success) return;
#ifdef RLXC_HIP
    const char* name = hipGetErrorName(status);
#else
    const char* name = nullptr;
    cuGetErrorName(status, &name);
#endif
    fail(std::string(call) + ": " + (name ? name : "error") + " (" + std::to_string(static_cast<int>(status)) + ")");
  }
  int add(DevicePointer p, bool owned) {
    size_t i = 0;
    while (i < buffers_.size() && buffers_[i]) ++i;
    if (i == buffers_.size()) buffers_.emplace_back(), owned_.push_back(true);
    buffers_[i] = p;
    owned_[i] = owned;
    return static_cast<int>(i);
  }
  // Kernels declare arrays up to 48 KiB, and take more from the launch.
  static uint32_t dynamic_shared(const Kernel& k) { return k.shared_bytes > 48 << 10 ? k.shared_bytes : 0; }
  DevicePointer at(Address a) const { return (DevicePointer)pointer(a); }

#ifndef RLXC_HIP
  CUdevice device_{};
#endif
  Stream stream_{};
  bool owns_stream_ = true;
  std::vector<GraphRun> recordings_;
  std::vector<Module> modules_;
  std::vector<DevicePointer> buffers_;
  std::vector<bool> owned_;  // buffers that are not the application's
  std::vector<Kernel> kernels_;
  std::vector<Function> functions_;
};

inline std::unique_ptr<Device> make_device(int number, void* stream) { return std::make_unique<CudaDevice>(number, stream); }

}  // namespace rlxc
