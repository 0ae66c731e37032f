#include "backend/package_text.h"

#include <algorithm>
#include <set>

#include "backend/weight_files.h"
#include "codegen/equal_sizes.h"
#include "support/text.h"

namespace rlxc {
namespace {

using codegen::Package;
using codegen::Port;

const Type& value_type_of(const Package& p, const Port& port) { return p.lir->module->graph(port.graph).type(port.value); }

}  // namespace

DimBindings bindings_of(const Package& p, const std::vector<int64_t>& sizes) {
  DimBindings bindings;
  for (size_t i = 0; i < sizes.size(); ++i) bindings[p.symbols[i].bytes()] = sizes[i];
  return bindings;
}

std::string upper(std::string s) {
  for (char& c : s)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return s;
}

std::string port_type(const Package& p, const Port& port) { return text(value_type_of(p, port), p.lir->module->dims); }

std::string port_type(const Package& p, const Port& port, const DimBindings& bindings) {
  const Type& t = value_type_of(p, port);
  const DimTable& dims = p.lir->module->dims;
  std::string s = std::string(name(t.dtype)) + "[";
  for (Dim d : t.dims) {
    const auto n = dims.evaluate(d, bindings);
    s += (s.back() == '[' ? "" : ",") + (n ? std::to_string(*n) : dims.text(d));
  }
  return s + "]";
}

std::string index_range(const Package& p, size_t input) {
  std::string s;
  for (const IndexInput& x : p.lir->index_inputs)
    if (x.input == input) s = ", 0 to " + p.lir->module->dims.text(x.largest) + ": " + x.description;
  return s;
}

std::string checked_ranges(const Package& p, const std::string& refusal) {
  std::string names;
  for (const IndexInput& x : p.lir->index_inputs)
    names += (names.empty() ? "" : ", ") + ("`" + p.inputs[x.input].name.markdown() + "`");
  return names.empty() ? names : "Every run compares " + names + " with the range in the table; if it is left, " + refusal + ". ";
}

bool has_difference(const DimTable& dims, Dim d) {
  const std::vector<Dim> whole = {d};
  const std::vector<size_t> named = dims.named_sizes_of(whole);
  return dims.text(d).find('-') != std::string::npos ||
         std::ranges::any_of(named, [&](size_t i) { return dims.definition(i).find('-') != std::string::npos; });
}

std::vector<Dim> size_differences(const Package& p) {
  const Module& m = *p.lir->module;
  std::set<int64_t> seen;
  std::vector<Dim> found;
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    for (NodeId n : g.nodes())
      for (size_t r = 0; r < g.result_count(n); ++r)
        for (Dim d : g.type(g.result(n, r)).dims)
          if (!d.is_static() && seen.insert(d.raw()).second && has_difference(m.dims, d)) found.push_back(d);
  }
  std::vector<Dim> pairs;
  for (Dim d : found) pairs.insert(pairs.end(), {d, d});
  const std::vector<Dim> given = codegen::given_pairs(p, pairs);
  found.clear();
  for (size_t i = 0; i < given.size(); i += 2) found.push_back(given[i]);
  return found;
}

std::vector<int64_t> example_sizes(const Package& p) {
  const DimTable& dims = p.lir->module->dims;
  const std::vector<Dim> equal = codegen::equal_sizes(p), positive = size_differences(p);
  std::vector<int64_t> sizes(p.symbols.size());
  for (int64_t size : {1, 2, 8, 16, 32, 64, 128, 256, 512, 1024}) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto range = p.lir->ranges.find(p.symbols[i].bytes());
      sizes[i] = range == p.lir->ranges.end() ? size : std::clamp(size, range->second.low->size(), range->second.high->size());
    }
    const DimBindings bindings = bindings_of(p, sizes);
    bool fits = std::ranges::all_of(positive, [&](Dim d) { return dims.evaluate(d, bindings).value_or(0) > 0; });
    for (size_t i = 0; i < equal.size(); i += 2)
      fits &= dims.evaluate(equal[i], bindings) == dims.evaluate(equal[i + 1], bindings);
    if (fits) break;
  }
  return sizes;
}

std::string example_size_arguments(const Package& p) {
  const std::vector<int64_t> sizes = example_sizes(p);
  std::string s;
  for (size_t i = 0; i < sizes.size(); ++i)
    s += " " + ForeignText(p.symbols[i].bytes() + "=" + std::to_string(sizes[i])).shell_word();
  return s;
}

std::string tensor_table(const Package& p) {
  std::string s = "| tensor | name | type |\n|---|---|---|\n";
  for (const auto& [kind, ports] : {std::pair{"input ", &p.inputs}, std::pair{"output ", &p.outputs}})
    for (size_t i = 0; i < ports->size(); ++i)
      s += "| " + std::string(kind) + std::to_string(i) + " | " + (*ports)[i].name.markdown() + " | " +
           ForeignText(port_type(p, (*ports)[i]) + (ports == &p.inputs ? index_range(p, i) : "")).markdown() + " |\n";
  if (!p.lir->states.empty()) {
    s += "\nA state is an input and an output that share a buffer, which a run updates in place:\n\n| state | input | output |\n"
         "|---|---|---|\n";
    for (size_t i = 0; i < p.lir->states.size(); ++i) {
      const State& state = p.lir->states[i];
      s += "| " + std::to_string(i) + " | " + std::to_string(state.input) + ", " + p.inputs[state.input].name.markdown() + " | " +
           std::to_string(state.output) + ", " + p.outputs[state.output].name.markdown() + " |\n";
    }
  }
  if (p.symbols.empty()) return s;
  s += "\n| size | name | range |\n|---|---|---|\n";
  for (size_t i = 0; i < p.symbols.size(); ++i) {
    const auto range = p.lir->ranges.find(p.symbols[i].bytes());
    s += "| " + std::to_string(i) + " | " + p.symbols[i].markdown() + " | " +
         (range == p.lir->ranges.end()
              ? std::string("any")
              : std::to_string(range->second.low->size()) + " to " + std::to_string(range->second.high->size())) +
         " |\n";
  }
  const DimTable& dims = p.lir->module->dims;
  std::vector<Dim> used;
  for (const std::vector<Port>* ports : {&p.inputs, &p.outputs})
    for (const Port& port : *ports)
      for (Dim d : value_type_of(p, port).dims) used.push_back(d);
  const std::vector<size_t> named = dims.named_sizes_of(used);
  if (!named.empty()) s += "\n| named size | definition |\n|---|---|\n";
  for (size_t i : named)
    s += "| `" + dims.text(dims.named_size(i)) + "` | " + ForeignText(dims.definition(i)).markdown() + " |\n";
  return s;
}

std::string weights_paragraph(const Package& p, const CpuPackageOptions& o) {
  constexpr size_t kListed = 16;
  const WeightFiles located = locate_weights(p, o);
  std::string s;
  if (located.has_own())
    s += "`" + weights_file(p) + "` holds " + std::to_string(located.packed_bytes) +
         " bytes, each weight aligned to 64 bytes. It begins with a fingerprint, which is checked when it is loaded. ";
  if (located.files.size() == 1) return s + (s.empty() ? "The model has no weights.\n" : "No other file is needed.\n");
  s += "These files of the model are read where they are:\n\n";
  for (size_t i = 1; i < located.files.size() && i <= kListed; ++i) s += "- `" + located.files[i].markdown() + "`\n";
  if (located.files.size() > kListed + 1) s += "- and " + std::to_string(located.files.size() - kListed - 1) + " others\n";
  return s + "\n`rlxc compile --embed-weights` puts all weights into `" + weights_file(p) + "`.\n";
}

}  // namespace rlxc
