#include "runtime/build_library.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "support/foreign_text.h"
#include "support/parallel.h"
#include "support/shared_library.h"
#include "support/text.h"

namespace rlxc {

namespace {

// Whether the command succeeds and prints nothing. Otherwise *output is what it printed.
bool is_silent(const std::vector<std::string>& command, const std::string& log, std::string* output) {
  return target::run_command(command, log, output) && output->empty();
}

// The compiler "cc" is the one that CC names, with its first arguments: "ccache gcc".
std::vector<std::string> compiler_words(const std::string& compiler) {
  const char* named = compiler == "cc" ? std::getenv("CC") : nullptr;
  const std::string text = named ? named : compiler;
  std::vector<std::string> words;
  for (std::string_view word : split(text, ' '))
    if (!word.empty()) words.emplace_back(word);
  return words.empty() ? std::vector{compiler} : words;
}

// Whether a compiler may have failed for want of space. It often cannot say so: its log is in the same folder.
bool is_full(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  return !error && space.available < 1 << 20;
}

}  // namespace

void write_sources(const std::vector<TextFile>& package, const target::WorkFolder& folder, const std::string& below,
                   std::vector<Unit>* units) {
  const size_t host = units->size();
  for (const TextFile& f : package) {
    folder.write(below + f.name, f.content);
    if (!f.name.ends_with(".c") || f.name == "main.c" || f.name == "levels.c") continue;
    const std::string path = folder.path() + "/" + below + f.name;
    if (f.name == "parallel.c") (*units)[host].push_back(path);
    else units->push_back({path});
  }
}

std::string build_library(const std::string& compiler, const std::vector<std::string>& flags, const std::vector<Unit>& units,
                          const std::string& folder, const std::string& name, Diagnostics& d) {
  const std::vector<std::string> driver = compiler_words(compiler);
  std::vector<std::string> objects(units.size()), outputs(units.size());
  std::atomic<bool> failed = false;
  run_in_parallel(units.size(), [&](size_t i) {
    if (failed) return;
    objects[i] = folder + "/unit_" + std::to_string(i) + ".o";
    std::vector<std::string> command = driver;
    command.insert(command.end(), {"-std=gnu11", "-fwrapv", "-fno-strict-aliasing", "-fPIC", "-pthread", "-Wno-psabi"});
    command.insert(command.end(), flags.begin(), flags.end());
    for (const std::string& file : std::span(units[i]).first(units[i].size() - 1))
      command.insert(command.end(), {"-include", file});
    command.insert(command.end(), {"-c", units[i].back(), "-o", objects[i]});
    if (!is_silent(command, objects[i] + ".log", &outputs[i])) failed = true;
  });
  const std::string library = folder + "/package.so";
  std::vector<std::string> link = driver;
  link.insert(link.end(), {"-shared", "-pthread"});
  link.insert(link.end(), flags.begin(), flags.end());
  link.insert(link.end(), objects.begin(), objects.end());
  link.insert(link.end(), {"-lm", "-o", library});
  if (!failed && is_silent(link, folder + "/log", &outputs.emplace_back())) return library;
  if (is_full(folder)) {
    d.error(Code::NotWritable, "no space is left to build kernels in " + ForeignText(folder).quoted(), "package " + name,
            "TMPDIR names the folder of temporary files");
    return {};
  }
  const auto first_output = std::ranges::find_if(outputs, [](const std::string& s) { return !s.empty(); });
  target::add_tool_error(join(driver, " "), first_output == outputs.end() ? "it failed" : *first_output, "package " + name, d);
  return {};
}

bool check_opens_libraries(const std::string& name, Diagnostics& d) {
  if (opens_libraries()) return true;
  d.error(Code::MissingTool, "this build of rlxc is static: it can't load kernels that it builds", "package " + name,
          "run takes --engine reference or interpreter; `rlxc compile` writes the package, and `make` builds it");
  return false;
}

void add_load_error(const std::string& name, Diagnostics& d) {
  const std::string reason = library_error();
  d.error(Code::ToolFailed, reason.empty() ? "the library lacks a function of its API" : reason, "package " + name);
}

}  // namespace rlxc
