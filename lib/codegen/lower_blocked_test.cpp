// Nets whose images have channels in blocks must equal the reference evaluator, and the interpreter must see no access out of
// bounds, in the kernel language and compiled.
#include "codegen/lower_blocked.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdlib>

#include "analysis/channel_blocks.h"
#include "backend/c/cpu_dot.h"
#include "codegen/lowering_cache.h"
#include "codegen/make_package.h"
#include "eval/random.h"
#include "ir/builder.h"
#include "memory/plan_lir.h"
#include "runtime/interpret_package.h"
#include "runtime/run_package.h"
#include "support/random.h"

using namespace rlxc;

namespace {

struct ConvCase {
  int64_t channels;
  std::vector<int64_t> kernel = {3, 3}, strides = {1, 1}, begin = {1, 1}, end = {1, 1}, dilations = {1, 1};
  int64_t groups = 1;
};

// A net on one image, checked against the evaluator.
class BlockedNet {
 public:
  explicit BlockedNet(const codegen::CapabilityRow& row = {}, DType dtype = DType::F32) : row_(row), dtype_(dtype) {}

  Graph& g() { return m_->main(); }

  ValueId image(std::vector<Dim> dims) {
    types_.push_back(tensor_type(dtype_, std::move(dims)));
    return b_.input("x" + std::to_string(types_.size()), types_.back());
  }
  ValueId weight(std::vector<int64_t> dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    const auto values = std::make_shared<std::vector<float>>(random_.uniform_floats(static_cast<size_t>(n), -0.4, 0.4));
    TensorData t;
    t.dims = std::move(dims);
    t.bytes = std::as_bytes(std::span(*values));
    t.owner = values;
    return b_.cast(b_.constant(std::move(t)), is_float(dtype_) ? dtype_ : DType::F32);
  }
  ValueId conv(ValueId x, const ConvCase& c, bool bias = false, ValueId residual = {}) {
    const int64_t in = g().dims(x)[1].size() / c.groups;
    FusedConvAttrs a;
    a.conv.strides = c.strides;
    a.conv.pads_begin = c.begin;
    a.conv.pads_end = c.end;
    a.conv.dilations = c.dilations;
    a.conv.groups = c.groups;
    const ValueId w = weight({c.channels, in, c.kernel[0], c.kernel[1]});
    if (!bias && !residual.valid()) return b_.create(OpKind::Conv, {x, w}, a.conv);
    a.act.has = true;
    a.act.op = OpKind::Relu;
    return b_.create(OpKind::FusedConvBiasAct, {x, w, bias ? weight({c.channels}) : ValueId(), residual}, a);
  }
  ValueId pool(ValueId x, ReduceOp op, std::vector<int64_t> kernel, std::vector<int64_t> strides, std::vector<int64_t> begin,
               std::vector<int64_t> end, bool count, bool overhangs = false) {
    PoolAttrs a;
    a.ceil_mode = overhangs;
    a.op = op;
    a.kernel = std::move(kernel);
    a.strides = std::move(strides);
    a.pads_begin = std::move(begin);
    a.pads_end = std::move(end);
    a.dilations = {1, 1};
    a.count_include_pad = count;
    return b_.create(OpKind::Pool, {x}, a);
  }
  // A convolution of integers, with codes as results: sums * scale, plus a code of the residual, rounded.
  ValueId integer_conv(ValueId x, const ConvCase& c, std::optional<double> zero = {}, ValueId residual = {}) {
    using enum OpKind;
    const int64_t in = g().dims(x)[1].size() / c.groups;
    const ValueId w = codes(DType::I8, {c.channels, in, c.kernel[0], c.kernel[1]}), channel = weight({c.channels, 1, 1});
    FusionAttrs a;
    ConvAttrs conv;
    conv.strides = c.strides;
    conv.pads_begin = c.begin;
    conv.pads_end = c.end;
    conv.dilations = c.dilations;
    conv.groups = c.groups;
    std::vector<ValueId> operands{x, w, zero ? b_.scalar(dtype_, *zero) : ValueId(), {}, channel, b_.scalar(DType::F32, 0.01)};
    const auto step = [&](OpKind op, DType t, std::array<uint16_t, 3> args, StepAttrs attrs = {}) {
      a.steps.push_back({op, t, args, std::move(attrs)});
      return static_cast<uint16_t>(RegionStep::kStep | (a.steps.size() - 1));
    };
    constexpr uint16_t kNone = RegionStep::kNone;
    uint16_t y = step(QConv, DType::I32, {kNone, kNone, kNone}, conv);
    y = step(Cast, DType::F32, {y, kNone, kNone});
    y = step(Mul, DType::F32, {step(Mul, DType::F32, {y, 4, kNone}), 5, kNone});
    if (residual.valid()) {
      operands.push_back(residual);
      y = step(Add, DType::F32, {y, step(Cast, DType::F32, {6, kNone, kNone}), kNone});
    }
    y = step(Clamp, DType::F32, {step(Round, DType::F32, {y, kNone, kNone}), kNone, kNone},
             dtype_ == DType::U8 ? ClampAttrs{0, 255} : ClampAttrs{-128, 127});
    step(Cast, dtype_, {y, kNone, kNone});
    return b_.create(FusedQConv, operands, a);
  }
  // The sums of a convolution of integers. `all`: all weights.
  ValueId integer_sums(ValueId x, const ConvCase& c, std::optional<double> zero, std::optional<int8_t> all = {}) {
    ConvAttrs a;
    a.strides = c.strides;
    a.pads_begin = c.begin;
    a.pads_end = c.end;
    a.dilations = c.dilations;
    const ValueId w = codes(DType::I8, {c.channels, g().dims(x)[1].size(), c.kernel[0], c.kernel[1]}, all);
    return b_.create(OpKind::QConv, {x, w, zero ? b_.scalar(dtype_, *zero) : ValueId()}, a);
  }
  ValueId codes(DType t, std::vector<int64_t> dims, std::optional<int8_t> all = {}) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    std::vector<int8_t> values;
    for (int64_t i = 0; i < n; ++i)
      values.push_back(all ? *all : static_cast<int8_t>(random_.below(5) ? random_.below(256) : 128));
    return b_.constant(make_data(t, std::move(dims), values));
  }
  void output(ValueId v) { g().add_output(v, m_->symbol("y" + std::to_string(g().outputs().size()))); }
  Builder& b() { return b_; }
  void set_all_codes(int code) { only_ = code; }  // of the inputs
  // A size that is known in a run only.
  Dim symbol(const char* name, int64_t size) {
    sizes_[name] = size;
    return m_->dims.symbol(name);
  }

  // `blocked`: how many values have channels in blocks. `tiles`: of Winograd's algorithm, of the nodes that use it. `last`: how
  // many convolutions have results with channels last.
  void check(size_t blocked, const char* name, const std::vector<int64_t>& tiles = {}, size_t last = 0) {
    REQUIRE_MESSAGE(d_.errors() == 0, name << ": " << d_.text());
    std::vector<eval::HostValue> inputs;
    eval::RandomRange range;
    range.int_low = only_ ? *only_ : dtype_ == DType::I8 ? -128 : 0;
    range.int_high = only_ ? *only_ : range.int_low + 255;
    for (size_t i = 0; i < types_.size(); ++i) inputs.push_back(eval::random_value(*m_, types_[i], sizes_, i, range));
    const auto expected = eval::evaluate(*m_, inputs, d_);
    REQUIRE_MESSAGE(expected.has_value(), d_.text());
    const auto lir = plan_lir(std::move(m_), {.verify = true}, d_, {.kernels = row_});
    REQUIRE_MESSAGE(lir.has_value(), d_.text());
    const Graph& g = lir->module->main();
    size_t found = 0;
    for (NodeId n : g.nodes())
      for (size_t r = 0; r < g.result_count(n); ++r) found += lir->plans[0].layouts.channel_block(g.result(n, r)) > 0;
    CHECK_MESSAGE(found == blocked, name);
    size_t found_last = 0;
    for (NodeId n : g.nodes()) {
      const Layout* l = is_blocked_conv(g.op(n)) ? lir->plans[0].layouts.of(g.result(n)) : nullptr;
      found_last += l && is_channels_last(*l);
    }
    CHECK_MESSAGE(found_last == last, name);
    std::vector<int64_t> used;
    for (const PrepackedWeight& p : lir->plans[0].prepacked)
      if (const int64_t tile = codegen::winograd_tile(g, lir->plans[0].layouts, p.node, row_)) used.push_back(tile);
    CHECK_MESSAGE(used == tiles, name << ": " << used.size() << " tiles");
    const double rtol = is_integer(dtype_) ? 0 : dtype_ == DType::F32 ? 1e-4 : dtype_ == DType::F16 ? 4e-3 : 4e-2;
    const auto agrees = [&](const std::optional<std::vector<eval::HostValue>>& actual, const char* how) {
      REQUIRE_MESSAGE(actual.has_value(), name << ", " << how << ": " << d_.text());
      for (size_t i = 0; i < expected->size(); ++i) {
        const auto compared = eval::compare((*actual)[i], (*expected)[i], rtol, rtol);
        CHECK_MESSAGE(compared.pass, std::string(name)
                                         << ", " << std::string(how) << ", output " << i << ": " << compared.message);
      }
    };
    if (row_.mapping.vector_bytes == 64) {
      codegen::LoweringCache lowerings(row_);
      const auto runner = make_interpreting_runner(*lir, "cpu", d_, 0, &lowerings);
      REQUIRE_MESSAGE(runner != nullptr, d_.text());
      agrees(runner->run(inputs, d_), "interpreted");
    }
    const auto package = codegen::make_package(*lir, "blocked", row_, d_);
    REQUIRE_MESSAGE(package.has_value(), d_.text());
    agrees(run_package(*package, inputs, d_), "compiled");
  }

 private:
  codegen::CapabilityRow row_;
  DType dtype_;
  std::optional<int> only_;
  std::unique_ptr<Module> m_ = std::make_unique<Module>();
  Diagnostics d_;
  Builder b_{m_->main(), &d_};
  std::vector<Type> types_;
  DimBindings sizes_;
  test::Random random_;
};

// A convolution of an image, and one of its result.
struct Pair {
  const char* name;
  std::vector<Dim> image;
  ConvCase first, second;
  size_t blocked;
};

}  // namespace

TEST_CASE("convolutions between blocked images of awkward sizes") {
  const Pair cases[] = {
      {"3x3", {1, 3, 9, 11}, {32}, {32}, 1},
      {"three panels", {2, 5, 6, 17}, {16}, {48}, 1},
      {"an odd number of panels", {1, 8, 5, 5}, {80}, {16}, 1},
      {"blocks of eight", {1, 3, 8, 9}, {24}, {40}, 1},
      {"outputs that fill no block", {1, 3, 8, 9}, {16}, {13}, 1},
      {"1x1 of 7x7", {1, 4, 7, 7}, {16}, {.channels = 32, .kernel = {1, 1}, .begin = {0, 0}, .end = {0, 0}}, 1},
      {"1x1 of stride 2",
       {1, 4, 9, 7},
       {16},
       {.channels = 16, .kernel = {1, 1}, .strides = {2, 2}, .begin = {0, 0}, .end = {0, 0}},
       1},
      {"7x7 of stride 2",
       {1, 3, 31, 33},
       {.channels = 16, .kernel = {7, 7}, .strides = {2, 2}, .begin = {3, 3}, .end = {3, 3}},
       {16},
       1},
      {"asymmetric",
       {1, 3, 10, 9},
       {.channels = 16, .kernel = {2, 5}, .strides = {1, 3}, .begin = {0, 4}, .end = {1, 0}},
       {.channels = 16, .kernel = {3, 2}, .strides = {3, 1}, .begin = {2, 0}, .end = {0, 1}},
       1},
      {"dilated", {1, 3, 12, 13}, {16}, {.channels = 16, .begin = {2, 3}, .end = {3, 2}, .dilations = {2, 3}}, 1},
      {"without padding",
       {1, 3, 12, 13},
       {.channels = 16, .begin = {0, 0}, .end = {0, 0}},
       {.channels = 16, .begin = {0, 0}, .end = {0, 0}},
       1},
      {"long rows", {1, 3, 4, 45}, {16}, {16}, 1},
      {"windows beyond the end", {1, 3, 6, 6}, {16}, {.channels = 16, .kernel = {1, 1}, .begin = {2, 0}, .end = {0, 3}}, 1},
  };
  codegen::CapabilityRow dots;
  dots.mapping = target::cpu_mapping(true);
  const std::pair<codegen::CapabilityRow, DType> forms[] = {{{}, DType::F32}, {{}, DType::F16}, {dots, DType::BF16}};
  for (const auto& [row, dtype] : forms)
    for (const auto& c : cases) {
      BlockedNet net(row, dtype);
      net.output(net.conv(net.conv(net.image(c.image), c.first, true), c.second));
      net.check(c.blocked, c.name);
    }
}

TEST_CASE("depthwise windows, residuals and pooling of 16-bit floats keep blocks") {
  for (DType dtype : {DType::F16, DType::BF16}) {
    BlockedNet net({}, dtype);
    const ValueId x = net.conv(net.image({1, 3, 13, 11}), {40}, true);
    const ValueId alone = net.conv(x, {.channels = 40, .groups = 40}, true, x);
    const ValueId pooled = net.pool(alone, ReduceOp::Max, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false);
    const ValueId mean = net.pool(pooled, ReduceOp::Mean, {2, 2}, {1, 1}, {0, 0}, {0, 0}, false);
    net.output(net.conv(net.conv(mean, {40}, true, mean), {8}, true));
    net.check(5, name(dtype).data());
  }
}

TEST_CASE("depthwise windows between images with channels last") {
  for (DType dtype : {DType::F32, DType::F16, DType::BF16})
    for (const int64_t stride : {1, 2})
      for (const int64_t pad : {0, 3}) {
        const ConvCase c{
            .channels = 48, .kernel = {7, 5}, .strides = {stride, stride}, .begin = {pad, pad}, .end = {pad, pad}, .groups = 48};
        BlockedNet net({}, dtype);
        const auto image = [&] { return net.b().transpose(net.image({2, 11, 13, 48}), std::vector<int64_t>{0, 3, 1, 2}); };
        net.output(net.b().transpose(net.conv(image(), c), std::vector<int64_t>{0, 2, 3, 1}));
        const ValueId y = net.conv(image(), c, true);
        const auto d = net.g().dims(y);
        const ValueId rows = net.b().reshape(y, {d[0], d[1], Dim(d[2].size() * d[3].size())});
        net.output(net.b().matmul(rows, net.weight({48, 8}), true, false));
        net.check(0, "channels last", {}, 2);
      }
  BlockedNet net;
  const ValueId x = net.b().transpose(net.image({1, 9, 8, 20}), std::vector<int64_t>{0, 3, 1, 2});
  net.output(net.b().transpose(net.conv(x, {.channels = 20, .groups = 20}), std::vector<int64_t>{0, 2, 3, 1}));
  net.check(0, "channels that fill no vectors");
  BlockedNet residual;
  const ValueId image = residual.b().transpose(residual.image({2, 9, 8, 16}), std::vector<int64_t>{0, 3, 1, 2});
  const ValueId y = residual.conv(image, {.channels = 16, .groups = 16}, true, residual.image({2, 16, 9, 8}));
  residual.output(residual.b().transpose(y, std::vector<int64_t>{0, 2, 3, 1}));
  residual.check(0, "a residual");
}

TEST_CASE("groups, depthwise windows, residuals, pooling and joins keep blocks") {
  {
    BlockedNet net;
    const ValueId x = net.conv(net.image({1, 3, 9, 8}), {32}, true);
    net.output(net.conv(net.conv(x, {.channels = 64, .groups = 2}, true), {8}));
    net.check(2, "groups");
  }
  {
    BlockedNet net;
    const ValueId x = net.conv(net.image({1, 3, 9, 8}), {24}, true);
    net.output(net.conv(net.conv(x, {.channels = 24, .groups = 6}, true), {8}));
    net.check(0, "groups of four channels");
  }
  for (const int64_t stride : {1, 2})
    for (const int64_t size : {3, 5, 7}) {
      BlockedNet net;
      const ValueId x = net.conv(net.image({2, 3, 11, 19}), {40}, true);
      const ConvCase alone{
          .channels = 40, .kernel = {size, 3}, .strides = {stride, stride}, .begin = {size / 2, 0}, .end = {1, 2}, .groups = 40};
      net.output(net.conv(net.conv(x, alone, true), {8}));
      net.check(2, "depthwise");
    }
  for (const int64_t dilation : {2, 6})
    for (const int64_t columns : {4, 19, 40}) {
      BlockedNet net;
      const ValueId x = net.conv(net.image({1, 3, 7, columns}), {16}, true);
      const ConvCase alone{.channels = 16,
                           .begin = {dilation, dilation},
                           .end = {dilation, dilation},
                           .dilations = {dilation, dilation},
                           .groups = 16};
      net.output(net.conv(net.conv(x, alone, true), {8}));
      net.check(2, "depthwise, dilated");
    }
  {
    BlockedNet net;
    const ValueId x = net.conv(net.image({1, 3, 3, 700}), {16}, true);
    net.output(net.conv(net.conv(x, {.channels = 16, .groups = 16}), {8}));
    net.check(2, "depthwise, long rows");
  }
  {
    BlockedNet net;
    const ValueId x = net.conv(net.image({1, 3, 9, 8}), {32}, true);
    const ValueId y = net.conv(net.conv(x, {32}, true), {32}, true, x);
    net.output(net.conv(net.conv(y, {.channels = 32, .groups = 32}, true, y), {8}, true));
    net.check(4, "residuals");
  }
  {
    BlockedNet net;
    const ValueId x = net.conv(net.image({1, 3, 9, 8}), {16}, true), y = net.conv(x, {20}, true);
    net.output(net.conv(x, {20}, true, y));
    net.output(y);
    net.check(1, "a row-major residual");
  }
  {
    BlockedNet net;
    const ValueId x = net.conv(net.image({1, 3, 13, 14}), {16}, true);
    const ValueId most = net.pool(x, ReduceOp::Max, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false);
    const ValueId mean = net.pool(x, ReduceOp::Mean, {3, 2}, {2, 2}, {1, 0}, {1, 1}, false);
    const ValueId counted = net.pool(x, ReduceOp::Mean, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true);
    const ValueId joined = net.b().concat(std::array{most, mean, counted}, 1);
    const ValueId scale = net.weight({48, 1, 1});
    const ValueId y = net.b().mul(net.b().unary(OpKind::Sigmoid, joined), scale);
    net.output(net.b().reduce(ReduceOp::Mean, y, {2, 3}, true));
    net.output(net.conv(y, {8}));
    net.check(7, "pooling, joins, elementwise ops and means");
  }
  {
    BlockedNet net;
    const ValueId x = net.conv(net.image({2, 3, 6, 5}), {16}, true), y = net.conv(net.image({2, 3, 6, 5}), {8}, true);
    net.output(net.conv(net.b().concat(std::array{x, y}, 1), {16}));
    net.check(3, "joins of batches");
  }
  for (const int64_t axis : {2, 3})
    for (const int64_t batch : {1, 2}) {
      BlockedNet net;
      const ValueId x = net.conv(net.image({batch, 3, 9, 7}), {24}, true);
      const ValueId first = net.conv(net.b().narrow(x, axis, 0, 4), {32}),
                    rest = net.conv(net.b().narrow(x, axis, 3, 4), {32}, true);
      const ValueId residual = net.b().narrow(rest, axis, 1, 2);
      net.output(net.conv(net.b().concat(std::array{first, rest, residual}, axis), {8}));
      net.check(7, "parts of rows and columns, and their joins");
    }
}

namespace {

// Sizes of an image; those with a name are known in a run only.
struct OpenSize {
  int64_t size;
  const char* name = nullptr;
};

}  // namespace

TEST_CASE("sizes that are known in a run only") {
  codegen::CapabilityRow dots, winograd, narrow;
  dots.mapping = target::cpu_mapping(true);
  winograd.winograd = 4;
  narrow.mapping.vector_bytes = 32;
  narrow.mapping.vector_registers = 16;
  const struct {
    codegen::CapabilityRow row;
    DType dtype;
    std::array<OpenSize, 3> sizes;  // batch, rows, columns
  } cases[] = {
      {winograd, DType::F32, {{{3, "n"}, {13}, {14}}}},        {{}, DType::F32, {{{1}, {13, "h"}, {14, "w"}}}},
      {{}, DType::F32, {{{2, "n"}, {7, "h"}, {45, "w"}}}},     {narrow, DType::F32, {{{2, "n"}, {31, "h"}, {17, "w"}}}},
      {{}, DType::F32, {{{1, "n"}, {9}, {10, "w"}}}},          {{}, DType::F16, {{{3, "n"}, {11, "h"}, {9}}}},
      {dots, DType::BF16, {{{2, "n"}, {16, "h"}, {23, "w"}}}},
  };
  for (const auto& c : cases) {
    BlockedNet net(c.row, c.dtype);
    const auto dim = [&](const OpenSize& s) { return s.name ? net.symbol(s.name, s.size) : Dim(s.size); };
    const ValueId image = net.image({dim(c.sizes[0]), 3, dim(c.sizes[1]), dim(c.sizes[2])});
    const ValueId x = net.conv(image, {24}, true), split = net.conv(net.conv(x, {48}), {.channels = 24, .groups = 3}, true, x);
    const ConvCase alone{.channels = 24, .kernel = {5, 3}, .begin = {4, 2}, .end = {4, 2}, .dilations = {2, 2}, .groups = 24};
    const ConvCase large{.channels = 24, .kernel = {7, 5}, .strides = {2, 1}, .begin = {3, 2}, .end = {3, 2}, .groups = 24};
    const ConvCase pixels{.channels = 24, .kernel = {1, 1}, .begin = {0, 0}, .end = {0, 0}};
    const ValueId y = net.conv(net.conv(split, alone, true), pixels, true, x);
    const ValueId most = net.pool(y, ReduceOp::Max, {3, 3}, {2, 1}, {1, 1}, {1, 1}, false);
    const ValueId mean = net.pool(y, ReduceOp::Mean, {3, 3}, {2, 1}, {1, 1}, {1, 1}, c.sizes[0].size > 1);
    const ValueId joined = net.b().concat(std::array{most, mean, net.conv(y, large)}, 1);
    const ValueId scale = net.b().unary(OpKind::Sigmoid, net.b().reduce(ReduceOp::Mean, joined, {2, 3}, true));
    const ValueId scaled = net.b().mul(joined, scale);
    net.output(net.conv(scaled, {13}));
    net.output(net.conv(scaled, {.channels = 80, .kernel = {3, 3}, .strides = {2, 2}, .begin = {0, 0}, .end = {0, 0}}));
    net.check(10, "floats");
  }
  for (const DType dtype : {DType::U8, DType::I8})
    for (const bool open : {false, true}) {
      codegen::CapabilityRow row;
      row.mapping = target::cpu_mapping();
      BlockedNet net(row, dtype);
      const Dim rows = open ? net.symbol("h", 13) : 13, columns = open ? net.symbol("w", 19) : 19;
      const ValueId x = net.integer_conv(net.image({net.symbol("n", 3), 3, rows, columns}), {48}, 100);
      const ValueId alone = net.integer_conv(x, {.channels = 48, .groups = 48}, 7, x);
      net.output(net.integer_conv(net.pool(alone, ReduceOp::Max, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false), {32}, 0));
      net.check(3, "integers");
    }
  for (const bool open : {false, true}) {
    BlockedNet net;
    const Dim rows = open ? net.symbol("h", 11) : 11, columns = open ? net.symbol("w", 13) : 13;
    const ValueId rows_first = net.image({net.symbol("n", 2), rows, columns, 48});
    const ValueId image = net.b().transpose(rows_first, std::vector<int64_t>{0, 3, 1, 2});
    const ConvCase alone{.channels = 48, .kernel = {7, 5}, .begin = {3, 3}, .end = {3, 3}, .groups = 48};
    net.output(net.b().transpose(net.conv(image, alone, true), std::vector<int64_t>{0, 2, 3, 1}));
    net.check(0, "channels last", {}, 1);
  }
}

TEST_CASE("repeated rows and columns of blocked images") {
  for (const DType dtype : {DType::F32, DType::BF16})
    for (const bool open : {false, true}) {
      BlockedNet net({}, dtype);
      const Dim batch = open ? net.symbol("n", 2) : 2, rows = open ? net.symbol("h", 6) : 6,
                columns = open ? net.symbol("w", 9) : 9;
      DimTable& dims = net.g().module().dims;
      const ValueId small = net.conv(net.image({batch, 3, rows, columns}), {24}, true);
      ResizeAttrs twice;
      twice.sizes = {batch, Dim(24), dims.mul(rows, Dim(2)), dims.mul(columns, Dim(3))};
      twice.scales = {1, 1, 2, 3};
      twice.coord = CoordMode::Asymmetric;
      twice.nearest = NearestMode::Floor;
      const auto enlarged = [&] { return net.b().create(OpKind::Resize, {small}, twice); };
      const ValueId large = net.conv(net.image({batch, 5, twice.sizes[2], twice.sizes[3]}), {24}, true);
      const ValueId sum = net.b().unary(OpKind::Relu, net.b().add(large, enlarged()));
      const ValueId joined = net.b().concat(std::array{sum, enlarged()}, 1);
      net.output(net.conv(joined, {8}));
      net.output(net.conv(small, {8}));
      net.check(7, "repeated");
    }
  codegen::CapabilityRow winograd;
  winograd.winograd = 4;
  for (const bool open : {false, true}) {
    BlockedNet net(winograd);
    const Dim rows = open ? net.symbol("h", 9) : 9;
    const ValueId small = net.conv(net.image({1, 3, rows, 11}), {64}, true);
    ResizeAttrs twice;
    twice.sizes = {1, 64, net.g().module().dims.mul(rows, Dim(2)), 22};
    twice.scales = {1, 1, 2, 2};
    const ValueId large = net.b().create(OpKind::Resize, {small}, twice);
    const ValueId alone = net.conv(large, {.channels = 64, .groups = 64}, true);
    net.output(net.conv(net.conv(large, {64}, true, alone), {8}));
    net.check(4, "windows of a copy", open ? std::vector<int64_t>{} : std::vector<int64_t>{4});
  }
}

TEST_CASE("windows of an open image that reach beyond its padding") {
  for (const int64_t size : {9, 10, 12}) {
    BlockedNet net;
    const ValueId x = net.conv(net.image({1, 3, net.symbol("h", size), net.symbol("w", size + 1)}), {16}, true);
    net.output(net.conv(net.pool(x, ReduceOp::Max, {3, 3}, {2, 2}, {0, 0}, {0, 0}, false, true), {8}));
    net.output(net.conv(net.pool(x, ReduceOp::Mean, {2, 2}, {3, 3}, {1, 0}, {0, 0}, true, true), {8}));
    net.check(3, "overhanging");
  }
}

// As gradients of weights have them; vectors of channels of row-major images.
TEST_CASE("windows larger than the result, of weights known when the program starts and in a run") {
  const struct {
    const char* name;
    std::vector<Dim> image;
    ConvCase conv;
  } cases[] = {
      {"rows of five", {4, 5, 12, 13}, {.channels = 32, .kernel = {10, 11}}},
      {"an odd number of channels", {3, 2, 8, 8}, {.channels = 19, .kernel = {6, 6}}},
      {"blocks of eight", {1, 7, 14, 14}, {.channels = 8, .kernel = {12, 12}}},
      {"dilated", {2, 3, 9, 9}, {.channels = 48, .kernel = {4, 4}, .begin = {0, 0}, .end = {0, 0}, .dilations = {2, 2}}},
      {"groups", {2, 6, 9, 10}, {.channels = 96, .kernel = {7, 8}, .groups = 3}},
      {"one result", {9, 4, 7, 7}, {.channels = 16, .kernel = {7, 7}, .begin = {0, 0}, .end = {0, 0}}},
  };
  codegen::CapabilityRow narrow;
  narrow.mapping.vector_bytes = 32;
  narrow.mapping.vector_registers = 16;
  const std::pair<codegen::CapabilityRow, DType> forms[] = {{{}, DType::F32}, {narrow, DType::F32}, {{}, DType::F16}};
  for (const auto& [row, dtype] : forms)
    for (const auto& c : cases) {
      BlockedNet net(row, dtype);
      const ValueId x = net.image(c.image);
      net.output(net.conv(x, c.conv, true));
      ConvAttrs a;
      a.strides = c.conv.strides, a.pads_begin = c.conv.begin, a.pads_end = c.conv.end, a.dilations = c.conv.dilations;
      a.groups = c.conv.groups;
      const ValueId w = net.image({c.conv.channels, c.image[1].size() / a.groups, c.conv.kernel[0], c.conv.kernel[1]});
      net.output(net.b().create(OpKind::Conv, {x, w}, a));
      net.check(0, c.name);
    }
}

TEST_CASE("blocks follow the vectors of the processor") {
  for (const auto& [bytes, registers] : {std::pair{32, 16}, std::pair{16, 32}}) {
    codegen::CapabilityRow row;
    row.mapping.vector_bytes = bytes;
    row.mapping.vector_registers = registers;
    BlockedNet net(row);
    const ValueId x = net.conv(net.image({1, 3, 17, 19}), {24, {5, 5}, {2, 2}, {2, 2}, {2, 2}}, true);
    const ValueId y = net.conv(net.conv(x, {.channels = 24, .groups = 24}, true), {40}, true);
    net.output(net.conv(net.pool(y, ReduceOp::Max, {2, 2}, {2, 2}, {0, 0}, {0, 0}, false), {.channels = 12, .begin = {0, 1}}));
    net.check(4, "narrow vectors");
  }
}

// The bound of errors is that of all convolutions.
TEST_CASE("Winograd's algorithm on images of awkward sizes") {
  codegen::CapabilityRow wide, narrow;
  wide.winograd = narrow.winograd = 4;
  narrow.mapping.vector_bytes = 32;
  narrow.mapping.vector_registers = 16;
  const struct {
    const char* name;
    codegen::CapabilityRow row;
    int64_t channels;
    std::vector<Dim> image;
    ConvCase last;
    std::vector<int64_t> tiles;
  } cases[] = {
      {"tiles of 2x2", wide, 64, {1, 3, 6, 7}, {64}, {2, 2}},
      {"a batch, and an odd number of panels", wide, 64, {2, 3, 4, 6}, {80}, {2, 2}},
      {"tiles of 4x4, and a stride", wide, 64, {1, 3, 17, 18}, {.channels = 64, .strides = {2, 2}}, {4}},
      {"without padding, few results", narrow, 32, {1, 3, 18, 19}, {.channels = 8, .begin = {0, 0}, .end = {0, 0}}, {4, 4}},
      {"several bands", narrow, 32, {2, 3, 33, 62}, {32}, {4, 4}},
  };
  for (const auto& c : cases) {
    BlockedNet net(c.row);
    const ValueId x = net.conv(net.image(c.image), {c.channels}, true);
    const ValueId y = net.conv(x, {c.channels}, true, x);
    net.output(net.conv(net.conv(y, c.last, true), {.channels = 4, .kernel = {1, 1}, .begin = {0, 0}, .end = {0, 0}}));
    net.check(3, c.name, c.tiles);
  }
}

TEST_CASE("Winograd's algorithm on 8-bit integers is exact") {
  codegen::CapabilityRow wide, narrow, short_vectors;
  const auto set = [](codegen::CapabilityRow* row, int bytes, int registers, int instructions) {
    row->mapping = target::cpu_mapping();
    row->mapping.vector_bytes = bytes;
    row->mapping.vector_registers = registers;
    row->mapping.dot_instructions = 3;
    row->mapping.pair_dot_instructions = instructions;
  };
  set(&wide, 64, 32, 1), set(&narrow, 32, 16, 2), set(&short_vectors, 16, 32, 1);
  const struct {
    const char* name;
    codegen::CapabilityRow row;
    DType dtype;
    std::optional<double> zero;
    int64_t channels;
    std::vector<Dim> image;
  } cases[] = {
      {"no multiple of a tile", wide, DType::U8, 131, 32, {1, 32, 9, 18}},
      {"a batch", wide, DType::I8, -128, 48, {2, 32, 13, 10}},
      {"channels that fill no block", wide, DType::U8, 255, 32, {1, 43, 17, 7}},
      {"blocks of eight", narrow, DType::U8, {}, 40, {1, 24, 9, 33}},
      {"blocks of four", short_vectors, DType::I8, 127, 36, {1, 23, 12, 12}},
      {"several bands", wide, DType::I8, {}, 64, {2, 64, 58, 62}},
  };
  for (const auto& c : cases) {
    BlockedNet net(c.row, c.dtype);
    const ValueId image = net.image(c.image);
    net.output(net.integer_sums(image, {c.channels}, c.zero));
    const ValueId x = net.integer_conv(image, {c.channels}, c.zero), y = net.integer_conv(x, {c.channels}, c.zero, x);
    net.output(net.integer_sums(y, {.channels = c.channels, .begin = {0, 1}, .end = {2, 0}}, c.zero));
    net.check(2, c.name, {4, 4, 4, 4});
  }
  // The largest sums: products are all alike. 227 channels have one part.
  for (const int64_t channels : {227, 228, 480})
    for (const int code : {0, 255})
      for (const int8_t weight : {-128, 127}) {
        BlockedNet net(wide, DType::U8);
        net.set_all_codes(code);
        net.output(net.integer_sums(net.image({1, channels, 12, 13}), {.channels = 16}, 0, weight));
        net.check(0, "parts of the channels", {4});
      }
}

TEST_CASE("convolutions of 8-bit integers between blocked images") {
  const Pair cases[] = {
      {"3x3", {1, 3, 9, 11}, {32}, {32}, 1},
      {"blocks of eight", {2, 5, 8, 9}, {24}, {40}, 1},
      {"outputs that fill no block", {1, 1, 8, 9}, {16}, {13}, 1},
      {"1x1 of 7x7", {1, 4, 7, 7}, {16}, {.channels = 32, .kernel = {1, 1}, .begin = {0, 0}, .end = {0, 0}}, 1},
      {"7x7 of stride 2",
       {1, 3, 31, 33},
       {.channels = 16, .kernel = {7, 7}, .strides = {2, 2}, .begin = {3, 3}, .end = {3, 3}},
       {16},
       1},
      {"dilated", {1, 3, 12, 13}, {16}, {.channels = 16, .begin = {2, 3}, .end = {3, 2}, .dilations = {2, 3}}, 1},
      {"two channels without padding", {2, 2, 9, 21}, {.channels = 16, .begin = {0, 0}, .end = {0, 0}}, {16}, 1},
      {"six channels",
       {2, 6, 9, 37},
       {.channels = 16, .kernel = {5, 5}, .strides = {1, 3}, .begin = {0, 2}, .end = {2, 1}, .dilations = {2, 1}},
       {16},
       1},
      {"dilated rows of three channels", {1, 3, 9, 21}, {.channels = 16, .dilations = {1, 2}}, {16}, 1},
      {"depthwise", {1, 3, 9, 11}, {48}, {.channels = 48, .kernel = {5, 3}, .strides = {2, 1}, .groups = 48}, 0},
      {"groups", {1, 7, 9, 11}, {32}, {.channels = 64, .groups = 2}, 0},
  };
  const struct {
    int bytes, registers;
    DType dtype;
    std::optional<double> zero;
  } forms[] = {{64, 32, DType::U8, 255}, {64, 32, DType::I8, {}}, {32, 16, DType::I8, -128}, {16, 32, DType::U8, {}}};
  for (size_t f = 0; f < std::size(forms); ++f)
    for (size_t i = f; i < std::size(cases); i += f == 0 ? 1 : std::size(forms)) {
      codegen::CapabilityRow row;
      row.mapping = target::cpu_mapping();
      row.mapping.vector_bytes = forms[f].bytes;
      row.mapping.vector_registers = forms[f].registers;
      BlockedNet net(row, forms[f].dtype);
      const ValueId x = net.integer_conv(net.image(cases[i].image), cases[i].first, forms[f].zero);
      net.output(net.integer_conv(x, cases[i].second, forms[f].zero));
      net.check(cases[i].blocked, cases[i].name);
    }
}

TEST_CASE("taps of a row share words where these are fewer than words of channels") {
  const struct {
    int64_t planes, kernel, dilation;
    bool joins;
  } cases[] = {{3, 7, 1, true},  {1, 2, 1, true},  {5, 3, 1, true},  {6, 5, 1, true}, {3, 1, 1, false},
               {3, 3, 1, false}, {3, 7, 2, false}, {4, 7, 1, false}, {8, 3, 1, false}};
  for (const auto& c : cases) {
    kernel::BlockedWindows w;
    w.planes = c.planes;
    w.kernel = {3, c.kernel};
    w.dilation = {1, c.dilation};
    CHECK_MESSAGE(kernel::joined_taps_pay(w) == c.joins, c.planes << " channels, " << c.kernel << " taps");
  }
}

TEST_CASE("residuals, maxima and joins of 8-bit integers keep blocks") {
  codegen::CapabilityRow row;
  row.mapping = target::cpu_mapping();
  BlockedNet net(row, DType::U8);
  const ValueId x = net.integer_conv(net.image({1, 3, 13, 11}), {48}, 128);
  const ValueId alone = net.integer_conv(x, {.channels = 48, .groups = 48}, 7, x);
  const ValueId pooled = net.pool(alone, ReduceOp::Max, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false);
  const ValueId joined = net.b().concat(std::array{pooled, pooled}, 1);
  net.output(net.integer_conv(net.integer_conv(joined, {32}, 0), {32}, 1));
  net.check(5, "u8");
}
