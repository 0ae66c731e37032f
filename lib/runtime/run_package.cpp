#include "runtime/run_package.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backend/c/cpu_package.h"
#include "runtime/build_library.h"
#include "runtime/package_call.h"
#include "runtime/process.h"
#include "support/shared_library.h"

namespace rlxc {

struct LoadedPackage::Api {
  const char* (*strerror)(int);
  void* (*create_from)(const void* const*, int, int*);
  int (*set_sizes)(void*, const int64_t*, int);
  int (*run)(void*, const void* const*, int, void* const*, int);
  int64_t (*output_dim)(const void*, int, int);
  size_t (*arena_size)(const void*);
  void (*destroy)(void*);
};

std::unique_ptr<LoadedPackage> LoadedPackage::build(const codegen::Package& p, const RunOptions& options,
                                                    Diagnostics& diagnostics) {
  if (!check_opens_libraries(p.name, diagnostics)) return nullptr;
  for (const codegen::Weight& w : p.weights)
    if (!w.data.valid())
      diagnostics.error(Code::MissingWeights, "the model carries no data for this parameter", "parameter " + w.name.quoted());
  if (p.mesh)
    diagnostics.error(Code::UnsupportedOnTarget,
                      "the package runs on " + std::to_string(p.mesh->devices()) + " devices, one process each",
                      "package " + p.name, "rlxc run starts them, and mpirun");
  if (!diagnostics.ok()) return nullptr;
  const target::WorkFolder folder(options.folder);
  if (folder.path().empty()) {
    diagnostics.error(Code::NotWritable, "can't make a folder for the sources");
    return nullptr;
  }
  std::vector<Unit> units;
  const CpuPackageOptions written{.threads = options.threads, .laps = options.laps, .max_operations = options.max_operations};
  write_sources(write_cpu_package(p, written), folder, "", &units);
  const std::string library = build_library(options.compiler, options.flags, units, folder.path(), p.name, diagnostics);
  if (library.empty()) return nullptr;
  std::unique_ptr<LoadedPackage> loaded(new LoadedPackage(p));
  // Idle pool threads outlive the package.
  loaded->library_ = open_library(library, options.threads ? Unloading::Never : Unloading::Allowed);
  auto api = std::make_unique<Api>();
  if (!loaded->library_ || !find_symbol(loaded->library_, p.name + "_strerror", &api->strerror) ||
      !find_symbol(loaded->library_, p.name + "_create_from", &api->create_from) ||
      !find_symbol(loaded->library_, p.name + "_set_sizes", &api->set_sizes) ||
      !find_symbol(loaded->library_, p.name + "_run", &api->run) ||
      !find_symbol(loaded->library_, p.name + "_output_dim", &api->output_dim) ||
      !find_symbol(loaded->library_, p.name + "_arena_size", &api->arena_size) ||
      !find_symbol(loaded->library_, p.name + "_destroy", &api->destroy)) {
    add_load_error(p.name, diagnostics);
    return nullptr;
  }
  loaded->api_ = std::move(api);
  loaded->max_operations_ = options.max_operations;
  if (options.max_operations) find_symbol(loaded->library_, p.name + "_limited", &loaded->limited_);
  if (double* laps = nullptr; options.laps && find_symbol(loaded->library_, p.name + "_lap_ms", &laps))
    loaded->laps_ = {laps, p.run_steps()};
  std::vector<const void*> weights;
  for (const codegen::Weight& w : p.weights)
    weights.push_back(w.data.valid() ? p.lir->module->data[w.data].bytes.data() : nullptr);
  int error = 0;
  const auto start = std::chrono::steady_clock::now();
  loaded->context_ = loaded->api_->create_from(weights.data(), static_cast<int>(weights.size()), &error);
  loaded->load_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (loaded->context_) return loaded;
  diagnostics.error(Code::ToolFailed, std::string("the package could not be prepared: ") + loaded->api_->strerror(error),
                    "package " + p.name);
  return nullptr;
}

LoadedPackage::LoadedPackage(const codegen::Package& p) : package_(p) {}

size_t LoadedPackage::packed_bytes() const { return static_cast<size_t>(package_.packed_bytes.size()); }
size_t LoadedPackage::arena_bytes() const { return api_->arena_size(context_); }

LoadedPackage::~LoadedPackage() {
  if (context_) api_->destroy(context_);
  close_library(library_);
}

std::optional<std::vector<eval::HostValue>> LoadedPackage::run(std::span<const eval::HostValue> inputs,
                                                               Diagnostics& diagnostics) {
  auto call = bind_call(package_, inputs, diagnostics);
  if (!call) return std::nullopt;
  int error = call->sizes.empty() ? 0 : api_->set_sizes(context_, call->sizes.data(), static_cast<int>(call->sizes.size()));
  if (!error)
    error = api_->run(context_, call->in.data(), static_cast<int>(call->in.size()), call->out.data(),
                      static_cast<int>(call->out.size()));
  for (size_t i = 0; !error && i < call->results.size(); ++i) {
    std::vector<int64_t> dims = call->results[i].tensor.dims;
    for (size_t k = 0; k < dims.size(); ++k) dims[k] = api_->output_dim(context_, static_cast<int>(i), static_cast<int>(k));
    call->set_shape(i, std::move(dims));
  }
  if (!error) return std::move(call->results);
  const LirModule& lir = *package_.lir;
  if (!check_index_inputs(*lir.module, lir.index_inputs, inputs, diagnostics)) return std::nullopt;  // names the input
  if (error == kLimitError && limited_)
    diagnostics.error(Code::TooLarge, "loops take more than " + std::to_string(max_operations_) + " operations on elements",
                      "node " + ForeignText(*limited_).quoted(), "--max-operations N allows more");
  else
    diagnostics.error(Code::ToolFailed, std::string("the package failed: ") + api_->strerror(error), "package " + package_.name);
  return std::nullopt;
}

std::optional<std::vector<eval::HostValue>> run_package(const codegen::Package& p, std::span<const eval::HostValue> inputs,
                                                        Diagnostics& diagnostics, const RunOptions& options) {
  const auto loaded = LoadedPackage::build(p, options, diagnostics);
  return loaded ? loaded->run(inputs, diagnostics) : std::nullopt;
}

}  // namespace rlxc
