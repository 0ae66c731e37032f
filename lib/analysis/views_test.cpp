#include "analysis/views.h"

#include <doctest/doctest.h>

#include "ir/builder.h"
#include "support/norm_region.h"
#include "support/random_blocks.h"
#include "support/random_graph.h"

using namespace rlxc;

namespace {

// The strides of v as a view, or nullopt if it is row-major or an axis has several factors.
std::optional<std::vector<Dim>> strides_in_larger(const Graph& g, ValueId v) {
  const auto l = layout_in_larger(g, v);
  if (!l || l->split()) return std::nullopt;
  std::vector<Dim> strides;
  for (const auto& axis : l->axes) strides.push_back(axis.empty() ? Dim(1) : axis[0].stride);
  return strides;
}

struct Packed {
  Module m;
  Graph& g = m.main();
  Builder b{g};
  ValueId x = b.input("x", tensor_type(DType::F32, {2, 5, 24}));
  ValueId part(int64_t start) { return b.narrow(x, 2, start, 8); }
  AttentionAttrs packed{
      .num_heads = 2, .num_kv_heads = 2, .layout = AttentionLayout::Packed, .out_layout = AttentionLayout::Packed};
};

// Compares the layouts of a graph with those of its values. Returns the number of values that are not row-major.
size_t check_layouts(const Graph& g) {
  const GraphLayouts all = assign_layouts(g);
  size_t found = 0;
  for (NodeId n : g.nodes())
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      const Layout* const l = all.of(v);
      CHECK((l ? std::optional(*l) : std::nullopt) == layout_in_larger(g, v, 0));
      found += l != nullptr;
    }
  return found;
}

}  // namespace

TEST_CASE("parts of rows that only attention reads are views of the packed value") {
  Packed p;
  const ValueId q = p.part(0), k = p.part(8), v = p.part(16);
  p.g.add_output(p.b.create(OpKind::Attention, {q, k, v}, p.packed), {});
  const auto view = view_of(p.g, p.g.def(v));
  REQUIRE(view);
  CHECK(view->of == p.x);
  CHECK(view->byte_offset == Dim(64));
  CHECK(strides_in_larger(p.g, v) == std::vector<Dim>{120, 24, 1});
  CHECK_FALSE(strides_in_larger(p.g, p.x));
}

TEST_CASE("a part of rows that something else reads, or that is an output, is copied") {
  Packed p;
  const ValueId q = p.part(0), k = p.part(8), v = p.part(16);
  p.g.add_output(p.b.create(OpKind::Attention, {q, k, v}, p.packed), {});
  p.g.add_output(v, {});
  p.g.add_output(p.b.reduce(ReduceOp::Sum, k, {1}, false), {});
  CHECK(view_of(p.g, p.g.def(q)));
  CHECK_FALSE(view_of(p.g, p.g.def(k)));
  CHECK_FALSE(view_of(p.g, p.g.def(v)));
  CHECK_FALSE(strides_in_larger(p.g, v));
}

TEST_CASE("a slice stays where it is through reorderings and reshapes, as far as all its readers step over the rest") {
  Packed p;
  const ValueId part = p.b.narrow(p.x, 1, Dim(1), Dim(3)), split = p.b.reshape(part, {2, 3, 4, 6}),
                heads = p.b.transpose(split, {0, 2, 1, 3});
  const auto in_place = [&](ValueId v) { return view_of(p.g, p.g.def(v)).has_value(); };
  p.g.add_output(p.b.unary(OpKind::Exp, heads), {});
  CHECK(in_place(part));
  CHECK(in_place(heads));
  CHECK(strides_in_larger(p.g, heads) == std::vector<Dim>{120, 6, 24, 1});
  p.g.add_output(p.b.create(OpKind::Softmax, {p.b.reshape(heads, {2, 4, 18})}, AxisAttrs{2}),
                 {});  // axes that are not contiguous
  CHECK_FALSE(in_place(heads));
  CHECK_FALSE(in_place(part));
}

TEST_CASE("columns as rows stay where they are for one reader that spends no more on them than a copy would") {
  Packed p;
  const auto columns = [&] { return p.b.transpose(p.b.unary(OpKind::Abs, p.x), {0, 2, 1}); };
  const auto in_place = [&](ValueId v) { return view_of(p.g, p.g.def(v)).has_value(); };
  const ValueId added = columns(), normalised = columns(), raised = columns(), twice = columns(), kept = columns();
  p.g.add_output(p.b.add(added, p.b.unary(OpKind::Exp, added)), {});
  CHECK_FALSE(in_place(added));
  const ValueId alone = columns();
  p.g.add_output(p.b.add(alone, p.b.unary(OpKind::Exp, raised)), {});
  p.g.add_output(p.b.create(OpKind::LayerNorm, {normalised}, NormAttrs{2, 1e-5}), {});
  p.g.add_output(p.b.mul(twice, twice), {});
  p.g.add_output(kept, {});
  CHECK(in_place(alone));
  CHECK(in_place(normalised));
  CHECK(strides_in_larger(p.g, normalised) == std::vector<Dim>{120, 1, 24});
  CHECK_FALSE(in_place(raised));
  CHECK_FALSE(in_place(twice));
  CHECK_FALSE(in_place(kept));
}

TEST_CASE("a slice that is the first output is copied") {
  Packed p;
  const ValueId part = p.part(0);
  p.g.add_output(part, {});
  CHECK_FALSE(view_of(p.g, p.g.def(part)));
}

namespace {

// Returns whether an enlarged image read by an elementwise node is a view.
bool repeats_in_place(std::vector<Dim> sizes, std::vector<double> scales, CoordMode coord, NearestMode nearest,
                      ResizeMode mode = ResizeMode::Nearest) {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {1, 2, 4, 4}));
  const ValueId large = b.create(OpKind::Resize, {x}, ResizeAttrs{std::move(sizes), std::move(scales), {}, mode, coord, nearest});
  m.main().add_output(b.unary(OpKind::Relu, large), {});
  return view_of(m.main(), m.main().def(large)).has_value();
}

}  // namespace

TEST_CASE("pixels that an enlarged image repeats are read where they lie") {
  Packed p;
  const ValueId image = p.b.reshape(p.x, {2, 5, 4, 6}),
                large = p.b.create(OpKind::Resize, {image}, ResizeAttrs{{2, 5, 8, 18}, {}, {}});
  const ValueId other = p.b.input("other", tensor_type(DType::F32, {2, 5, 8, 18}));
  p.g.add_output(p.b.add(other, large), {});
  REQUIRE(view_of(p.g, p.g.def(large)));
  const auto layout = layout_in_larger(p.g, large);
  REQUIRE(layout);
  CHECK(layout->axes[2] == std::vector<DimFactor>{{Dim(4), Dim(6)}, {Dim(2), Dim(0)}});
  CHECK(layout->axes[3] == std::vector<DimFactor>{{Dim(6), Dim(1)}, {Dim(3), Dim(0)}});
  CHECK(layout->split());
  CHECK_FALSE(strides_in_larger(p.g, large));
  p.g.add_output(p.b.reduce(ReduceOp::Sum, large, {1}, false), {});  // reads rows
  CHECK_FALSE(view_of(p.g, p.g.def(large)));
}

TEST_CASE("an image is enlarged in place by whole factors alone, where the nearest pixel is that which is repeated") {
  using enum NearestMode;
  CHECK(repeats_in_place({1, 2, 8, 8}, {1, 1, 2, 2}, CoordMode::Asymmetric, Floor));
  CHECK(repeats_in_place({1, 2, 4, 12}, {}, CoordMode::HalfPixel, RoundPreferFloor));
  CHECK(repeats_in_place({1, 2, 4, 12}, {}, CoordMode::PytorchHalfPixel, RoundPreferCeil));
  CHECK(repeats_in_place({1, 2, 4, 12}, {}, CoordMode::TfHalfPixelForNn, Floor));
  CHECK_FALSE(repeats_in_place({1, 2, 8, 6}, {1, 1, 2, 1.5}, CoordMode::Asymmetric, Floor));
  CHECK_FALSE(repeats_in_place({1, 2, 2, 2}, {1, 1, 0.5, 0.5}, CoordMode::Asymmetric, Floor));
  CHECK_FALSE(repeats_in_place({1, 2, 9, 8}, {1, 1, 2.4, 2}, CoordMode::Asymmetric, Floor));
  CHECK_FALSE(repeats_in_place({1, 2, 8, 8}, {1, 1, 2, 2}, CoordMode::Asymmetric, Ceil));
  CHECK_FALSE(repeats_in_place({1, 2, 8, 8}, {1, 1, 2, 2}, CoordMode::HalfPixel, Floor));
  CHECK_FALSE(repeats_in_place({1, 2, 8, 8}, {1, 1, 2, 2}, CoordMode::AlignCorners, Floor));
  CHECK_FALSE(repeats_in_place({1, 2, 8, 8}, {1, 1, 2, 2}, CoordMode::Asymmetric, Floor, ResizeMode::Linear));
}

TEST_CASE("axes that are split and reordered stay where they are as factors of merged axes") {
  Packed p;
  const ValueId windows = p.b.transpose(p.b.reshape(p.x, {2, 5, 3, 2, 4}), {0, 2, 1, 3, 4}),
                rows = p.b.reshape(windows, {2, 15, 8});
  p.g.add_output(p.b.unary(OpKind::Exp, p.b.narrow(rows, 1, Dim(5), Dim(10))), {});
  REQUIRE(view_of(p.g, p.g.def(windows)));
  CHECK(layout_in_larger(p.g, rows)->axes[1] == std::vector<DimFactor>{{Dim(3), Dim(8)}, {Dim(5), Dim(24)}});
  const ValueId part = p.g.operand(p.g.def(p.g.outputs()[0]), 0);
  CHECK(view_of(p.g, p.g.def(part))->byte_offset == Dim(32));
  CHECK(layout_in_larger(p.g, part)->axes[1] == std::vector<DimFactor>{{Dim(2), Dim(8)}, {Dim(5), Dim(24)}});
}

TEST_CASE("rows and channels are made in the order in which they are read, if they are read in that order alone") {
  for (const bool shared : {false, true}) {
    Module m;
    Builder b(m.main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {1, 6, 6, 8}));
    const ValueId y = b.create(OpKind::RmsNorm, {x}, NormAttrs{3, 1e-5});
    const ValueId split = b.reshape(y, {1, 2, 3, 2, 3, 8}), windows = b.transpose(split, {0, 1, 3, 2, 4, 5});
    m.main().add_output(b.reshape(windows, {4, 9, 8}), {});
    if (shared) m.main().add_output(b.unary(OpKind::Exp, y), {});
    CHECK(view_of(m.main(), m.main().def(windows)).has_value() == !shared);
    CHECK_FALSE(layout_in_larger(m.main(), windows));
    const auto layout = layout_in_larger(m.main(), y);
    REQUIRE(layout.has_value() == !shared);
    if (shared) continue;
    CHECK(layout->axes[1] == std::vector<DimFactor>{{Dim(2), Dim(144)}, {Dim(3), Dim(24)}});
    CHECK(layout->axes[2] == std::vector<DimFactor>{{Dim(2), Dim(72)}, {Dim(3), Dim(8)}});
    CHECK(layout->axes[3] == std::vector<DimFactor>{{Dim(8), Dim(1)}});
  }
  for (const int64_t groups : {1, 8}) {
    Module m;
    Builder b(m.main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {2, 8, 5, 5})),
                  w = b.input("w", tensor_type(DType::F32, {8, 8 / groups, 1, 1}));
    const ValueId y = b.create(OpKind::Conv, {x, w}, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, groups});
    const ValueId rows = b.transpose(b.reshape(y, {2, 8, 25}), {0, 2, 1});
    m.main().add_output(rows, {});
    CHECK(view_of(m.main(), m.main().def(rows)).has_value() == (groups == 1));
    if (groups == 1) CHECK(strides_in_larger(m.main(), y) == std::vector<Dim>{200, 1, 40, 8});
  }
}

TEST_CASE("products write, and read a residual, in the order of the sum, where rows or columns of many lie together") {
  for (const int64_t size : {3, 4}) {  // 9 rows per image are below kFewRows
    Module m;
    Builder b(m.main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {2, size, size, 5})),
                  w = b.input("w", tensor_type(DType::F32, {5, 8}));
    const ValueId r = b.unary(OpKind::Abs, b.input("r", tensor_type(DType::F32, {2, 8, size, size})));
    const ValueId residual = b.transpose(r, {0, 2, 3, 1});
    const ValueId y = b.create(OpKind::FusedMatMulBiasAct, {x, w, {}, residual}, FusedMatMulAttrs{});
    const ValueId sum = b.transpose(y, {0, 3, 1, 2});
    m.main().add_output(sum, {});
    m.main().add_output(b.unary(OpKind::Exp, sum), {});
    const auto made = layout_in_larger(m.main(), y), read = layout_in_larger(m.main(), residual);
    REQUIRE(made.has_value() == (size == 4));
    CHECK(made == read);
    CHECK(view_of(m.main(), m.main().def(sum)).has_value() == (size == 4));
    if (size == 4) CHECK(made->axes[3] == std::vector<DimFactor>{{Dim(8), Dim(16)}});
  }
}

TEST_CASE("a product by matrices steps from one to the next, one of rows keeps most of them together") {
  for (const int64_t rows : {4, 20})
    for (const bool by_matrix : {false, true}) {
      Module m;
      Builder b(m.main());
      const ValueId x = b.input("x", tensor_type(DType::F32, {2, 3, rows, 5}));
      const ValueId w = b.input("w", tensor_type(DType::F32, by_matrix ? std::vector<Dim>{2, 3, 5, 8} : std::vector<Dim>{5, 8}));
      const ValueId y = b.matmul(x, w);
      m.main().add_output(b.transpose(y, {0, 2, 1, 3}), {});
      CHECK(layout_in_larger(m.main(), y).has_value() == (by_matrix || rows == 20));
    }
}

TEST_CASE("convolutions read images of any order whose pixels follow each other in one step") {
  for (const bool cut : {false, true}) {
    Module m;
    Builder b(m.main());
    ValueId rows = b.input("x", tensor_type(DType::F32, {2, 25, 8}));
    ValueId image = b.reshape(b.transpose(rows, {0, 2, 1}), {2, 8, 5, 5});
    if (cut) image = b.narrow(image, 3, Dim(0), Dim(4));
    const ValueId w = b.input("w", tensor_type(DType::F32, {4, 8, 3, 3}));
    m.main().add_output(b.create(OpKind::Conv, {image, w}, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1}), {});
    CHECK(layout_in_larger(m.main(), image).has_value() == !cut);
  }
}

TEST_CASE("integer windows of single channels read rows unless vectors of channels are computed") {
  for (const bool planes : {false, true}) {
    Module m;
    Builder b(m.main());
    const ValueId rows = b.input("x", tensor_type(DType::U8, {2, 9, 48}));
    ValueId image = b.narrow(b.transpose(rows, {0, 2, 1}), 1, 16, 32);
    if (planes) image = b.reshape(image, {2, 32, 3, 3});
    const size_t axes = planes ? 2 : 1;
    std::vector<int64_t> ones(axes, 1), none(axes, 0);
    const ValueId w = b.input("w", planes ? tensor_type(DType::I8, {32, 1, 1, 1}) : tensor_type(DType::I8, {32, 1, 1}));
    m.main().add_output(b.create(OpKind::QConv, {image, w}, ConvAttrs{ones, none, none, ones, {}, 32}), {});
    CHECK(layout_in_larger(m.main(), image, 16).has_value() == !planes);
  }
}

TEST_CASE("windows of a rolled image are made and read where they lie") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.unary(OpKind::Neg, b.input("x", tensor_type(DType::F32, {6, 6, 8})));
  const auto rolled = [&](ValueId v, int64_t by) {
    return b.concat(std::array{b.narrow(v, 1, Dim(by), Dim(6 - by)), b.narrow(v, 1, Dim(0), Dim(by))}, 1);
  };
  const ValueId y = rolled(x, 2), split = b.transpose(b.reshape(y, {2, 3, 2, 3, 8}), {0, 2, 1, 3, 4});
  const ValueId windows = b.create(OpKind::Softmax, {b.reshape(split, {4, 9, 8})}, AxisAttrs{1});
  const ValueId merged = b.transpose(b.reshape(windows, {2, 2, 3, 3, 8}), {0, 2, 1, 3, 4});
  const ValueId image = b.reshape(merged, {6, 6, 8});
  m.main().add_output(rolled(image, 4), {});
  CHECK(view_of(m.main(), m.main().def(split)));
  CHECK(view_of(m.main(), m.main().def(merged)));
  const std::vector<DimFactor> factors{{Dim(2), Dim(72)}, {Dim(3), Dim(8)}};
  CHECK(layout_in_larger(m.main(), y)->axes[1] == factors);
  const ValueId part = m.main().operand(m.main().def(m.main().outputs()[0]), 0);
  CHECK(layout_in_larger(m.main(), part)->axes[1] == factors);
  CHECK(layout_in_larger(m.main(), part)->start(1) == Dim(4));
  CHECK(view_of(m.main(), m.main().def(part))->byte_offset == Dim(0));
}

TEST_CASE("a program of several concatenated results writes each as its reader wants it") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {6, 6, 8}));
  const NodeId region =
      b.create_node(OpKind::ConcatRegion, std::array{x}, test::concat_region({"neg(i0):f32", "abs(i0):f32"}, 1, 2, {0, 1, 1, 0}));
  REQUIRE(region.valid());
  const ValueId first = m.main().result(region, 0), second = m.main().result(region, 1);
  const ValueId split = b.transpose(b.reshape(first, {2, 3, 3, 4, 8}), {0, 2, 1, 3, 4});
  m.main().add_output(b.create(OpKind::Softmax, {b.reshape(split, {6, 12, 8})}, AxisAttrs{1}), {});
  m.main().add_output(b.create(OpKind::Softmax, {second}, AxisAttrs{1}), {});
  CHECK(view_of(m.main(), m.main().def(split)));
  CHECK(layout_in_larger(m.main(), first)->axes[1] == std::vector<DimFactor>{{Dim(3), Dim(96)}, {Dim(4), Dim(8)}});
  CHECK_FALSE(layout_in_larger(m.main(), second));
}

TEST_CASE("the layouts of a graph are those of its values, and the verifier accepts them") {
  Packed p;
  const ValueId part = p.b.narrow(p.x, 1, Dim(1), Dim(3)), split = p.b.reshape(part, {2, 3, 4, 6}),
                heads = p.b.transpose(split, {0, 2, 1, 3}), y = p.b.unary(OpKind::Relu, heads);
  p.g.add_output(y, {});
  const GraphLayouts layouts = assign_layouts(p.g);
  for (const ValueId v : {p.x, part, split, heads, y}) {
    const auto layout = layout_in_larger(p.g, v);
    CHECK(layout.has_value() == (layouts.of(v) != nullptr));
    if (layout) CHECK(*layout == *layouts.of(v));
    CHECK(layouts.is_view(p.g, p.g.def(v)) == view_of(p.g, p.g.def(v)).has_value());
  }
  CHECK(layouts.root[heads.raw] == p.x);
  CHECK(layouts.offset[heads.raw] == Dim(96));
  CHECK(layouts.root[y.raw] == y);
  Diagnostics d;
  CHECK_MESSAGE(verify_layouts(p.g, layouts, d), d.text());
}

TEST_CASE("layouts of a whole graph are those of its values one by one, along chains of any length") {
  size_t found = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    check_layouts(testing::random_graph({.seed = seed})->main());
    found += check_layouts(testing::random_blocks(seed)->main());
  }
  for (int length = 1; length < 20; ++length) {
    Packed p;
    ValueId v = p.b.matmul(p.x, p.b.input("w", tensor_type(DType::F32, {24, 6})));
    for (int i = 0; i < length; ++i) v = i % 4 == 3 ? p.b.reshape(p.b.reshape(v, {60}), {5, 3, 4}) : p.b.transpose(v, {0, 2, 1});
    p.g.add_output(p.b.reduce(ReduceOp::Sum, v, {1}, false), {});
    check_layouts(p.g);
  }
  CHECK(found > 100);
}
