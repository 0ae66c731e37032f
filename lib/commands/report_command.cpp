// rlxc report: the HTML page about the artefacts of one or two output folders.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "backend/backend.h"
#include "commands/commands.h"
#include "driver/artefacts.h"
#include "report/html_report.h"
#include "support/json_form.h"
#include "support/json_reader.h"
#include "support/mapped_file.h"
#include "support/number.h"
#include "support/output_file.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNeeded[] = {"lir.json", "plan.json"};
constexpr std::string_view kOptional[] = {"fusion.json", "dispatch.json", "precision.json", "quant.json", "manifest.json"};

// Reads a JSON artefact of the expected format.
std::optional<std::string> read_artefact(const fs::path& path, Diagnostics& d) {
  const auto file = open_model_file(path.string(), d);
  if (!file) return std::nullopt;
  std::string text(reinterpret_cast<const char*>(file->data()), file->size());
  JsonReader r(text);
  std::string format;
  if (r.begin_object())
    for (std::string_view key; r.next_key(&key);) key == "format" ? r.string(&format) : r.skip();
  r.finish();
  if (const auto fault = form_fault(text); r.ok() && fault) {
    d.error(Code::BadJson, fault->message, quote(path.string()));
    return std::nullopt;
  }
  if (!r.ok() || format != "rlxc-" + path.stem().string()) {
    d.error(Code::BadJson, r.ok() ? "it is no " + path.filename().string() + " of rlxc" : r.error(), quote(path.string()));
    return std::nullopt;
  }
  return text;
}

std::vector<fs::path> diffs_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "dump", error))
    if (entry.path().extension() == ".diff") out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

std::optional<report::PageCompile> read_compile_folder(const std::string& folder, Diagnostics& d) {
  report::PageCompile out;
  std::error_code error;
  const fs::path path = fs::path(folder).lexically_normal();
  out.title = ForeignText(path.has_filename() ? path.filename().string() : path.parent_path().filename().string()).line();
  if (!fs::is_directory(path, error)) {
    d.error(Code::UnreadableFile, "it is no folder", quote(folder), "give the output folder of a compile");
    return std::nullopt;
  }
  std::vector<std::string> targets;
  for (const Backend* b : backends())
    if (fs::exists(path / b->info.name / "lir.json", error)) targets.push_back((path / b->info.name).string());
  if (!fs::exists(path / "lir.json", error) && !targets.empty()) {
    d.error(Code::UnreadableFile, "it holds compiles for several targets", quote(folder), "give one of them, as " + targets[0]);
    return std::nullopt;
  }
  for (std::string_view name : kNeeded) {
    auto text = read_artefact(path / name, d);
    if (!text) return std::nullopt;
    out.artefacts.emplace_back(name, std::move(*text));
  }
  for (std::string_view name : kOptional) {
    if (!fs::exists(path / name, error)) continue;
    auto text = read_artefact(path / name, d);
    if (!text) return std::nullopt;
    out.artefacts.emplace_back(name, std::move(*text));
  }
  for (const fs::path& diff : diffs_in(path))
    if (const auto file = open_model_file(diff.string(), d); file && file->size() > 0)
      out.pass_diffs.emplace_back(diff.stem().string(), std::string(reinterpret_cast<const char*>(file->data()), file->size()));
  return out;
}

}  // namespace

ExitCode report_command(const std::string& before, const std::string& after, const std::string& output, Terminal t) {
  Diagnostics d;
  std::vector<report::PageCompile> compiles;
  for (const std::string& folder : {before, after}) {
    if (folder.empty()) continue;
    auto compile = read_compile_folder(folder, d);
    if (!compile) return print_diagnostics(d, t);
    compiles.push_back(std::move(*compile));
  }
  if (compiles.size() == 2 && compiles[0].title == compiles[1].title) {
    compiles[0].title = ForeignText(before).line();
    compiles[1].title = ForeignText(after).line();
  }
  const std::string page = report::html_report(compiles, page_machines(), version());
  if (write_file(output, page, d) && output != "-")
    std::cerr << human_bytes(page.size()) << " -> " << ForeignText(output).line() << "\n";
  return print_diagnostics(d, t);
}

}  // namespace rlxc
