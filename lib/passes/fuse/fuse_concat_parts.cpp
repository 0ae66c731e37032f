// Computes the parts of a concatenation in one region of several results. A graph with Q/DQ pairs rounds each part, such as the
// pixels that a patch merging puts side by side or the halves of a rotary embedding, and each would be a launch of its own.
//   concat(quantize(x, s), quantize(y, t))  ->  a, b = elementwise_region(x, y, s, t); concat(a, b)
// An elementwise node that alone reads the concatenation is computed for each part, too:
//   concat(neg(x2), x1) * sin  ->  a, b = elementwise_region(x2, x1, sin1, sin2); concat(a, b)
// Both require parts of one shape. Parts of any sizes whose steps differ in numbers alone, and widen what they read, are
// concatenated first:
//   concat(dequantize(x, s), dequantize(y, t)) * c  ->  elementwise_region(concat(x, y), [s.., t..], c)
// Only kernels of CPU threads are checked for several results. O(nodes * parts).
#include <algorithm>

#include "passes/fuse/region_program.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kConcatParts = "concat_parts";
constexpr size_t kMostParts = 8;

class ConcatParts {
 public:
  ConcatParts(Graph& g, PassContext& context) : g_(g), context_(context) {}

  bool take(NodeId concat) {
    concat_ = concat;
    parts_.assign(g_.operands(concat).begin(), g_.operands(concat).end());
    const ValueId whole = g_.result(concat);
    if (parts_.size() < 2 || parts_.size() > kMostParts || is_weight(g_, whole)) return false;
    const auto computed = std::ranges::count_if(parts_, [&](ValueId v) { return is_computed(v); });
    if (computed == 0) return false;
    NodeId reader = g_.only_user(whole);
    if (reader.valid() && (reader == g_.terminator() || !is_steps(g_, reader) || !same_dims(g_, g_.result(reader), whole)))
      reader = {};
    const bool all = computed == std::ssize(parts_);
    if (all && ((reader.valid() && sink(reader)) || sink({}))) return true;
    if (!std::ranges::all_of(parts_, [&](ValueId v) { return same_dims(g_, v, parts_[0]); })) return false;
    return (reader.valid() && fuse(reader)) || (computed > 1 && fuse({}));
  }

 private:
  // Whether a region computes the part, which nobody else reads.
  bool is_computed(ValueId v) const {
    return g_.has_one_use(v) && is_steps(g_, g_.def(v)) && same_dims(g_, v, g_.result(g_.def(v))) && !is_weight(g_, v);
  }

  size_t axis() const { return static_cast<size_t>(g_.attrs<AxisAttrs>(concat_).axis); }
  Dim size_of(ValueId part) const { return g_.dims(part)[axis()]; }

  // Concatenates what the parts are computed from, if their steps differ in numbers alone.
  bool sink(NodeId reader) {
    std::vector<RegionProgram> own;
    for (ValueId v : parts_) {
      own.emplace_back(g_).copy(g_.def(v));
      if (own.back().steps != own[0].steps || own.back().operands.size() != own[0].operands.size() || !size_of(v).is_static())
        return false;
    }
    const auto each = [&](const auto& holds) {
      for (size_t i = 0; i < parts_.size(); ++i)
        if (!holds(parts_[i], i)) return false;
      return true;
    };
    enum class Kind : uint8_t { Same, Numbers, Whole };
    std::vector<Kind> kinds;
    for (size_t k = 0; k < own[0].operands.size(); ++k) {
      const ValueId first = own[0].operands[k];
      const auto is_number = [&](ValueId v) { return num_elements(g_.type(v)) == 1; };
      if (each([&](ValueId, size_t i) { return own[i].operands[k] == first; }) && is_number(first)) kinds.push_back(Kind::Same);
      else if (each([&](ValueId, size_t i) { return is_number(own[i].operands[k]) && is_weight(g_, own[i].operands[k]); }))
        kinds.push_back(Kind::Numbers);
      else if (each([&](ValueId v, size_t i) {
                 const ValueId o = own[i].operands[k];
                 return same_dims(g_, o, v) && g_.dtype(o) == g_.dtype(first) && bits(g_.dtype(o)) <= bits(g_.dtype(v));
               }))
        kinds.push_back(Kind::Whole);
      else return false;
    }
    if (std::ranges::count(kinds, Kind::Whole) != 1) return false;
    const NodeId root = reader.valid() ? reader : concat_;
    Builder b(g_, nullptr, root);
    const size_t before = g_.node_capacity();
    RegionProgram p(g_);
    std::vector<std::pair<ValueId, ValueId>> known;  // operands of the first part, and those of all
    for (size_t k = 0; k < kinds.size(); ++k) {
      std::vector<ValueId> values;
      for (size_t i = 0; i < parts_.size(); ++i) {
        ValueId v = own[i].operands[k];
        if (kinds[k] == Kind::Numbers) {
          std::vector<Dim> sizes(static_cast<size_t>(g_.rank(parts_[i])) - axis(), Dim(1));
          v = b.reshape(v, sizes);
          sizes[0] = size_of(parts_[i]);
          v = b.expand(v, sizes);
        }
        values.push_back(v);
      }
      const auto along = kinds[k] == Kind::Whole ? static_cast<int64_t>(axis()) : 0;
      known.emplace_back(own[0].operands[k], kinds[k] == Kind::Same ? values[0] : b.concat(values, along));
    }
    uint16_t last = p.copy(g_.def(parts_[0]), [&](ValueId v) {
      return p.code(std::ranges::find(known, v, &std::pair<ValueId, ValueId>::first)->second);
    });
    const auto of_reader = [&](ValueId v) { return v == g_.result(concat_) ? last : p.code(v); };
    if (reader.valid()) p.copy(reader, of_reader);
    const RegionLimits limits = region_limits(context_.target, false);
    const bool fits = p.steps.size() <= limits.steps && limits.take(g_, p.operands);
    const ValueId y = fits ? b.create(OpKind::ElementwiseRegion, p.operands, RegionAttrs{p.steps}) : ValueId();
    if (!y.valid()) {
      erase_since(before);
      return false;
    }
    std::vector<NodeId> members;
    for (ValueId v : parts_) members.push_back(g_.def(v));
    members.push_back(root);
    context_.decisions.push_back(fused(g_, kConcatParts, root, members));
    merge_origins_since(g_, before, members);
    replace(g_, g_.result(root), y);
    return true;
  }

  void erase_since(size_t before) {
    for (size_t i = before; i < g_.node_capacity(); ++i)
      if (g_.alive(NodeId(i))) erase_dead(g_, NodeId(i));
  }

  // The slice of an operand of the reader that part i reads.
  ValueId slice(Builder& b, ValueId v, size_t i) const {
    const int own = static_cast<int>(axis()) - g_.rank(g_.result(concat_)) + g_.rank(v);
    if (own < 0 || g_.dims(v)[static_cast<size_t>(own)] == Dim(1)) return v;
    const Dim size = size_of(parts_[0]);
    const Dim start = g_.module().dims.mul(size, Dim(static_cast<int64_t>(i)));
    const auto is_slice = [&](ValueId o) {
      const NodeId n = o.valid() ? defining_op(g_, o, OpKind::Narrow) : NodeId();
      if (!n.valid() || g_.operand(n, 0) != v) return false;
      const auto& a = g_.attrs<NarrowAttrs>(n);
      return a.axis == own && a.start == start && a.len == size;
    };
    for (ValueId part : parts_) {
      if (is_slice(part)) return part;
      for (ValueId o : g_.operands(g_.def(part)))
        if (is_slice(o)) return o;
    }
    return b.narrow(v, own, start, size);
  }

  bool fuse(NodeId reader) {
    const NodeId root = reader.valid() ? reader : concat_;
    Builder b(g_, nullptr, root);
    const size_t before = g_.node_capacity();
    RegionProgram p(g_);
    std::vector<NodeId> members;
    for (ValueId v : parts_)
      if (is_computed(v)) {
        p.copy(g_.def(v));
        members.push_back(g_.def(v));
      }
    std::vector<ValueId> sources;  // of the slices, by part
    std::vector<uint16_t> results;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!reader.valid()) {
        if (is_computed(parts_[i])) results.push_back(p.code(parts_[i]));
        continue;
      }
      const auto of = [&](ValueId v) { return p.code(v == g_.result(concat_) ? parts_[i] : slice(b, v, i)); };
      results.push_back(p.copy(reader, of));
    }
    members.push_back(root);
    const auto give_up = [&](std::string_view reason, std::string detail) {
      erase_since(before);
      return decline_end(context_, g_, kConcatParts, root, reason, std::move(detail));
    };
    const RegionLimits limits = region_limits(context_.target, false);
    if (p.steps.size() > limits.steps) return give_up("step_limit", std::to_string(p.steps.size()) + " steps");
    if (!limits.take(g_, p.operands, results.size() - 1))
      return give_up("operand_limit", std::to_string(p.operands.size() + results.size() - 1) + " operands and results");
    RegionAttrs attrs{p.steps, {}};
    for (size_t i = 0; i + 1 < results.size(); ++i) attrs.also.push_back(results[i] & ~RegionStep::kStep);
    const NodeId region = b.create_node(OpKind::ElementwiseRegion, p.operands, std::move(attrs));
    if (!region.valid()) return give_up("types", "the steps do not fit together");
    size_t next = 0;
    const auto result = [&] { return g_.result(region, ++next == results.size() ? 0 : next); };
    std::vector<ValueId> parts;
    for (ValueId v : parts_) parts.push_back(reader.valid() || is_computed(v) ? result() : v);
    const ValueId y = b.concat(parts, g_.attrs<AxisAttrs>(concat_).axis);
    context_.decisions.push_back(fused(g_, kConcatParts, root, members));
    merge_origins_since(g_, before, members);
    replace(g_, g_.result(root), y);
    return true;
  }

  Graph& g_;
  PassContext& context_;
  NodeId concat_;
  std::vector<ValueId> parts_;
};

}  // namespace

PassResult fuse_concat_parts(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::QAttention))) return {};  // kernels of CPU threads
  each_graph(m, [&](Graph& g) {
    ConcatParts parts(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Concat) found += context.rewrite([&] { return parts.take(n); });
  });
  return {found > 0, {{"concat_parts", found}}};
}

}  // namespace rlxc
