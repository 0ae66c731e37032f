// Computes the parts of a concatenation, and the elementwise nodes that read it, where it is written. A graph with Q/DQ pairs
// rounds each part, such as the pixels that a patch merging puts side by side or the halves of a rotary embedding, and rounds
// what they form; each would be a launch of its own.
//   concat(quantize(x, s), y)           ->  concat_region(x, s, y)
//   concat(neg(x2), x1) * sin           ->  concat_region(x2, x1, sin1, sin2)
//   c = concat(x, y); c / s, c / t      ->  two results of concat_region(x, y, s, t)
// The kernel of a Concat knows the layouts of images of convolutions. There parts that differ in numbers alone, and widen what
// they read, are concatenated before, and several others of one shape are computed by one region, before the Concat if they are
// no codes:
//   concat(dequantize(x, s), dequantize(y, t)) * c  ->  elementwise_region(concat(x, y), [s.., t..], c)
// O(nodes * parts).
#include <algorithm>

#include "analysis/channel_blocks.h"
#include "ir/region.h"
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
  ConcatParts(Graph& g, PassContext& context) : g_(g), context_(context), order_(g) {}

  bool take(NodeId concat) {
    concat_ = concat;
    parts_.assign(g_.operands(concat).begin(), g_.operands(concat).end());
    const ValueId whole = g_.result(concat);
    if (parts_.size() < 2 || parts_.size() > kMostParts || is_loaded(g_, whole)) return false;
    const auto computed = std::ranges::count_if(parts_, [&](ValueId v) { return is_computed(v); });
    find_readers();
    if (computed == 0 && readers_.empty()) return false;
    if (!touches_image()) return fuse();
    if (computed == std::ssize(parts_) && ((readers_.size() == 1 && sink(readers_[0])) || sink({}))) return true;
    // The kernels of codes have no layouts of their own: one node computes and joins them, whatever their sizes.
    const bool codes = is_int8(g_.dtype(whole));
    if (!codes && !std::ranges::all_of(parts_, [&](ValueId v) { return same_dims(g_, v, parts_[0]); })) return false;
    if (readers_.size() > 1) readers_.clear();
    if (computed > 0 && !readers_.empty() && fuse()) return true;
    readers_.clear();
    return computed > (codes ? 0 : 1) && fuse();
  }

 private:
  static constexpr size_t kMostReaders = 4, kMostUses = 16;
  static constexpr int64_t kKept = -1;  // a part that is no step

  bool is_only_read_here(ValueId v) const {
    return !g_.is_output(v) && g_.use_count(v) <= kMostParts &&
           std::ranges::all_of(g_.uses(v), [&](const Graph::Use& use) { return use.user == concat_; });
  }
  // Whether a region computes the part, which nobody else reads.
  bool is_computed(ValueId v) const {
    return is_only_read_here(v) && is_steps(g_, g_.def(v)) && same_dims(g_, v, g_.result(g_.def(v))) && !is_loaded(g_, v);
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
    const ValueId y = fits ? b.create(OpKind::ElementwiseRegion, p.operands, FusionAttrs{p.steps}) : ValueId();
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
    const Dim size = size_of(parts_[i]);
    Dim start(0);
    for (size_t k = 0; k < i; ++k) start = g_.module().dims.add(start, size_of(parts_[k]));
    const auto is_slice = [&](ValueId o) {
      const NodeId n = o.valid() ? defining_op(g_, o, OpKind::Narrow) : NodeId();
      if (!n.valid() || g_.operand(n, 0) != v) return false;
      const auto& a = g_.attrs<NarrowAttrs>(n);
      return a.axis == own && a.start == start && a.len == size;
    };
    for (ValueId part : parts_) {
      if (is_slice(part)) return part;
      if (!is_computed(part)) continue;
      for (ValueId o : g_.operands(g_.def(part)))
        if (is_slice(o)) return o;
    }
    return b.narrow(v, own, start, size);
  }

  // The elementwise nodes that read the concatenation; none if others read it, too.
  void find_readers() {
    readers_.clear();
    const ValueId whole = g_.result(concat_);
    if (g_.is_output(whole) || g_.use_count(whole) > kMostUses) return;
    for (const Graph::Use& use : g_.uses(whole)) {
      if (std::ranges::find(readers_, use.user) != readers_.end()) continue;
      readers_.push_back(use.user);
      if (readers_.size() > kMostReaders || !is_steps(g_, use.user) || !same_dims(g_, g_.result(use.user), whole))
        return readers_.clear();
    }
    std::ranges::sort(readers_, {}, [&](NodeId n) { return order_.at(n); });
    // All are computed where the first one is.
    const auto is_there = [&](ValueId v) {
      return !v.valid() || v == whole || is_weight(g_, v) || order_.at(g_.def(v)) < order_.at(readers_[0]);
    };
    if (!std::ranges::all_of(readers_, [&](NodeId n) { return std::ranges::all_of(g_.operands(n), is_there); })) readers_.clear();
  }

  // Whether parts are results of kernels of images, or those read what is concatenated.
  bool touches_image() const {
    const auto is_image = [&](NodeId n) {
      return n.valid() && (conv_attrs(g_, n) || g_.op(n) == OpKind::Pool || g_.op(n) == OpKind::Resize);
    };
    const auto is_read = [&](ValueId v) {
      return std::ranges::any_of(g_.uses(v), [&](const Graph::Use& use) { return is_image(use.user); });
    };
    return std::ranges::any_of(parts_,
                               [&](ValueId v) {
                                 return is_image(g_.def(v)) ||
                                        (is_computed(v) && std::ranges::any_of(g_.operands(g_.def(v)), [&](ValueId o) {
                                           return o.valid() && is_image(g_.def(o));
                                         }));
                               }) ||
           is_read(g_.result(concat_)) || std::ranges::any_of(readers_, [&](NodeId n) { return is_read(g_.result(n)); });
  }

  // Whether the steps and operands of each kernel are within the limits.
  bool fits(const RegionProgram& p, const ConcatRegionAttrs& a) {
    const RegionLimits limits = region_limits(context_.target, false);
    const auto count = static_cast<size_t>(a.results);
    if (std::ranges::all_of(parts_, [&](ValueId v) { return same_dims(g_, v, parts_[0]); }))
      return p.steps.size() <= limits.steps && limits.take(g_, p.operands, a.parts.size());
    for (size_t i = 0; i < parts_.size(); ++i) {
      std::vector<ValueId> read;
      size_t steps = 0;
      for (size_t r = 0; r < count; ++r) {
        const auto step = static_cast<size_t>(a.parts[r * parts_.size() + i]);
        steps += static_cast<size_t>(std::ranges::count(needed_steps(p.steps, step), true));
        const std::vector<bool> own = operands_of(p.steps, step, p.operands.size());
        for (size_t k = 0; k < own.size(); ++k)
          if (own[k] && std::ranges::find(read, p.operands[k]) == read.end()) read.push_back(p.operands[k]);
      }
      if (steps > limits.steps || !limits.take(g_, read, count)) return false;
    }
    return true;
  }

  bool fuse() {
    const NodeId root = readers_.empty() ? concat_ : readers_[0];
    Builder b(g_, nullptr, root);
    const size_t before = g_.node_capacity();
    RegionProgram p(g_);
    std::vector<NodeId> members;
    for (ValueId v : parts_)
      if (is_computed(v) && std::ranges::find(members, g_.def(v)) == members.end()) {
        p.copy(g_.def(v), true);
        members.push_back(g_.def(v));
      }
    ConcatRegionAttrs a;
    a.axis = static_cast<int64_t>(axis());
    a.results = std::max<int64_t>(1, std::ssize(readers_));
    const ValueId whole = readers_.empty() ? g_.result(concat_) : g_.result(readers_[0]);
    const bool apart = touches_image() && !is_int8(g_.dtype(whole));
    for (size_t r = 0; r < static_cast<size_t>(a.results); ++r)
      for (size_t i = 0; i < parts_.size(); ++i) {
        uint16_t code = 0;
        if (!readers_.empty()) {
          code = p.copy(
              readers_[r], [&](ValueId v) { return p.code(v == g_.result(concat_) ? parts_[i] : slice(b, v, i)); }, true);
        } else if (apart && !is_computed(parts_[i])) {
          a.parts.push_back(kKept);
          continue;
        } else if (code = p.code(parts_[i]); !(code & RegionStep::kStep)) {
          code = p.add(OpKind::Cast, g_.dtype(parts_[i]), code);
        }
        a.parts.push_back(code & ~RegionStep::kStep);
      }
    a.steps = p.steps;
    const NodeId last = readers_.empty() ? concat_ : readers_.back();
    for (NodeId n : readers_) members.push_back(n);
    if (!readers_.empty() || members.empty()) members.insert(members.begin(), concat_);
    else members.push_back(concat_);
    if (!fits(p, a)) {
      erase_since(before);
      return decline_end(context_, g_, kConcatParts, last, "operand_limit",
                         std::to_string(p.steps.size()) + " steps and " + std::to_string(p.operands.size()) + " operands");
    }
    for (NodeId n : readers_)
      for (ValueId v : g_.operands(n))
        if (v.valid() && is_weight(g_, v)) order_.hoist(g_, v, root);
    const std::vector<ValueId> results = apart ? concatenated(b, p, a) : joined(b, p, a);
    if (results.empty()) {
      erase_since(before);
      return decline_end(context_, g_, kConcatParts, last, "types", "the steps do not fit together");
    }
    context_.decisions.push_back(fused(g_, kConcatParts, last, members));
    merge_origins_since(g_, before, members);
    if (readers_.empty()) replace(g_, g_.result(concat_), results[0]);
    for (size_t r = 0; r < readers_.size(); ++r) replace(g_, g_.result(readers_[r]), results[r]);
    return true;
  }

  // The results of one node; none if the steps do not fit together.
  std::vector<ValueId> joined(Builder& b, const RegionProgram& p, const ConcatRegionAttrs& a) const {
    const NodeId region = b.create_node(OpKind::ConcatRegion, p.operands, a);
    std::vector<ValueId> results;
    for (size_t r = 0; region.valid() && r < g_.result_count(region); ++r) results.push_back(g_.result(region, r));
    return results;
  }

  // The same as a region of several results, and a Concat.
  std::vector<ValueId> concatenated(Builder& b, const RegionProgram& p, const ConcatRegionAttrs& a) const {
    FusionAttrs attrs{p.steps, {}};
    const auto last = std::ranges::find(a.parts, std::ssize(p.steps) - 1);
    if (last == a.parts.end()) return {};
    for (auto step = a.parts.begin(); step != a.parts.end(); ++step)
      if (step != last && *step != kKept) attrs.also.push_back(*step);
    const NodeId region = b.create_node(OpKind::ElementwiseRegion, p.operands, std::move(attrs));
    if (!region.valid()) return {};
    std::vector<ValueId> parts;
    size_t next = 0;
    for (auto step = a.parts.begin(); step != a.parts.end(); ++step) {
      const auto i = static_cast<size_t>(step - a.parts.begin());
      parts.push_back(*step == kKept ? parts_[i] : g_.result(region, step == last ? 0 : ++next));
    }
    return {b.concat(parts, a.axis)};
  }

  Graph& g_;
  PassContext& context_;
  Order order_;
  NodeId concat_;
  std::vector<ValueId> parts_;
  std::vector<NodeId> readers_;
};

}  // namespace

PassResult fuse_concat_parts(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::ConcatRegion))) return {};
  each_graph(m, [&](Graph& g) {
    ConcatParts parts(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Concat) found += context.rewrite([&] { return parts.take(n); });
  });
  return {found > 0, {{"concat_parts", found}}};
}

}  // namespace rlxc
