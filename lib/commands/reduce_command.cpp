// rlxc extract and rlxc reduce: parts of a model.
#include <algorithm>
#include <iostream>
#include <numeric>

#include "commands/check_run.h"
#include "commands/commands.h"
#include "commands/part.h"
#include "driver/load.h"
#include "ir/graphs.h"
#include "support/text.h"
#include "transform/names.h"

namespace rlxc {
namespace {

using Positions = std::vector<size_t>;

// Minimises a failing set of nodes (delta debugging: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input,
// 2002). O(n^2) checks at worst, O(log n) if one node fails by itself.
class Reducer {
 public:
  Reducer(const CompileOptions& o, const std::string& check, Diagnostics& d) : options_(o), check_(check), diagnostics_(d) {}

  // Does the check fail on the part? Parts that are no valid model pass. So do those whose file cannot be read: there the check
  // would fail because of the file.
  bool fails(const Positions& nodes, const DimBindings& sizes) {
    CompileOptions o = options_;
    for (const auto& [name, size] : sizes) o.bind[name] = size;
    Diagnostics quiet;
    auto model = load_model(o, quiet);
    if (!model || !keep_nodes(*model->module, nodes, o, quiet)) return false;
    own_weights(*model->module);
    if (!write_module(*model->module, o, *model, quiet) || !is_readable()) return false;
    std::string command = check_;
    const std::string file = ForeignText(o.output).shell_word();
    for (size_t at = 0; (at = command.find("{}", at)) != command.npos; at += file.size()) command.replace(at, 2, file);
    const auto good = run_check(command, std::to_string(nodes.size()) + " nodes", diagnostics_);
    return good && !*good;
  }

  Positions minimal(Positions nodes) {
    for (size_t parts = 2; nodes.size() > 1 && parts <= nodes.size() && diagnostics_.ok();) {
      bool smaller = false;
      for (int complement = 0; complement < 2 && !smaller; ++complement)
        for (size_t i = 0; i < parts && !smaller && diagnostics_.ok(); ++i) {
          const size_t begin = nodes.size() * i / parts, end = nodes.size() * (i + 1) / parts;
          Positions rest;
          for (size_t k = 0; k < nodes.size(); ++k)
            if ((k >= begin && k < end) != (complement == 1)) rest.push_back(nodes[k]);
          if (rest.empty() || rest.size() == nodes.size() || !fails(rest, {})) continue;
          parts = complement ? std::max<size_t>(parts - 1, 2) : 2;
          nodes = std::move(rest);
          smaller = true;
        }
      if (smaller) continue;
      if (parts == nodes.size()) break;
      parts = std::min(nodes.size(), 2 * parts);
    }
    return nodes;
  }

  // Why the first of the parts that were written cannot be read; empty: all can.
  const Diagnostics& unreadable() const { return unreadable_; }

 private:
  bool is_readable() {
    CompileOptions written;
    written.input = options_.output;
    written.op_file = options_.op_file;
    written.max_nodes = options_.max_nodes;
    written.max_operations = options_.max_operations;
    written.allow_missing_weights = true;
    Diagnostics d(options_.output);
    if (load_model(written, d)) return true;
    if (unreadable_.ok()) unreadable_ = d;
    return false;
  }

  const CompileOptions& options_;
  const std::string& check_;
  Diagnostics& diagnostics_;
  Diagnostics unreadable_;
};

// Positions of the inputs that no output is computed from.
std::vector<size_t> unneeded(const Graph& g, const std::vector<ValueId>& inputs, std::vector<ValueId> outputs) {
  std::vector<bool> reached(g.value_capacity());
  for (ValueId v : outputs) reached[v.raw] = true;
  while (!outputs.empty()) {
    const ValueId v = outputs.back();
    outputs.pop_back();
    if (std::ranges::find(inputs, v) != inputs.end()) continue;
    for (ValueId operand : g.operands(g.def(v))) {
      if (!operand.valid() || reached[operand.raw]) continue;
      reached[operand.raw] = true;
      outputs.push_back(operand);
    }
  }
  std::vector<size_t> out;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!reached[inputs[i].raw]) out.push_back(i);
  return out;
}

}  // namespace

ExitCode extract_command(const CompileOptions& o, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                         Terminal t) {
  Diagnostics d(o.input);
  auto model = load_model(o, d);
  if (!model) return print_diagnostics(d, t);
  Module& m = *model->module;
  std::vector<ValueId> from, to;
  const transform::Names names(m);
  for (const std::string& name : inputs) from.push_back(names.find(name, "--inputs", d));
  for (const std::string& name : outputs) to.push_back(names.find(name, "--outputs", d));
  if (!d.ok()) return print_diagnostics(d, t);
  if (to.empty()) to.assign(m.main().outputs().begin(), m.main().outputs().end());
  for (size_t i : unneeded(m.main(), from, to))
    d.error(Code::BadFlag, "--inputs: no output depends on " + quote(inputs[i]), {}, "are inputs and outputs exchanged?");
  if (!d.ok() || !cut_part(m, from, to, o, d)) return print_diagnostics(d, t);
  own_weights(m);
  if (write_module(m, o, *model, d) && !o.quiet)
    std::cerr << computing_nodes(m).size() << " nodes -> " << ForeignText(o.output).line() << "\n";
  return print_diagnostics(d, t);
}

ExitCode reduce_command(const CompileOptions& o, const std::string& check, Terminal t) {
  Diagnostics d(o.input);
  if (check.find("{}") == check.npos || o.output == "-") {
    d.error(Code::BadFlag, "--check has to name the part as {}, and --output a file", {},
            "for example --check 'rlxc run {} --random' -o part.json");
    return print_diagnostics(d, t);
  }
  auto model = load_model(o, d);
  if (!model) return print_diagnostics(d, t);
  Positions all(computing_nodes(*model->module).size());
  std::iota(all.begin(), all.end(), size_t{0});
  const std::vector<std::string> symbols = model->module->dims.symbol_names();
  model.reset();
  Reducer reducer(o, check, d);
  if (!reducer.fails(all, {})) {
    if (!reducer.unreadable().ok()) return print_diagnostics(reducer.unreadable(), t);
    if (d.ok()) std::cout << "the check passes with the whole model\n";
    return print_diagnostics(d, t);
  }
  const Positions nodes = reducer.minimal(all);
  DimBindings sizes;
  for (const std::string& s : symbols)
    for (int64_t size : {1, 2}) {
      DimBindings more = sizes;
      more[s] = size;
      if (!d.ok() || o.bind.contains(s) || !reducer.fails(nodes, more)) continue;
      sizes = std::move(more);
      break;
    }
  if (d.ok() && reducer.fails(nodes, sizes))
    std::cout << all.size() << " nodes -> " << nodes.size()
              << (nodes.size() == 1 ? " node that still fails: " : " nodes that still fail: ") << ForeignText(o.output).line()
              << "\n";
  if (!reducer.unreadable().ok()) {
    std::cerr << "parts whose file cannot be read count as passing; the first of them:\n";
    print_diagnostics(reducer.unreadable(), t);
  }
  return d.ok() ? ExitCode::Finding : print_diagnostics(d, t);
}

}  // namespace rlxc
