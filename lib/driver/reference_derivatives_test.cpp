// The gradient of every kind of the reference vocabulary against central differences in f64, or against the rule that the
// vocabulary documents where derivatives pass straight through. A kind that has neither is named with the reason.
#include <cmath>
#include <map>
#include <set>

#include "driver/transform_stage.h"
#include "import/json/reference_rows.h"
#include "support/reference_run.h"
#include "transform/gradients.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

struct Sample {
  std::string op;
  std::vector<In> in;
  std::vector<int> result;
};

In real(std::vector<int> dims, uint64_t seed, double low = -1, double high = 1) {
  In x = random_in(std::move(dims), seed, low, high);
  x.type = DType::F64;
  return x;
}
In index(std::vector<int> dims, Reals values) { return {std::move(dims), std::move(values), DType::I64}; }
In identity_plus(int n, uint64_t seed, bool symmetric) {  // well conditioned, and its eigenvalues differ
  In x = real({n, n}, seed, -0.3, 0.3);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      auto& v = x.values[static_cast<size_t>(i * n + j)];
      if (symmetric && j < i) v = x.values[static_cast<size_t>(j * n + i)];
      if (i == j) v += 1 + 0.7 * i;
    }
  return x;
}

std::vector<HostValue> values_of(const std::vector<In>& in) {
  std::vector<HostValue> values;
  for (const In& x : in) values.push_back(tensor_of(x.type, {x.dims.begin(), x.dims.end()}, x.values));
  return values;
}
std::string document(const Sample& s) {
  ReferenceLines l;
  std::vector<int> ids;
  for (const In& x : s.in) {
    ids.push_back(l.count);
    l.input("x" + std::to_string(l.count), x.dims, reference_name(x.type));
  }
  return l.add(s.op, ids, s.result, "F64").graph();
}
bool moves(const In& x) { return x.type == DType::F64; }

// The gradients of sum(dy * op(in)) by the operands that are f64.
std::vector<Reals> gradients_of(const Sample& s, const Reals& dy) {
  Diagnostics d;
  const auto m = import_json::parse_json(document(s), "", {}, d);
  REQUIRE_MESSAGE(m, d.text());
  Graph& g = m->main();
  Builder b(g, &d);
  std::vector<ValueId> wrt;
  for (size_t i = 0; i < s.in.size(); ++i)
    if (moves(s.in[i])) wrt.push_back(g.result(g.inputs()[i]));
  const ValueId seed = b.constant(tensor_of(DType::F64, {s.result.begin(), s.result.end()}, dy).tensor);
  const auto made = transform::gradients(b, g.outputs()[0], seed, wrt, {}, d, expand_by_table);
  REQUIRE_MESSAGE(made, d.text());
  g.set_outputs(*made);
  const auto r = eval::evaluate(*m, values_of(s.in), d);
  REQUIRE_MESSAGE(r, d.text());
  std::vector<Reals> out;
  for (const HostValue& v : *r) out.push_back(numbers(v));
  return out;
}

void check(const Sample& s) {
  INFO(s.op);
  const Reals dy = real(s.result, 99).values;
  const std::vector<Reals> got = gradients_of(s, dy);
  size_t k = 0;
  for (size_t i = 0; i < s.in.size(); ++i) {
    if (!moves(s.in[i])) continue;
    const Reals& g = got[k++];
    REQUIRE(g.size() == s.in[i].values.size());
    for (size_t e = 0; e < g.size(); ++e) {
      double difference = 0;
      for (double side : {1.0, -1.0}) {
        std::vector<In> in = s.in;
        in[i].values[e] += side * 1e-5;
        const Reals y = run(document({s.op, in, s.result}), values_of(in))[0];
        for (size_t r = 0; r < y.size(); ++r) difference += side * y[r] * dy[r] / 2e-5;
      }
      CHECK_MESSAGE(std::abs(g[e] - difference) <= 1e-6 * (1 + std::abs(difference)), "operand ", i, " element ", e, ": ", g[e],
                    " and ", difference);
    }
  }
}

std::string tagged(const std::string& kind, const std::string& payload) { return "{\"" + kind + "\":" + payload + "}"; }

std::vector<Sample> smooth_samples() {
  const In m = real({2, 3, 4}, 1), row = real({4}, 2), positive = real({2, 3, 4}, 3, 0.3, 2), image = real({1, 4, 5, 6}, 4),
           a = real({3, 4}, 5), b = real({4, 2}, 6);
  const std::string eps = R"({"axis":-1,"eps":1e-5})", pool = R"("kernel_size":[2,2],"stride":[2,2],"padding":[0,0]})";
  const std::vector<int> dims{2, 3, 4};
  std::vector<Sample> all;
  for (const char* f :
       {"Gelu", "GeluApprox", "Silu", "Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Sin", "Cos", "Tan", "Atan"})
    all.push_back({tagged("Activation", std::string("\"") + f + "\""), {m}, dims});
  for (const char* f : {"Log", "Sqrt", "Rsqrt"})
    all.push_back({tagged("Activation", std::string("\"") + f + "\""), {positive}, dims});
  for (const char* f : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"})
    all.push_back({tagged("Binary", std::string("\"") + f + "\""), {positive, real({4}, 7, 0.4, 1.5)}, dims});
  for (const char* f : {"Sum", "Mean", "Max", "Min", "Prod"})
    all.push_back({tagged("Reduce", std::string(R"({"op":")") + f + R"(","axes":[1],"keep_dim":false})"), {m}, {2, 4}});
  const std::vector<Sample> others{
      {tagged("Cast", R"({"to":"F64"})"), {m}, dims},
      {"\"Where\"", {{{2, 3, 4}, Reals(24, 1), DType::Bool}, m, m}, dims},
      {tagged("Reshape", R"({"new_shape":[6,4]})"), {m}, {6, 4}},
      {tagged("Expand", R"({"target_shape":[3,4]})"), {real({1, 4}, 8)}, {3, 4}},
      {tagged("Transpose", R"({"perm":[1,0,2]})"), {m}, {3, 2, 4}},
      {tagged("Narrow", R"({"axis":1,"start":1,"len":2})"), {m}, {2, 2, 4}},
      {tagged("Concat", R"({"axis":0})"), {a, real({1, 4}, 9)}, {4, 4}},
      {tagged("Gather", R"({"axis":0})"), {a, index({2}, {2, 0})}, {2, 4}},
      {tagged("Softmax", R"({"axis":-1})"), {m}, dims},
      {tagged("Cumsum", R"({"axis":1,"exclusive":true})"), {m}, dims},
      {"\"MatMul\"", {a, b}, {3, 2}},
      {tagged("DotGeneral", R"({"lhs_contracting":[1],"rhs_contracting":[0],"lhs_batch":[],"rhs_batch":[]})"), {a, b}, {3, 2}},
      {tagged("LoraMatMul", R"({"scale":0.5})"), {a, b, real({4, 1}, 10), real({1, 2}, 11)}, {3, 2}},
      {tagged("LayerNorm", eps), {m, row, real({4}, 12)}, dims},
      {tagged("RmsNorm", eps), {m, row, real({4}, 12)}, dims},
      {tagged("LayerNorm2d", R"({"eps":1e-5})"), {image, row, real({4}, 12)}, {1, 4, 5, 6}},
      {tagged("GroupNorm", R"({"num_groups":2,"eps":1e-5})"), {image, row, real({4}, 12)}, {1, 4, 5, 6}},
      {"\"ResizeNearest2x\"", {image}, {1, 4, 10, 12}},
      {tagged("Conv", R"({"kernel_size":[3,2],"stride":[2,1],"padding":[1,0],"dilation":[1,2],"groups":2})"),
       {image, real({6, 2, 3, 2}, 13)},
       {1, 6, 3, 4}},
      {tagged("ConvTranspose2d",
              R"({"kernel_size":[2,2],"stride":[2,2],"padding":[0,0],"dilation":[1,1],"output_padding":[0,0],"groups":1})"),
       {real({1, 3, 2, 2}, 14), real({3, 2, 2, 2}, 15)},
       {1, 2, 4, 4}},
      {tagged("Pool", R"({"kind":"Max",)" + pool), {image}, {1, 4, 2, 3}},
      {tagged("Pool", R"({"kind":"Mean",)" + pool), {image}, {1, 4, 2, 3}},
      {tagged("Attention", R"({"num_heads":2,"head_dim":2,"mask_kind":"Causal","attn_logit_softcap":0.8})"),
       {real({1, 3, 4}, 16), real({1, 3, 4}, 17), real({1, 3, 4}, 18)},
       {1, 3, 4}},
      {tagged("Rope", R"({"head_dim":4,"n_rot":4})"),
       {real({1, 3, 4}, 19), {{3, 2}, real({3, 2}, 20).values, DType::F32}, {{3, 2}, real({3, 2}, 21).values, DType::F32}},
       {1, 3, 4}},
      {tagged("AxialRope2d", R"({"end_x":3,"end_y":2,"head_dim":8,"num_heads":1,"theta":100,"repeat_factor":1})"),
       {real({1, 6, 8}, 22)},
       {1, 6, 8}},
      {"\"DenseSolve\"", {identity_plus(3, 23, false), real({3, 2}, 24)}, {3, 2}},
      {"\"BatchedDenseSolve\"", {{{1, 3, 3}, identity_plus(3, 23, false).values, DType::F64}, real({1, 3, 2}, 24)}, {1, 3, 2}},
      {tagged("TriangularSolve", R"({"lower":true,"transpose":false})"), {identity_plus(3, 25, false), real({3, 1}, 26)}, {3, 1}},
      {"\"Det\"", {identity_plus(3, 27, false)}, {}},
      {"\"LogDet\"", {identity_plus(3, 27, false)}, {}},
      {tagged("ScatterAdd", R"({"axis":0})"), {a, index({3}, {1, 0, 1})}, {2, 4}},
      {"\"GroupedMatMul\"", {a, real({2, 4, 2}, 28), index({3}, {1, 0, 1})}, {3, 2}},
      {"\"SoftmaxCrossEntropyWithLogits\"", {a, index({3}, {1, 0, 3})}, {3}},
      {"\"SoftmaxCrossEntropy\"", {a, real({3, 4}, 29, 0, 1)}, {3}},
      {"\"Fma\"", {a, real({3, 4}, 30), real({3, 4}, 31)}, {3, 4}},
      {tagged("Clamp", R"({"min":-0.5,"max":0.4})"), {a}, {3, 4}},
      {tagged("Reverse", R"({"axes":[1]})"), {a}, {3, 4}},
      {tagged("Trilu", R"({"upper":true,"k":0})"), {a}, {3, 4}},
      {tagged("CumProd", R"({"axis":1,"exclusive":false})"), {positive}, dims},
      {tagged("CumMax", R"({"axis":1,"exclusive":false})"), {m}, dims},
      {tagged("FusedMatMulBiasAct", R"({"activation":"Gelu"})"), {a, b, real({2}, 32)}, {3, 2}},
      {tagged("FusedResidualLN", R"({"has_bias":false,"eps":1e-5})"), {a, real({3, 4}, 33), row, real({4}, 34)}, {3, 4}},
      {tagged("FusedResidualRmsNorm", R"({"has_bias":true,"eps":1e-5})"),
       {a, real({3, 4}, 33), real({4}, 35), row, real({4}, 34)},
       {3, 4}},
      {tagged("FusedSwiGLU", R"({"cast_to":null,"gate_first":true})"), {a}, {3, 2}},
      {tagged("ElementwiseRegion",
              R"({"chain":[{"Binary":["Mul",{"Input":0},{"Input":1}]},{"Activation":["Tanh",{"Step":0}]}],"num_inputs":2,)"
              R"("scalar_input_mask":0,"input_modulus":[0,0]})"),
       {a, real({3, 4}, 36)},
       {3, 4}},
      {tagged("GatedDeltaNet", R"({"state_size":3,"carry_state":false})"),
       {real({1, 3, 2, 3}, 40), real({1, 3, 2, 3}, 41), real({1, 3, 2, 3}, 42), real({1, 3, 2}, 43), real({1, 3, 2}, 44)},
       {1, 3, 2, 3}},
      {tagged("SelectiveScan", R"({"state_size":2})"),
       {real({1, 3, 2}, 45), real({1, 3, 2}, 46, 0.2, 1), real({2, 2}, 47), real({1, 3, 2}, 48), real({1, 3, 2}, 49)},
       {1, 3, 2}},
      {tagged("Fft", R"({"inverse":false,"norm":"Backward"})"), {real({6}, 50)}, {6}},
      {tagged("Im2Col", R"({"kernel":[2,3],"stride":[2,1],"padding":[1,1],"dilation":[1,2]})"),
       {real({1, 2, 4, 5}, 51)},
       {9, 12}},
      {tagged("Interpolate3d", R"({"size":[1,3,4]})"), {real({1, 1, 1, 2, 3}, 52)}, {1, 1, 1, 3, 4}},
      {tagged("KvAppend", R"({"axis":0,"pos":1})"), {real({3, 2}, 53), real({1, 2}, 54)}, {2, 2}},
      {tagged("PartitionedConv", R"({"block":2})"), {real({2, 3}, 55), real({2}, 56)}, {2, 4}},
      {"\"BiMap\"", {real({2, 3}, 57), identity_plus(3, 58, true)}, {2, 2}},
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

// Kinds without a sample above.
const std::map<std::string, std::set<std::string>, std::less<>>& other_kinds() {
  static const std::map<std::string, std::set<std::string>, std::less<>> kOthers{
      {"a documented rule, below", {"StopGradient", "FakeQuantize", "FakeQuantizeLSQ"}},
      {"straight through, in f32 (transform/quantized_test.cpp, driver/transform_rules_test.cpp)",
       {"Quantize", "Dequantize", "QMatMul", "QConv2d", "ScaledMatMul", "ScaledGroupedMatMul", "ScaledQuantScale",
        "ScaledQuantize", "ScaledDequantize", "FftQ"}},
      {"a leaf", {"Input", "Param", "Constant", "RngNormal", "RngUniform"}},
      {"positions, truth values or counts",
       {"Compare", "TopK", "Sample", "ArgMax", "ArgMin", "ArgSort", "Histogram", "WelchPeaks"}},
      {"packed weights: its operations have samples",
       {"DequantMatMul", "DequantGroupedMatMul", "DequantMoEWeights", "DequantGroupedMatMulMlx"}},
      {"refused",
       {"GaussianSplatRender", "GaussianSplatRenderBackward", "GaussianSplatPrepare", "GaussianSplatRasterize", "Custom"}},
      {"bodies (transform/rules_control_test.cpp, import/json/reference_custom_test.cpp)",
       {"If", "While", "Scan", "ScanBackward", "ScanBackwardXs", "CustomFn"}},
      {"complex (driver/transform_rules_test.cpp)", {"ComplexNormSq", "ComplexNormSqBackward", "Conjugate"}},
      {"symmetric matrices (import/json/reference_gradients_test.cpp)",
       {"ReEig", "LogEig", "SpdMatrixFnBatch", "SpdLogMap", "SpdExpMap", "SpdParallelTransport", "SpdKarcherMean",
        "SpdKarcherMeanWeighted", "SpdBatchNorm", "Eigh", "EighBatch"}},
      {"operations that have samples, or those of rule_samples.h, with other attributes",
       {"Cholesky",
        "Qr",
        "Svd",
        "Sort",
        "Pad",
        "Slice",
        "Roll",
        "Tile",
        "GatherElements",
        "GatherNd",
        "ScatterElements",
        "ScatterNd",
        "BatchNormInference",
        "Conv3d",
        "ConvTranspose3d",
        "FusedMatMulResidual",
        "FusedConvBiasAct",
        "FusedAttentionBlock",
        "FusedTransformerLayer",
        "Mamba2",
        "Lstm",
        "Gru",
        "Rnn",
        "BatchElementwiseRegion",
        "TransformRegion",
        "FftButterflyStage",
        "LogMel",
        "SynthMatMul",
        "SynthReconstruct",
        "SplineActivation",
        "AdaLayerNorm",
        "GatedResidual",
        "RoPE"}},
      {"blocks, which are lowered",
       {"Linear", "LinearFused", "SharedLinearPair", "SwiGLU", "DepthwiseConv1dCausal", "ResidualRmsNorm", "LlamaDecoderBlock"}}};
  return kOthers;
}

std::string kind_of(const std::string& op) {
  const size_t from = op.find('"') + 1;
  return op.substr(from, op.find('"', from) - from);
}

}  // namespace

TEST_CASE("gradients of kinds of the reference vocabulary agree with differences") {
  for (const Sample& s : smooth_samples()) check(s);
}

TEST_CASE("fake quantization has the gradients that the vocabulary documents") {
  const In x{{2, 4}, {0.1, -0.7, 0.34, 5, -5, 0.9, 0, 1.2}, DType::F64}, dy = real({2, 4}, 2);
  for (const char* ste : {"Identity", "ClippedIdentity", "HardTanh", "Tanh"}) {
    const std::string how = std::string(R"("bits":4,"axis":0,"ste":")") + ste + "\"";
    const Sample s{"{\"FakeQuantize\":{" + how + R"(,"scale_mode":"PerBatch"}})", {x}, {2, 4}};
    close(gradients_of(s, dy.values)[0],
          run(document({"{\"FakeQuantizeBackward\":{" + how + "}}", {x, dy}, {2, 4}}), values_of({x, dy}))[0], 1e-12);
  }
  for (const bool each : {false, true}) {
    const In scale{{each ? 2 : 1}, each ? Reals{0.1, 0.3} : Reals{0.2}, DType::F64};
    const std::string how = std::string(R"({"bits":4,"axis":)") + (each ? "0" : "null") + "}";
    const auto grads = gradients_of({tagged("FakeQuantizeLSQ", how), {x, scale}, {2, 4}}, dy.values);
    const auto rule = [&](const std::string& kind, const std::vector<int>& result) {
      return run(document({tagged(kind, how), {x, scale, dy}, result}), values_of({x, scale, dy}))[0];
    };
    close(grads[0], rule("FakeQuantizeLSQBackwardX", {2, 4}), 1e-12);
    close(grads[1], rule("FakeQuantizeLSQBackwardScale", scale.dims), 1e-12);
  }
}

TEST_CASE("StopGradient of the reference vocabulary stops the gradient") {
  const In x = real({3}, 1);
  CHECK(gradients_of({"\"StopGradient\"", {x}, {3}}, {1, 1, 1})[0] == Reals{0, 0, 0});
}

TEST_CASE("each kind of the reference vocabulary has a sample of its gradient, or a reason") {
  std::set<std::string, std::less<>> known;
  for (const Sample& s : smooth_samples()) known.insert(kind_of(s.op));
  for (const auto& [reason, kinds] : other_kinds())
    for (const std::string& kind : kinds) CHECK_MESSAGE(known.insert(kind).second, kind, " has a sample");
  for (const auto rows :
       {import_json::reference_quant_rows(), import_json::reference_control_rows(), import_json::reference_fused_rows(),
        import_json::reference_tensor_rows(), import_json::reference_recurrent_rows(), import_json::reference_scaled_rows(),
        import_json::reference_matrix_rows(), import_json::reference_signal_rows(), import_json::reference_region_rows(),
        import_json::reference_spectrum_rows(), import_json::reference_learned_rows(), import_json::reference_manifold_rows(),
        import_json::reference_mlx_rows()})
    for (const auto& row : rows) {
      const std::string kind(row.name);
      CHECK_MESSAGE((known.contains(kind) || kind.find("Backward") != kind.npos), kind);  // gradients themselves
    }
}
