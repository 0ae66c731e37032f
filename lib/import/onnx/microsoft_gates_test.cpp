// Gates, norms, biases and positional operators of com.microsoft, as compositions of ai.onnx.
#include <cmath>

#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("norms and sums with gates") {
  OnnxPair p;
  p.real("x", {2, 6})
      .real("scale", {3})
      .real("gate", {2, 6})
      .number("eps", 1e-5)
      .ints("rows", {4, 3})
      .ints("last", {-1})
      .ints("wide", {2, 6});
  p.ms("GatedRMSNorm", {"x", "scale", "gate"}, {"y"}, {attribute("epsilon", 1e-5)});
  p.on("Reshape", {"x", "rows"}, "r")
      .on("Mul", {"r", "r"}, "q")
      .on("ReduceMean", {"q", "last"}, "m")
      .on("Add", {"m", "eps"}, "e");
  p.on("Sqrt", {"e"}, "s").on("Div", {"r", "s"}, "n").on("Mul", {"n", "scale"}, "ns").on("Reshape", {"ns", "wide"}, "f");
  p.on("Sigmoid", {"gate"}, "g").on("Mul", {"gate", "g"}, "silu").on("Mul", {"f", "silu"}, "y2");
  p.real("one", {2, 1}).ms("GatedAdd", {"x", "gate", "one"}, {"a"}).on("Mul", {"gate", "one"}, "t").on("Add", {"x", "t"}, "a2");
  p.real("bias", {6}).real("factor", {6}).ms("LinearAttentionGate", {"x", "bias", "factor", "gate"}, {"d", "u"});
  p.on("Add", {"x", "bias"}, "b1").on("Softplus", {"b1"}, "b2").on("Mul", {"b2", "factor"}, "d2");
  p.agree({{"y", "y2"}, {"a", "a2"}, {"d", "d2"}, {"u", "g"}});
}

TEST_CASE("softmax and dropout with a bias") {
  OnnxPair p;
  p.real("x", {2, 3, 4}).real("bias", {1, 3, 4}).real("skip", {2, 3, 4}).real("v", {4});
  p.ms("BiasSoftmax", {"x", "bias"}, {"y"}, {attribute("axis", 2), attribute("is_inner_broadcast", 0)});
  p.on("Add", {"x", "bias"}, "xb").on("Softmax", {"xb"}, "y2", {attribute("axis", 2)});
  p.ms("BiasSoftmax", {"x", "bias"}, {"z"}, {attribute("axis", 1), attribute("is_inner_broadcast", 0)});
  p.ints("two", {2, 12}).ints("three", {2, 3, 4}).on("Reshape", {"xb", "two"}, "flat").on("Softmax", {"flat"}, "soft");
  p.on("Reshape", {"soft", "three"}, "z2");
  p.ms("BiasDropout", {"x", "v", "skip"}, {"d", "mask"}).on("Add", {"x", "v"}, "xv").on("Add", {"xv", "skip"}, "d2");
  p.ms("BitmaskDropout", {"x"}, {"same", "words"}).ms("BitmaskBiasDropout", {"x", "v", "skip"}, {"e"});
  p.agree({{"y", "y2"}, {"z", "z2"}, {"d", "d2"}, {"same", "x"}, {"e", "d2"}});
}

TEST_CASE("rotary embeddings by three positions, and by angles") {
  OnnxPair p;
  p.real("x", {1, 2, 8}).real("cos", {5, 4}).real("sin", {5, 4});
  p.model().input("at", DType::I64, {3, 1, 2}, {0, 1, 2, 3, 4, 4});
  const auto heads = attribute("num_heads", 1);
  p.ms("MRotaryEmbedding", {"x", "at", "cos", "sin"}, {"y"}, {heads, attribute("mrope_section", std::vector<int64_t>{2, 1, 1})});
  p.ms("MRotaryEmbedding", {"x", "at", "cos", "sin"}, {"z"},
       {heads, attribute("mrope_section", std::vector<int64_t>{2, 1, 1}), attribute("mrope_layout", 1)});
  // Columns 0 and 1 take the first position, then the second, then the third; interleaved: first, second, third, first.
  for (const std::string t : {"cos", "sin"}) {
    p.on("Gather", {t, "at"}, t + "_all");
    for (const auto& [name, choice] : {std::pair<std::string, std::vector<int64_t>>{"_s", {0, 0, 1, 2}}, {"_i", {0, 1, 2, 0}}}) {
      const std::string n = t + name;
      p.ints(n + "c", choice).ints(n + "d", {1, 1, 2, 4}).on("Expand", {n + "c", n + "d"}, n + "e");
      p.on("GatherElements", {t + "_all", n + "e"}, n + "f", {attribute("axis", 0)})
          .ints(n + "g", {1, 2, 4})
          .on("Reshape", {n + "f", n + "g"}, n);
    }
  }
  p.on("RotaryEmbedding", {"x", "cos_s", "sin_s"}, "y2", {heads}).on("RotaryEmbedding", {"x", "cos_i", "sin_i"}, "z2", {heads});
  p.real("angle", {1, 2, 4}).real("q", {1, 3, 2, 4}).real("qr", {1, 3, 2, 4}).real("k", {1, 3, 2, 4}).real("kr", {1, 3, 2, 4});
  p.ms("GemmaRotaryEmbedding", {"angle", "q", "qr", "k", "kr"}, {"qe", "ke"});
  p.on("Cos", {"angle"}, "c")
      .on("Sin", {"angle"}, "s")
      .on("Mul", {"k", "c"}, "kc")
      .on("Mul", {"kr", "s"}, "ks")
      .on("Add", {"kc", "ks"}, "ke2");
  p.agree({{"y", "y2"}, {"z", "z2"}, {"ke", "ke2"}});
}

TEST_CASE("biases by distance, with gates") {
  OnnxPair p;
  std::vector<double> table;
  for (int i = 0; i < 16; ++i) table.push_back(i);
  p.model().input("table", DType::F32, {8, 2}, table);
  p.ints("n", {4}).ms("RelativePositionBias", {"table", "n", "n"}, {"one"}, {attribute("max_distance", 16)});
  p.ms("RelativePositionBias", {"table", "n", "n"}, {"two"}, {attribute("max_distance", 16), attribute("is_bidirectional", 1)});
  p.real("q", {1, 4, 6}).real("qb", {6}).real("rel", {1, 2, 4, 4}).real("w", {3, 4}).real("b", {4}).real("a", {1, 2, 1, 1});
  p.ms("GatedRelativePositionBias", {"q", "qb", "rel", "w", "b", "a"}, {"y"}, {attribute("num_heads", 2)});
  p.on("Add", {"q", "qb"}, "qs").ints("split", {1, 4, 2, 3}).on("Reshape", {"qs", "split"}, "q4");
  p.on("Transpose", {"q4"}, "qt", {attribute("perm", std::vector<int64_t>{0, 2, 1, 3})})
      .on("MatMul", {"qt", "w"}, "g0")
      .on("Add", {"g0", "b"}, "g1");
  p.ints("pairs", {1, 2, 4, 2, 2})
      .on("Reshape", {"g1", "pairs"}, "g2")
      .ints("end", {4})
      .on("ReduceSum", {"g2", "end"}, "g3", {attribute("keepdims", 0)});
  p.on("Sigmoid", {"g3"}, "g").node_of("", "Split", {"g"}, {"u", "r"}, {attribute("axis", 3), attribute("num_outputs", 2)});
  p.number("c1", 1)
      .number("c2", 2)
      .on("Mul", {"r", "a"}, "ra")
      .on("Sub", {"ra", "c1"}, "rb")
      .on("Mul", {"u", "rb"}, "ur")
      .on("Add", {"ur", "c2"}, "f");
  p.on("Mul", {"f", "rel"}, "y2");
  for (const char* name : {"one", "two", "y", "y2"}) p.model().output(name);
  const auto got = p.model().run();
  check_close(got[2], got[3]);
  // Rows of the memory are heads. Distances below half of the buckets have buckets of their own; of both directions, half each.
  const std::vector<double> near{0, 1, 2, 3, 1, 0, 1, 2, 2, 1, 0, 1, 3, 2, 1, 0};
  const std::vector<double> both{0, 5, 6, 6, 1, 0, 5, 6, 2, 1, 0, 5, 2, 2, 1, 0};
  for (size_t i = 0; i < 16; ++i) {
    CHECK(got[0][i] == near[i]);
    CHECK(got[0][16 + i] == near[i] + 8);
    CHECK(got[1][i] == both[i]);
  }
}

TEST_CASE("attention by windows, global tokens and blocks") {
  OnnxPair p;
  p.real("x", {1, 6, 4}).real("w", {4, 12}).real("b", {12}).real("gw", {4, 12}).real("gb", {12});
  p.model().input("mask", DType::F32, {1, 6}, {0, 0, 0, 0, 0, -10000});
  p.model().input("global", DType::I32, {1, 6}, {1, 0, 0, 0, 0, 0});
  p.ms("LongformerAttention", {"x", "w", "b", "mask", "gw", "gb", "global"}, {"y"},
       {attribute("num_heads", 2), attribute("window", 1)});
  // The mask of the window and of global keys, then the row of the global token.
  std::vector<double> bias;
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j) bias.push_back(std::abs(i - j) <= 1 || j == 0 ? (j == 5 ? -10000 : 0) : -1e30);
  p.model().input("near", DType::F32, {1, 1, 6, 6}, bias);
  p.model().input("all", DType::F32, {1, 1, 1, 6}, {0, 0, 0, 0, 0, -10000});
  p.on("MatMul", {"x", "w"}, "l0").on("Add", {"l0", "b"}, "l").on("MatMul", {"x", "gw"}, "g0").on("Add", {"g0", "gb"}, "g");
  for (const std::string n : {"l", "g"}) {
    p.node_of("", "Split", {n}, {n + "q", n + "k", n + "v"}, {attribute("axis", 2), attribute("num_outputs", 3)});
    p.on("Attention", {n + "q", n + "k", n + "v", n == "l" ? "near" : "all"}, n + "y",
         {attribute("q_num_heads", 2), attribute("kv_num_heads", 2)});
  }
  p.model().input("is_global", DType::Bool, {1, 6, 1}, {1, 0, 0, 0, 0, 0});
  p.on("Where", {"is_global", "gy", "ly"}, "y2");
  p.agree({{"y", "y2"}});

  // Four keys in two blocks of 2; the second block row has no first block.
  OnnxPair s;
  s.real("q", {1, 4, 4}).real("k", {1, 4, 4}).real("v", {1, 4, 4});
  s.model().input("kc", DType::F32, {1, 1, 4, 4}, std::vector<double>(16));
  s.model().input("vc", DType::F32, {1, 1, 4, 4}, std::vector<double>(16));
  s.model().input("rows", DType::I32, {1, 3}, {0, 1, 2});
  s.model().input("columns", DType::I32, {1, 2}, {0, 1});
  s.model().input("total", DType::I32, {}, {4});
  s.model().input("totals", DType::I32, {1}, {4});
  s.ms("SparseAttention", {"q", "k", "v", "kc", "vc", "rows", "columns", "total", "totals"}, {"y", "ko", "vo"},
       {attribute("num_heads", 1), attribute("kv_num_heads", 1), attribute("sparse_block_size", 2)});
  s.model().input("seen", DType::Bool, {4, 4}, {1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1});
  s.on("Attention", {"q", "k", "v", "seen"}, "y2", {attribute("q_num_heads", 1), attribute("kv_num_heads", 1)});
  s.ints("four", {1, 1, 4, 4}).on("Reshape", {"k", "four"}, "ko2");
  s.agree({{"y", "y2"}, {"ko", "ko2"}});
}
