#include "runtime/run_training.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "backend/c/cpu_package.h"
#include "backend/weight_files.h"
#include "runtime/build_library.h"
#include "support/shared_library.h"
#include "support/temporary_folder.h"

namespace rlxc {

struct LoadedTrainer::Api {
  const char* (*strerror)(int);
  void* (*create)(const char*, const char*, int*);
  void (*destroy)(void*);
  int (*set_threads)(int);
  int (*forward_set_threads)(int);
  int (*step_sizes)(void*, const int64_t*, int);
  int (*loss_sizes)(void*, const int64_t*, int);
  int (*step)(void*, const void* const*, int, double*);
  int (*loss)(void*, const void* const*, int, void* const*, int, double*);
  int (*save)(void*, const char*);
  int (*load)(void*, const char*);
  const void* (*state)(const void*, int);
  size_t (*state_bytes)(int);
};

namespace {

// Writes the sources and weights of a package, and adds the units to compile.
bool write_package(const codegen::Package& p, const TrainingProgram* training, const target::WorkFolder& folder,
                   const std::string& below, std::vector<Unit>* units) {
  constexpr uint64_t kAll = ~uint64_t{0};  // no weights are read from files of the model
  const CpuPackageOptions options{.max_packed_bytes = kAll, .training = training};
  write_sources(write_cpu_package(p, options), folder, below, units);
  return write_weights_file(p, options, folder.path() + "/" + below);
}

bool write_first_states(const TrainingProgram& t, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  const bool written = write_checkpoint(t, [&](std::span<const std::byte> b) {
    return static_cast<bool>(out.write(reinterpret_cast<const char*>(b.data()), static_cast<std::streamsize>(b.size())));
  });
  out.close();
  return written && out.good();
}

}  // namespace

std::unique_ptr<LoadedTrainer> LoadedTrainer::build(const codegen::Package& step, const codegen::Package& forward,
                                                    const TrainingProgram& training, Diagnostics& d) {
  if (!check_opens_libraries(step.name, d)) return nullptr;
  for (const codegen::Package* p : {&step, &forward})
    for (const codegen::Weight& w : p->weights)
      if (!w.data.valid())
        d.error(Code::MissingWeights, "the model carries no data for this parameter", "parameter " + w.name.quoted());
  for (const StateTensor& s : training.states)
    if (s.initial.bytes.empty() && s.initial.size_bytes() > 0)
      d.error(Code::MissingWeights, "the model carries no data for this parameter", "parameter " + s.name.quoted());
  if (!d.ok()) return nullptr;
  std::unique_ptr<LoadedTrainer> t(new LoadedTrainer(step.name));
  const std::string folder = t->folder_.path();
  std::error_code error;
  std::vector<Unit> units;
  if (folder.empty() || !std::filesystem::create_directory(folder + "/forward", error) ||
      !write_package(step, &training, t->folder_, "", &units) ||
      !write_package(forward, nullptr, t->folder_, "forward/", &units) ||
      !write_first_states(training, folder + "/" + checkpoint_file(step.name))) {
    d.error(Code::NotWritable, "can't write the package to a temporary folder");
    return nullptr;
  }
  const std::string library = build_library("cc", {"-O3", "-march=native"}, units, folder, step.name, d);
  if (library.empty()) return nullptr;
  t->library_ = open_library(library, Unloading::Never);  // idle threads outlive the trainer
  auto api = std::make_unique<Api>();
  const std::string n = step.name + "_";
  if (!t->library_ || !find_symbol(t->library_, n + "strerror", &api->strerror) ||
      !find_symbol(t->library_, n + "train_create", &api->create) ||
      !find_symbol(t->library_, n + "train_destroy", &api->destroy) ||
      !find_symbol(t->library_, n + "set_threads", &api->set_threads) ||
      !find_symbol(t->library_, forward.name + "_set_threads", &api->forward_set_threads) ||
      !find_symbol(t->library_, n + "step_sizes", &api->step_sizes) ||
      !find_symbol(t->library_, n + "loss_sizes", &api->loss_sizes) || !find_symbol(t->library_, n + "step", &api->step) ||
      !find_symbol(t->library_, n + "loss", &api->loss) || !find_symbol(t->library_, n + "save", &api->save) ||
      !find_symbol(t->library_, n + "load", &api->load) || !find_symbol(t->library_, n + "state", &api->state) ||
      !find_symbol(t->library_, n + "state_bytes", &api->state_bytes)) {
    add_load_error(step.name, d);
    return nullptr;
  }
  t->api_ = std::move(api);
  int status = 0;
  t->trainer_ = t->api_->create(folder.c_str(), folder.c_str(), &status);
  return t->good(status, "the package could not be prepared", d) ? std::move(t) : nullptr;
}

LoadedTrainer::LoadedTrainer(std::string name) : name_(std::move(name)) {}

LoadedTrainer::~LoadedTrainer() {
  if (trainer_) api_->destroy(trainer_);
  close_library(library_);
}

bool LoadedTrainer::good(int error, const std::string& what, Diagnostics& d) const {
  if (error) d.error(Code::ToolFailed, what + ": " + api_->strerror(error), "package " + name_);
  return error == 0;
}

bool LoadedTrainer::set_threads(int64_t threads, Diagnostics& d) {
  const int count = static_cast<int>(threads);
  return good(api_->set_threads(count), "threads", d) && good(api_->forward_set_threads(count), "threads", d);
}

bool LoadedTrainer::set_sizes(std::span<const int64_t> step, std::span<const int64_t> forward, Diagnostics& d) {
  const auto set = [&](auto function, std::span<const int64_t> sizes) {
    return sizes.empty() || good(function(trainer_, sizes.data(), static_cast<int>(sizes.size())), "sizes", d);
  };
  return set(api_->step_sizes, step) && set(api_->loss_sizes, forward);
}

bool LoadedTrainer::step(std::span<const void* const> inputs, double* loss, Diagnostics& d) {
  return good(api_->step(trainer_, inputs.data(), static_cast<int>(inputs.size()), loss), "a step", d);
}

bool LoadedTrainer::loss(std::span<const void* const> inputs, std::span<void* const> outputs, double* loss, Diagnostics& d) {
  return good(api_->loss(trainer_, inputs.data(), static_cast<int>(inputs.size()), outputs.data(),
                         static_cast<int>(outputs.size()), loss),
              "an evaluation", d);
}

bool LoadedTrainer::save(const std::string& path, Diagnostics& d) {
  const SignalDelay whole;  // the package writes beside the path, and renames
  std::error_code unknown;
  std::string reason;
  // The package renames its file, which would replace a device.
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown))
    reason = "it is no regular file";
  else if (const int error = api_->save(trainer_, path.c_str())) reason = api_->strerror(error);
  if (!reason.empty()) d.error(Code::NotWritable, "cannot write: " + reason, "\"" + path + "\"");
  return reason.empty();
}
bool LoadedTrainer::load(const std::string& path, Diagnostics& d) {
  const int error = api_->load(trainer_, path.c_str());
  if (error == 0) return true;
  const bool readable = std::ifstream(path).good();
  d.error(readable ? Code::BadTensor : Code::UnreadableFile, path + ": " + (readable ? api_->strerror(error) : "cannot open"), {},
          "--resume takes a file that `rlxc train --checkpoint` wrote for this model and these options");
  return false;
}

std::span<const std::byte> LoadedTrainer::state(size_t i) const {
  const int index = static_cast<int>(i);
  return {static_cast<const std::byte*>(api_->state(trainer_, index)), api_->state_bytes(index)};
}

}  // namespace rlxc
