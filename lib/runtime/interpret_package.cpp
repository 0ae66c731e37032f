#include "runtime/interpret_package.h"

#include "backend/backend.h"
#include "backend/gpu/host/program.hpp"
#include "backend/gpu/launch_json.h"
#include "backend/weight_files.h"
#include "kernel/fold.h"
#include "kernel/interpret.h"
#include "kernel/verify.h"
#include "runtime/package_call.h"
#include "runtime/process.h"
#include "support/json_writer.h"

namespace rlxc {
namespace {

const CpuPackageOptions kPacked{.threads = false, .max_packed_bytes = UINT64_MAX};

struct BeyondLimit : std::runtime_error {
  BeyondLimit(const std::string& what, std::string option) : std::runtime_error(what), help(std::move(option)) {}
  std::string help;
};

// Host memory as device memory. A run throws BeyondLimit if its commands or buffers exceed a limit.
class InterpretedDevice : public Device {
 public:
  InterpretedDevice(const codegen::Package& package, kernel::VerifyLimits limits, uint64_t max_operations,
                    std::shared_ptr<eval::MemoryMeter> memory)
      : package_(package), limits_(limits), max_operations_(max_operations), memory_(std::move(memory)) {}

  void begin_run() { operations_ = 0; }

  int allocate(size_t bytes) override {
    auto held = memory_ ? eval::MemoryMeter::hold(memory_, bytes) : nullptr;
    if (memory_ && !held)
      throw BeyondLimit("a buffer of " + std::to_string(bytes) + " bytes exceeds the memory limit of " +
                            std::to_string(memory_->limit()) + " bytes",
                        "--max-memory BYTES allows more");
    buffers_.push_back({std::vector<char>(bytes), std::move(held)});
    return static_cast<int>(buffers_.size()) - 1;
  }
  void release(int buffer) override { buffers_[static_cast<size_t>(buffer)] = {}; }
  void write(Address to, const void* from, size_t bytes) override {
    count_command("loops");
    if (bytes) std::memcpy(at(to, bytes), from, bytes);
  }
  void wait() override {}
  void read(void* to, Address from, size_t bytes) override {
    if (bytes) std::memcpy(to, at(from, bytes), bytes);
  }
  void copy(Address to, Address from, size_t bytes) override {
    count_command("copies");
    if (bytes) std::memmove(at(to, bytes), at(from, bytes), bytes);
  }
  int load(const std::vector<Kernel>&, const std::string&) override {
    for (const kernel::Kernel& k : package_.kernels)
      if (const auto problems = kernel::verify(k, limits_); !problems.empty()) fail("kernel " + k.name + ": " + problems[0]);
    return 0;
  }
  void launch(int number, const std::vector<Address>& places, const std::vector<int64_t>& sizes, const uint32_t*) override {
    const kernel::Kernel& k = package_.kernels[static_cast<size_t>(number)];
    count_command("kernel " + k.name);
    std::vector<void*> arguments;
    for (size_t i = 0; i < places.size(); ++i) {
      const kernel::Buffer& b = k.buffers[i];
      const auto elements = static_cast<uint64_t>(std::max<int64_t>(kernel::evaluate(k, b.extent, sizes), 0));
      arguments.push_back(at(places[i], elements * static_cast<uint64_t>(rlxc::bits(b.type.dtype)) / 8));
    }
    const kernel::InterpretResult result = kernel::interpret(k, arguments, sizes);
    if (!result.ok()) fail("kernel " + k.name + ": " + result.findings[0]);
  }

 private:
  void count_command(const std::string& what) {
    constexpr uint64_t kCommand = 1000;  // element operations that take as long
    operations_ += kCommand;
    if (max_operations_ && operations_ > max_operations_)
      throw BeyondLimit(what + ": the run takes more than " + std::to_string(max_operations_) + " operations on elements",
                        "--max-operations N allows more");
  }
  void* at(Address a, size_t bytes) {
    std::vector<char>& buffer = buffers_[static_cast<size_t>(a.buffer)].bytes;
    if (bytes == 0) return buffer.data();  // a part of a buffer without elements may begin beyond it
    if (a.offset > buffer.size() || bytes > buffer.size() - a.offset) fail("a place lies outside its buffer");
    return buffer.data() + a.offset;
  }

  const codegen::Package& package_;
  const kernel::VerifyLimits limits_;
  const uint64_t max_operations_;
  uint64_t operations_ = 0;
  struct Memory {
    std::vector<char> bytes;
    std::shared_ptr<void> held;
  };
  const std::shared_ptr<eval::MemoryMeter> memory_;
  std::vector<Memory> buffers_;
};

class InterpretingRunner : public KernelRunner {
 public:
  InterpretingRunner(std::string target, uint64_t max_operations, std::shared_ptr<eval::MemoryMeter> memory)
      : target_(std::move(target)), max_operations_(max_operations), memory_(std::move(memory)) {}

  bool build(const LirModule& lir, codegen::LoweringCache* lowerings, Diagnostics& d) {
    const Backend& backend = *find_backend(target_);
    if (!backend.info.language) {
      d.error(Code::UnsupportedOnTarget, "no kernels are written for " + target_);
      return false;
    }
    package_ = backend.program(lir, d, lowerings);
    if (!package_) return false;
    if (package_->mesh) {
      d.error(Code::UnsupportedOnTarget,
              "the interpreter runs one device, the package " + std::to_string(package_->mesh->devices()),
              "package " + package_->name, "--engine kernels, or --engine reference");
      return false;
    }
    std::string text;
    JsonWriter j(text);
    write_launch_json(*package_, target_, std::vector<std::string>(package_->kernels.size()), kPacked, j);
    j.finish();
    folder_.write("launch.json", text);
    if (!write_weights_file(*package_, kPacked, folder_.path())) {
      d.error(Code::NotWritable, "can't write the weights");
      return false;
    }
    device_ = std::make_unique<InterpretedDevice>(
        *package_, kernel::VerifyLimits{backend.info.mapping.most_shared_bytes(), backend.info.mapping.max_workgroup_size},
        max_operations_, memory_);
    return guarded(d, [&] { program_ = std::make_unique<Program>(*device_, folder_.path(), folder_.path()); });
  }

  std::optional<std::vector<eval::HostValue>> run(const std::vector<eval::HostValue>& inputs, Diagnostics& d) override {
    auto call = bind_call(*package_, inputs, d, memory_);
    if (!call) return std::nullopt;
    std::map<std::string, int64_t> sizes;
    for (size_t i = 0; i < call->sizes.size(); ++i) sizes[package_->symbols[i].bytes()] = call->sizes[i];
    device_->begin_run();
    if (!guarded(d, [&] {
          program_->set_sizes(sizes);
          program_->run(call->in, call->out);
        }))
      return std::nullopt;
    for (size_t i = 0; i < call->results.size(); ++i) call->set_shape(i, program_->output_shape(i));
    return std::move(call->results);
  }

 private:
  template <class F>
  bool guarded(Diagnostics& d, F f) {  // the device host throws
    try {
      f();
      return true;
    } catch (const BeyondLimit& e) {
      d.error(Code::TooLarge, e.what(), "package " + package_->name + " for " + target_, e.help);
      return false;
    } catch (const std::exception& e) {
      d.error(Code::ToolFailed, e.what(), "package " + package_->name + " for " + target_);
      return false;
    }
  }

  std::string target_;
  uint64_t max_operations_;
  std::shared_ptr<eval::MemoryMeter> memory_;
  std::optional<codegen::Package> package_;
  target::WorkFolder folder_;
  std::unique_ptr<InterpretedDevice> device_;
  std::unique_ptr<Program> program_;
};

}  // namespace

std::unique_ptr<KernelRunner> make_interpreting_runner(const LirModule& lir, const std::string& target, Diagnostics& d,
                                                       uint64_t max_operations, codegen::LoweringCache* lowerings,
                                                       std::shared_ptr<eval::MemoryMeter> memory) {
  auto runner = std::make_unique<InterpretingRunner>(target, max_operations, std::move(memory));
  return runner->build(lir, lowerings, d) ? std::move(runner) : nullptr;
}

}  // namespace rlxc
