// Models that try the rules of transforms, with inputs: one of each sample (rule_samples.h), of kinds that have no derivative, of
// control flow, quantized values, sequences and blocks of the HIR.
#pragma once
#include <functional>
#include <set>

#include "eval/value.h"
#include "ir/text.h"
#include "support/conv_steps.h"
#include "support/rule_samples.h"

namespace rlxc::test {

struct RuleCase {
  std::string label;
  std::set<OpKind> kinds;  // that the model has
  std::function<std::unique_ptr<Module>()> make;
  std::vector<HostValue> in;
  bool rounds = false;  // the model rounds, or computes in 32 bits: finite differences do not apply
};

inline std::set<OpKind> kinds_of(const Module& m) {
  std::set<OpKind> kinds;
  for (size_t i = 0; i < m.graph_count(); ++i)
    for (NodeId n : m.graph(GraphId(i)).nodes()) kinds.insert(m.graph(GraphId(i)).op(n));
  return kinds;
}

// Do derivatives, by decision, pass through what is constant in steps, or end?
inline bool is_rounded(OpKind op) {
  switch (op) {
    case OpKind::StopGradient:
    case OpKind::Round:
    case OpKind::Quantize:
    case OpKind::Dequantize:
    case OpKind::DynamicQuantize:
    case OpKind::FakeQuantize:
    case OpKind::QMatMul:
    case OpKind::QConv:
    case OpKind::FusedQMatMul:
    case OpKind::FusedQConv:
    case OpKind::QAttention: return true;
    default: return false;
  }
}

inline RuleCase case_of(Sample s) {
  RuleCase c;
  c.label = std::string(name(s.op));
  for (const HostValue& v : s.in)
    if (v.kind != TypeKind::Optional || !v.items.empty()) c.in.push_back(v);
  const auto* dequant = std::get_if<DequantMatMulAttrs>(&s.attrs);
  c.rounds = is_rounded(s.op) || (dequant && dequant->int8_x);
  c.make = [s = std::move(s)] {
    auto m = std::make_unique<Module>();
    Diagnostics d;
    Builder b(m->main(), &d);
    std::vector<ValueId> operands;
    for (const HostValue& v : s.in) {
      const bool there = v.kind != TypeKind::Optional || !v.items.empty();
      operands.push_back(there ? b.input("x" + std::to_string(operands.size()), eval::type_of(v)) : ValueId());
    }
    const NodeId n = b.create_node(s.op, operands, s.attrs);
    REQUIRE_MESSAGE(n.valid(), name(s.op), d.text());
    for (size_t r = 0; r < m->main().result_count(n); ++r)
      m->main().add_output(m->main().result(n, r), m->symbol("y" + std::to_string(r)));
    return m;
  };
  c.kinds = kinds_of(*c.make());
  return c;
}

// Inputs are random, or these.
inline RuleCase case_of(std::string text, std::vector<HostValue> in = {}) {
  RuleCase c;
  c.make = [text] {
    Diagnostics d;
    auto m = parse_text(text, d);
    REQUIRE_MESSAGE(m, d.text());
    return m;
  };
  const auto m = c.make();
  c.kinds = kinds_of(*m);
  for (OpKind op : c.kinds)
    if (!has_trait(op, kLeaf | kTerminator)) c.label += std::string(name(op)) + " ";
  c.rounds = std::ranges::any_of(c.kinds, is_rounded);
  const Graph& g = m->main();
  for (NodeId n : g.inputs()) {
    if (c.in.size() < in.size()) {
      c.in.push_back(in[c.in.size()]);
      continue;
    }
    const ValueId v = g.result(n);
    std::vector<int64_t> dims;
    for (Dim k : g.dims(v)) dims.push_back(k.size());
    if (g.dtype(v) == DType::F64) c.in.push_back(reals(dims, 10 + v.raw));
    else
      c.in.push_back(
          tensor_of(g.dtype(v), dims, std::vector<double>(static_cast<size_t>(num_elements(g.type(v)).value_or(1)), 1)));
  }
  return c;
}

// Samples whose results are integers, truth values or text. Batching is their only transform.
inline std::vector<Sample> integer_samples() {
  const HostValue m = reals({2, 3, 4}, 1), row = reals({4}, 2);
  const HostValue a = tensor_of(DType::I32, {2, 3}, {5, -3, 0, 7, 100, -8}), b = tensor_of(DType::I32, {3}, {3, 0, 2});
  const HostValue p = bools({2, 3}, {1, 0, 1, 0, 0, 1}), q = bools({2, 1}, {1, 0});
  const HostValue words = eval::strings_of({2, 2}, {"ab", "b", "", "abc"}), word = eval::strings_of({2}, {"b", "abc"});
  std::vector<Sample> all{
      {OpKind::Not, NoAttrs{}, {p}},
      {OpKind::BitNot, NoAttrs{}, {a}},
      {OpKind::IsNan, NoAttrs{}, {m}},
      {OpKind::IsInf, default_attrs(OpKind::IsInf), {m}},
      {OpKind::BitCast, CastAttrs{DType::I32, true}, {f32({2, 3}, {1, -2, 0.5, 3, 1e9, -0.25})}},
      {OpKind::ArgReduce, ArgAttrs{}, {m}},
      {OpKind::StringConcat, NoAttrs{}, {words, word}},
      {OpKind::StringEqual, NoAttrs{}, {words, word}},
      {OpKind::StringIndex, StringIndexAttrs{{"abc", "b"}}, {words}},
      {OpKind::StringMatch, StringMatchAttrs{"a.*"}, {words}},
  };
  for (OpKind op : {OpKind::BitAnd, OpKind::BitOr, OpKind::BitXor, OpKind::Shl, OpKind::Shr})
    all.push_back({op, NoAttrs{}, {a, b}});
  for (OpKind op : {OpKind::And, OpKind::Or, OpKind::Xor}) all.push_back({op, NoAttrs{}, {p, q}});
  for (OpKind op : {OpKind::Eq, OpKind::Ne, OpKind::Lt, OpKind::Le, OpKind::Gt, OpKind::Ge})
    all.push_back({op, NoAttrs{}, {m, row}});
  ArgAttrs last;
  last.axis = 2;
  all.push_back({OpKind::ArgReduce, last, {m}});
  NgramAttrs grams;
  grams.max_length = 2, grams.max_skip = 1;
  grams.counts = {0, 2}, grams.indexes = {0, 1, 2, 3}, grams.pool_ints = {2, 3, 5, 4, 2, 3};
  all.push_back({OpKind::Ngram, grams, {i64({2, 5}, {2, 3, 5, 4, 2, 3, 3, 2, 5, 4})}});
  return all;
}

inline std::vector<Sample> quantized_samples() {
  const HostValue m = reals({2, 3, 4}, 1), row = reals({4}, 2);
  const HostValue codes = tensor_of(DType::I8, {6, 4}, [] {
    std::vector<double> v;
    for (int i = 0; i < 24; ++i) v.push_back(i * 37 % 29 - 14);
    return v;
  }());
  const HostValue scales = reals({2, 4}, 70, 0.1, 0.5), zeros = tensor_of(DType::I8, {2, 4}, {1, 0, -2, 3, 0, 1, 2, -1});
  const HostValue a = tensor_of(DType::I8, {2, 3}, {5, -3, 0, 7, 100, -8}), w = tensor_of(DType::I8, {3, 2}, {3, 0, 2, -9, 4, 1});
  const HostValue zero = tensor_of(DType::I8, {}, std::vector<double>{2});
  constexpr uint16_t kStep = RegionStep::kStep, kNone = RegionStep::kNone;
  const auto scaled = [](OpKind op) {
    return std::vector<RegionStep>{{op, DType::I32, {kNone, kNone, kNone}},
                                   {OpKind::Cast, DType::F64, {kStep, kNone, kNone}},
                                   {OpKind::Mul, DType::F64, {kStep | 1, 4, kNone}}};
  };
  const std::vector<RegionStep> attended{
      {OpKind::QMatMul, DType::I32, {kNone, kNone, kNone}},  {OpKind::Cast, DType::F32, {kStep, kNone, kNone}},
      {OpKind::Mul, DType::F32, {kStep | 1, 7, kNone}},      {OpKind::Softmax, DType::F32, {kStep | 2, kNone, kNone}},
      {OpKind::Div, DType::F32, {kStep | 3, 7, kNone}},      {OpKind::Round, DType::F32, {kStep | 4, kNone, kNone}},
      {OpKind::Cast, DType::U8, {kStep | 5, kNone, kNone}},  {OpKind::QMatMul, DType::I32, {kNone, kNone, kNone}},
      {OpKind::Cast, DType::F64, {kStep | 7, kNone, kNone}}, {OpKind::Mul, DType::F64, {kStep | 8, 8, kNone}}};
  std::vector<Sample> all{
      {OpKind::Round, NoAttrs{}, {m}},
      {OpKind::DequantMatMul,
       DequantMatMulAttrs{false, 3, {}},
       {reals({5, 6}, 71), codes, scales, zeros, row, reals({5, 4}, 72)}},
      {OpKind::DequantMatMul,
       DequantMatMulAttrs{false, 0, {true, OpKind::Gelu, 0, 0}},
       {reals({2, 5, 6}, 71), codes, reals({1, 4}, 2)}},
      {OpKind::DequantMatMul,
       DequantMatMulAttrs{.trans_b = false, .block = 3, .act = {}, .int8_x = true},
       {reals({5, 6}, 71), codes, scales}},
      {OpKind::DequantMatMul,
       DequantMatMulAttrs{.trans_b = false, .block = 0, .act = {}, .gated = true, .gate_first = true},
       {reals({3, 6}, 73), codes, reals({1, 4}, 2)}},
      {OpKind::FusedQMatMul, FusionAttrs{scaled(OpKind::QMatMul)}, {a, w, zero, zero, reals({2}, 74)}},
      {OpKind::QAttention,
       FusionAttrs{attended},
       {a, w, a, zero, zero, tensor_of(DType::U8, {}, {0}), zero, tensor_of(DType::F32, {}, {0.01}), reals({3}, 76)}},
      {OpKind::FusedQConv,
       conv_steps({{1, 2}, {1, 0}, {0, 1}, {1, 1}, {0, 0}, 1}, scaled(OpKind::QConv)),
       {tensor_of(DType::I8, {1, 2, 2, 3}, {1, 2, 3, -4, 5, 6, 7, -8, 9, 10, 11, 12}),
        tensor_of(DType::I8, {2, 2, 1, 2}, {1, -1, 2, 3, 4, -5, 6, 7}), zero, zero, reals({2, 1, 1}, 75)}},
  };
  for (size_t i = 0; i < enum_names(StraightThroughKind{}).size(); ++i)
    for (int64_t axis : {-1, 1})
      all.push_back({OpKind::FakeQuantize,
                     FakeQuantizeAttrs{4, axis, FakeQuantizeMode::PerBatch, static_cast<StraightThroughKind>(i)},
                     {m}});
  return all;
}

inline std::vector<Sample> hir_samples() {
  const HostValue x = reals({2, 3, 8}, 80);
  const auto w = [](std::vector<int64_t> dims, uint64_t seed) { return reals(std::move(dims), seed, -0.5, 0.5); };
  const FusedMatMulAttrs leaky{false, true, {true, OpKind::LeakyRelu, 0.25, 0}};
  return {
      {OpKind::Linear, leaky, {x, w({6, 8}, 81), w({6}, 82)}},
      {OpKind::LinearFused, leaky, {x, w({6, 8}, 81), w({6}, 82)}},
      {OpKind::SharedLinearPair, NoAttrs{}, {x, w({8, 4}, 83), w({8, 5}, 84)}},
      {OpKind::SwiGLU, NoAttrs{}, {x, w({8, 12}, 85), w({8, 12}, 86), w({12, 8}, 87)}},
      {OpKind::ResidualRmsNorm, NormAttrs{2, 1e-3}, {x, reals({2, 3, 8}, 88), w({8}, 89), w({8}, 90)}},
      {OpKind::DepthwiseConv1dCausal, NoAttrs{}, {x, w({8, 1, 1, 3}, 91), reals({2, 2, 8}, 92)}},
      {OpKind::LlamaDecoderBlock,
       DecoderAttrs{2, 4, 1, 1e-3, MaskKind::Causal},
       {x, w({8}, 93), w({8}, 94), w({8, 8}, 95), w({8, 4}, 96), w({8, 4}, 97), w({8, 8}, 98), w({8}, 99), w({8}, 100),
        w({8, 12}, 101), w({8, 12}, 102), w({12, 8}, 103), w({3, 2}, 104), w({3, 2}, 105)}},
  };
}

inline std::vector<RuleCase> control_cases() {
  std::vector<RuleCase> all;
  all.push_back(case_of(R"(module "m" mir {
graph @main {
  %0 = input "s" : f64[2]
  %1 = input "x" : f64[2,3]
  %2 = input "w" : f64[2]
  %3, %4 = scan(%0, %1, %2) [@step] {states = 1, scan_inputs = 1, input_axes = [1], input_reverse = [1], output_axes = [1], output_reverse = [0]} : f64[2], f64[2,3]
  return %3 "last", %4 "all"
}
graph @step {
  %0 = input "s" : f64[2]
  %1 = input "x" : f64[2]
  %2 = input "w" : f64[2]
  %3 = mul(%0, %1) : f64[2]
  %4 = mul(%3, %2) : f64[2]
  %5 = tanh(%4) : f64[2]
  %6 = add(%5, %1) : f64[2]
  return %6 "n", %5 "y"
}
}
)"));
  all.push_back(case_of(R"(module "m" mir {
graph @main {
  %0 = constant {data = dense [3]} : i64[]
  %1 = input "s" : f64[2]
  %2 = input "w" : f64[2]
  %3 = loop(%0, _, %1, %2) [@step] {carries = 1} : f64[2]
  return %3 "last"
}
graph @step {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "s" : f64[2]
  %3 = input "w" : f64[2]
  %4 = mul(%2, %3) : f64[2]
  %5 = sin(%4) : f64[2]
  return %1 "c", %5 "n"
}
}
)"));
  all.push_back(case_of(R"(module "m" mir {
graph @main {
  %0 = input "c" : bool[]
  %1 = input "x" : f64[2,3]
  %2 = input "w" : f64[3]
  %3 = if(%0, %1, %2) [@a, @b] : f64[2,3]
  return %3 "y"
}
graph @a {
  %0 = input "x" : f64[2,3]
  %1 = input "w" : f64[3]
  %2 = mul(%0, %1) : f64[2,3]
  %3 = tanh(%2) : f64[2,3]
  return %3 "y"
}
graph @b {
  %0 = input "x" : f64[2,3]
  %1 = input "w" : f64[3]
  %2 = exp(%0) : f64[2,3]
  return %2 "y"
}
}
)"));
  // y = x * exp(s * x), by its body and by rules.
  const std::string gate = R"(
graph @body {
  %0 = input "x" : f64[2,3]
  %1 = input "s" : f64[3]
  %2 = mul(%0, %1) : f64[2,3]
  %3 = exp(%2) : f64[2,3]
  %4 = mul(%0, %3) : f64[2,3]
  return %4 "y"
}
)";
  const auto custom = [&](const std::string& bodies, const std::string& rules, const std::string& graphs) {
    all.push_back(
        case_of("module \"m\" mir {\ngraph @main {\n  %0 = input \"x\" : f64[2,3]\n  %1 = input \"s\" : f64[3]\n"
                "  %2 = custom_op(%0, %1) [@body" +
                bodies + "] {name = \"test.Gate\"" + rules + "} : f64[2,3]\n  return %2 \"y\"\n}\n" + gate + graphs + "}\n"));
  };
  custom("", "", "");
  custom(", @back, @forth, @batch", ", vjp = true, jvp = true, vmap = true", R"(
graph @back {
  %0 = input "x" : f64[2,3]
  %1 = input "s" : f64[3]
  %2 = input "y" : f64[2,3]
  %3 = input "g" : f64[2,3]
  %4 = mul(%0, %1) : f64[2,3]
  %5 = exp(%4) : f64[2,3]
  %6 = mul(%2, %1) : f64[2,3]
  %7 = add(%5, %6) : f64[2,3]
  %8 = mul(%3, %7) : f64[2,3]
  %9 = mul(%2, %0) : f64[2,3]
  %10 = mul(%3, %9) : f64[2,3]
  %11 = reduce(%10) {op = "sum", axes = [0]} : f64[3]
  return %8 "dx", %11 "ds"
}
graph @forth {
  %0 = input "x" : f64[2,3]
  %1 = input "s" : f64[3]
  %2 = input "tx" : f64[2,3]
  %3 = input "ts" : f64[3]
  %4 = mul(%0, %1) : f64[2,3]
  %5 = exp(%4) : f64[2,3]
  %6 = mul(%4, %2) : f64[2,3]
  %7 = mul(%0, %0) : f64[2,3]
  %8 = mul(%7, %3) : f64[2,3]
  %9 = add(%2, %6) : f64[2,3]
  %10 = add(%9, %8) : f64[2,3]
  %11 = mul(%5, %10) : f64[2,3]
  return %11 "ty"
}
graph @batch {
  %0 = input "x" : f64[samples,2,3]
  %1 = input "s" : f64[samples,3]
  %2 = reshape(%1) {dims = ["samples", "1", "3"]} : f64[samples,1,3]
  %3 = mul(%0, %2) : f64[samples,2,3]
  %4 = exp(%3) : f64[samples,2,3]
  %5 = mul(%0, %4) : f64[samples,2,3]
  return %5 "y"
}
)");
  return all;
}

inline std::vector<RuleCase> quantized_cases() {
  std::vector<RuleCase> all;
  all.push_back(case_of(R"(module "m" mir {
graph @main {
  %0 = input "x" : f64[4]
  %1 = constant {data = dense [0.25]} : f64[]
  %2 = constant {data = dense [3]} : i8[]
  %3 = quantize(%0, %1, %2) {to = "i8"} : i8[4]
  %4 = reshape(%3) {dims = [2, 2]} : i8[2,2]
  %5 = dequantize(%4, %1, %2) {to = "f64"} : f64[2,2]
  %6 = mul(%5, %5) : f64[2,2]
  return %6 "y"
}
}
)"));
  const std::string two = R"(module "m" mir {
graph @main {
  %0 = input "x" : f64[2,3]
  %1 = input "w" : f64[3,2]
  %2 = constant {data = dense [0.01]} : f64[]
  %3 = constant {data = dense [2]} : i8[]
  %4 = quantize(%0, %2, %3) {to = "i8"} : i8[2,3]
  %5 = quantize(%1, %2, %3) {to = "i8"} : i8[3,2]
)";
  all.push_back(case_of(two + R"(  %6 = q_matmul(%4, %5, %3, %3) : i32[2,2]
  %7 = dequantize(%6, %2) {to = "f64"} : f64[2,2]
  %8 = mul(%7, %7) : f64[2,2]
  return %8 "y"
}
}
)"));
  all.push_back(case_of(two + R"(  %6 = reshape(%4) {dims = [1, 1, 2, 3]} : i8[1,1,2,3]
  %7 = reshape(%5) {dims = [3, 1, 1, 2]} : i8[3,1,1,2]
  %8 = q_conv(%6, %7, %3, %3) {strides = [1, 1], pads_begin = [1, 0], pads_end = [0, 1], dilations = [1, 1]} : i32[1,3,3,3]
  %9 = dequantize(%8, %2) {to = "f64"} : f64[1,3,3,3]
  return %9 "y"
}
}
)"));
  all.push_back(case_of(R"(module "m" mir {
graph @main {
  %0 = input "x" : f64[2,3]
  %1 = cast(%0) {to = "f32"} : f32[2,3]
  %2, %3, %4 = dynamic_quantize(%1) : u8[2,3], f32[], u8[]
  %5 = dequantize(%2, %3, %4) {to = "f32"} : f32[2,3]
  %6 = cast(%5) {to = "f64"} : f64[2,3]
  %7 = mul(%6, %0) : f64[2,3]
  return %7 "y"
}
}
)"));
  all.push_back(case_of(R"(module "m" mir {
graph @main {
  %0 = input "q" : f64[1,2,3,4]
  %1 = input "k" : f64[1,2,3,4]
  %2 = input "v" : f64[1,2,3,4]
  %3 = input "cos" : f64[3,2]
  %4 = input "sin" : f64[3,2]
  %5 = input "keys" : f64[1,2,5,4]
  %6 = input "values" : f64[1,2,5,4]
  %7 = input "at" : i64[1,1,3,1]
  %8, %9, %10 = fused_rope_append(%0, %1, %2, %3, %4, %5, %6, %7) {head_dim = 4, n_rot = 4, style = "neox", layout = "bhsd"} : f64[1,2,3,4], f64[1,2,5,4], f64[1,2,5,4]
  return %8 "y", %9 "all_keys", %10 "all_values"
}
}
)",
                        {reals({1, 2, 3, 4}, 1), reals({1, 2, 3, 4}, 2), reals({1, 2, 3, 4}, 3), reals({3, 2}, 4),
                         reals({3, 2}, 5), reals({1, 2, 5, 4}, 6), reals({1, 2, 5, 4}, 7), i64({1, 1, 3, 1}, {3, 0, 4})}));
  return all;
}

inline std::vector<RuleCase> sequence_cases() {
  const std::string start = R"(module "m" mir {
graph @main {
  %0 = input "x" : f64[2,3]
  %1 = input "y" : f64[2,3]
  %2 = sequence_empty {to = "f64"} : seq<f64[*]>
  %3 = sequence_insert(%2, %0) : seq<f64[2,3]>
  %4 = constant {data = dense [0]} : i64[]
  %5 = sequence_insert(%3, %1, %4) : seq<f64[2,3]>
)";
  std::vector<RuleCase> all;
  all.push_back(case_of(start + R"(  %6 = optional_make(%5) : optional<seq<f64[2,3]>>
  %7 = optional_get(%6) : seq<f64[2,3]>
  %8 = optional_has(%6) : bool[]
  %9 = sequence_length(%7) : i64[]
  %10 = concat_from_sequence(%7) {axis = 1} : f64[2,6]
  %11 = cast(%9) {to = "f64"} : f64[]
  %12 = mul(%10, %10) : f64[2,6]
  %13 = mul(%12, %11) : f64[2,6]
  return %13 "r", %8 "has"
}
}
)"));
  all.push_back(case_of(start + R"(  %6 = sequence_erase(%5) : seq<f64[2,3]>
  %7 = sequence_at(%6, %4) : f64[2,3]
  %8 = sin(%7) : f64[2,3]
  %9 = split_to_sequence(%8) {axis = 1, keep_dim = false} : seq<f64[2]>
  %10 = sequence_at(%9, %4) : f64[2]
  return %8 "r", %10 "part"
}
}
)"));
  all.push_back(case_of(start + R"(  %6 = sequence_map(%5, %1) [@body] {carries = 1} : seq<f64[2,3]>
  %7 = concat_from_sequence(%6) {axis = 0} : f64[4,3]
  return %7 "r"
}
graph @body {
  %0 = input "e" : f64[2,3]
  %1 = input "c" : f64[2,3]
  %2 = mul(%0, %1) : f64[2,3]
  %3 = tanh(%2) : f64[2,3]
  return %3
}
}
)"));
  return all;
}

inline std::vector<RuleCase> rule_cases() {
  std::vector<RuleCase> all;
  for (auto samples : {all_samples(), integer_samples(), quantized_samples(), hir_samples()})
    for (Sample& s : samples) all.push_back(case_of(std::move(s)));
  for (auto cases : {control_cases(), quantized_cases(), sequence_cases()})
    for (RuleCase& c : cases) all.push_back(std::move(c));
  return all;
}

}  // namespace rlxc::test
