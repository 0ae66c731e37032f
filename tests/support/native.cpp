#include "support/native.h"

#include <dlfcn.h>

#include <filesystem>
#include <fstream>

#include "backend/backend.h"
#include "backend/c/cpu.h"
#include "backend/c/render.h"
#include "backend/registry.h"
#include "runtime/emulation.h"
#include "runtime/process.h"

namespace rlxc::target {
namespace {

namespace fs = std::filesystem;

std::string entry(const kernel::Kernel& k, size_t i) {
  std::string s = "\nvoid rlxc_entry_" + std::to_string(i) +
                  "(void* const* b, const int64_t* s, const int64_t* grid, const int64_t* lanes) {\n  (void)b, (void)s, "
                  "(void)grid, (void)lanes;\n  " +
                  k.name + "(";
  for (size_t a = 0; a < k.argument_count(); ++a) s += (a ? ", b[" : "b[") + std::to_string(a) + "]";
  for (size_t a = 0; a < k.symbols.size(); ++a) s += (s.back() == '(' ? "s[" : ", s[") + std::to_string(a) + "]";
  return s + ");\n}\n";
}

struct DialectRow {
  const Backend& (*backend)();
  const char* standard;
};
constexpr DialectRow kDialects[] = {
    {cpu_backend, "-std=gnu11"}, {cuda_backend, "-std=c++17"}, {rocm_backend, "-std=c++17"}, {metal_backend, "-std=c++17"}};

}  // namespace

std::unique_ptr<NativeModule> NativeModule::build(const std::vector<const kernel::Kernel*>& kernels, const NativeOptions& options,
                                                  std::string* error) {
  WorkFolder folder;
  if (folder.path().empty()) {
    *error = "can't make a folder for temporary files";
    return nullptr;
  }
  fs::path at(folder.path()), library = at / "kernels.so";
  const DialectRow& row = kDialects[static_cast<size_t>(options.dialect)];
  bool is_c = options.dialect == Dialect::C;
  fs::path source_path = at / (is_c ? "kernels.c" : "kernels.cpp"), runtime = at / "parallel.c";
  std::ofstream source(source_path);
  source << emulated(render(kernels, row.backend().info.language()));
  for (size_t i = 0; i < kernels.size(); ++i)
    source << (is_c ? entry(*kernels[i], i) : emulation_entry(*kernels[i], i, options.dialect == Dialect::Metal));
  source.close();
  std::ofstream(runtime) << parallel_runtime(options.threads);
  std::vector<std::string> command = {options.compiler, row.standard, "-fwrapv", "-Wno-psabi", "-fPIC", "-shared", "-pthread"};
  command.insert(command.end(), options.flags.begin(), options.flags.end());
  if (is_c) command.push_back(runtime.string());
  else {
    fs::create_directory(at / "hip");
    for (const auto& [name, text] : emulation_headers()) std::ofstream(at / name) << text;
    command.push_back("-I" + at.string());
  }
  for (std::string s : {source_path.string(), std::string("-lm"), std::string("-o"), library.string()}) command.push_back(s);
  std::string messages;
  bool built = run_command(command, (at / "log").string(), &messages);
  std::unique_ptr<NativeModule> module;
  if (built && messages.empty()) {
    module.reset(new NativeModule);
    module->library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; module->library_ && i < kernels.size(); ++i)
      module->entries_.push_back(reinterpret_cast<Entry>(dlsym(module->library_, ("rlxc_entry_" + std::to_string(i)).c_str())));
    if (!module->library_) {
      *error = dlerror();
      module.reset();
    }
  } else {
    *error = options.compiler + ": " + messages.substr(0, 20000);
  }
  return module;
}

NativeModule::~NativeModule() {
  if (library_) dlclose(library_);
}

void NativeModule::call(size_t kernel, std::span<void* const> buffers, std::span<const int64_t> symbols,
                        std::array<int64_t, 3> grid, std::array<int64_t, 3> lanes) const {
  entries_[kernel](buffers.data(), symbols.data(), grid.data(), lanes.data());
}

}  // namespace rlxc::target
