#include "target/native.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "target/cpu.h"
#include "target/render.h"

extern char** environ;

namespace rlxc::target {
namespace {

namespace fs = std::filesystem;

std::string entry(const kernel::Kernel& k, size_t i) {
  std::string s = "\nvoid rlxc_entry_" + std::to_string(i) + "(void* const* b, const int64_t* s) {\n  (void)b, (void)s;\n  " + k.name + "(";
  for (size_t a = 0; a < k.argument_count(); ++a) s += (a ? ", b[" : "b[") + std::to_string(a) + "]";
  for (size_t a = 0; a < k.symbols.size(); ++a) s += (s.back() == '(' ? "s[" : ", s[") + std::to_string(a) + "]";
  return s + ");\n}\n";
}

std::string read_file(const fs::path& p) {
  std::ifstream in(p);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool run(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> argv;
  for (const std::string& s : command) argv.push_back(const_cast<char*>(s.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ), status = -1;
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return false;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::unique_ptr<NativeModule> NativeModule::build(const std::vector<const kernel::Kernel*>& kernels, const NativeOptions& options,
                                                  std::string* error) {
  std::string folder = (fs::temp_directory_path() / "rlxc-XXXXXX").string();
  if (!mkdtemp(folder.data())) {
    *error = "can't make a folder for temporary files in " + fs::temp_directory_path().string();
    return nullptr;
  }
  fs::path at(folder), log = at / "log", library = at / "kernels.so";
  std::ofstream source(at / "kernels.c");
  source << render(kernels, cpu());
  for (size_t i = 0; i < kernels.size(); ++i) source << entry(*kernels[i], i);
  source.close();
  std::ofstream(at / "parallel.c") << parallel_runtime(options.threads);
  std::vector<std::string> command = {options.compiler, "-std=gnu11", "-fwrapv", "-fPIC", "-shared", "-pthread"};
  command.insert(command.end(), options.flags.begin(), options.flags.end());
  for (std::string s : {(at / "kernels.c").string(), (at / "parallel.c").string(), std::string("-lm"), std::string("-o"), library.string()})
    command.push_back(s);
  bool built = run(command, log);
  std::string messages = read_file(log);
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
  std::error_code ignored;
  fs::remove_all(at, ignored);
  return module;
}

NativeModule::~NativeModule() {
  if (library_) dlclose(library_);
}

void NativeModule::call(size_t kernel, std::span<void* const> buffers, std::span<const int64_t> symbols) const {
  entries_[kernel](buffers.data(), symbols.data());
}

}  // namespace rlxc::target
