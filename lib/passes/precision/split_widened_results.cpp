// A product of 16 bits that leaves the graph as f32, such as the gradient of a weight in mixed precision, exists twice: in the
// arena, and converted in the output. Large ones are computed and converted some rows at a time, so that the arena holds one
// part:
//   cast(reshape(matmul(a, b)))  ->  reshape(concat(cast(matmul(rows of a, b)), ..))
// The parts are converted into their places in the output. O(nodes).
#include "passes/precision/split_widened_results.h"

#include "ir/data.h"
#include "ir/graphs.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

constexpr uint64_t kLeast = 256 << 20, kPart = 64 << 20;  // bytes; a part is a large product, too

struct Product {
  NodeId node;
  int64_t rows = 0;
  uint64_t bytes = 0;
};

bool only_leaves(const Graph& g, ValueId v) {
  return std::ranges::all_of(g.uses(v), [&](Graph::Use use) { return use.user == g.terminator(); });
}

// The product that the cast converts, if it alone reads it, all of it in rows that one part of the first operand gives.
std::optional<Product> product_of(const Graph& g, NodeId cast) {
  ValueId v = g.operand(cast, 0);
  while (g.op(g.def(v)) == OpKind::Reshape && g.has_one_use(v)) v = g.operand(g.def(v), 0);
  const NodeId n = g.def(v);
  if (g.op(n) != OpKind::MatMul || !g.has_one_use(v) || !std::ranges::all_of(g.dims(v), &Dim::is_static)) return std::nullopt;
  const auto dims = g.dims(v);
  if (dims.size() < 2 || g.rank(g.operand(n, 0)) < 2) return std::nullopt;
  uint64_t bytes = bits(g.dtype(v)) / 8;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i + 2 < dims.size() && dims[i] != Dim(1)) return std::nullopt;
    bytes *= static_cast<uint64_t>(dims[i].size());
  }
  return Product{n, dims[dims.size() - 2].size(), bytes};
}

bool split(Graph& g, NodeId cast, const Product& p, uint64_t part) {
  const ValueId a = g.operand(p.node, 0), w = g.operand(p.node, 1), whole = g.result(cast);
  const MatMulAttrs attrs = g.attrs<MatMulAttrs>(p.node);
  const int64_t axis = g.rank(a) - (attrs.trans_a ? 1 : 2), row_axis = g.rank(g.result(p.node)) - 2;
  const auto parts = static_cast<int64_t>((p.bytes + part - 1) / part), rows = (p.rows + parts - 1) / parts;
  const size_t before = g.node_capacity();
  Builder b(g, nullptr, cast);
  std::vector<ValueId> converted;
  for (int64_t at = 0; at < p.rows; at += rows) {
    const ValueId some = b.create(OpKind::Narrow, {a}, NarrowAttrs{axis, Dim(at), Dim(std::min(rows, p.rows - at))});
    converted.push_back(b.create(OpKind::Cast, {b.create(OpKind::MatMul, {some, w}, attrs)}, g.attrs<CastAttrs>(cast)));
  }
  const ValueId joined = b.reshape(b.create(OpKind::Concat, std::span<const ValueId>(converted), AxisAttrs{row_axis}),
                                   {g.dims(whole).begin(), g.dims(whole).end()});
  if (!joined.valid()) return false;
  merge_origins_since(g, before, {&p.node, 1});
  g.replace_all_uses(whole, joined);
  return true;
}

}  // namespace

int64_t split_widened_results(Graph& g, uint64_t least, uint64_t part, PassContext& context) {
  int64_t count = 0;
  for (NodeId n : g.nodes()) {
    if (g.op(n) != OpKind::Cast || !only_leaves(g, g.result(n)) || g.use_count(g.result(n)) == 0) continue;
    const DType from = g.dtype(g.operand(n, 0)), to = g.dtype(g.result(n));
    if (!is_float(from) || !is_float(to) || bits(from) >= bits(to)) continue;
    const auto product = product_of(g, n);
    if (!product || product->bytes < least || product->rows < 2) continue;
    count += context.rewrite([&] { return split(g, n, *product, part); });
  }
  return count;
}

PassResult split_widened_results(Module& m, PassContext& context) {
  const int64_t count = split_widened_results(m.main(), kLeast, kPart, context);
  return {count > 0, {{"products_split", count}}};
}

}  // namespace rlxc
