#include "runtime/emulate_package.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backend/backend.h"
#include "backend/host_files.h"
#include "backend/weight_files.h"
#include "runtime/emulation.h"
#include "runtime/package_call.h"
#include "runtime/process.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

class EmulatedRunner : public KernelRunner {
 public:
  EmulatedRunner(const Backend& backend, const EmulationOptions& o) : backend_(backend), options_(o) {
    packing_.tpu_precision = options_.tpu_precision;
    packing_.guard = how() == HostRun::How::Native && options_.sanitize;
    if (!options_.model_folder.empty()) packing_.max_packed_bytes = CpuPackageOptions().max_packed_bytes;
  }

  bool build(const LirModule& lir, codegen::LoweringCache* lowerings, Diagnostics& d) {
    auto emitted = backend_.emit(lir, packing_, d, lowerings);
    if (!emitted) return false;
    package_ = std::move(emitted->program);
    folder_ = std::make_unique<target::WorkFolder>(options_.folder);
    std::error_code error;
    if (!folder_->path().empty()) at_ = fs::absolute(folder_->path(), error);
    if (!at_.empty()) fs::create_directories(at_ / "hip", error);
    if (at_.empty() || error) {
      d.error(Code::NotWritable, "can't make a folder for the sources");
      return false;
    }
    for (const TextFile& f : emitted->files) std::ofstream(at_ / f.name, std::ios::binary) << f.content;
    if (!write_weights_file(*package_, packing_, at_.string())) {
      d.error(Code::NotWritable, "can't write the weights");
      return false;
    }
    switch (how()) {
      case HostRun::How::Native: return build_native(emitted->files, d);
      case HostRun::How::Emulated: return options_.on_device ? make(d) : build_emulated(d);
      case HostRun::How::Script: return true;
    }
    return false;
  }

  std::optional<std::vector<eval::HostValue>> run(const std::vector<eval::HostValue>& inputs, Diagnostics& d) override {
    auto call = bind_call(*package_, inputs, d);
    if (!call) return std::nullopt;
    std::vector<std::string> command = in_folder(runner());
    if (how() != HostRun::How::Native) command.push_back(".");
    else if (!options_.model_folder.empty()) command.insert(command.end(), {"-m", options_.model_folder});
    for (size_t i = 0; i < call->sizes.size(); ++i)
      command.push_back(package_->symbols[i].bytes() + "=" + std::to_string(call->sizes[i]));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string name = "input_" + std::to_string(i) + ".bin";
      std::ofstream(at_ / name, std::ios::binary)
          .write(static_cast<const char*>(call->in[i]), static_cast<std::streamsize>(inputs[i].tensor.size_bytes()));
      command.push_back(name);
    }
    std::string log;
    const bool ran = target::run_command(command, (at_ / "log").string(), &log);
    if (!ran || !read_shapes(log, &*call)) {
      // A script says what is wrong; other programs are named.
      failed(how() == HostRun::How::Script && !log.empty() ? "" : runner()[0], log, d);
      return std::nullopt;
    }
    for (size_t i = 0; i < call->results.size(); ++i) {
      const std::string bytes = read(at_ / ("output_" + std::to_string(i) + ".bin"));
      if (bytes.size() != static_cast<size_t>(call->results[i].tensor.size_bytes())) {
        d.error(Code::ToolFailed, "output " + std::to_string(i) + " has " + std::to_string(bytes.size()) + " bytes",
                "package " + package_->name);
        return std::nullopt;
      }
      std::memcpy(call->out[i], bytes.data(), bytes.size());
    }
    return std::move(call->results);
  }

 private:
  HostRun::How how() const { return backend_.info.host_run.how; }
  std::vector<std::string> runner() const {
    const HostRun& run = backend_.info.host_run;
    if (package_->mesh) return rank_starter();
    if (run.how != HostRun::How::Script) return {"./run"};
    const char* named = run.script_named.empty() ? nullptr : std::getenv(std::string(run.script_named).c_str());
    return {std::string(run.interpreter), named && *named ? named : std::string(run.script)};
  }

  // Returns the command, run in the folder of the package.
  std::vector<std::string> in_folder(const std::vector<std::string>& command) const {
    std::vector<std::string> words = {"sh", "-c", "cd \"$0\" && exec \"$@\"", at_.string()};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  // Processes of one machine exchange data through shared memory, by copies: others need rights that containers lack.
  std::vector<std::string> rank_starter() const {
    std::vector<std::string> command = {"env", "ASAN_OPTIONS=detect_leaks=0", "mpirun"};
    if (geteuid() == 0) command.emplace_back("--allow-run-as-root");
    for (const char* word : {"--oversubscribe", "--bind-to", "none", "--mca", "btl_vader_single_copy_mechanism", "none", "-n"})
      command.emplace_back(word);
    command.push_back(std::to_string(package_->mesh->devices()));
    command.emplace_back("./run");
    return command;
  }

  bool build_native(const std::vector<TextFile>& texts, Diagnostics& d) {
    std::vector<std::string> command = {
        package_->mesh ? "mpicc" : "cc", "-std=gnu11",    "-g",      "-w", "-Wno-psabi", "-fwrapv",
        "-fno-strict-aliasing",          "-march=native", "-pthread"};
    if (options_.sanitize) command.emplace_back("-fsanitize=address");
    command.insert(command.end(), options_.flags.begin(), options_.flags.end());
    for (const TextFile& f : texts)
      if (f.name.ends_with(".c")) command.push_back((at_ / f.name).string());
    command.insert(command.end(), {"-lm", "-o", (at_ / "run").string()});
    return tool(command, d);
  }

  bool build_emulated(Diagnostics& d) {
    for (const auto& [name, text] : target::emulation_headers()) std::ofstream(at_ / name) << text;
    for (const HostFile& h : host_files())
      if (h.name == "device_emulated.hpp") std::ofstream(at_ / "device.hpp") << h.text;
    const HostRun& run = backend_.info.host_run;
    for (const KernelFile& file : backend_.kernel_files(*package_)) {
      const std::string stem = file.name.substr(0, file.name.find('.'));
      std::ofstream source(at_ / (stem + ".emulated.cpp"));
      source << target::emulated(read(at_ / file.name));
      for (uint32_t i : file.kernels) source << target::emulation_entry(package_->kernels[i], i, run.msl_arguments);
      source.close();
      std::vector<std::string> command = {std::string(run.compiler), "-std=c++17", "-w", "-fwrapv", "-fPIC", "-shared",
                                          "-I" + at_.string()};
      command.insert(command.end(), options_.flags.begin(), options_.flags.end());
      command.insert(command.end(), {(at_ / (stem + ".emulated.cpp")).string(), "-lm", "-o", (at_ / (stem + ".so")).string()});
      if (!tool(command, d)) return false;
    }
    // The host is the same for all packages: a compiler cache on PATH has it if no path names the folder.
    const std::string compiler = package_->mesh ? "mpicxx" : "g++";
    std::vector<std::string> command = {compiler, "-std=c++17", "-O1", "-Wall", "-Wextra"};
    if (package_->mesh) command.insert(command.end(), {"-DRLXC_RANKS", "-I."});
    command.insert(command.end(), {"-c", "main.cpp", "-o", "main.o"});
    return tool(command, d) && tool({compiler, "main.o", "-ldl", "-o", "run"}, d);
  }

  bool make(Diagnostics& d) {
    std::string log;
    return target::run_command(in_folder({"make", "-s"}), (at_ / "log").string(), &log) || failed("make", log, d);
  }

  bool tool(const std::vector<std::string>& command, Diagnostics& d) {
    std::string log;
    return (target::run_command(in_folder(command), (at_ / "log").string(), &log) && log.empty()) || failed(command[0], log, d);
  }
  bool failed(const std::string& command, const std::string& log, Diagnostics& d) {
    target::add_tool_error(command, log, place(), d);
    return false;
  }

  std::string place() const { return "package " + package_->name + " for " + std::string(backend_.info.name); }

  // Parses a line "output_<i>.bin [sizes]" per output. Accepts an empty log.
  static bool read_shapes(const std::string& log, Call* call) {
    std::istringstream lines(log);
    size_t i = 0;
    for (std::string line; std::getline(lines, line); ++i) {
      const std::string head = "output_" + std::to_string(i) + ".bin [";
      if (!line.starts_with(head) || !line.ends_with("]") || i >= call->results.size()) return false;
      std::vector<int64_t> dims;
      std::istringstream sizes(line.substr(head.size(), line.size() - head.size() - 1));
      for (std::string size; std::getline(sizes, size, ',');) dims.push_back(std::strtoll(size.c_str(), nullptr, 10));
      call->set_shape(i, std::move(dims));
    }
    return true;
  }

  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const Backend& backend_;
  EmulationOptions options_;
  CpuPackageOptions packing_{.threads = false, .max_packed_bytes = UINT64_MAX};
  std::optional<codegen::Package> package_;
  std::unique_ptr<target::WorkFolder> folder_;
  fs::path at_;
};

}  // namespace

std::unique_ptr<KernelRunner> make_emulated_runner(const LirModule& lir, const std::string& target, Diagnostics& d,
                                                   const EmulationOptions& options, codegen::LoweringCache* lowerings) {
  const Backend& backend = *find_backend(target);
  auto runner = std::make_unique<EmulatedRunner>(backend, options);
  return runner->build(lir, lowerings, d) ? std::move(runner) : nullptr;
}

}  // namespace rlxc
