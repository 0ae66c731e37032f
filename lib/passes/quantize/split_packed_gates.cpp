// Divides an integer matmul whose columns are an activation and its gate into two, as the projection of a GEGLU or a packed
// SwiGLU. Their elementwise nodes then end in one product, and fuse_integer_gate gives both sums to one kernel. Otherwise the
// matmul writes twice as many columns, and a launch reads them.
//   y = q_matmul(x, w); narrow(y, 0, n) * act(narrow(y, n, n))  ->  q_matmul(x, w[:n]) * act(q_matmul(x, w[n:]))
// Between the matmul and the slices may be elementwise nodes with numbers or weights for each column, Q/DQ pairs with one scale,
// and Reshapes of rows. Requires a weight, and slices that are the halves, and whose elementwise readers meet. For
// targets with kernels of integers (QAttention). O(nodes * steps).
#include <algorithm>
#include <array>
#include <optional>

#include "ir/op_rules.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"
#include "passes/quantize/roundings.h"

namespace rlxc {
namespace {

using namespace match;

constexpr size_t kMostBetween = 24;  // nodes between the matmul and the slices
constexpr size_t kMostBelow = 48;    // nodes below a slice

class PackedGate {
 public:
  PackedGate(Graph& g, NodeId matmul) : g_(g), matmul_(matmul) {}

  bool split() {
    const ValueId w = g_.operand(matmul_, 1);
    if (!is_weight(g_, w) || g_.rank(w) != 2 || !finds_halves()) return false;
    const auto below = reached(halves_[0]), other = reached(halves_[1]);
    const bool meet = std::ranges::any_of(below, [&](NodeId n) { return std::ranges::find(other, n) != other.end(); });
    return meet && emit();
  }

 private:
  Dim columns() const { return g_.dims(g_.operand(matmul_, 1))[1]; }

  // Whether v is one number, or has one for each column.
  bool is_row(ValueId v) const {
    const auto d = g_.dims(v);
    if (num_elements(g_.type(v)) == 1) return true;
    return is_weight(g_, v) && d.back() == columns() &&
           std::ranges::all_of(d.first(d.size() - 1), [](Dim size) { return size == Dim(1); });
  }

  // The operand that the node computes its columns from; nullopt if they depend on other values.
  std::optional<size_t> along(NodeId n, ValueId v) const {
    if (g_.op(n) == OpKind::Reshape) return g_.dims(g_.result(n)).back() == columns() ? std::optional<size_t>(0) : std::nullopt;
    if (!rounds_by_one(g_, n) && !has_trait(g_.op(n), kElementwise)) return std::nullopt;
    if (g_.op(n) == OpKind::ElementwiseRegion || !same_dims(g_, v, g_.result(n))) return std::nullopt;
    std::optional<size_t> found;
    for (size_t i = 0; i < g_.operands(n).size(); ++i) {
      const ValueId o = g_.operand(n, i);
      if (o == v && !found) found = i;
      else if (o.valid() && (o == v || !is_row(o))) return std::nullopt;
    }
    return found;
  }

  // Follows the sums to the value that two slices alone read.
  bool finds_halves() {
    ValueId v = g_.result(matmul_);
    for (; chain_.size() < kMostBetween; v = g_.result(chain_.back().first)) {
      const NodeId n = g_.only_user(v);
      if (!n.valid() || n == g_.terminator()) break;
      const auto operand = along(n, v);
      if (!operand) break;
      chain_.emplace_back(n, *operand);
    }
    if (g_.is_output(v) || g_.use_count(v) != 2 || !columns().is_static() || columns().size() % 2 != 0) return false;
    for (const Graph::Use& use : g_.uses(v)) {
      if (g_.op(use.user) != OpKind::Narrow) return false;
      const auto& a = g_.attrs<NarrowAttrs>(use.user);
      const Dim half(columns().size() / 2);
      if (a.axis + 1 != g_.rank(v) || a.len != half || (a.start != Dim(0) && a.start != half)) return false;
      halves_[a.start == half] = use.user;
    }
    return halves_[0].valid() && halves_[1].valid();
  }

  // The elementwise nodes that are computed from a slice.
  std::vector<NodeId> reached(NodeId slice) const {
    std::vector<NodeId> found{slice};
    for (size_t i = 0; i < found.size() && found.size() < kMostBelow; ++i) {
      const ValueId v = g_.result(found[i]);
      if (g_.use_count(v) > kMostBelow) continue;
      for (const Graph::Use& use : g_.uses(v)) {
        const NodeId n = use.user;
        if (n == g_.terminator() || (!rounds_by_one(g_, n) && !has_trait(g_.op(n), kElementwise)) ||
            !same_dims(g_, g_.result(n), g_.result(slice)) || std::ranges::find(found, n) != found.end())
          continue;
        found.push_back(n);
      }
    }
    return found;
  }

  bool emit() {
    const Dim half(columns().size() / 2);
    for (const size_t h : {size_t{0}, size_t{1}}) {
      Builder b(g_, nullptr, halves_[h]);
      const size_t before = g_.node_capacity();
      const Dim start = h == 0 ? Dim(0) : half;
      const auto part = [&](ValueId v) {
        return v.valid() && num_elements(g_.type(v)) != 1 ? b.narrow(v, g_.rank(v) - 1, start, half) : v;
      };
      ValueId v = b.create(OpKind::QMatMul, {g_.operand(matmul_, 0), part(g_.operand(matmul_, 1)), g_.operand(matmul_, 2),
                                             part(g_.operand(matmul_, 3))});
      for (const auto& [n, operand] : chain_) {
        if (!v.valid()) return false;
        if (g_.op(n) == OpKind::Reshape) {
          std::vector<Dim> dims(g_.dims(g_.result(n)).begin(), g_.dims(g_.result(n)).end());
          dims.back() = half;
          v = b.reshape(v, dims);
          continue;
        }
        std::vector<ValueId> operands(g_.operands(n).begin(), g_.operands(n).end());
        for (size_t i = 0; i < operands.size(); ++i) operands[i] = i == operand ? v : part(operands[i]);
        v = b.create(g_.op(n), operands, g_.module().attrs[g_.attr_id(n)]);
      }
      if (!v.valid()) return false;
      std::vector<NodeId> members{matmul_, halves_[h]};
      for (const auto& [n, operand] : chain_) members.push_back(n);
      merge_origins_since(g_, before, members);
      replace(g_, g_.result(halves_[h]), v);
    }
    return true;
  }

  Graph& g_;
  const NodeId matmul_;
  std::vector<std::pair<NodeId, size_t>> chain_;  // the nodes between, and the operands that they compute columns from
  std::array<NodeId, 2> halves_;
};

}  // namespace

PassResult split_packed_gates(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.integer_fusions) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::QMatMul) found += context.rewrite([&] { return PackedGate(g, n).split(); });
  });
  return {found > 0, {{"split", found}}};
}

}  // namespace rlxc
