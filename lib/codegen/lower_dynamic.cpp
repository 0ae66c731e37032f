// Ops with a data-dependent result: the first kernels compute the extent, the host reads it, and further kernels write the
// result. (See also lower_unique.cpp and lower_non_max_suppression.cpp.)
#include "codegen/selection.h"
#include "kernel/builders/generate.h"

namespace rlxc::codegen {
namespace {

using Exprs = std::vector<Expr>;

Expr is_set(Expr v) { return cast_to(cast_to(v, kernel::compute_dtype(v.dtype())), DType::Bool); }

}  // namespace

void place_blocks(Node& node, uint32_t counts, Dim blocks) {
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

bool lower_iota(Node& node) {
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

// Computes the sizes; negative ones if they do not match the number of elements.
bool lower_reshape_to(Node& node) {
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
      for (size_t i = 0; i < rank; ++i) extents[i].store(0, select(fits, select(to[i] == -1, left, to[i]), b.i64(-1)));
    });
    s.finish();
  }
  Scope s(node);
  Buf x = s.in_buf(0);
  kernel::build_generate(s.builder(), {s.size(total)}, s.outputs(), 8, node.mapping(),
                         [&](const Exprs& at) -> Exprs { return {x[at[0]]}; });
  return s.finish(), true;
}

bool lower_non_zero(Node& node) {
  DimTable& t = node.table();
  const int64_t block_size = node.mapping().workgroups ? 256 : 4096;  // elements per thread or iteration
  const Dim total = t.product(node.dims(0)), blocks = t.ceil_div(total, Dim(block_size));
  const uint32_t counts = node.scratch(DType::I64, blocks);
  const auto each_set = [&](Scope& s, const Buf& x, Expr block, const std::function<void(Expr)>& body) {
    auto& b = s.builder();
    const Expr first = b.let("first", block * block_size);
    b.loop("i", min(s.size(total).in(s.kernel()) - first, block_size), [&](Expr i) {
      const Expr at = b.let("at", first + i);
      b.when(is_set(x[at]), [&] { body(at); });
    });
  };
  {
    Scope s(node, "count");
    auto& b = s.builder();
    const Expr n = s.size(blocks).in(s.kernel());
    Buf x = s.in_buf(0), count = writable(s, s.scratch(counts));
    kernel::for_each(b, node.mapping(), "block", n, block_size, [&](Expr block) {
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
  kernel::for_each(b, node.mapping(), "block", n, 8 * block_size, [&](Expr block) {
    Buf to = b.variable("to", first[block]);
    each_set(s, x, block, [&](Expr at) {
      const Exprs index = shape.empty() ? Exprs{b.i64(0)} : kernel::split_index(at, shape);
      for (size_t a = 0; a < index.size(); ++a) y.store(static_cast<int64_t>(a) * found + to.get(), index[a]);
      to.set(to.get() + 1);
    });
  });
  return s.finish(), true;
}

}  // namespace rlxc::codegen
