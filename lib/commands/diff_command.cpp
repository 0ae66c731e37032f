// rlxc diff: compares two output folders of `rlxc compile`.
#include <filesystem>
#include <iostream>

#include "commands/commands.h"
#include "report/diff.h"
#include "report/junit.h"
#include "support/mapped_file.h"
#include "support/output_file.h"
#include "support/schemas.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

// Reads the facts of a folder, and of its subfolders if several targets were compiled.
bool read_folder(const std::string& folder, const std::string& prefix, report::Snapshot* out, Diagnostics& d) {
  for (std::string_view name : report::artefacts_with_facts()) {
    const std::string path = (fs::path(folder) / name).string();
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    const auto file = open_model_file(path, d);
    if (!file) return false;
    std::string message;
    const std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
    if (!report::read_facts(name, text, prefix, out, &message)) {
      d.error(Code::BadJson, path + ": " + message);
      return false;
    }
  }
  return true;
}

bool read_compile(const std::string& folder, report::Snapshot* out, Diagnostics& d) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    d.error(Code::UnreadableFile, folder + " is no folder", {}, "give the output folders of two compiles");
    return false;
  }
  if (!read_folder(folder, "", out, d)) return false;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (fs::exists(entry.path() / "manifest.json", error) &&
        !read_folder(entry.path().string(), entry.path().filename().string() + "/", out, d))
      return false;
  if (out->empty())
    d.error(Code::UnreadableFile, folder + " holds no reports", {}, "compile with --emit lir,plan,fusion,dispatch,precision");
  return d.ok();
}

}  // namespace

ExitCode diff_command(const std::string& before, const std::string& after, const std::vector<std::string>& fail_on,
                      const ResultForm& form, Terminal terminal) {
  Diagnostics d;
  std::vector<report::Condition> conditions;
  std::string message;
  for (const std::string& text : fail_on) {
    if (const auto c = report::parse_condition(text, &message)) conditions.push_back(*c);
    else d.error(Code::BadFlag, "--fail-on " + message);
  }
  report::Snapshot a, b;
  report::Diff diff;
  if (!d.ok() || !read_compile(before, &a, d) || !read_compile(after, &b, d)) return print_diagnostics(d, terminal);
  if (!report::compare(a, b, conditions, &diff, &message)) {
    d.error(Code::BadFlag, "--fail-on: " + message);
    return print_diagnostics(d, terminal);
  }
  std::string text;
  if (form.as_json) {
    JsonWriter w(text);
    report::write_diff(diff, w, std::string(version()));
  } else {
    text = form.markdown ? report::diff_markdown(diff) : report::diff_text(diff);
  }
  std::cout << text;
  if (!form.junit.empty() && !write_file(form.junit, report::junit_xml("rlxc diff", report::diff_cases(diff)), d))
    return print_diagnostics(d, terminal);
  return diff.finding() ? ExitCode::Finding : ExitCode::Ok;
}

}  // namespace rlxc
