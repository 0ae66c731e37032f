// ONNX Unique: an index sort groups equal elements (or slices), a scan numbers the groups, and a copy gathers the first of each.
// CPU threads use merge sort; on a grid each thread computes the rank of an element.
#include "codegen/selection.h"
#include "kernel/builders/generate.h"

namespace rlxc::codegen {
namespace {

constexpr int64_t kMaxDoublings = 40;  // of merged runs; more elements exceed any memory

// The slices of x along one axis, each of `outer` x `inner` elements.
class Slices {
 public:
  Slices(Scope& s, Node& node) : s_(s), a_(node.attrs<UniqueAttrs>()), shape_(s.shape(node.dims(0))) {
    kernel::Kernel* k = s.kernel();
    const auto axis = static_cast<size_t>(a_.axis);
    count = a_.flat ? kernel::product(k, shape_) : shape_[axis].in(k);
    if (!a_.flat) outer_ = kernel::product(k, shape_, 0, axis), inner_ = kernel::product(k, shape_, axis + 1);
    x_ = s.in_buf(0);
  }

  Expr count;

  // Lexicographic order; NaNs are last and equal. Emits statements and returns a bool.
  Expr less(Expr i, Expr j) {
    auto& b = s_.builder();
    if (a_.flat) return b.let("less", before(value(x_[i]), value(x_[j])));
    Buf state = b.variable("state", b.i64(0));  // 0 equal so far, 1 less, 2 greater
    b.loop("k", outer_ * inner_, [&](Expr e) {
      b.when(state.get() == 0, [&] {
        const Expr base = b.let("base", e / inner_ * (count * inner_) + e % inner_);
        const Expr v = b.let("v", value(x_[base + i * inner_])), w = b.let("w", value(x_[base + j * inner_]));
        state.set(select(before(v, w), b.i64(1), select(before(w, v), b.i64(2), b.i64(0))));
      });
    });
    return b.let("less", state.get() == 1);
  }

 private:
  static Expr before(Expr v, Expr w) { return is_float(v.dtype()) ? v < w || (isnan(w) && !isnan(v)) : v < w; }
  static Expr value(Expr v) { return cast_to(v, v.dtype() == DType::Bool ? DType::U8 : kernel::compute_dtype(v.dtype())); }

  Scope& s_;
  const UniqueAttrs& a_;
  Dims shape_;
  Expr outer_, inner_;
  Buf x_;
};

Buf scratch(Scope& s, uint32_t i) { return writable(s, s.scratch(i)); }

// The rank of an element is the number of elements before it.
void sort_by_rank(Node& node, uint32_t order_id) {
  Scope s(node, "sort");
  auto& b = s.builder();
  Slices x(s, node);
  Buf order = scratch(s, order_id);
  kernel::for_each(b, node.mapping(), "i", x.count, 1 << 16, [&](Expr i) {
    Buf rank = b.variable("rank", b.i64(0));
    b.loop("j", x.count, [&](Expr j) {
      const Expr before = x.less(j, i), after = x.less(i, j);
      rank.set(rank.get() + cast_to(before || (!after && j < i), DType::I64));
    });
    order.store(rank.get(), i);
  });
  s.finish();
}

// Bottom-up merge sort. Stable.
void sort_by_merging(Node& node, uint32_t order_id, uint32_t merged_id) {
  Scope s(node, "sort");
  auto& b = s.builder();
  Slices x(s, node);
  Buf order = scratch(s, order_id), merged = scratch(s, merged_id);
  const Expr n = x.count;
  kernel::for_each(b, node.mapping(), "once", 1, 1 << 16, [&](Expr) {
    b.loop("i", n, [&](Expr i) { order.store(i, i); });
    b.when(n > 1, [&] {
      b.loop("doubling", kMaxDoublings, [&](Expr doubling) {
        const Expr run = b.let("run", b.i64(1) << doubling);
        b.loop("pair", select(run < n, ceil_div(n, run * 2), 0), [&](Expr pair) {
          const Expr begin = b.let("begin", pair * run * 2), middle = b.let("middle", min(begin + run, n)),
                     end = b.let("end", min(begin + run * 2, n));
          Buf left = b.variable("left", begin), right = b.variable("right", middle),
              from_right = b.variable("from_right", b.i64(0));
          b.loop("to", end - begin, [&](Expr to) {
            const Expr l = b.let("l", left.get()), r = b.let("r", right.get());
            b.when(
                l < middle && r < end, [&] { from_right.set(cast_to(x.less(order[r], order[l]), DType::I64)); },
                [&] { from_right.set(cast_to(l >= middle, DType::I64)); });
            const Expr take = b.let("take", from_right.get());
            merged.store(begin + to, order[select(take == 1, r, l)]);
            left.set(l + 1 - take), right.set(r + take);
          });
          b.loop("i", end - begin, [&](Expr i) { order.store(begin + i, merged[begin + i]); });
        });
      });
    });
  });
  s.finish();
}

}  // namespace

bool lower_unique(Node& node) {
  const auto& a = node.attrs<UniqueAttrs>();
  const Dim all = node.result_dims(2)[0];
  const uint32_t order_id = node.scratch(DType::I64, all), leader_id = node.scratch(DType::I64, all);
  if (node.mapping().workgroups) sort_by_rank(node, order_id);
  else sort_by_merging(node, order_id, leader_id);
  {
    Scope s(node, "number");
    auto& b = s.builder();
    Slices x(s, node);
    Buf order = scratch(s, order_id), leader = scratch(s, leader_id), extent = b.inout("extent", DType::I64, s.extent().extent);
    Buf out[4];
    for (size_t r = 1; r < 4; ++r) {
      s.bind({Binding::Kind::Result, static_cast<uint32_t>(r)});
      out[r] = b.inout("y" + std::to_string(r), DType::I64, x.count);  // an upper bound of the size
    }
    const Buf &first = out[1], &inverse = out[2], &number = out[3];
    kernel::for_each(b, node.mapping(), "once", 1, 1 << 16, [&](Expr) {
      Buf found = b.variable("found", b.i64(0)), head = b.variable("head", b.i64(0));
      const auto open = [&](Expr i) {  // Element i starts the next group.
        const Expr at = b.let("at", found.get());
        first.store(at, i), number.store(at, b.i64(0)), inverse.store(i, at);
        found.set(at + 1);
      };
      // In sorted order, equal elements follow their group's first one.
      b.loop("i", x.count, [&](Expr i) {
        const Expr own = b.let("own", order[i]);
        Buf is_new = b.variable("is_new", b.i64(1));
        b.when(i > 0, [&] { is_new.set(cast_to(x.less(order[max(i - 1, 0)], own), DType::I64)); });
        b.when(is_new.get() == 1, [&] {
          head.set(own);
          if (a.sorted) open(own);
        });
        leader.store(own, head.get());
      });
      b.loop("i", x.count, [&](Expr i) {
        const Expr own = b.let("leader", leader[i]);
        if (!a.sorted) b.when(own == i, [&] { open(i); });
        const Expr at = b.let("to", inverse[own]);
        inverse.store(i, at);
        number.store(at, number[at] + 1);
      });
      extent.store(0, found.get());
    });
    s.finish();
  }
  Scope s(node);
  const Dims shape = s.shape(node.result_dims()), own = s.shape(node.dims(0));
  Buf x = s.in_buf(0);
  s.bind({Binding::Kind::Result, 1});
  Buf first = s.builder().input("first", DType::I64, s.size(node.result_dims(1)[0]));
  s.bind({Binding::Kind::Result, 0});
  kernel::build_generate(s.builder(), shape, {{"y0", node.result_dtype()}}, 8, node.mapping(),
                         [&](const std::vector<Expr>& at) -> std::vector<Expr> {
                           std::vector<Expr> from = at;
                           Expr& along = from[a.flat ? 0 : static_cast<size_t>(a.axis)];
                           along = first[along];
                           return {x[a.flat ? along : kernel::linear_index(s.kernel(), from, own)]};
                         });
  return s.finish(), true;
}

}  // namespace rlxc::codegen
