#include "codegen/lowering_cache.h"

#include <algorithm>
#include <set>

#include "codegen/lower.h"
#include "ir/graphs.h"

namespace rlxc::codegen {
namespace {

void add(std::vector<uint32_t>* key, Dim d) {
  key->insert(key->end(), {static_cast<uint32_t>(d.raw() >> 32), static_cast<uint32_t>(d.raw())});
}

// Returns the key of everything that determines the kernels, except `vectors` and prepacking.
std::vector<uint32_t> node_key(const Graph& g, const GraphLayouts& layouts, NodeId n) {
  const size_t operands = g.operands(n).size();
  std::vector<uint32_t> key = {static_cast<uint32_t>(g.op(n)), g.attr_id(n).raw, static_cast<uint32_t>(operands)};
  for (ValueId v : g.operands(n)) key.push_back(v.valid() ? g.type_id(v).raw : ~uint32_t{0});
  for (size_t i = 0; i < g.result_count(n); ++i) key.push_back(g.type_id(g.result(n, i)).raw);
  const auto add_layout = [&](size_t i, ValueId v) {
    const Layout* layout = v.valid() ? layouts.of(v) : nullptr;
    if (!layout) return;
    key.insert(key.end(), {static_cast<uint32_t>(i), static_cast<uint32_t>(layout->channel_block),
                           static_cast<uint32_t>(layout->starts.size())});
    for (Dim d : layout->starts) add(&key, d);
    for (const auto& axis : layout->axes) {
      key.push_back(static_cast<uint32_t>(axis.size()));
      for (const DimFactor& p : axis) {
        add(&key, p.size);
        add(&key, p.stride);
      }
    }
  };
  for (size_t i = 0; i < operands; ++i) add_layout(i, g.operand(n, i));
  for (size_t i = 0; i < g.result_count(n); ++i) add_layout(operands + i, g.result(n, i));
  return key;
}

CapabilityRow without_vectors(CapabilityRow row) {
  row.mapping.load_bytes = row.mapping.vector_bytes = 1;
  return row;
}

}  // namespace

LoweringCache::LoweringCache(CapabilityRow row) : row_(std::move(row)), scalar_row_(without_vectors(row_)) {}

const LoweringInfo& LoweringCache::info(const Graph& g, const GraphLayouts& layouts, NodeId n, const std::vector<Phase>& phase) {
  static const LoweringInfo kNothing;
  if (!may_prepack(g.op(n))) return kNothing;
  std::vector<bool> on_load;
  for (ValueId v : g.operands(n)) on_load.push_back(v.valid() && is_known_on_load(g, phase, v));
  std::vector<uint32_t> key = node_key(g, layouts, n);
  key.insert(key.end(), on_load.begin(), on_load.end());
  const auto [found, is_new] = infos_.try_emplace(std::move(key));
  if (is_new) found->second = lower_info(g, layouts, n, row_, on_load);
  return found->second;
}

const LoweringCache::Lowered& LoweringCache::lower(const Graph& g, const GraphLayouts& layouts, NodeId n, bool vectors,
                                                   std::span<const PrepackedBuffer> prepacked) {
  std::vector<uint32_t> key = node_key(g, layouts, n);
  key.push_back(vectors);
  for (const PrepackedBuffer& p : prepacked) {
    key.push_back(static_cast<uint32_t>(p.dtype));
    add(&key, p.elements);
    key.insert(key.end(), p.operands.begin(), p.operands.end());
  }
  const auto [found, is_new] = lowered_.try_emplace(std::move(key));
  Lowered& l = found->second;
  if (!is_new) return l;
  CapabilityRow row = vectors ? row_ : scalar_row_;
  if (row.tuning)
    if (const auto tuned = row.tuning->find(tuning_key(g, n)); tuned != row.tuning->end()) row.mapping.blocking = tuned->second;
  l.kernels = lower_node(g, layouts, n, row, prepacked, &l.reason);
  return l;
}

size_t count_lowered_nodes(const LirModule& lir) {
  std::set<std::vector<uint32_t>> keys;
  for (GraphId id : graphs_in_use(*lir.module)) {
    const Graph& g = lir.module->graph(id);
    const GraphLayouts& layouts = lir.plans[id.raw].layouts;
    for (NodeId n : g.nodes())
      if (!has_trait(g.op(n), kLeaf) && !runs_bodies(g, n) && !layouts.is_view(g, n)) keys.insert(node_key(g, layouts, n));
  }
  return keys.size();
}

bool vectors_fit(const Graph& g, NodeId n, const std::vector<Dim>& offset) {
  constexpr int64_t kVectorBytes = 16;                 // widest access of a device thread
  if (g.id() != g.module().main().id()) return false;  // inputs of bodies are rows of other tensors
  const auto fits = [&](ValueId v) { return !v.valid() || g.module().dims.divides(Dim(kVectorBytes), offset[v.raw]); };
  for (size_t r = 0; r < g.result_count(n); ++r)
    if (!fits(g.result(n, r))) return false;
  return std::ranges::all_of(g.operands(n), fits);
}

}  // namespace rlxc::codegen
