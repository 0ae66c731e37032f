// Matrix products of com.microsoft with narrow weights, and other forms of operators of ai.onnx.
#include <cmath>

#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::vector<double> product(const std::vector<double>& x, const std::vector<double>& w, size_t k) {  // w [n,k]
  std::vector<double> y;
  for (size_t r = 0; r < x.size() / k; ++r)
    for (size_t c = 0; c < w.size() / k; ++c) {
      double sum = 0;
      for (size_t i = 0; i < k; ++i) sum += x[r * k + i] * w[c * k + i];
      y.push_back(sum);
    }
  return y;
}

std::vector<double> bytes_of(size_t n, int first) {
  std::vector<double> v;
  for (size_t i = 0; i < n; ++i) v.push_back((first + 37 * static_cast<int>(i)) % 256);
  return v;
}

std::vector<double> only_result(OnnxPair& p) {
  p.model().output("y");
  return p.model().run()[0];
}

}  // namespace

TEST_CASE("weights of 4 bits by the tables of bitsandbytes") {
  const auto x = some(32, 1), scale = some(2, 2), codes = bytes_of(16, 5);
  const std::vector<double> fp4{0, 5.208333333e-03, 2. / 3, 1, 1. / 3, 0.5, 1. / 6, 0.25};
  std::vector<double> w;
  for (size_t i = 0; i < 32; ++i) {
    const auto byte = static_cast<size_t>(codes[i / 2]), code = i % 2 == 0 ? byte >> 4 : byte & 15;
    w.push_back((code < 8 ? fp4[code] : -fp4[code - 8]) * scale[i / 16]);
  }
  OnnxPair p;
  p.model().input("x", DType::F32, {2, 16}, x);
  p.model().input("w", DType::U8, {16}, codes);
  p.model().input("s", DType::F32, {2}, scale);
  p.ms("MatMulBnb4", {"x", "w", "s"}, {"y"},
       {attribute("K", 16), attribute("N", 2), attribute("block_size", 16), attribute("quant_type", 0)});
  check_close(only_result(p), product(x, w, 16));
  // The largest NF4 code is 1.
  OnnxPair q;
  q.model().input("x", DType::F32, {2, 16}, x);
  q.model().input("w", DType::U8, {16}, std::vector<double>(16, 255));
  q.model().input("s", DType::F32, {2}, {1, 2});
  q.ms("MatMulBnb4", {"x", "w", "s"}, {"y"},
       {attribute("K", 16), attribute("N", 2), attribute("block_size", 16), attribute("quant_type", 1)});
  std::vector<double> ones(16, 1);
  ones.resize(32, 2);
  check_close(only_result(q), product(x, ones, 16));
}

TEST_CASE("columns in blocks of 4-bit codes") {
  const auto x = some(32, 1);
  std::vector<double> blob, w;
  for (int column = 0; column < 2; ++column) {
    const float scale = column == 0 ? 0.5F : 2;
    for (double v : column == 0 ? std::vector<double>{0, 0, 0, 63} : std::vector<double>{0, 0, 0, 64}) blob.push_back(v);
    blob.push_back(3);  // the zero point
    const auto codes = bytes_of(16, 11 * column);
    blob.insert(blob.end(), codes.begin(), codes.end());
    for (size_t i = 0; i < 32; ++i) {
      const auto byte = static_cast<int>(codes[i % 16]);
      w.push_back(((i < 16 ? byte & 15 : byte >> 4) - 3) * static_cast<double>(scale));
    }
  }
  OnnxPair p;
  p.model().input("x", DType::F32, {1, 32}, x);
  p.model().input("w", DType::U8, {42}, blob);
  p.ints("shape", {32, 2}).ms("MatMulFpQ4", {"x", "w", "shape"}, {"y"}, {attribute("blk_quant_type", 1)});
  check_close(only_result(p), product(x, w, 32));
}

TEST_CASE("blocks of floats of 4 and 8 bits") {
  const auto x = some(32, 1), codes = bytes_of(16, 3);
  const std::vector<double> e2m1{0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<double> w;
  for (size_t i = 0; i < 32; ++i) {
    const auto byte = static_cast<size_t>(codes[i / 2]), code = i % 2 == 0 ? byte & 15 : byte >> 4;
    w.push_back((code < 8 ? e2m1[code] : -e2m1[code - 8]) * (i < 16 ? 1 : 2) * 0.25);
  }
  OnnxPair p;
  p.model().input("x", DType::F32, {1, 32}, x);
  p.model().input("w", DType::U8, {1, 16}, codes);
  p.model().input("s", DType::U8, {1, 2}, {0x38, 0x40});  // 1 and 2
  p.model().input("all", DType::F32, {}, {0.25});
  p.ms("MatMulBlockQuantizedFp4Weight", {"x", "w", "s", "all"}, {"y"}, {attribute("block_size", 16)});
  check_close(only_result(p), product(x, w, 32));

  OnnxPair q;
  const std::vector<double> eights{1, -2, 0.5, 4, 8, -0.25}, narrow{0.3, -1.1, 0.7};
  q.model().input("x", DType::F32, {1, 3}, narrow);
  q.model().input("w", DType::F8E4M3FN, {2, 3}, eights);
  q.model().input("s", DType::F32, {2, 2}, {1, 2, 3, 4});
  q.model().input("b", DType::F32, {2}, {10, 20});
  q.ms("MatMulBlockQuantizedFp8Weight", {"x", "w", "s", "", "b"}, {"y"}, {attribute("block_size", 2)});
  check_close(only_result(q), {10 + 0.3 + 2.2 + 0.7, 20 + 0.3 * 12 - 1.1 * 24 - 0.7});

  OnnxPair r;
  r.model().input("x", DType::F8E4M3FN, {1, 3}, {1, 2, -1});
  r.model().input("w", DType::F8E4M3FN, {2, 3}, eights);
  r.model().input("two", DType::F32, {1}, {2});
  r.ms("GemmFloat8", {"x", "w", "", "two", "two"}, {"y"},
       {attribute("transB", 1), attribute("dtype", 1), attribute("activation", "RELU")});
  check_close(only_result(r), {0, 4 * (4 + 16 + 0.25)});
}

TEST_CASE("several products of quantized weights with one norm") {
  OnnxPair p;
  p.real("x", {2, 16})
      .real("skip", {2, 16})
      .real("scale", {16})
      .real("s0", {3})
      .real("s1", {3})
      .real("b0", {3})
      .number("eps", 1e-5)
      .ints("last", {-1});
  p.integers("w0", DType::U8, {3, 1, 8}, 0, 255).integers("w1", DType::U8, {3, 1, 8}, 0, 255);
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), {attribute("K", 16), attribute("bits", 4), attribute("block_size", 16)});
    return more;
  };
  p.ms("MatMulNBitsMlp", {"x", "skip", "scale", "w0", "s0", "b0", "w1", "s1"}, {"y", "sum"},
       with({attribute("N", 3), attribute("activation", "silu")}));
  p.ms("MatMulNBitsQkv", {"x", "", "scale", "w0", "s0", "b0", "w1", "s1", "", "w1", "s1"}, {"q", "k", "v"},
       with({attribute("Nq", 3), attribute("Nkv", 3)}));
  p.on("Add", {"x", "skip"}, "xs");
  for (const std::string n : {"xs", "x"}) {
    p.ms("SimplifiedLayerNormalization", {n, "scale"}, {n + "_n"}, {attribute("epsilon", 1e-5)});
    p.ms("MatMulNBits", {n + "_n", "w0", "s0", "", "", "b0"}, {n + "_0"}, with({attribute("N", 3)}));
    p.ms("MatMulNBits", {n + "_n", "w1", "s1"}, {n + "_1"}, with({attribute("N", 3)}));
  }
  p.on("Sigmoid", {"xs_0"}, "g").on("Mul", {"xs_0", "g"}, "silu").on("Mul", {"silu", "xs_1"}, "y2");
  p.agree({{"y", "y2"}, {"sum", "xs"}, {"q", "x_0"}, {"k", "x_1"}, {"v", "x_1"}});
}

TEST_CASE("quantized embeddings, products and norms in row order") {
  OnnxPair p;
  p.integers("ids", DType::I32, {2, 3}, 0, 4).integers("mask", DType::I32, {2, 3}, 0, 1);
  for (const auto& [name, dims] :
       {std::pair<std::string, std::vector<int64_t>>{"words", {5, 4}}, {"places", {6, 4}}, {"gamma", {4}}, {"beta", {4}}})
    p.integers(name, DType::U8, dims, 0, 255);
  p.model().input("s", DType::F32, {}, {0.02});
  p.model().input("z", DType::U8, {}, {120});
  p.ms("QEmbedLayerNormalization",
       {"ids", "", "words", "places", "", "gamma", "beta", "mask", "s", "s", "", "s", "s", "z", "z", "", "z", "z"},
       {"y", "count"}, {attribute("epsilon", 1e-5)});
  for (const std::string n : {"words", "places", "gamma", "beta"}) p.on("DequantizeLinear", {n, "s", "z"}, n + "_f");
  p.ms("EmbedLayerNormalization", {"ids", "", "words_f", "places_f", "", "gamma_f", "beta_f", "mask"}, {"y2", "count2"},
       {attribute("epsilon", 1e-5)});

  p.integers("a", DType::I8, {2, 3, 4}, -128, 127)
      .integers("bt", DType::I8, {5, 4}, -128, 127)
      .integers("c", DType::I8, {2, 3, 5}, -128, 127)
      .real("bias", {5});
  p.model().input("s8", DType::F32, {}, {0.5});
  p.ints("kn", {4, 5}).on("Reshape", {"bt", "kn"}, "b");  // stored by columns
  p.ms("QOrderedMatMul", {"a", "s", "b", "s", "s8", "bias", "c", "s"}, {"m"},
       {attribute("order_A", 1), attribute("order_B", 0), attribute("order_Y", 1)});
  p.on("DequantizeLinear", {"a", "s"}, "af").on("DequantizeLinear", {"bt", "s"}, "bf").on("DequantizeLinear", {"c", "s"}, "cf");
  p.on("Transpose", {"bf"}, "bf2")
      .on("MatMul", {"af", "bf2"}, "m0")
      .on("Add", {"m0", "bias"}, "m1")
      .on("Add", {"m1", "cf"}, "m2");
  p.model().input("z8", DType::I8, {}, {0});
  p.on("QuantizeLinear", {"m2", "s8", "z8"}, "m3");
  p.ms("QOrderedGelu", {"a", "s", "s"}, {"g"}, {attribute("order_X", 1)})
      .on("Gelu", {"af"}, "g0")
      .on("QuantizeLinear", {"g0", "s", "z8"}, "g1");
  p.real("lg", {4}).ms("QOrderedLayerNormalization", {"a", "s", "lg", "", "s"}, {"l"}, {attribute("epsilon", 1e-5)});
  p.on("LayerNormalization", {"af", "lg"}, "l0", {attribute("epsilon", 1e-5)}).on("QuantizeLinear", {"l0", "s", "z8"}, "l1");
  p.ms("QuantizeWithOrder", {"m2", "s8"}, {"o"}, {attribute("order_input", 1), attribute("order_output", 1)});
  p.ms("DequantizeWithOrder", {"a", "s"}, {"d"}, {attribute("order_input", 1), attribute("order_output", 1), attribute("to", 1)});
  p.agree({{"y", "y2"}, {"count", "count2"}, {"m", "m3"}, {"g", "g1"}, {"l", "l1"}, {"o", "m3"}, {"d", "af"}});
}

TEST_CASE("integer products and sums, images with channels last") {
  OnnxPair p;
  p.integers("a", DType::I16, {2, 3}, -300, 300)
      .integers("b", DType::I16, {3, 4}, -300, 300)
      .integers("u", DType::U8, {2, 3}, 0, 255);
  p.ms("MatMulInteger16", {"a", "b"}, {"y"})
      .on("Cast", {"a"}, "a32", {attribute("to", 6)})
      .on("Cast", {"b"}, "b32", {attribute("to", 6)});
  p.on("MatMul", {"a32", "b32"}, "y2").ints("one", {1});
  p.ms("ReduceSumInteger", {"u"}, {"s"}, {attribute("axes", std::vector<int64_t>{1}), attribute("keepdims", 0)});
  p.on("Cast", {"u"}, "u32", {attribute("to", 12)}).on("ReduceSum", {"u32", "one"}, "s2", {attribute("keepdims", 0)});
  p.integers("x", DType::U8, {1, 3, 5, 4}, 0, 255).integers("w", DType::U8, {2, 3, 3, 2}, 0, 255);
  p.model().input("f", DType::F32, {}, {0.02});
  p.model().input("t", DType::F32, {}, {0.2});
  p.model().input("z", DType::U8, {}, {120});
  const auto last = attribute("perm", std::vector<int64_t>{0, 2, 3, 1}),
             pads = attribute("pads", std::vector<int64_t>{1, 0, 1, 1});
  p.on("Transpose", {"x"}, "xl", {last});
  p.ms("QLinearConv", {"xl", "f", "z", "w", "f", "z", "t", "z"}, {"cl"}, {pads, attribute("channels_last", 1)});
  p.on("QLinearConv", {"x", "f", "z", "w", "f", "z", "t", "z"}, "c", {pads}).on("Transpose", {"c"}, "c2", {last});
  p.agree({{"y", "y2"}, {"s", "s2"}, {"cl", "c2"}}, 0);
}

TEST_CASE("transposed convolutions of integers are those of floats, requantized") {
  OnnxPair p;
  p.integers("x", DType::U8, {1, 4, 5, 4}, 0, 255)
      .integers("w", DType::U8, {4, 3, 3, 2}, 0, 255)
      .integers("b", DType::I32, {6}, -500, 500);
  p.model().input("f", DType::F32, {}, {0.02});
  p.model().input("t", DType::F32, {}, {0.2});
  p.model().input("z", DType::U8, {}, {120});
  const auto strides = attribute("strides", std::vector<int64_t>{2, 1}),
             pads = attribute("pads", std::vector<int64_t>{1, 0, 1, 1}), group = attribute("group", 2);
  p.ms("QLinearConvTranspose", {"x", "f", "z", "w", "f", "z", "t", "z", "b"}, {"c"}, {strides, pads, group});
  for (const char* v : {"x", "w", "z", "b"}) p.on("Cast", {v}, std::string(v) + "f", {attribute("to", 1)});
  p.on("Sub", {"xf", "zf"}, "xc")
      .on("Sub", {"wf", "zf"}, "wc")
      .on("ConvTranspose", {"xc", "wc", "bf"}, "sums", {strides, pads, group});
  p.on("Mul", {"f", "f"}, "ff").on("Mul", {"sums", "ff"}, "real").on("QuantizeLinear", {"real", "t", "z"}, "c2");
  p.agree({{"c", "c2"}}, 0);
}

TEST_CASE("products of integers whose result has a scale per row") {
  OnnxPair p;
  p.integers("a", DType::U8, {2, 3, 4}, 0, 255).integers("b", DType::I8, {2, 4, 5}, -128, 127);
  p.integers("az", DType::U8, {3}, 100, 140).integers("yz", DType::U8, {3}, 100, 140);
  p.model().input("f", DType::F32, {}, {0.02});
  p.model().input("bz", DType::I8, {}, {3});
  p.model().input("as", DType::F32, {3}, {0.01, 0.02, 0.03});
  p.model().input("ys", DType::F32, {3}, {0.7, 0.2, 0.4});
  p.on("QLinearMatMul", {"a", "as", "az", "b", "f", "bz", "ys", "yz"}, "c");
  p.on("DequantizeLinear", {"a", "as", "az"}, "af", {attribute("axis", 1)}).on("DequantizeLinear", {"b", "f", "bz"}, "bf");
  p.on("MatMul", {"af", "bf"}, "y").on("QuantizeLinear", {"y", "ys", "yz"}, "c2", {attribute("axis", 1)});
  p.agree({{"c", "c2"}}, 1);
}

TEST_CASE("operators that are those of ai.onnx under other conditions") {
  OnnxPair p;
  p.real("x", {1, 2, 4, 4})
      .real("w", {2, 3, 3, 3})
      .real("b", {3})
      .ints("pads", {1, 0, 1, 1})
      .ints("at", {0, 1, 1})
      .real("rows", {4, 3});
  p.ms("ConvTransposeWithDynamicPads", {"x", "w", "pads", "b"}, {"c"}, {attribute("strides", std::vector<int64_t>{2, 1})});
  p.on("ConvTranspose", {"x", "w", "b"}, "c2",
       {attribute("strides", std::vector<int64_t>{2, 1}), attribute("pads", std::vector<int64_t>{1, 0, 1, 1})});
  p.ms("TorchEmbedding", {"rows", "at"}, {"e"}).on("Gather", {"rows", "at"}, "e2").ms("SampleOp", {"rows"}, {"same"});
  p.ms("Pad", {"rows", "pads"}, {"q"}, {attribute("mode", "edge")})
      .on("Pad", {"rows", "pads"}, "q2", {attribute("mode", "edge")});
  p.number("zero", 0)
      .number("five", 5)
      .number("one", 1)
      .ms("Range", {"zero", "five"}, {"r"})
      .on("Range", {"zero", "five", "one"}, "r2");
  p.ms("FusedMatMulActivation", {"rows", "rows"}, {"m"}, {attribute("transB", 1), attribute("activation", "Relu")});
  p.on("Transpose", {"rows"}, "rt").on("MatMul", {"rows", "rt"}, "m0").on("Relu", {"m0"}, "m2");
  p.ms("SparseToDenseMatMul", {"rows", "rows"}, {"d"}, {attribute("transB", 1)});
  p.agree({{"c", "c2"}, {"e", "e2"}, {"same", "rows"}, {"q", "q2"}, {"r", "r2"}, {"m", "m2"}, {"d", "m0"}});
}

TEST_CASE("documented operators without support are refused with a reason") {
  for (const auto& o : onnx_import::imported_operators()) {
    if (o.refusal.empty()) continue;
    OnnxModel m(21);
    m.opset("com.microsoft", 1);
    m.input("x", DType::F32, {2}, {1, 2});
    m.add(node(o.name, {"x"}, {"y"}, {}, o.domain));
    m.output("y");
    Diagnostics d;
    CHECK_FALSE(m.load(d));
    CHECK_MESSAGE(d.text().find(std::string(o.refusal)) != std::string::npos, d.text());
  }
}
