#include "driver/run_package.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "driver/cpu_package.h"
#include "target/process.h"

namespace rlxc {

namespace fs = std::filesystem;

struct LoadedPackage::Api {
  void* (*create_from)(const void* const*, int*);
  int (*set_sizes)(void*, const int64_t*);
  int (*run)(void*, const void* const*, void* const*);
  void (*destroy)(void*);
};

namespace {

template <class F>
bool find(void* library, const std::string& name, F* f) {
  *f = reinterpret_cast<F>(dlsym(library, name.c_str()));
  return *f != nullptr;
}

// A folder that goes when it is not wanted any more.
struct Folder {
  fs::path path;
  bool temporary = false;
  ~Folder() {
    std::error_code ignored;
    if (temporary) fs::remove_all(path, ignored);
  }
};

bool make_folder(const std::string& wanted, Folder* folder, Diagnostics& diagnostics) {
  std::error_code error;
  if (!wanted.empty()) {
    folder->path = wanted;
    fs::create_directories(folder->path, error);
  } else {
    std::string name = (fs::temp_directory_path(error) / "rlxc-XXXXXX").string();
    if (!mkdtemp(name.data())) error = std::make_error_code(std::errc::io_error);
    folder->path = name, folder->temporary = !error;
  }
  if (error) diagnostics.error(Code::NotWritable, "can't make a folder for the sources: " + error.message());
  return !error;
}

}  // namespace

std::unique_ptr<LoadedPackage> LoadedPackage::build(const codegen::Package& p, const RunOptions& options,
                                                    Diagnostics& diagnostics) {
  for (const codegen::Weight& w : p.weights)
    if (!w.data.valid())
      diagnostics.error(Code::MissingWeights, "the model carries no data for this parameter", "parameter \"" + w.name + "\"");
  Folder folder;
  if (!diagnostics.ok() || !make_folder(options.folder, &folder, diagnostics)) return nullptr;
  const std::string library = (folder.path / "package.so").string(), log = (folder.path / "log").string();
  std::vector<std::string> command = {options.compiler, "-std=gnu11", "-fwrapv", "-fno-strict-aliasing",
                                      "-fPIC",          "-shared",    "-pthread"};
  command.insert(command.end(), options.flags.begin(), options.flags.end());
  for (const TextFile& f : write_cpu_package(p, {.threads = options.threads})) {
    const fs::path path = folder.path / f.name;
    std::ofstream(path) << f.content;
    if (f.name.ends_with(".c") && f.name != "main.c") command.push_back(path.string());
  }
  command.insert(command.end(), {"-lm", "-o", library});
  std::string said;
  const bool built = target::run_command(command, log, &said);
  if (!built || !said.empty()) {
    diagnostics.error(Code::ToolFailed, options.compiler + ": " + said.substr(0, 8000), "package " + p.name);
    return nullptr;
  }
  std::unique_ptr<LoadedPackage> loaded(new LoadedPackage(p));
  loaded->library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto api = std::make_unique<Api>();
  if (!loaded->library_ || !find(loaded->library_, p.name + "_create_from", &api->create_from) ||
      !find(loaded->library_, p.name + "_set_sizes", &api->set_sizes) || !find(loaded->library_, p.name + "_run", &api->run) ||
      !find(loaded->library_, p.name + "_destroy", &api->destroy)) {
    const char* why = dlerror();
    diagnostics.error(Code::ToolFailed, why ? why : "the library lacks a function of its API", "package " + p.name);
    return nullptr;
  }
  loaded->api_ = std::move(api);
  std::vector<const void*> weights;
  for (const codegen::Weight& w : p.weights)
    weights.push_back(w.data.valid() ? p.lir->module->data[w.data].bytes.data() : nullptr);
  int error = 0;
  loaded->context_ = loaded->api_->create_from(weights.data(), &error);
  if (loaded->context_) return loaded;
  diagnostics.error(Code::ToolFailed, "the package could not be prepared: error " + std::to_string(error), "package " + p.name);
  return nullptr;
}

LoadedPackage::LoadedPackage(const codegen::Package& p) : package_(p) {}

LoadedPackage::~LoadedPackage() {
  if (context_) api_->destroy(context_);
  if (library_) dlclose(library_);
}

std::optional<std::vector<eval::HostValue>> LoadedPackage::run(std::span<const eval::HostValue> inputs,
                                                               Diagnostics& diagnostics) {
  const Module& m = *package_.lir->module;
  if (inputs.size() != package_.inputs.size()) {
    diagnostics.error(Code::BadShape,
                      "expected " + std::to_string(package_.inputs.size()) + " inputs, got " + std::to_string(inputs.size()));
    return std::nullopt;
  }
  DimBindings bindings;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& t = m.graph(package_.inputs[i].graph).type(package_.inputs[i].value);
    const TensorData& d = inputs[i].tensor;
    if (d.dtype != t.dtype || d.dims.size() != t.dims.size()) {
      diagnostics.error(Code::BadType, "expected " + text(t, m.dims), "input \"" + package_.inputs[i].name + "\"");
      return std::nullopt;
    }
    for (size_t k = 0; k < t.dims.size(); ++k)
      if (!t.dims[k].is_static() && m.dims.has_symbol(m.dims.text(t.dims[k])))
        bindings.try_emplace(m.dims.text(t.dims[k]), d.dims[k]);
  }
  std::vector<const void*> in;
  std::vector<std::vector<std::byte>> expanded;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& t = m.graph(package_.inputs[i].graph).type(package_.inputs[i].value);
    const TensorData& d = inputs[i].tensor;
    for (size_t k = 0; k < t.dims.size(); ++k) {
      const auto want = m.dims.evaluate(t.dims[k], bindings);
      if (want && *want == d.dims[k]) continue;
      diagnostics.error(
          Code::BadShape,
          "axis " + std::to_string(k) + " has size " + std::to_string(d.dims[k]) + ", expected " + m.dims.text(t.dims[k]),
          "input \"" + package_.inputs[i].name + "\"");
      return std::nullopt;
    }
    in.push_back(d.bytes.data());
    if (!d.splat) continue;
    std::vector<std::byte>& all = expanded.emplace_back(static_cast<size_t>(d.size_bytes()));
    for (size_t k = 0; k < all.size(); ++k) all[k] = d.bytes[k % d.bytes.size()];
    in.back() = all.data();
  }
  for (const auto& [a, b] : m.dims.equalities()) {
    const auto x = m.dims.evaluate(a, bindings), y = m.dims.evaluate(b, bindings);
    if (!x || !y || *x == *y) continue;
    diagnostics.error(Code::BadBinding, "the model needs " + m.dims.text(a) + " = " + m.dims.text(b) + ", the inputs give " +
                                            std::to_string(*x) + " and " + std::to_string(*y));
    return std::nullopt;
  }
  std::vector<int64_t> sizes;
  for (const std::string& s : package_.symbols) {
    const auto it = bindings.find(s);
    if (it == bindings.end()) {
      diagnostics.error(Code::UnboundDim, "the inputs do not determine the size \"" + s + "\"");
      return std::nullopt;
    }
    sizes.push_back(it->second);
  }
  int error = sizes.empty() ? 0 : api_->set_sizes(context_, sizes.data());
  std::vector<eval::HostValue> results;
  std::vector<void*> out;
  for (const codegen::Port& port : package_.outputs) {
    const Type& t = m.graph(port.graph).type(port.value);
    TensorData d;
    d.dtype = t.dtype;
    for (Dim dim : t.dims) d.dims.push_back(m.dims.evaluate(dim, bindings).value_or(0));
    auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(d.size_bytes()) + 64);
    d.bytes = std::span<const std::byte>(bytes->data(), bytes->size() - 64);
    out.push_back(bytes->data());
    d.owner = std::move(bytes);
    results.push_back({TypeKind::Tensor, std::move(d), {}});
  }
  if (!error) error = api_->run(context_, in.data(), out.data());
  if (!error) return results;
  diagnostics.error(Code::ToolFailed, "the package failed with error " + std::to_string(error), "package " + package_.name);
  return std::nullopt;
}

std::optional<std::vector<eval::HostValue>> run_package(const codegen::Package& p, std::span<const eval::HostValue> inputs,
                                                        Diagnostics& diagnostics, const RunOptions& options) {
  const auto loaded = LoadedPackage::build(p, options, diagnostics);
  return loaded ? loaded->run(inputs, diagnostics) : std::nullopt;
}

}  // namespace rlxc
