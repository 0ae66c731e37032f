#include "op_matrix/samples.h"
#include "support/conv_steps.h"

namespace rlxc::matrix {

using enum OpKind;

std::vector<Sample> contraction_samples() {
  std::vector<Sample> all;
  const auto add = [&](OpKind op, std::string what, int64_t terms, std::function<ValueId(Operands&)> make) {
    all.push_back({op, std::move(what), terms, std::move(make)});
  };
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 1, 1},
                                {1, 64, 37},
                                {7, 13, 5},
                                {33, 65, 17},
                                {64, 64, 64},
                                {3, 0, 4},
                                {0, 4, 3},
                                {2, 1031, 3}}) {
    const std::string what = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
    add(MatMul, what, k, [m = m, k = k, n = n](Operands& o) { return o.b.matmul(o.in({m, k}), o.in({k, n})); });
    add(MatMul, what + " both transposed", k, [m = m, k = k, n = n](Operands& o) {
      return o.b.matmul(o.in({k, m}), o.in({n, k}), true, true);
    });
    add(FusedMatMulBiasAct, what, k, [m = m, k = k, n = n](Operands& o) {
      return o.op(FusedMatMulBiasAct, {o.in({m, k}), o.in({k, n}), o.in({n}), o.in({m, n})},
                  FusedMatMulAttrs{false, false, {true, Relu, 0, 0}});
    });
  }
  add(MatMul, "batch 2x3 and 1x3", 5, [](Operands& o) { return o.b.matmul(o.in({2, 3, 4, 5}), o.in({1, 3, 5, 7})); });
  add(MatMul, "batch of one matrix", 5, [](Operands& o) { return o.b.matmul(o.in({3, 4, 5}), o.in({5, 7})); });
  add(MatMul, "of a transposed value", 9, [](Operands& o) { return o.b.matmul(o.turned(6, 9), o.in({9, 5})); });
  add(DotGeneral, "batch in the middle", 5, [](Operands& o) {
    return o.op(DotGeneral, {o.in({4, 3, 5}), o.in({3, 5, 7})}, DotGeneralAttrs{{1}, {0}, {2}, {1}});
  });
  add(QMatMul, "5x7x3", 7, [](Operands& o) {
    if (o.dtype != DType::I8) return ValueId();
    return o.op(QMatMul, {o.in({5, 7}), o.in({7, 3}), o.in({}), o.in({3})});
  });
  // The sum of two products exceeds 16 bits.
  for (const double zero : {0, 128, 255})
    for (const double right : {-128, 127})
      add(QMatMul, "255 x " + std::to_string(static_cast<int>(right)) + ", zero point " + std::to_string(static_cast<int>(zero)),
          70, [=](Operands& o) {
            if (o.dtype != DType::I8) return ValueId();
            return o.op(QMatMul, {o.in({9, 70}, DType::U8, 255, 255), o.in({70, 33}, DType::I8, right, right),
                                  o.in({}, DType::U8, zero, zero), o.in({}, DType::I8, -128, 127)});
          });
  // Scaled to floats and, in every other sample, quantized again.
  const auto steps = [](OpKind op, bool rounded) {
    constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;
    std::vector<RegionStep> all = {{op, DType::I32, {kNone, kNone, kNone}},
                                   {Cast, DType::F32, {kStep, kNone, kNone}},
                                   {Mul, DType::F32, {kStep | 1, 4, kNone}}};
    if (rounded) {
      all.push_back({Clamp, DType::F32, {kStep | 2, kNone, kNone}, ClampAttrs{-128, 127}});
      all.push_back({Cast, DType::I8, {kStep | 3, kNone, kNone}});
    }
    return all;
  };
  for (bool rounded : {false, true}) {
    const std::string end = rounded ? ", rounded" : ", scaled";
    for (const auto& [m, k, n] : {std::array<int64_t, 3>{5, 7, 3}, {1, 64, 37}, {33, 66, 70}})
      add(FusedQMatMul, std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) + end, k,
          [=, m = m, k = k, n = n](Operands& o) {
            if (o.dtype != DType::I8) return ValueId();
            return o.op(FusedQMatMul, {o.in({m, k}), o.in({k, n}), o.in({}), o.in({n}), o.in({n}, DType::F32, 0.01, 0.02)},
                        FusionAttrs{steps(QMatMul, rounded)});
          });
    add(FusedQConv, "3x3" + end, 18, [=](Operands& o) {
      if (o.dtype != DType::I8) return ValueId();
      return o.op(FusedQConv,
                  {o.in({1, 6, 5, 5}), o.in({3, 6, 3, 3}), o.in({}), o.in({}), o.in({3, 1, 1}, DType::F32, 0.01, 0.02)},
                  test::conv_steps({{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, 1}, steps(QConv, rounded)));
    });
    for (DType codes : {DType::U8, DType::I8})
      for (int64_t channels : {3, 8})
        for (const auto& [results, taps] : {std::pair<int64_t, int64_t>{16, 3}, {5, 1}})
          add(FusedQConv,
              "f32 image of " + std::to_string(channels) + " channels to " + std::string(name(codes)) + ", " +
                  std::to_string(taps) + "x" + std::to_string(taps) + end,
              18, [=, results = results, taps = taps](Operands& o) {
                if (o.dtype != DType::I8) return ValueId();
                std::vector<RegionStep> after = steps(QConv, rounded);
                after[2].args[1] = 5;
                return o.op(
                    FusedQConv,
                    {o.in({1, channels, 9, 9}, DType::F32, -2, 3), o.in({results, channels, taps, taps}), o.in({}, codes, 1, 90),
                     ValueId(), o.in({}, DType::F32, 0.01, 0.02), o.in({results, 1, 1}, DType::F32, 0.01, 0.02)},
                    test::conv_steps({{2, 2}, {taps / 2, taps / 2}, {taps / 2, taps / 2}, {1, 1}, {}, 1}, after));
              });
  }
  // Scores times a scale plus a mask, probabilities of a scale of 1/255 in u8, results times a scale, in f32 or i8.
  for (bool rounded : {false, true})
    for (const auto& [m, k, n, d] : {std::array<int64_t, 4>{5, 7, 9, 3}, {1, 16, 40, 33}, {50, 64, 70, 64}})
      for (DType codes : {DType::I8, DType::U8})
        add(QAttention,
            std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) + "x" + std::to_string(d) + ", " +
                std::string(name(codes)) + (rounded ? ", rounded" : ", scaled"),
            k, [=, m = m, k = k, n = n, d = d](Operands& o) {
              if (o.dtype != DType::I8) return ValueId();
              constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;
              std::vector<RegionStep> all = {{QMatMul, DType::I32, {kNone, kNone, kNone}},
                                             {Cast, DType::F32, {kStep, kNone, kNone}},
                                             {Mul, DType::F32, {kStep | 1, 7, kNone}},
                                             {Add, DType::F32, {kStep | 2, 8, kNone}},
                                             {Softmax, DType::F32, {kStep | 3, kNone, kNone}},
                                             {Div, DType::F32, {kStep | 4, 9, kNone}},
                                             {Round, DType::F32, {kStep | 5, kNone, kNone}},
                                             {Clamp, DType::F32, {kStep | 6, kNone, kNone}, ClampAttrs{0, 255}},
                                             {Cast, DType::U8, {kStep | 7, kNone, kNone}},
                                             {QMatMul, DType::I32, {kNone, kNone, kNone}},
                                             {Cast, DType::F32, {kStep | 9, kNone, kNone}},
                                             {Mul, DType::F32, {kStep | 10, 9, kNone}}};
              if (rounded) {
                all.push_back({Round, DType::F32, {kStep | 11, kNone, kNone}});
                all.push_back({Clamp, DType::F32, {kStep | 12, kNone, kNone}, ClampAttrs{-128, 127}});
                all.push_back({Cast, DType::I8, {kStep | 13, kNone, kNone}});
              }
              return o.op(QAttention,
                          {o.in({2, 3, m, k}, codes, is_signed(codes) ? -9 : 100, is_signed(codes) ? 9 : 118), o.in({2, 3, k, n}),
                           o.in({2, 3, n, d}, codes, is_signed(codes) ? -128 : 0, is_signed(codes) ? 127 : 255),
                           o.in({}, codes, 1, 90), o.in({}), ValueId(), o.in({}, codes, 1, 120), o.in({}, DType::F32, 0.01, 0.02),
                           o.in({2, 1, 1, n}, DType::F32, -2, 2), o.in({}, DType::F32, 1.0 / 255, 1.0 / 254)},
                          FusionAttrs{all});
            });
  for (int64_t rows : {1, 37})
    for (DType codes : {DType::I8, DType::U4, DType::U2})
      add(DequantMatMul, std::to_string(rows) + "x48x21, " + std::string(name(codes)) + ", rows of 8 bits", 48, [=](Operands& o) {
        const ValueId w = o.in({21, 48}, codes, is_signed(codes) ? -8 : 0, is_signed(codes) ? 7 : 3);
        return o.op(DequantMatMul, {o.in({rows, 48}), w, o.in({21, 3}, DType::F32, 0.1, 0.5), o.in({21, 3}, DType::U8, 3, 9)},
                    DequantMatMulAttrs{.trans_b = true, .block = 16, .act = {}, .int8_x = true});
      });
  for (int64_t rows : {1, 37})
    for (DType codes : {DType::I8, DType::U4})
      add(DequantMatMul, std::to_string(rows) + "x48x21, " + std::string(name(codes)) + " in blocks of 16", 48, [=](Operands& o) {
        const ValueId w = o.in({21, 48}, codes, is_signed(codes) ? -8 : 0, is_signed(codes) ? 7 : 15);
        return o.op(DequantMatMul, {o.in({rows, 48}), w, o.in({21, 3}, DType::F32, 0.1, 0.5), o.in({21, 3}, DType::U8, 3, 9)},
                    DequantMatMulAttrs{true, 16, {}});
      });
  for (bool gated : {false, true})
    for (DType codes : {DType::I4, DType::U2, DType::F8E4M3FN})
      add(DequantMatMul, "5x33x26, " + std::string(name(codes)) + (gated ? ", gated" : ", bias, residual"), 33, [=](Operands& o) {
        DequantMatMulAttrs a{false, 0, {true, Relu, 0, 0}, gated, false};
        std::vector<ValueId> in = {o.in({5, 33}), o.in({33, 26}, codes, is_signed(codes) ? -4 : 0, 3),
                                   o.in({1, 26}, DType::F32, 0.1, 0.5), ValueId()};
        if (!gated || is_integer(codes)) in.push_back(o.in({26}));
        if (!gated) in.push_back(o.in({5, 26}));
        return o.op(DequantMatMul, in, a);
      });
  for (bool transposed : {false, true})
    add(GroupedMatMul, transposed ? "9x17x5 of 3, transposed" : "9x17x5 of 3", 17, [=](Operands& o) {
      return o.op(GroupedMatMul, {o.in({9, 17}), transposed ? o.in({3, 5, 17}) : o.in({3, 17, 5}), o.in({9}, DType::I64, 0, 2)},
                  MatMulAttrs{false, transposed});
    });
  for (size_t rank : {1, 2, 3})
    for (int variant = 0; variant < 4; ++variant) {
      const bool strided = variant == 1, depthwise = variant == 2, grouped = variant == 3;
      const int64_t groups = depthwise ? 4 : grouped ? 2 : 1, step = strided ? 2 : 1;
      const auto attrs = [=](int64_t pad) {
        const std::vector<int64_t> one(rank, 1);
        return ConvAttrs{std::vector<int64_t>(rank, step),
                         std::vector<int64_t>(rank, pad),
                         std::vector<int64_t>(rank, pad),
                         std::vector<int64_t>(rank, strided ? 2 : 1),
                         {},
                         groups};
      };
      const auto dims = [=](int64_t a, int64_t b, int64_t size) {
        std::vector<int64_t> d = {a, b};
        d.insert(d.end(), rank, size);
        d.back() += 1;
        return d;
      };
      const std::string what = std::to_string(rank) + "-D" +
                               (strided     ? " strided, dilated"
                                : depthwise ? " depthwise"
                                : grouped   ? " grouped"
                                            : "");
      const int64_t terms = 4 / groups * (rank == 1 ? 4 : rank == 2 ? 12 : 36);
      add(Conv, what, terms, [=](Operands& o) {
        return o.op(Conv, {o.in(dims(2, 4, 6)), o.in(dims(8, 4 / groups, 2)), o.in({8})}, attrs(1));
      });
      add(ConvTranspose, what, terms, [=](Operands& o) {
        return o.op(ConvTranspose, {o.in(dims(2, 4, 3)), o.in(dims(4, 8 / groups, 2)), o.in({8})}, attrs(0));
      });
    }
  add(Conv, "1x1 of 17 channels", 17, [](Operands& o) {
    return o.op(Conv, {o.in({1, 17, 9, 5}), o.in({13, 17, 1, 1})}, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1});
  });
  for (int64_t rows : {1, 37})
    for (bool biased : {false, true})
      add(FusedMatMulSwiGLU, std::to_string(rows) + "x19x2*11" + (biased ? ", bias" : ""), 19, [=](Operands& o) {
        std::vector<ValueId> in{o.in({rows, 19}), o.in({19, 22})};
        if (biased) in.push_back(o.in({22}));
        return o.op(FusedMatMulSwiGLU, in, GatedMatMulAttrs{});
      });
  add(FusedConvBiasAct, "3x3 with residual", 27, [](Operands& o) {
    return o.op(FusedConvBiasAct, {o.in({1, 3, 7, 7}), o.in({5, 3, 3, 3}), o.in({5}), o.in({1, 5, 7, 7})},
                FusedConvAttrs{{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, 1}, {true, Relu, 0, 0}});
  });
  add(QConv, "3x3", 18, [](Operands& o) {
    if (o.dtype != DType::I8) return ValueId();
    return o.op(QConv, {o.in({1, 2, 5, 5}), o.in({3, 2, 3, 3}), o.in({}), o.in({})},
                ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, 1});
  });
  for (MaskKind mask : {MaskKind::None, MaskKind::Causal, MaskKind::SlidingWindow, MaskKind::Bias, MaskKind::Custom})
    for (int64_t kv_heads : {4, 2})
      add(Attention, std::string(enum_names(mask)[static_cast<size_t>(mask)]) + (kv_heads == 2 ? ", grouped" : ""), 16,
          [=](Operands& o) {
            AttentionAttrs a;
            a.num_heads = 4;
            a.num_kv_heads = kv_heads;
            a.mask = mask;
            a.window = 3;
            if (kv_heads == 2) a.softcap = 5;
            std::vector<ValueId> in = {o.in({2, 4, 7, 16}), o.in({2, kv_heads, 7, 16}), o.in({2, kv_heads, 7, 16})};
            if (mask == MaskKind::Bias) in.push_back(o.in({2, 1, 7, 7}));
            if (mask == MaskKind::Custom) in.push_back(o.in({2, 1, 7, 7}, DType::Bool, 0, 1));
            return o.op(Attention, in, a);
          });
  // Several blocks of queries and keys, odd head sizes, rows without a visible key.
  struct Heads {
    int64_t queries, keys, width, value_width;
    MaskKind mask;
    AttentionLayout layout = AttentionLayout::BHSD;
  };
  for (const Heads& h :
       {Heads{37, 150, 20, 36, MaskKind::Causal}, Heads{70, 70, 64, 64, MaskKind::SlidingWindow, AttentionLayout::BSHD},
        Heads{1, 131, 40, 40, MaskKind::None}, Heads{19, 5, 8, 8, MaskKind::Causal}, Heads{65, 33, 136, 130, MaskKind::Bias},
        Heads{5, 80, 128, 128, MaskKind::Custom}, Heads{4, 9, 264, 16, MaskKind::None}, Heads{3, 0, 16, 16, MaskKind::None},
        Heads{90, 90, 32, 32, MaskKind::Causal, AttentionLayout::Packed}})
    add(Attention,
        std::to_string(h.queries) + " of " + std::to_string(h.keys) + ", " + std::to_string(h.width) + " and " +
            std::to_string(h.value_width) + ", " + std::string(enum_names(h.mask)[static_cast<size_t>(h.mask)]),
        h.width + h.keys, [=](Operands& o) {
          AttentionAttrs a;
          a.num_heads = 2;
          a.num_kv_heads = 1;
          a.mask = h.mask;
          a.window = 20;
          a.layout = a.out_layout = h.layout;
          const auto dims = [&](int64_t heads, int64_t n, int64_t width) -> std::vector<int64_t> {
            if (h.layout == AttentionLayout::Packed) return {2, n, heads * width};
            return h.layout == AttentionLayout::BSHD ? std::vector<int64_t>{2, n, heads, width}
                                                     : std::vector<int64_t>{2, heads, n, width};
          };
          std::vector<ValueId> in = {o.in(dims(2, h.queries, h.width)), o.in(dims(1, h.keys, h.width)),
                                     o.in(dims(1, h.keys, h.value_width))};
          if (h.mask == MaskKind::Bias) in.push_back(o.in({2, h.queries, h.keys}));
          if (h.mask == MaskKind::Custom) in.push_back(o.in({2, 1, h.queries, h.keys}, DType::Bool, 0, 1));
          return o.op(Attention, in, a);
        });
  for (RopeStyle style : {RopeStyle::NeoX, RopeStyle::GptJ})
    for (int64_t rotated : {0, 6})
      add(Rope, std::string(enum_names(style)[static_cast<size_t>(style)]) + (rotated ? " partial" : ""), 2, [=](Operands& o) {
        const int64_t half = (rotated ? rotated : 10) / 2;
        return o.op(Rope, {o.in({2, 3, 5, 10}), o.in({5, half}), o.in({5, half})},
                    RopeAttrs{10, rotated, style, AttentionLayout::BHSD});
      });
  for (DType codes : {DType::U8, DType::I8})
    for (bool factor : {false, true})
      for (int64_t rotated : {0, 6})
        add(Rope, std::string(name(codes)) + (factor ? ", times a factor" : "") + (rotated ? ", partial" : ""), 2,
            [=](Operands& o) {
              if (o.dtype != DType::F32) return ValueId();
              const int64_t half = (rotated ? rotated : 10) / 2;
              return o.op(Rope,
                          {o.in({2, 3, 5, 10}), o.in({5, half}), o.in({5, half}), ValueId(),
                           factor ? o.in({}, DType::F32, 0.5, 0.6) : ValueId(), o.in({}, DType::F32, 0.01, 0.02),
                           o.in({}, codes, 1, 100)},
                          RopeAttrs{10, rotated, RopeStyle::NeoX, AttentionLayout::BHSD});
            });
  for (DType codes : {DType::U8, DType::I8})
    for (int64_t queries : {1, 5, 33})
      add(Attention, std::to_string(queries) + " queries, " + std::string(name(codes)), 16, [=](Operands& o) {
        if (o.dtype != DType::F32) return ValueId();
        AttentionAttrs a;
        a.num_heads = a.num_kv_heads = 3;
        a.layout = a.out_layout = AttentionLayout::Packed;
        return o.op(Attention,
                    {o.in({2, queries, 48}), o.in({2, 70, 48}), o.in({2, 70, 48}), ValueId(), o.in({}, DType::F32, 0.05, 0.06),
                     o.in({}, codes, 1, 100)},
                    a);
      });
  add(Rope, "of normalised heads", 10, [](Operands& o) {
    return o.op(Rope, {o.in({2, 5, 30}), o.in({5, 10}), o.in({5, 10}), o.in({3, 10})},
                RopeAttrs{10, 0, RopeStyle::NeoX, AttentionLayout::Packed, 1e-3});
  });
  for (OpKind op : {Lstm, Gru, Rnn})
    for (RnnDirection d : {RnnDirection::Forward, RnnDirection::Bidirectional})
      add(op, std::string(enum_names(d)[static_cast<size_t>(d)]), 9, [=](Operands& o) {
        const int64_t directions = d == RnnDirection::Bidirectional ? 2 : 1, gates = op == Lstm ? 4 : op == Gru ? 3 : 1;
        RnnAttrs a;
        a.hidden = 5;
        a.direction = d;
        return o.op(
            op,
            {o.in({4, 2, 3}), o.in({directions, gates * 5, 3}), o.in({directions, gates * 5, 5}), o.in({directions, gates * 10})},
            a);
      });
  add(SelectiveScan, "2x5x3", 5, [](Operands& o) {
    return o.op(SelectiveScan,
                {o.in({2, 5, 3}), o.positive({2, 5, 3}), o.in({3, 4}, o.dtype, -1, -0.1), o.in({2, 5, 4}), o.in({2, 5, 4})});
  });
  return all;
}

}  // namespace rlxc::matrix
