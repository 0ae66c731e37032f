// Views of slices, permuted and repeated axes, and their reshapes: kernels that read them through strides must equal the
// reference evaluator, and the interpreter must see no access out of bounds.
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>

#include "analysis/views.h"
#include "codegen/make_package.h"
#include "eval/random.h"
#include "ir/builder.h"
#include "memory/plan_lir.h"
#include "runtime/interpret_package.h"
#include "runtime/run_package.h"
#include "support/norm_region.h"
#include "support/random.h"

using namespace rlxc;

namespace {

// Many random chains of views between producers and consumers in one module.
class Paths {
 public:
  Paths(uint64_t seed, bool symbolic) : random_(seed), symbolic_(symbolic) {}

  void add() {
    std::vector<Dim> dims;
    for (size_t rank = 2 + random_.below(3); dims.size() < rank;)
      dims.push_back(Dim(static_cast<int64_t>(random_.below(8) == 0 ? 17 + random_.below(5) : 1 + random_.below(6))));
    if (symbolic_) dims[0] = m_->dims.symbol("n");
    ValueId v = make(dims);
    for (size_t moves = 1 + random_.below(5); moves > 0; --moves) {
      v = move(v);
      if (random_.below(6) == 0) output(b_.unary(OpKind::Abs, v));
    }
    read(v);
  }

  // More operands than get separate kernels.
  void join_many() {
    std::vector<ValueId> parts;
    for (int64_t i = 0; i < 23; ++i)
      parts.push_back(b_.unary(OpKind::Neg, input({Dim(2), Dim(i % 4), symbolic_ ? m_->dims.symbol("n") : Dim(3)})));
    output(b_.concat(parts, 1));
  }

  // Integer products of heads, whose result is written in the order of rows.
  void multiply_heads() {
    const auto codes = [&] { return b_.cast(b_.mul(input({2, 18, 3, 16}), b_.scalar(DType::F32, 90)), DType::I8); };
    const ValueId q = b_.transpose(codes(), {0, 2, 1, 3}), k = b_.transpose(codes(), {0, 2, 3, 1});
    const ValueId sums = b_.create(OpKind::QMatMul, {q, k}), v = b_.transpose(codes(), {0, 2, 1, 3});
    output(sums);
    const ValueId mixed = b_.create(OpKind::QMatMul, {b_.cast(sums, DType::U8), v});
    output(b_.reshape(b_.transpose(mixed, {0, 2, 1, 3}), {2, 18, 48}));
  }

  // Integer convolutions, of all channels and of single ones, between values with channels last.
  void convolve_channels_last() {
    const auto codes = [&](std::vector<Dim> dims) {
      return b_.cast(b_.mul(input(std::move(dims)), b_.scalar(DType::F32, 90)), DType::I8);
    };
    for (const int64_t groups : {1, 32}) {
      const ValueId image = b_.transpose(codes({2, 7, 5, 32}), {0, 3, 1, 2}), w = codes({32, groups == 1 ? 32 : 1, 3, 3});
      for (const bool zero : {false, true}) {
        const ValueId sums = b_.create(OpKind::QConv, {image, w, zero ? b_.scalar(DType::I8, -128) : ValueId()},
                                       ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, groups});
        output(b_.unary(OpKind::Abs, b_.transpose(sums, {0, 2, 3, 1})));
      }
    }
  }

  // Integer windows along one axis of channels that are a slice of rows.
  void convolve_rows() {
    const ValueId rows = b_.cast(b_.mul(input({2, 9, 12}), b_.scalar(DType::F32, 90)), DType::I8);
    const ValueId w = b_.cast(b_.mul(input({8, 1, 4}), b_.scalar(DType::F32, 90)), DType::I8);
    const ValueId image = b_.narrow(b_.transpose(rows, {0, 2, 1}), 1, 2, 8);
    for (const int64_t pad : {0, 3})
      output(b_.create(OpKind::QConv, {image, w, b_.scalar(DType::I8, 3)}, ConvAttrs{{1}, {pad}, {pad}, {1}, {}, 8}));
  }

  // Programs whose concatenated results are written as windows: cpu alone has their kernel.
  void join_programs() {
    const ValueId x = b_.unary(OpKind::Neg, input({6, 6, 8})), y = input({6, 2, 1});
    for (const bool alike : {false, true}) {
      const NodeId region =
          b_.create_node(OpKind::ConcatRegion, std::array{b_.narrow(x, 1, 0, alike ? 2 : 4), b_.narrow(x, 1, 3, 2), y},
                         test::concat_region({"neg(i0):f32", "mul(i1,i2):f32", "abs(s1):f32"}, 1, 2, {0, 2, 0, 1}));
      for (size_t i = 0; i < 2; ++i) {
        const Dim half(alike ? 2 : 3);
        const ValueId split = b_.reshape(m_->main().result(region, i), {Dim(2), Dim(3), Dim(2), half, Dim(8)});
        const ValueId windows = b_.reshape(b_.transpose(split, {0, 2, 1, 3, 4}), {Dim(4), m_->dims.mul(Dim(3), half), Dim(8)});
        output(b_.create(OpKind::Softmax, {windows}, AxisAttrs{1}));
      }
    }
  }

  // A part that is copied from where its pixels are interleaved and cropped, before and behind one that is computed.
  void join_scattered() {
    const ValueId y = input({1, 2, 5, 7});
    for (const bool first : {false, true}) {
      const ValueId phases = b_.reshape(b_.unary(OpKind::Neg, input({1, 8, 3, 4})), {1, 2, 2, 2, 3, 4});
      const ValueId whole = b_.reshape(b_.transpose(phases, {0, 1, 4, 2, 5, 3}), {1, 2, 6, 8});
      const ValueId x = b_.narrow(b_.narrow(whole, 2, 1, 5), 3, 1, 7);
      const NodeId region = b_.create_node(OpKind::ConcatRegion, std::array{x, y},
                                           test::concat_region({"cast(i0):f32", "exp(i1):f32"}, 1, 1,
                                                               first ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1, 0}));
      output(m_->main().result(region));
    }
  }

  // The same, and rows that are reduced and read as halves of heads.
  void join_reduced_rows() {
    const ValueId x = b_.transpose(b_.reshape(b_.unary(OpKind::Neg, input({2, 5, 24})), {2, 5, 3, 8}), {0, 2, 1, 3});
    const NodeId region =
        b_.create_node(OpKind::ConcatRegion, std::array{x, b_.narrow(x, 3, 4, 4), b_.narrow(x, 3, 0, 4), input({3, 1, 1})},
                       test::concat_region({"reduce_max(i0):f32", "mul(i1,s0):f32", "sub(i2,i3):f32"}, 3, 1, {1, 2}));
    output(
        b_.create(OpKind::Softmax, {b_.reshape(b_.transpose(m_->main().result(region), {0, 2, 1, 3}), {10, 24})}, AxisAttrs{1}));
  }

  void check(std::span<const char* const> targets) {
    std::vector<eval::HostValue> inputs;
    for (size_t i = 0; i < types_.size(); ++i) inputs.push_back(eval::random_value(*m_, types_[i], {{"n", 3}}, i));
    const auto expected = eval::evaluate(*m_, inputs, d_);
    REQUIRE_MESSAGE(expected.has_value(), d_.text());
    size_t in_place = 0;
    for (NodeId n : m_->main().nodes())
      in_place +=
          m_->main().op(n) != OpKind::Reshape && m_->main().result_count(n) && layout_in_larger(m_->main(), m_->main().result(n));
    CHECK(in_place > types_.size() / 8);
    const auto lir = plan_lir(std::move(m_), {.verify = true}, d_);
    REQUIRE_MESSAGE(lir.has_value(), d_.text());
    const auto agrees = [&](const std::optional<std::vector<eval::HostValue>>& actual, const std::string& how) {
      REQUIRE_MESSAGE(actual.has_value(), how << ": " << d_.text());
      for (size_t i = 0; i < expected->size(); ++i) {
        const auto compared = eval::compare((*actual)[i], (*expected)[i], 1e-4, 1e-5);
        CHECK_MESSAGE(compared.pass, how << ", output " << i << ": " << compared.message);
      }
    };
    for (const char* target : targets) {
      const auto runner = make_interpreting_runner(*lir, target, d_);
      REQUIRE_MESSAGE(runner != nullptr, d_.text());
      agrees(runner->run(inputs, d_), target);
    }
    const auto package = codegen::make_package(*lir, "strides", {}, d_);
    REQUIRE_MESSAGE(package.has_value(), d_.text());
    agrees(run_package(*package, inputs, d_), "compiled");
  }

 private:
  ValueId input(std::vector<Dim> dims) {
    types_.push_back(tensor_type(DType::F32, std::move(dims)));
    return b_.input("x" + std::to_string(types_.size()), types_.back());
  }
  void output(ValueId v) { m_->main().add_output(v, m_->symbol("y" + std::to_string(m_->main().outputs().size()))); }
  std::vector<Dim> dims(ValueId v) { return {m_->main().dims(v).begin(), m_->main().dims(v).end()}; }

  // A producer with a fixed layout, or one that can write its consumer's layout.
  ValueId make(const std::vector<Dim>& d) {
    const ValueId x = b_.unary(OpKind::Neg, input(d));
    const auto axis = static_cast<int64_t>(d.size()) - 1;
    switch (random_.below(6)) {
      case 4: return ended(d, {});
      case 2: return b_.concat(std::array{x, b_.unary(OpKind::Neg, input(d))}, axis - static_cast<int64_t>(random_.below(2)));
      case 0: return b_.create(OpKind::RmsNorm, {x, b_.unary(OpKind::Neg, input({d.back()}))}, NormAttrs{axis, 1e-3});
      case 1: return d.size() < 3 ? x : convolved(x, d, false, random_.below(2));
      default: return x;
    }
  }

  ValueId move(ValueId v) {
    std::vector<Dim> d = dims(v);
    const size_t axis = random_.below(d.size());
    switch (random_.below(5)) {
      case 4: return enlarge(v, d);
      case 0: {
        if (!d[axis].is_static() || d[axis].size() < 2) return v;
        const int64_t start = static_cast<int64_t>(random_.below(static_cast<uint64_t>(d[axis].size())));
        return b_.narrow(v, static_cast<int64_t>(axis), Dim(start), Dim(1 + (d[axis].size() - start - 1) / 2));
      }
      case 1: {
        if (!d[axis].is_static() || d[axis].size() < 3) return v;
        return b_.create(OpKind::Slice, {v}, SliceAttrs{static_cast<int64_t>(axis), Dim(1), Dim((d[axis].size()) / 2), 2});
      }
      case 2: {
        std::vector<int64_t> perm(d.size());
        for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
        const size_t last = perm.size() - (random_.below(4) != 0);  // usually excludes the last axis
        for (size_t i = last; i > 1; --i) std::swap(perm[i - 1], perm[random_.below(i)]);
        return b_.transpose(v, perm);
      }
      default: {
        if (random_.below(2) == 0 && d.size() > 1) {
          const size_t at = random_.below(d.size() - 1);
          d[at] = m_->dims.mul(d[at], d[at + 1]);
          d.erase(d.begin() + static_cast<int64_t>(at) + 1);
        } else if (d[axis].is_static() && d[axis].size() % 2 == 0) {
          d[axis] = Dim(d[axis].size() / 2);
          d.insert(d.begin() + static_cast<int64_t>(axis) + static_cast<int64_t>(random_.below(2)), Dim(2));
        } else {
          d.insert(d.begin() + static_cast<int64_t>(axis), Dim(1));
        }
        return b_.reshape(v, d);
      }
    }
  }

  ValueId enlarge(ValueId v, const std::vector<Dim>& d) {
    ResizeAttrs a;
    const bool by_scale = random_.below(2);
    a.coord = by_scale ? CoordMode::Asymmetric : CoordMode::HalfPixel;
    a.nearest = by_scale ? NearestMode::Floor : NearestMode::RoundPreferCeil;
    for (Dim size : d) {
      const auto times = static_cast<int64_t>(1 + (random_.below(3) == 0 ? random_.below(4) : 0));
      a.sizes.push_back(m_->dims.mul(size, Dim(times)));
      if (by_scale) a.scales.push_back(static_cast<double>(times));
    }
    return b_.create(OpKind::Resize, {v}, a);
  }

  // A matmul of rows or of matrices, plain or of a kind that can fuse a residual.
  ValueId ended(const std::vector<Dim>& d, ValueId residual) {
    if (d.size() < 2) return residual.valid() ? residual : b_.unary(OpKind::Neg, input(d));
    std::vector<Dim> left(d), right{Dim(5), d.back()};
    left.back() = Dim(5);
    if (d.size() > 2 && random_.below(3) == 0) right.insert(right.begin(), d.begin(), d.end() - 2);
    const ValueId x = b_.unary(OpKind::Neg, input(left)), w = b_.unary(OpKind::Neg, input(right));
    if (!residual.valid() && random_.below(2)) return b_.matmul(x, w);
    return b_.create(OpKind::FusedMatMulBiasAct, {x, w, b_.unary(OpKind::Abs, input({d.back()})), residual},
                     FusedMatMulAttrs{false, false, {true, OpKind::Relu, 0, 0}});
  }

  void read(ValueId v) {
    const std::vector<Dim> d = dims(v);
    switch (random_.below(11)) {
      case 10: return output(scaled(v, d));
      case 9: return output(ended(d, v));
      case 0: return output(b_.add(v, b_.unary(OpKind::Neg, input(d))));
      case 1: return output(b_.mul(b_.unary(OpKind::Neg, input({d.back()})), v));
      case 2: return output(b_.concat(std::array{v, b_.unary(OpKind::Abs, v)}, static_cast<int64_t>(random_.below(d.size()))));
      case 3: return output(b_.reduce(ReduceOp::Max, v, {0}, false));  // needs a copy
      case 4: return d.size() < 2 ? output(b_.unary(OpKind::Exp, v)) : multiply(v, d);
      case 5: return d.size() < 2 ? output(b_.unary(OpKind::Exp, v)) : multiply_by(v, d);
      case 6:
        return d.size() < 3 || !d[1].is_static() ? output(b_.unary(OpKind::Exp, v))
                                                 : output(convolved(v, d, random_.below(3) == 0, random_.below(2)));
      case 7: return output(b_.unary(OpKind::Exp, v));
      default: return normalise(v, d);
    }
  }
  // Adds the mean of the squares of each row.
  ValueId scaled(ValueId v, const std::vector<Dim>& d) {
    const auto axis = static_cast<int64_t>(d.size()) - 1;
    return b_.create(OpKind::ReduceRegion, {v},
                     test::reduce_region({"mul(i0,i0):f32", "reduce_mean(s0):f32", "add(i0,s1):f32"}, {axis}));
  }
  // Convolves pixels or windows, dense or depthwise.
  ValueId convolved(ValueId v, const std::vector<Dim>& d, bool alone, bool windows) {
    const int64_t reach = windows ? 1 : 0;
    std::vector<Dim> kernel{alone ? d[1] : Dim(3), alone ? Dim(1) : d[1]};
    kernel.resize(d.size(), Dim(2 * reach + 1));
    ConvAttrs a;
    a.groups = alone ? d[1].size() : 1;
    for (auto* list : {&a.pads_begin, &a.pads_end}) list->assign(d.size() - 2, reach);
    for (auto* list : {&a.strides, &a.dilations}) list->assign(d.size() - 2, 1);
    if (windows) a.strides[random_.below(a.strides.size())] = 2;
    return b_.create(OpKind::Conv, {v, b_.unary(OpKind::Neg, input(kernel))}, a);
  }
  // Norms over one or two axes, with or without a residual.
  void normalise(ValueId v, const std::vector<Dim>& d) {
    const auto axis = static_cast<int64_t>(d.size() - 1 - (d.size() > 2 ? random_.below(2) : 0));
    const std::vector<Dim> row(d.begin() + axis, d.end());
    const ValueId gamma = b_.unary(OpKind::Neg, input(row));
    const NormAttrs a{axis, 0.1};
    if (random_.below(3) == 0) return output(b_.create(OpKind::RmsNorm, {v, gamma}, a));
    const ValueId beta = b_.unary(OpKind::Neg, input(row));
    if (random_.below(2)) return output(b_.create(OpKind::LayerNorm, {v, gamma, beta}, a));
    output(b_.create(OpKind::FusedResidualLN, {b_.unary(OpKind::Neg, input(d)), v, {}, gamma, beta}, a));
  }
  // Multiplies by a matrix, or by one per leading index, plain or transposed.
  void multiply(ValueId v, std::vector<Dim> d) {
    const bool trans = random_.below(2);
    const Dim k = trans ? d[d.size() - 2] : d.back();
    std::vector<Dim> own(random_.below(2) ? std::vector<Dim>(d.begin(), d.end() - 2) : std::vector<Dim>());
    own.insert(own.end(), {k, Dim(3)});
    output(b_.matmul(v, b_.unary(OpKind::Neg, input(own)), trans));
  }
  void multiply_by(ValueId v, std::vector<Dim> d) {
    const bool trans = random_.below(2);
    const Dim k = trans ? d.back() : d[d.size() - 2];
    output(b_.matmul(b_.unary(OpKind::Neg, input({Dim(5), k})), v, false, trans));
  }

  test::Random random_;
  bool symbolic_;
  std::unique_ptr<Module> m_ = std::make_unique<Module>();
  Diagnostics d_;
  Builder b_{m_->main(), &d_};
  std::vector<Type> types_;
};

}  // namespace

TEST_CASE("values that are moved on paper only are read through strides") {
  const char* tries = std::getenv("RLXC_PATHS");
  for (uint64_t seed = 0; seed < (tries ? std::strtoull(tries, nullptr, 10) : 2); ++seed) {
    Paths p(seed, seed % 2 != 0);
    for (int i = 0; i < 150; ++i) p.add();
    p.join_many();
    p.multiply_heads();
    p.convolve_channels_last();
    p.convolve_rows();
    p.check(std::array{"cpu", "cuda", "wgpu"});
  }
  Paths programs(0, false);
  programs.join_programs();
  programs.join_scattered();
  programs.join_reduced_rows();
  programs.check(std::array{"cpu"});
}

TEST_CASE("attention and rotations read heads where they lie, in any order of axes") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.unary(OpKind::Neg, b.input("x", tensor_type(DType::F32, {3, 7, 2, 24})));
  const ValueId heads = b.transpose(x, {0, 2, 1, 3});
  const ValueId cosine = b.input("c", tensor_type(DType::F32, {7, 4})), sine = b.input("s", tensor_type(DType::F32, {7, 4}));
  const auto part = [&](int64_t start) { return b.narrow(heads, 3, Dim(start), Dim(8)); };
  const ValueId q = b.create(OpKind::Rope, {part(0), cosine, sine}, RopeAttrs{.layout = AttentionLayout::BHSD});
  const AttentionAttrs a{
      .num_heads = 2, .num_kv_heads = 2, .layout = AttentionLayout::BHSD, .out_layout = AttentionLayout::Packed};
  m.main().add_output(b.create(OpKind::Attention, {q, part(8), part(16)}, a), m.symbol("y"));
  REQUIRE_MESSAGE(d.errors() == 0, d.text());
  for (NodeId n : m.main().nodes()) CHECK((m.main().op(n) != OpKind::Narrow || view_of(m.main(), n)));
  CHECK(view_of(m.main(), m.main().def(heads)));
}
