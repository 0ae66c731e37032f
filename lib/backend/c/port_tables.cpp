#include "backend/c/port_tables.h"

#include <algorithm>

#include "backend/package_text.h"
#include "codegen/equal_sizes.h"
#include "support/text.h"

namespace rlxc {
namespace {

using codegen::BufferSlice;
using codegen::Command;
using codegen::Package;
using codegen::Port;

uint64_t element_bytes(DType t) { return std::max<uint64_t>(static_cast<uint64_t>(rlxc::bits(t)) / 8, 1); }

const Type& type_of(const Package& p, const Port& port) { return p.lir->module->graph(port.graph).type(port.value); }

bool uses_extents(const Package& p, Dim d) {
  const auto symbols = p.lir->module->dims.symbols_of(d);
  return std::ranges::any_of(p.lir->extents, [&](const DataDependentDim& e) {
    return std::ranges::binary_search(symbols, std::string_view(e.symbol.bytes()));
  });
}

}  // namespace

PortAlignments port_alignments(const Package& p) {
  PortAlignments a;
  for (const Port& port : p.inputs) a.inputs.push_back(element_bytes(type_of(p, port).dtype));
  for (const Port& port : p.outputs) a.outputs.push_back(element_bytes(type_of(p, port).dtype));
  const auto raise = [&](const BufferSlice& place, uint64_t to) {
    const bool input = place.memory == BufferSlice::Memory::Input;
    if (!input && place.memory != BufferSlice::Memory::Output) return;
    uint64_t& alignment = (input ? a.inputs : a.outputs)[place.index];
    alignment = std::max(alignment, to);
  };
  for (const Command& s : p.graphs[0].run)
    for (size_t i = 0; i < s.places.size(); ++i) {
      // Bodies of control flow may read any type in their node's buffers.
      const uint64_t kernel = s.kind == Command::Kind::Launch ? element_bytes(p.kernels[s.kernel].buffers[i].type.dtype) : 8;
      if (s.kind != Command::Kind::Copy) raise(s.places[i], kernel);
    }
  for (const State& s : p.lir->states) a.inputs[s.input] = a.outputs[s.output] = std::max(a.inputs[s.input], a.outputs[s.output]);
  return a;
}

std::string tensor_rows(const Package& p, const std::vector<Port>& ports, const std::vector<uint64_t>& alignments) {
  std::string s;
  for (size_t i = 0; i < ports.size(); ++i) {
    const Type& t = type_of(p, ports[i]);
    std::string dims;
    for (Dim d : t.dims) dims += (dims.empty() ? "" : ", ") + ForeignText(p.lir->module->dims.text(d)).c_string();
    s += "    {" + ports[i].name.c_string() + ", \"" + std::string(name(t.dtype)) + "\", " + std::to_string(rlxc::bits(t.dtype)) +
         ", " + std::to_string(alignments[i]) + ", " + std::to_string(t.rank()) + ", " +
         (dims.empty() ? "0" : "DIMS{" + dims + "}") + "},\n";
  }
  return s;
}

std::string bytes_cases(const Package& p, const std::vector<Port>& ports, CSizes& sizes) {
  std::string s;
  for (size_t i = 0; i < ports.size(); ++i)
    s += "    case " + std::to_string(i) + ": return (size_t)" +
         sizes(p.lir->plans[ports[i].graph.raw].slot[ports[i].value.raw].size) + ";\n";
  return s;
}

std::string dim_cases(const Package& p, const std::vector<Port>& ports, CSizes& sizes) {
  std::string s;
  for (size_t i = 0; i < ports.size(); ++i) {
    std::string list;
    bool after_run = false;
    for (Dim d : type_of(p, ports[i]).dims) {
      list += (list.empty() ? "" : ", ") + sizes(d);
      after_run |= uses_extents(p, d);
    }
    if (list.empty()) continue;
    const std::string value = "((const int64_t[]){" + list + "})[axis]";
    s += "    case " + std::to_string(i) + ": return " + (after_run ? "c->done ? " + value + " : -1" : value) + ";\n";
  }
  return s;
}

std::string size_conditions(const Package& p, CSizes& sizes, const std::string& error) {
  std::string s;
  const auto refuse = [&](const std::string& condition) { s += "  if (" + condition + ") return " + error + ";\n"; };
  for (size_t i = 0; i < p.symbols.size(); ++i)
    if (const auto range = p.lir->ranges.find(p.symbols[i].bytes()); range != p.lir->ranges.end()) {
      const std::string size = "s[" + std::to_string(i) + "]";
      refuse(size + " < " + std::to_string(range->second.low->size()) + " || " + size + " > " +
             std::to_string(range->second.high->size()));
    }
  for (Dim d : size_differences(p)) refuse(sizes(d) + " < 0");
  const std::vector<Dim> equal = codegen::equal_sizes(p);
  for (size_t i = 0; i < equal.size(); i += 2) refuse(sizes(equal[i]) + " != " + sizes(equal[i + 1]));
  return s;
}

}  // namespace rlxc
