#include "codegen/equal_sizes.h"

#include <algorithm>
#include <set>
#include <string>

#include "ir/bind_dims.h"
#include "ir/dim_postfix.h"

namespace rlxc::codegen {
namespace {

using DimPairs = std::vector<Dim>;  // two dims each

// The pairs of the model. Undefined symbols are substituted: "a = 4" and "a = n" give "n = 4".
DimPairs model_pairs(const Package& p) {
  DimTable& dims = p.lir->module->dims;
  std::set<std::string> defined;
  for (const ForeignText& s : p.symbols) defined.insert(s.bytes());
  for (const DataDependentDim& e : p.lir->extents) defined.insert(e.symbol.bytes());
  SymbolValues values;
  std::vector<std::string> replaced;
  DimPairs pairs;
  for (const auto& [a, b] : dims.equalities()) {
    const Dim x = substitute(dims, a, values), y = substitute(dims, b, values);
    const auto replace = [&](Dim from, Dim to) {
      const auto symbol = symbol_name(dims, from);
      if (!symbol || defined.contains(*symbol)) return false;
      replaced.push_back(*symbol);
      return values.emplace(*symbol, to).second;
    };
    if (x != y && !replace(x, y) && !replace(y, x)) pairs.insert(pairs.end(), {x, y});
  }
  // A value contains no symbols replaced before it.
  for (size_t i = replaced.size(); i-- > 0;) values[replaced[i]] = substitute(dims, values[replaced[i]], values);
  for (Dim& d : pairs) d = substitute(dims, d, values);
  return pairs;
}

class CheckPlacer {
 public:
  explicit CheckPlacer(Package* p) : p_(*p), m_(*p->lir->module) {
    for (const ForeignText& s : p->symbols) known_.insert(s.bytes());
  }

  void run() {
    DimPairs pairs = model_pairs(p_);
    take_known(&pairs);  // checked at the call
    if (!pairs.empty() || std::ranges::any_of(p_.graphs, [](const GraphProgram& g) {
          return std::ranges::any_of(g.run, [](const Command& s) { return s.kind == Command::Kind::If; });
        }))
      place(m_.main().id(), std::move(pairs));
  }

 private:
  bool is_known(Dim d) const {
    return std::ranges::all_of(m_.dims.symbols_of(d), [&](const std::string& s) { return known_.contains(s); });
  }

  DimPairs take_known(DimPairs* pairs) const {
    DimPairs known, open;
    for (size_t i = 0; i < pairs->size(); i += 2) {
      const Dim a = (*pairs)[i], b = (*pairs)[i + 1];
      DimPairs& out = is_known(a) && is_known(b) ? known : open;
      out.insert(out.end(), {a, b});
    }
    *pairs = std::move(open);
    return known;
  }

  // Dims are known in the bodies of the command that defines them and after it.
  void define(uint32_t extent, std::vector<std::string>* added) {
    const std::string& symbol = p_.lir->extents[extent].symbol.bytes();
    if (known_.insert(symbol).second) added->push_back(symbol);
  }

  void place(GraphId id, DimPairs open) {
    std::vector<std::string> added;
    for (Command& s : p_.graphs[id.raw].run) {
      s.equal = take_known(&open);
      if (s.is_control()) place_in_bodies(s, open);
      for (const BufferSlice& b : s.places)
        if (b.memory == BufferSlice::Memory::Extent && b.index < p_.lir->extents.size()) define(b.index, &added);
      for (const ControlFlowDim& e : s.extents) define(e.extent, &added);
      for (const Stacked& k : s.stacked)
        if (k.extent) define(*k.extent, &added);
    }
    for (const std::string& symbol : added) known_.erase(symbol);
  }

  void place_in_bodies(Command& s, const DimPairs& open) {
    const auto bodies = m_.graph(s.graph).bodies(s.node);
    std::vector<std::string> carried;
    if (s.kind == Command::Kind::Loop)
      for (const ControlFlowDim& e : s.extents) define(e.extent, &carried);
    for (size_t i = 0; i < bodies.size(); ++i) {
      DimPairs inner = open;
      if (s.kind == Command::Kind::If) {
        DimPairs own = s.branch_equal[i];
        s.branch_equal[i] = take_known(&own);
        inner.insert(inner.end(), own.begin(), own.end());
      }
      place(bodies[i], std::move(inner));
    }
    for (const std::string& symbol : carried) known_.erase(symbol);
  }

  Package& p_;
  Module& m_;
  std::set<std::string> known_;
};

}  // namespace

std::vector<Dim> given_pairs(const Package& p, std::span<const Dim> pairs) {
  const auto given = [&](Dim d) {
    return std::ranges::all_of(p.lir->module->dims.symbols_of(d), [&](const std::string& s) {
      return std::ranges::binary_search(p.symbols, s, {}, &ForeignText::bytes);
    });
  };
  std::vector<Dim> kept;
  for (size_t i = 0; i < pairs.size(); i += 2)
    if (given(pairs[i]) && given(pairs[i + 1])) kept.insert(kept.end(), {pairs[i], pairs[i + 1]});
  return kept;
}

std::vector<Dim> equal_sizes(const Package& p) { return given_pairs(p, model_pairs(p)); }

void place_size_checks(Package* p) { CheckPlacer(p).run(); }

}  // namespace rlxc::codegen
