// Operations that tell the size of their result when they have run: first kernels that find it, then kernels that write what has
// that size. In between the host reads it.
#include <limits>

#include "codegen/lowerings.h"
#include "kernel/builders/generate.h"

namespace rlxc::codegen {
namespace {

using Exprs = std::vector<Expr>;

constexpr int64_t kBlock = 4096;  // elements that one iteration of a parallel loop selects from

Buf writable(Scope& s, const Operand& o) { return s.builder().inout(o.name, o.dtype, o.extent); }
Buf readable(Scope& s, const Operand& o) { return s.builder().input(o.name, o.dtype, o.extent); }

// Numbers of selected elements of each block become the place of the first one in the result; their sum is the extent.
void place_blocks(const Node& node, uint32_t counts, Dim blocks) {
  Scope s(node, "place");
  auto& b = s.builder();
  const Expr n = s.size(blocks).in(s.kernel());
  Buf count = writable(s, s.scratch(counts)), extent = writable(s, s.extent());
  kernel::for_each(b, node.mapping(), "once", 1, 1 << 16, [&](Expr) {
    Buf sum = b.variable("sum", b.i64(0));
    b.loop("block", n, [&](Expr i) {
      const Expr own = b.let("own", count[i]);
      count.store(i, sum.get());
      sum.set(sum.get() + own);
    });
    extent.store(0, sum.get());
  });
  s.finish();
}

Expr is_set(Expr v) { return cast_to(cast_to(v, kernel::compute_dtype(v.dtype())), DType::Bool); }

}  // namespace

bool lower_iota(const Node& node) {
  {
    Scope s(node, "size");
    auto& b = s.builder();
    Buf n = s.in_buf(0), extent = writable(s, s.extent());
    kernel::for_each(b, node.mapping(), "once", 1, 8, [&](Expr) { extent.store(0, max(cast_to(n[0], DType::I64), 0)); });
    s.finish();
  }
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  kernel::build_generate(s.builder(), shape, s.outputs(), 8, node.mapping(), [](const Exprs& at) -> Exprs { return {at[0]}; });
  return s.finish(), true;
}

// The sizes; where they do not fit the elements, ones that no bound allows.
bool lower_reshape_to(const Node& node) {
  const auto from = node.dims(0);
  const size_t rank = node.result_dims().size();
  const Dim total = node.table().product(from);
  {
    Scope s(node, "size");
    auto& b = s.builder();
    const Expr n = s.size(total).in(s.kernel());
    Exprs own;
    for (Dim d : from) own.push_back(s.size(d).in(s.kernel()));
    Buf sizes = s.in_buf(1);
    std::vector<Buf> extents;
    for (uint32_t i = 0; i < rank; ++i) extents.push_back(writable(s, s.extent(i)));
    kernel::for_each(b, node.mapping(), "once", 1, 8, [&](Expr) {
      Exprs to;
      Expr rest = b.i64(1), open = b.i64(0), fits = kernel::constant_int(s.kernel(), DType::Bool, 1);
      for (size_t i = 0; i < rank; ++i) {
        const Expr given = cast_to(sizes[static_cast<int64_t>(i)], DType::I64);
        const bool keeps = !node.attrs<ReshapeToAttrs>().allow_zero && i < own.size();
        to.push_back(b.let("size", keeps ? select(given == 0, own[i], given) : given));
        const Expr is_open = to[i] == -1;
        rest = b.let("rest", rest * select(is_open, b.i64(1), to[i]));
        open = b.let("open", open + cast_to(is_open, DType::I64));
        fits = fits && to[i] >= -1;
      }
      const Expr left = b.let("left", select(rest > 0, n / max(rest, 1), 0));
      fits = b.let("fits", fits && open <= 1 && rest * select(open > 0, left, b.i64(1)) == n);
      for (size_t i = 0; i < rank; ++i)
        extents[i].store(0, select(fits, select(to[i] == -1, left, to[i]), std::numeric_limits<int64_t>::max()));
    });
    s.finish();
  }
  Scope s(node);
  Buf x = s.in_buf(0);
  kernel::build_generate(s.builder(), {s.size(total)}, s.outputs(), 8, node.mapping(),
                         [&](const Exprs& at) -> Exprs { return {x[at[0]]}; });
  return s.finish(), true;
}

bool lower_non_zero(const Node& node) {
  DimTable& t = node.table();
  const Dim total = t.product(node.dims(0)), blocks = t.ceil_div(total, Dim(kBlock));
  const uint32_t counts = node.scratch(DType::I64, blocks);
  const auto each_set = [&](Scope& s, const Buf& x, Expr block, const std::function<void(Expr)>& body) {
    auto& b = s.builder();
    const Expr first = b.let("first", block * kBlock);
    b.loop("i", min(s.size(total).in(s.kernel()) - first, kBlock), [&](Expr i) {
      const Expr at = b.let("at", first + i);
      b.when(is_set(x[at]), [&] { body(at); });
    });
  };
  {
    Scope s(node, "count");
    auto& b = s.builder();
    const Expr n = s.size(blocks).in(s.kernel());
    Buf x = s.in_buf(0), count = writable(s, s.scratch(counts));
    kernel::for_each(b, node.mapping(), "block", n, kBlock, [&](Expr block) {
      Buf sum = b.variable("sum", b.i64(0));
      each_set(s, x, block, [&](Expr) { sum.set(sum.get() + 1); });
      count.store(block, sum.get());
    });
    s.finish();
  }
  place_blocks(node, counts, blocks);
  Scope s(node);
  auto& b = s.builder();
  const Dims shape = s.shape(node.dims(0));
  const Expr found = s.size(node.result_dims()[1]).in(s.kernel()), n = s.size(blocks).in(s.kernel());
  Buf x = s.in_buf(0), first = readable(s, s.scratch(counts)), y = s.out_buf();
  kernel::for_each(b, node.mapping(), "block", n, 8 * kBlock, [&](Expr block) {
    Buf to = b.variable("to", first[block]);
    each_set(s, x, block, [&](Expr at) {
      const Exprs index = shape.empty() ? Exprs{b.i64(0)} : kernel::split_index(at, shape);
      for (size_t a = 0; a < index.size(); ++a) y.store(static_cast<int64_t>(a) * found + to.get(), index[a]);
      to.set(to.get() + 1);
    });
  });
  return s.finish(), true;
}

namespace {

struct Box {
  Expr low[2], high[2], area;
};

Box box_of(kernel::Builder& b, const Buf& boxes, Expr at, bool center, DType t) {
  Expr p[4];
  for (int64_t i = 0; i < 4; ++i) p[i] = b.let("p", cast_to(boxes[at * 4 + i], t));
  Box box;
  for (int i = 0; i < 2; ++i) {
    box.low[i] = b.let("low", center ? p[i] - p[i + 2] * 0.5 : min(p[i], p[i + 2]));
    box.high[i] = b.let("high", center ? p[i] + p[i + 2] * 0.5 : max(p[i], p[i + 2]));
  }
  box.area = b.let("area", (box.high[0] - box.low[0]) * (box.high[1] - box.low[1]));
  return box;
}

Expr overlap(kernel::Builder& b, const Box& x, const Box& y) {
  Expr side[2];
  for (int i = 0; i < 2; ++i) side[i] = b.let("side", min(x.high[i], y.high[i]) - max(x.low[i], y.low[i]));
  const Expr common = b.let("common", side[0] * side[1]);
  return select(side[0] > 0 && side[1] > 0, common / (x.area + y.area - common), 0);
}

}  // namespace

// Each class of each batch on its own, with a list of the boxes that are left, in their order: take the best one and remove those
// that overlap it, until none is left or there are enough.
bool lower_non_max_suppression(const Node& node) {
  DimTable& t = node.table();
  const auto scores = node.dims(1);
  const Dim rows = t.mul(scores[0], scores[1]);
  const uint32_t counts = node.scratch(DType::I64, rows), kept = node.scratch(DType::I64, t.mul(rows, scores[2])),
                 left = node.scratch(DType::I64, t.mul(rows, scores[2]));
  const bool center = node.attrs<NmsAttrs>().center_point;
  const DType wide = node.wide();
  {
    Scope s(node, "select");
    auto& b = s.builder();
    const Expr n = s.size(scores[2]).in(s.kernel()), classes = s.size(scores[1]).in(s.kernel()),
               count = s.size(rows).in(s.kernel());
    Buf boxes = s.in_buf(0), score = s.in_buf(1), limits[5];
    for (size_t i = 2; i < std::size(limits); ++i)
      if (node.has(i)) limits[i] = s.in_buf(i);
    Buf found = writable(s, s.scratch(counts)), chosen = writable(s, s.scratch(kept)), list = writable(s, s.scratch(left));
    const auto limit = [&](size_t i, DType to) {
      return node.has(i) ? cast_to(limits[i][0], to) : kernel::constant(s.kernel(), to, 0);
    };
    kernel::for_each(b, node.mapping(), "row", count, 1 << 16, [&](Expr row) {
      const Expr from = b.let("from", row * n), box_from = b.let("box_from", row / classes * n);
      Buf length = b.variable("length", b.i64(0)), best = b.variable("best", b.i64(0)),
          best_score = b.variable("best_score", b.value(wide, 0));
      const auto keep = [&](Expr i, Expr own_score) {
        const Expr at = b.let("at", length.get());
        list.store(from + at, i);
        b.when(at == 0 || own_score > best_score.get(), [&] { best.set(at), best_score.set(own_score); });
        length.set(at + 1);
      };
      b.loop("i", n, [&](Expr i) {
        const Expr own_score = b.let("score", cast_to(score[from + i], wide));
        if (node.has(4)) b.when(own_score > limit(4, wide), [&] { keep(i, own_score); });
        else keep(i, own_score);
      });
      Buf taken = b.variable("taken", b.i64(0));
      b.loop("take", max(min(limit(2, DType::I64), n), 0), [&](Expr) {
        const Expr open = b.let("open", length.get()), picked = b.let("picked", best.get());
        b.when(open > 0, [&] {
          const Expr pick = b.let("pick", list[from + picked]);
          chosen.store(from + taken.get(), pick);
          taken.set(taken.get() + 1);
          length.set(b.i64(0));
          const Box own = box_of(b, boxes, box_from + pick, center, wide);
          b.loop("i", open, [&](Expr at) {
            const Expr i = b.let("i", list[from + at]);
            const Box other = box_of(b, boxes, box_from + i, center, wide);
            b.when(at != picked && !(overlap(b, own, other) > limit(3, wide)),
                   [&] { keep(i, b.let("score", cast_to(score[from + i], wide))); });
          });
        });
      });
      found.store(row, taken.get());
    });
    s.finish();
  }
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
