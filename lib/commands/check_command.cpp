// rlxc check: reports everything that prevents compiling a model for each target. Errors with the same reason are grouped, with
// the names of their nodes.
#include <algorithm>
#include <iostream>
#include <sstream>

#include "backend/kernel_folder.h"
#include "backend/target_traits.h"
#include "commands/commands.h"
#include "commands/progress_line.h"
#include "driver/check_options.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "report/context.h"
#include "report/junit.h"
#include "support/foreign_text.h"
#include "support/json_writer.h"
#include "support/output_file.h"
#include "support/parallel.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr size_t kShownNodes = 8;

struct Finding {
  Code code;
  std::string op, message, help;  // op: the operator and opset that the error names
  std::vector<std::string> nodes;
};

struct Findings {
  std::string target;
  std::vector<Finding> list;  // in the order of the model
  size_t errors = 0, unlisted = 0;
};

// Splits `node "/a/b" (Conv, opset 11)` into name and operator.
std::pair<std::string, std::string> split_place(const std::string& where) {
  const size_t open = where.rfind(" (");
  std::string name = where.substr(0, open), op;
  if (open != where.npos && where.ends_with(')')) op = where.substr(open + 2, where.size() - open - 3);
  else name = where;
  if (name.starts_with("node \"") && name.ends_with('"')) name = name.substr(6, name.size() - 7);
  return {std::move(name), std::move(op)};
}

Findings grouped(std::string target, const Diagnostics& d) {
  Findings out{std::move(target), {}, d.errors(), d.errors()};
  for (const Diagnostic& item : d.items()) {
    if (item.severity != Severity::Error) continue;
    --out.unlisted;
    auto [name, op] = split_place(item.where);
    const auto same = [&, &op = op](const Finding& f) { return f.code == item.code && f.op == op && f.message == item.message; };
    auto at = std::find_if(out.list.begin(), out.list.end(), same);
    if (at == out.list.end()) at = out.list.insert(at, {item.code, std::move(op), item.message, item.help, {}});
    at->nodes.push_back(std::move(name));
  }
  return out;
}

std::string text_of(const Findings& f) {
  if (f.errors == 0) return f.target + ": ok\n";
  std::ostringstream out;
  out << f.target << ": " << f.errors << (f.errors == 1 ? " error\n" : " errors\n");
  for (const Finding& g : f.list) {
    out << "  " << code_text(g.code) << " " << (g.op.empty() ? "" : g.op + ": ") << terminal_text(g.message, "    ");
    const std::vector<std::string> shown(g.nodes.begin(),
                                         g.nodes.begin() + static_cast<std::ptrdiff_t>(std::min(g.nodes.size(), kShownNodes)));
    if (g.nodes.size() > 1) out << " (" << g.nodes.size() << " nodes)";
    if (!g.nodes[0].empty())
      out << "\n    at " << terminal_text(join(shown, ", "), "    ") << (g.nodes.size() > shown.size() ? ", ..." : "");
    out << "\n    help: " << (g.help.empty() ? "see rlxc explain " + code_text(g.code) : terminal_text(g.help, "    ")) << "\n";
  }
  if (f.unlisted > 0) out << "  and " << f.unlisted << " more of these kinds\n";
  return out.str();
}

std::string junit(const std::string& model, const std::vector<Findings>& all) {
  std::vector<report::TestCase> cases;
  for (const Findings& f : all)
    cases.push_back(
        {model, f.target, f.errors ? report::TestCase::Outcome::Failed : report::TestCase::Outcome::Passed, text_of(f)});
  return report::junit_xml("rlxc check", cases);
}

void write_json(const std::string& model, const std::vector<Findings>& all) {
  std::string text;
  JsonWriter w(text);
  w.begin_object();
  report::write_plain_header(w, "check", version());
  w.key("model").string(model).key("targets").begin_array();
  for (const Findings& f : all) {
    w.begin_object()
        .key("target")
        .string(f.target)
        .key("ok")
        .boolean(f.errors == 0)
        .key("errors")
        .integer(static_cast<int64_t>(f.errors));
    w.key("findings").begin_array();
    for (const Finding& g : f.list) {
      w.begin_object().key("code").string(code_text(g.code)).key("operator").string(g.op).key("message").string(g.message);
      w.key("help")
          .string(g.help)
          .key("count")
          .integer(static_cast<int64_t>(g.nodes.size()))
          .key("nodes")
          .begin_array(JsonLayout::Line);
      for (const std::string& n : g.nodes) w.string(n);
      w.end_array().end_object();
    }
    w.end_array().end_object();
  }
  w.end_array().end_object().finish();
  std::cout << text;
}

}  // namespace

ExitCode check_command(const CompileOptions& o, const ResultForm& form, Terminal t) {
  std::vector<std::string> targets = o.targets;
  if (targets == std::vector<std::string>{"all"}) targets.assign(target_names().begin(), target_names().end());
  if (Diagnostics wrong; !check_targets(targets, wrong)) return print_diagnostics(wrong, t);
  const MakeFile nothing_is_written = [](const std::string&, const std::function<void(OutputFile&)>&) {};
  Diagnostics loading(o.input);
  const auto model = load_model(o, loading);
  // An unreadable file or a bad flag is not a finding about the model.
  if (!model && (loading.exit() == ExitCode::Unreadable || loading.exit() == ExitCode::Usage))
    return print_diagnostics(loading, t);
  std::vector<Diagnostics> found(targets.size(), loading);
  run_in_parallel(targets.size(), [&](size_t i) {
    const auto compiled = model ? compile(model->copy(), targets[i], o, {}, found[i]) : std::nullopt;
    if (compiled) write_kernel_folder(compiled->lir, targets[i], {}, compiled->lowerings.get(), nothing_is_written, found[i]);
  });
  if (model) print_diagnostics(loading, t);  // warnings about the model, whatever the target
  std::vector<Findings> all;
  ExitCode code = ExitCode::Ok;
  for (size_t i = 0; i < targets.size(); ++i) {
    all.push_back(grouped(targets[i], found[i]));
    if (code == ExitCode::Ok) code = found[i].exit();
  }
  clear_progress_line();
  if (form.as_json) write_json(o.input, all);
  else
    for (const Findings& f : all) std::cout << text_of(f);
  Diagnostics writing;
  if (!form.junit.empty() && !write_file(form.junit, junit(o.input, all), writing)) return print_diagnostics(writing, t);
  return code;
}

}  // namespace rlxc
