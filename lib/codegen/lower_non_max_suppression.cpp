// ONNX NonMaxSuppression. Each class of each batch repeatedly selects the best box and removes the boxes that overlap it, until
// no box is left or the limit is reached.
#include <limits>

#include "codegen/selection.h"
#include "kernel/builders/reduce.h"

namespace rlxc::codegen {
namespace {

struct Box {
  Expr low[2], high[2], area;
};

Expr overlap(kernel::Builder& b, const Box& x, const Box& y) {
  Expr side[2];
  for (int i = 0; i < 2; ++i) side[i] = b.let("side", min(x.high[i], y.high[i]) - max(x.low[i], y.low[i]));
  const Expr common = b.let("common", side[0] * side[1]);
  return select(side[0] > 0 && side[1] > 0, common / (x.area + y.area - common), 0);
}

// The selection kernel: for each row (class of a batch), the selected boxes, best first, and their number.
class Chooser {
 public:
  Chooser(Node& node, uint32_t counts, uint32_t kept, uint32_t left) : node_(node), s_(node, "select") {
    const auto scores = node.dims(1);
    n_ = s_.size(scores[2]).in(s_.kernel()), classes_ = s_.size(scores[1]).in(s_.kernel());
    rows_ = s_.size(node.table().mul(scores[0], scores[1])).in(s_.kernel());
    boxes_ = s_.in_buf(0), score_ = s_.in_buf(1);
    for (size_t i = 2; i < std::size(limits_); ++i)
      if (node.has(i)) limits_[i] = s_.in_buf(i);
    count_ = writable(s_, s_.scratch(counts)), chosen_ = writable(s_, s_.scratch(kept)), left_ = writable(s_, s_.scratch(left));
  }

  void build() {
    if (node_.mapping().workgroups) {
      const int64_t threads = node_.mapping().workgroup_size;
      kernel::for_each_workgroup(b_, node_.mapping(), "row", rows_, threads,
                                 [&](Expr row, Expr thread) { by_group(row, thread, threads); });
    } else {
      kernel::for_each(b_, node_.mapping(), "row", rows_, 1 << 16, [&](Expr row) { alone(row); });
    }
    s_.finish();
  }

 private:
  Expr limit(size_t i, DType to) const {
    return node_.has(i) ? cast_to(limits_[i][0], to) : kernel::constant(b_.kernel(), to, 0);
  }
  Expr most() const { return max(min(limit(2, DType::I64), n_), 0); }
  // Number of rounds with barriers. Depends on sizes and constants only, which guarantees uniform control. No other node shares
  // this kernel, because the type of the result names its extent.
  Expr rounds() const {
    const NodeId def = node_.has(2) ? node_.graph.def(node_.in(2)) : NodeId();
    if (!def.valid()) return b_.i64(0);
    if (node_.graph.op(def) != OpKind::Constant && node_.graph.op(def) != OpKind::Param) return n_;
    const DataId data = node_.graph.attrs<DataAttrs>(def).data;
    return data.valid() ? min(n_, std::max<int64_t>(element_as_int(node_.graph.module().data[data], 0), 0)) : n_;
  }
  Expr score(Expr i) const { return b_.let("score", cast_to(score_[i], wide_)); }
  Expr is_good(Expr own_score) const {
    return node_.has(4) ? own_score > limit(4, wide_) : kernel::constant_int(b_.kernel(), DType::Bool, 1);
  }
  Box box(Expr at) const {
    const bool center = node_.attrs<NmsAttrs>().center_point;
    Expr p[4];
    for (int64_t i = 0; i < 4; ++i) p[i] = b_.let("p", cast_to(boxes_[at * 4 + i], wide_));
    Box box;
    for (int i = 0; i < 2; ++i) {
      box.low[i] = b_.let("low", center ? p[i] - p[i + 2] * 0.5 : min(p[i], p[i + 2]));
      box.high[i] = b_.let("high", center ? p[i] + p[i + 2] * 0.5 : max(p[i], p[i + 2]));
    }
    box.area = b_.let("area", (box.high[0] - box.low[0]) * (box.high[1] - box.low[1]));
    return box;
  }

  // Single-threaded selection. `left` lists the remaining boxes in order.
  void alone(Expr row) {
    const Expr from = b_.let("from", row * n_), box_from = b_.let("box_from", row / classes_ * n_);
    Buf length = b_.variable("length", b_.i64(0)), best = b_.variable("best", b_.i64(0)),
        best_score = b_.variable("best_score", b_.value(wide_, 0)), taken = b_.variable("taken", b_.i64(0));
    const auto keep = [&](Expr i, Expr own_score) {
      const Expr at = b_.let("at", length.get());
      left_.store(from + at, i);
      b_.when(at == 0 || own_score > best_score.get(), [&] { best.set(at), best_score.set(own_score); });
      length.set(at + 1);
    };
    b_.loop("i", n_, [&](Expr i) {
      const Expr own_score = score(from + i);
      b_.when(is_good(own_score), [&] { keep(i, own_score); });
    });
    b_.loop("take", most(), [&](Expr) {
      const Expr open = b_.let("open", length.get()), picked = b_.let("picked", best.get());
      b_.when(open > 0, [&] {
        const Expr pick = b_.let("pick", left_[from + picked]);
        chosen_.store(from + taken.get(), pick);
        taken.set(taken.get() + 1);
        length.set(b_.i64(0));
        const Box own = box(box_from + pick);
        b_.loop("i", open, [&](Expr at) {
          const Expr i = b_.let("i", left_[from + at]);
          const Box other = box(box_from + i);
          b_.when(at != picked && !(overlap(b_, own, other) > limit(3, wide_)), [&] { keep(i, score(from + i)); });
        });
      });
    });
    count_.store(row, taken.get());
  }

  // Selection by a workgroup. left[i] is 1 if box i remains. Each thread handles every `threads`-th box: it removes those that
  // overlap the last selected box (-1: none yet, n: finished) and finds its best one.
  void by_group(Expr row, Expr thread, int64_t threads) {
    const Expr from = b_.let("from", row * n_), box_from = b_.let("box_from", row / classes_ * n_);
    const Expr own_count = b_.let("own_count", max(n_ - thread + (threads - 1), 0) / threads);
    const Expr lowest = b_.value(wide_, -std::numeric_limits<double>::infinity());
    Buf last = b_.variable("last", b_.i64(-1)), taken = b_.variable("taken", b_.i64(0)), best = b_.variable("best", n_),
        best_score = b_.variable("best_score", lowest);
    const auto each = [&](const std::function<void(Expr)>& body) {
      b_.loop("k", own_count, [&](Expr k) { body(b_.let("i", k * threads + thread)); });
    };
    each([&](Expr i) { left_.store(from + i, cast_to(is_good(score(from + i)), DType::I64)); });
    b_.when(most() == 0, [&] { last.set(n_); });
    b_.loop("take", rounds(), [&](Expr) {
      const Expr taken_last = b_.let("taken_last", last.get());
      best.set(n_), best_score.set(lowest);
      b_.when(taken_last < n_, [&] {
        const Box own = box(box_from + max(taken_last, 0));
        each([&](Expr i) {
          b_.when(left_[from + i] == 1, [&] {
            const Box other = box(box_from + i);
            const Expr goes = taken_last >= 0 && (i == taken_last || overlap(b_, own, other) > limit(3, wide_));
            b_.when(
                goes, [&] { left_.store(from + i, b_.i64(0)); },
                [&] {
                  const Expr own_score = score(from + i);
                  b_.when(best.get() == n_ || own_score > best_score.get(), [&] { best.set(i), best_score.set(own_score); });
                });
          });
        });
      });
      const Expr top = kernel::combine_group(b_, node_.mapping(), kernel::ExprOp::Max, best_score.get(), thread, threads);
      const Expr candidate = b_.let("candidate", select(best_score.get() == top, best.get(), n_));
      const Expr pick = kernel::combine_group(b_, node_.mapping(), kernel::ExprOp::Min, candidate, thread, threads);
      last.set(pick);
      b_.when(last.get() < n_, [&] {
        b_.when(thread == 0, [&] { chosen_.store(from + taken.get(), last.get()); });
        taken.set(taken.get() + 1);
        b_.when(taken.get() == most(), [&] { last.set(n_); });
      });
    });
    b_.when(thread == 0, [&] { count_.store(row, taken.get()); });
  }

  Node& node_;
  Scope s_;
  kernel::Builder& b_ = s_.builder();
  const DType wide_ = node_.wide();
  Expr n_, classes_, rows_;
  Buf boxes_, score_, limits_[5], count_, chosen_, left_;
};

}  // namespace

bool lower_non_max_suppression(Node& node) {
  DimTable& t = node.table();
  const auto scores = node.dims(1);
  const Dim rows = t.mul(scores[0], scores[1]);
  const uint32_t counts = node.scratch(DType::I64, rows), kept = node.scratch(DType::I64, t.mul(rows, scores[2])),
                 left = node.scratch(DType::I64, t.mul(rows, scores[2]));
  Chooser(node, counts, kept, left).build();
  place_blocks(node, counts, rows);
  Scope s(node);
  auto& b = s.builder();
  const Expr n = s.size(scores[2]).in(s.kernel()), classes = s.size(scores[1]).in(s.kernel()),
             count = s.size(rows).in(s.kernel()), all = s.size(node.result_dims()[0]).in(s.kernel());
  Buf first = readable(s, s.scratch(counts)), chosen = readable(s, s.scratch(kept)), y = s.out_buf();
  kernel::for_each(b, node.mapping(), "row", count, 1 << 12, [&](Expr row) {
    const Expr begin = b.let("begin", first[row]);
    const Expr end = b.let("end", first.load_if(row + 1 < count, row + 1, all));
    b.loop("i", end - begin, [&](Expr i) {
      const Expr to = b.let("to", (begin + i) * 3);
      y.store(to, row / classes), y.store(to + 1, row % classes), y.store(to + 2, chosen[row * n + i]);
    });
  });
  return s.finish(), true;
}

}  // namespace rlxc::codegen
