#include <cmath>

#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("norms with a skip connection") {
  OnnxPair p;
  p.real("x", {2, 3, 4}).real("skip", {2, 3, 4}).real("gamma", {4}).real("beta", {4}).real("bias", {4}).number("eps", 1e-5);
  p.ms("SkipLayerNormalization", {"x", "skip", "gamma", "beta", "bias"}, {"ln", "", "", "sum"}, {attribute("epsilon", 1e-5)});
  p.ms("SkipSimplifiedLayerNormalization", {"x", "skip", "gamma", "bias"}, {"rms"}, {attribute("epsilon", 1e-5)});
  p.ms("SimplifiedLayerNormalization", {"x", "gamma"}, {"plain"}, {attribute("epsilon", 1e-5)});
  p.on("Add", {"x", "skip"}, "s0").on("Add", {"s0", "bias"}, "s");
  p.on("LayerNormalization", {"s", "gamma", "beta"}, "ln2", {attribute("epsilon", 1e-5)});
  const auto rms = [&](const std::string& x, const std::string& y) {
    p.ints(y + "axes", {-1})
        .on("Mul", {x, x}, y + "q")
        .on("ReduceMean", {y + "q", y + "axes"}, y + "m")
        .on("Add", {y + "m", "eps"}, y + "e");
    p.on("Sqrt", {y + "e"}, y + "r").on("Div", {x, y + "r"}, y + "n").on("Mul", {y + "n", "gamma"}, y);
  };
  rms("s", "rms2");
  rms("x", "plain2");
  p.agree({{"ln", "ln2"}, {"sum", "s"}, {"rms", "rms2"}, {"plain", "plain2"}});
}

TEST_CASE("embeddings with their norm") {
  OnnxPair p;
  p.integers("ids", DType::I32, {2, 3}, 0, 4)
      .integers("segments", DType::I32, {2, 3}, 0, 1)
      .integers("mask", DType::I32, {2, 3}, 0, 1);
  p.real("words", {5, 4}).real("places", {6, 4}).real("kinds", {2, 4}).real("gamma", {4}).real("beta", {4});
  p.ms("EmbedLayerNormalization", {"ids", "segments", "words", "places", "kinds", "gamma", "beta", "mask"}, {"y", "count", "sum"},
       {attribute("epsilon", 1e-5)});
  p.ints("order", {0, 1, 2}).ints("last", {1}).on("Gather", {"words", "ids"}, "a").on("Gather", {"places", "order"}, "b");
  p.on("Gather", {"kinds", "segments"}, "c").on("Add", {"a", "b"}, "d").on("Add", {"d", "c"}, "e");
  p.on("LayerNormalization", {"e", "gamma", "beta"}, "y2", {attribute("epsilon", 1e-5)});
  p.on("ReduceSum", {"mask", "last"}, "count2", {attribute("keepdims", 0)});
  // Without segments, with positions.
  p.integers("at", DType::I64, {2, 3}, 0, 5);
  p.ms("EmbedLayerNormalization", {"ids", "", "words", "places", "", "gamma", "beta", "", "at"}, {"z", "", "two"},
       {attribute("epsilon", 1e-5)});
  p.on("Gather", {"places", "at"}, "f").on("Add", {"a", "f"}, "g");
  p.on("LayerNormalization", {"g", "gamma", "beta"}, "z2", {attribute("epsilon", 1e-5)});
  p.agree({{"y", "y2"}, {"sum", "e"}, {"count", "count2"}, {"z", "z2"}, {"two", "g"}});
}

TEST_CASE("activations with a bias") {
  OnnxPair p;
  p.real("x", {3, 8}).real("bias", {8}).real("skip", {3, 8}).real("w", {8, 5}).real("v", {5}).number("k", 1.702);
  p.ms("Gelu", {"x"}, {"a"}).on("Gelu", {"x"}, "a2").on("Add", {"x", "bias"}, "xb");
  p.ms("BiasGelu", {"x", "bias"}, {"b"}).on("Gelu", {"xb"}, "b2");
  p.ms("FastGelu", {"x", "bias"}, {"c"}).on("Gelu", {"xb"}, "c2", {attribute("approximate", "tanh")});
  p.ms("FastGelu", {"x"}, {"d"}).on("Gelu", {"x"}, "d2", {attribute("approximate", "tanh")});
  p.ms("QuickGelu", {"x"}, {"e"}).on("Mul", {"x", "k"}, "kx").on("Sigmoid", {"kx"}, "s").on("Mul", {"x", "s"}, "e2");
  p.ms("BiasAdd", {"x", "bias", "skip"}, {"f"}).on("Add", {"xb", "skip"}, "f2");
  p.node_of("", "Split", {"xb"}, {"left", "right"}, {attribute("axis", -1), attribute("num_outputs", 2)});
  p.ms("BiasSplitGelu", {"x", "bias"}, {"g"}).on("Gelu", {"right"}, "h").on("Mul", {"left", "h"}, "g2");
  p.ms("GemmFastGelu", {"x", "w", "v"}, {"i"})
      .on("Gemm", {"x", "w", "v"}, "xw")
      .on("Gelu", {"xw"}, "i2", {attribute("approximate", "tanh")});
  p.agree({{"a", "a2"}, {"b", "b2"}, {"c", "c2"}, {"d", "d2"}, {"e", "e2"}, {"f", "f2"}, {"g", "g2"}, {"i", "i2"}});
}

TEST_CASE("matrix products with what follows them") {
  OnnxPair p;
  p.real("a", {3, 2, 4, 5})
      .real("b", {3, 2, 6, 5})
      .real("c", {4, 3, 2, 5})
      .real("g", {4, 3})
      .real("h", {3, 5})
      .real("i", {5})
      .number("alpha", 0.5);
  p.ms("FusedMatMul", {"a", "b"}, {"y"}, {attribute("transB", 1), attribute("alpha", 0.5)});
  p.on("Transpose", {"b"}, "bt", {attribute("perm", std::vector<int64_t>{0, 1, 3, 2})})
      .on("MatMul", {"a", "bt"}, "ab")
      .on("Mul", {"ab", "alpha"}, "y2");
  // transBatchA: [4,3,2,5] stands for [3,2,4,5].
  p.ms("FusedMatMul", {"c", "b"}, {"z"}, {attribute("transB", 1), attribute("transBatchA", 1)});
  p.on("Transpose", {"c"}, "ct", {attribute("perm", std::vector<int64_t>{1, 2, 0, 3})}).on("MatMul", {"ct", "bt"}, "z2");
  p.ms("TransposeMatMul", {"a", "b"}, {"t"}, {attribute("transB", 1)});
  p.ms("FusedGemm", {"g", "h", "i"}, {"r"}, {attribute("activation", "LeakyRelu"), attribute("activation_alpha", 0.1)});
  p.on("Gemm", {"g", "h", "i"}, "gh").on("LeakyRelu", {"gh"}, "r2", {attribute("alpha", 0.1)});
  p.ms("FusedGemm", {"g", "h", "i"}, {"s"},
       {attribute("activation", "HardSigmoid"), attribute("activation_alpha", 0.3), attribute("activation_beta", 0.4)});
  p.on("HardSigmoid", {"gh"}, "s2", {attribute("alpha", 0.3), attribute("beta", 0.4)});
  p.agree({{"y", "y2"}, {"z", "z2"}, {"t", "ab"}, {"r", "r2"}, {"s", "s2"}});
}

TEST_CASE("convolutions and pooling, channels last too") {
  OnnxPair p;
  const auto pads = attribute("pads", std::vector<int64_t>{1, 0, 1, 1}),
             strides = attribute("strides", std::vector<int64_t>{2, 1});
  const auto last = attribute("perm", std::vector<int64_t>{0, 2, 3, 1});
  p.real("x", {1, 3, 6, 5}).real("w", {4, 3, 3, 2}).real("b", {4}).real("z", {1, 4, 3, 5});
  p.ms("FusedConv", {"x", "w", "b", "z"}, {"y"}, {pads, strides, attribute("activation", "Relu")});
  p.on("Conv", {"x", "w", "b"}, "c", {pads, strides}).on("Add", {"c", "z"}, "cz").on("Relu", {"cz"}, "y2");
  p.on("Transpose", {"x"}, "xl", {last}).on("Transpose", {"w"}, "wl", {last}).on("Transpose", {"c"}, "cl", {last});
  p.ms("NhwcConv", {"xl", "wl", "b"}, {"n"}, {pads, strides});
  p.on("Transpose", {"z"}, "zl", {last}).on("Transpose", {"y2"}, "y2l", {last});
  p.ms("NhwcFusedConv", {"xl", "w", "b", "zl"}, {"m"}, {pads, strides, attribute("activation", "Relu")});
  const auto kernel = attribute("kernel_shape", std::vector<int64_t>{2, 2});
  p.ms("NhwcMaxPool", {"xl"}, {"q"}, {kernel, strides, attribute("auto_pad", "SAME_UPPER")});
  p.on("MaxPool", {"x"}, "q1", {kernel, strides, attribute("auto_pad", "SAME_UPPER")}).on("Transpose", {"q1"}, "q2", {last});
  p.agree({{"y", "y2"}, {"n", "cl"}, {"m", "y2l"}, {"q", "q2"}});
}

TEST_CASE("group norm of images") {
  OnnxPair p;
  p.real("x", {2, 3, 2, 4}).real("gamma", {4}).real("beta", {4}).real("skip", {2, 4}).real("bias", {4});
  p.ms("GroupNorm", {"x", "gamma", "beta"}, {"y"},
       {attribute("groups", 2), attribute("activation", 1), attribute("epsilon", 1e-5)});
  p.ms("SkipGroupNorm", {"x", "gamma", "beta", "skip", "bias"}, {"z", "sum"},
       {attribute("groups", 2), attribute("activation", 0), attribute("epsilon", 1e-5)});
  const auto norm = [&](const std::string& x, const std::string& y) {
    p.on("Transpose", {x}, y + "t", {attribute("perm", std::vector<int64_t>{0, 3, 1, 2})});
    p.on("GroupNormalization", {y + "t", "gamma", "beta"}, y + "n", {attribute("num_groups", 2), attribute("epsilon", 1e-5)});
    p.on("Transpose", {y + "n"}, y, {attribute("perm", std::vector<int64_t>{0, 2, 3, 1})});
  };
  norm("x", "g");
  p.on("Sigmoid", {"g"}, "gs").on("Mul", {"g", "gs"}, "y2");
  p.ints("four", {2, 1, 1, 4})
      .on("Reshape", {"skip", "four"}, "wide")
      .on("Add", {"x", "wide"}, "s0")
      .on("Add", {"s0", "bias"}, "s");
  norm("s", "z2");
  p.agree({{"y", "y2"}, {"z", "z2"}, {"sum", "s"}});
}
