#include "passes/recognise/axis_view.h"

#include <algorithm>

namespace rlxc::recognise {
namespace {

constexpr int kMaxChain = 16;

// A factor of an axis. A split keeps the order: major factor first.
struct Factor {
  Dim size;
  Role role;
  bool repeated = false;  // added by an Expand, absent in the source
};

class Walk {
 public:
  Walk(const Graph& g, ValueId operand, std::span<const Role> axes, const HeadSizes& s, bool heads_in_batch)
      : g_(g), dims_(g.module().dims), value_(operand) {
    const Dim sizes[] = {s.batch, s.heads, s.rows, s.width};
    axes_.resize(axes.size());
    const auto put = [&](size_t axis, Role r) {
      if (const Dim d = sizes[static_cast<size_t>(r)]; d != Dim(1)) axes_[axis].push_back(add({d, r}));
    };
    for (size_t i = 0; i < axes.size(); ++i) {
      put(i, axes[i]);
      if (i == 0 && heads_in_batch) put(0, Role::Head);
    }
  }

  std::optional<HeadSource> source() const {
    HeadSource s{value_, 0, Dim(1), scale_, part_, part_factor_ ? factors_[*part_factor_].size.size() : 1};
    // Only heads may be repeated, and only in the minor factor: head h reads head h / group.
    bool minor = false;
    for (uint32_t f : sequence_) {
      const Factor& factor = factors_[f];
      if (factor.repeated && factor.role != Role::Head) return std::nullopt;
      if (factor.role != Role::Head) continue;
      if (minor && !factor.repeated) return std::nullopt;
      minor = minor || factor.repeated;
      if (!factor.repeated) s.heads = dims_.mul(s.heads, factor.size);
    }
    std::vector<uint32_t> order;
    order.reserve(factors_.size());
    for (const auto& axis : axes_) order.insert(order.end(), axis.begin(), axis.end());
    const auto is = [&](Role a, Role b, Role c, Role d) {
      size_t at = 0;
      const auto next_is = [&](uint32_t f) { return at < order.size() && order[at++] == f; };
      for (Role r : {a, b, c, d}) {
        if (r == Role::Head && part_factor_ && !next_is(*part_factor_)) return false;
        for (uint32_t f : sequence_)
          if (factors_[f].role == r && !factors_[f].repeated && !next_is(f)) return false;
      }
      return at == order.size();
    };
    if (is(Role::Batch, Role::Row, Role::Head, Role::Element)) s.orders |= kOrderBSHD;
    if (!part_factor_ && is(Role::Batch, Role::Head, Role::Row, Role::Element)) s.orders |= kOrderBHSD;
    if (!part_factor_ && is(Role::Batch, Role::Head, Role::Element, Role::Row)) s.orders |= kOrderBHDS;
    return s.orders ? std::optional(s) : std::nullopt;
  }

  // Moves to the operand of the defining node. Returns false at the end of the chain.
  bool up(bool through_scale) {
    const NodeId n = g_.def(value_);
    switch (g_.op(n)) {
      case OpKind::Reshape: return reshape(g_.dims(g_.operand(n, 0))) && move(n);
      case OpKind::Transpose: {
        const auto& perm = g_.attrs<PermAttrs>(n).perm;
        std::vector<std::vector<uint32_t>> next(perm.size());
        for (size_t i = 0; i < perm.size(); ++i) next[static_cast<size_t>(perm[i])] = axes_[i];
        axes_ = std::move(next);
        return move(n);
      }
      case OpKind::Narrow: return part(g_.attrs<NarrowAttrs>(n), g_.dims(g_.operand(n, 0))) && move(n);
      case OpKind::Expand: return expand(g_.dims(g_.operand(n, 0))) && move(n);
      case OpKind::Mul:
      case OpKind::Div: {
        const auto s = through_scale ? match::scaled(g_, value_) : std::nullopt;
        if (!s) return false;
        scale_ *= s->c;
        value_ = s->x;
        return true;
      }
      default: return false;
    }
  }

 private:
  uint32_t add(Factor f) {
    factors_.push_back(f);
    sequence_.push_back(static_cast<uint32_t>(factors_.size() - 1));
    return sequence_.back();
  }
  bool move(NodeId n) {
    value_ = g_.operand(n, 0);
    return true;
  }

  // Splits factor f into `major` and the rest; returns the rest.
  uint32_t split(uint32_t f, Dim major) {
    const Dim rest = dims_.floor_div(factors_[f].size, major);
    factors_.push_back({rest, factors_[f].role, factors_[f].repeated});
    factors_[f].size = major;
    const auto id = static_cast<uint32_t>(factors_.size() - 1);
    sequence_.insert(std::ranges::find(sequence_, f) + 1, id);
    return id;
  }

  // Handles a Narrow to one of several equal parts of an axis, which becomes a factor of its own.
  bool part(const NarrowAttrs& a, std::span<const Dim> whole) {
    const Dim size = whole[static_cast<size_t>(a.axis)];
    if (part_factor_ || !a.start.is_static() || !a.len.is_static() || !size.is_static() || a.len == Dim(0)) return false;
    if (size.size() % a.len.size() != 0 || a.start.size() % a.len.size() != 0) return false;
    factors_.push_back({Dim(size.size() / a.len.size()), Role::Batch});
    part_factor_ = static_cast<uint32_t>(factors_.size() - 1);
    part_ = a.start.size() / a.len.size();
    auto& axis = axes_[static_cast<size_t>(a.axis)];
    axis.insert(axis.begin(), *part_factor_);
    return true;
  }

  bool reshape(std::span<const Dim> to) {
    std::vector<uint32_t> queue;
    for (auto& axis : axes_) queue.insert(queue.end(), axis.begin(), axis.end());
    std::vector<std::vector<uint32_t>> next(to.size());
    size_t at = 0;
    for (size_t i = 0; i < to.size(); ++i) {
      Dim left = to[i];
      while (left != Dim(1)) {
        if (at == queue.size()) return false;
        const Dim size = factors_[queue[at]].size;
        next[i].push_back(queue[at]);
        if (dims_.equal(left, size)) {
          left = Dim(1);
          ++at;
        } else if (dims_.divides(size, left)) {
          left = dims_.floor_div(left, size);
          ++at;
        } else if (queue[at] != part_factor_ && dims_.divides(left, size)) {
          queue[at] = split(queue[at], left);
          left = Dim(1);
        } else {
          return false;
        }
      }
    }
    if (at != queue.size()) return false;
    axes_ = std::move(next);
    return true;
  }

  bool expand(std::span<const Dim> from) {
    const size_t extra = axes_.size() - from.size();
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (i >= extra && from[i - extra] != Dim(1)) continue;
      for (uint32_t f : axes_[i]) factors_[f].repeated = true;
      axes_[i].clear();
    }
    axes_.erase(axes_.begin(), axes_.begin() + static_cast<std::ptrdiff_t>(extra));
    return true;
  }

  const Graph& g_;
  DimTable& dims_;
  ValueId value_;
  double scale_ = 1;
  std::optional<uint32_t> part_factor_;  // factor of equal parts; the operand is part number part_
  int64_t part_ = 0;
  std::vector<Factor> factors_;
  std::vector<uint32_t> sequence_;           // all factors, grouped by axis of the operand, major first
  std::vector<std::vector<uint32_t>> axes_;  // by axis of value_
};

}  // namespace

std::vector<HeadSource> head_sources(const Graph& g, ValueId operand, std::span<const Role> axes, const HeadSizes& sizes,
                                     bool through_scale, bool heads_in_batch) {
  std::vector<HeadSource> out;
  Walk walk(g, operand, axes, sizes, heads_in_batch);
  for (int i = 0; i < kMaxChain; ++i) {
    if (const auto s = walk.source()) out.push_back(*s);
    if (!walk.up(through_scale)) break;
  }
  return out;
}

AttentionLayout packed_layout(const Graph& g, std::initializer_list<const HeadSource*> sources) {
  const bool apart = std::ranges::any_of(sources, [&](const HeadSource* s) {
    const OpKind op = g.op(g.def(s->value));
    return (op == OpKind::Narrow || op == OpKind::Slice) && g.rank(s->value) > 3;
  });
  return apart ? AttentionLayout::BSHD : AttentionLayout::Packed;
}

ValueId as_layout(Builder& b, const HeadSource& source, const HeadSizes& z, AttentionLayout layout, bool transposed) {
  HeadSource s = source;
  if (s.parts > 1) {
    const Dim row = b.dims().mul(s.heads, z.width);
    s.value =
        b.narrow(b.reshape(s.value, {z.batch, z.rows, b.dims().mul(row, Dim(s.parts))}), 2, b.dims().mul(row, Dim(s.part)), row);
  }
  switch (layout) {
    case AttentionLayout::Packed: return b.reshape(s.value, {z.batch, z.rows, b.dims().mul(s.heads, z.width)});
    case AttentionLayout::BSHD: return b.reshape(s.value, {z.batch, z.rows, s.heads, z.width});
    default: break;
  }
  if (transposed) return b.reshape(s.value, {z.batch, s.heads, z.width, z.rows});
  return b.reshape(s.value, {z.batch, s.heads, z.rows, z.width});
}

}  // namespace rlxc::recognise
