#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// Tokens of 6 numbers, 4 experts of 8; "dense" has all experts' results for all tokens, times the share of the k best ones.
struct Mixture : OnnxPair {
  Mixture() {
    real("x", {5, 6}).real("router", {5, 4}).real("w1", {4, 8, 6}).real("b1", {4, 8}).real("w2", {4, 6, 8}).real("b2", {4, 6});
    real("w3", {4, 8, 6}).real("b3", {4, 8}).ints("one", {1}).ints("zero", {0}).ints("two", {2}).ints("k", {2});
    on("Softmax", {"router"}, "probabilities").node_of("", "TopK", {"probabilities", "k"}, {"best", "who"});
    on("ReduceSum", {"best", "one"}, "total").on("Div", {"best", "total"}, "normalised");
    on("Sub", {"probabilities", "probabilities"}, "none");
  }
  Mixture& layer(const std::string& x, const std::string& w, const std::string& bias, const std::string& y) {
    on("Transpose", {w}, y + "t", {attribute("perm", std::vector<int64_t>{0, 2, 1})}).on("MatMul", {x, y + "t"}, y + "p");
    on("Unsqueeze", {bias, "one"}, y + "b").on("Add", {y + "p", y + "b"}, y);
    return *this;
  }
  // Of "inner" [experts, tokens, 8].
  Mixture& dense(const std::string& share, const std::string& y) {
    layer("inner", "w2", "b2", y + "all");
    on("ScatterElements", {"none", "who", share}, y + "share", {attribute("axis", 1)});
    on("Transpose", {y + "share"}, y + "column", {attribute("perm", std::vector<int64_t>{1, 0})});
    on("Unsqueeze", {y + "column", "two"}, y + "factor").on("Mul", {y + "all", y + "factor"}, y + "parts");
    on("ReduceSum", {y + "parts", "zero"}, y, {attribute("keepdims", 0)});
    return *this;
  }
};

}  // namespace

TEST_CASE("each token goes through its best experts, with their shares as they are and normalised") {
  Mixture p;
  p.layer("x", "w1", "b1", "first").on("Relu", {"first"}, "inner");
  p.dense("best", "dense").dense("normalised", "even");
  const std::vector<std::string> in{"x", "router", "w1", "b1", "w2", "b2"};
  p.ms("MoE", in, {"y"}, {attribute("k", 2), attribute("activation_type", "relu")});
  p.ms("MoE", in, {"z"}, {attribute("k", 2), attribute("normalize_routing_weights", 1)});
  // Weights in the older versions' layout.
  p.on("Transpose", {"w1"}, "old1", {attribute("perm", std::vector<int64_t>{0, 2, 1})});
  p.on("Transpose", {"w2"}, "old2", {attribute("perm", std::vector<int64_t>{0, 2, 1})});
  p.ms("MoE", {"x", "router", "old1", "b1", "old2", "b2"}, {"v"}, {attribute("k", 2)});
  p.agree({{"y", "dense"}, {"z", "even"}, {"v", "dense"}}, 1e-4);
}

TEST_CASE("experts with a gate: a third layer, pairs and halves of one layer") {
  Mixture p;
  p.layer("x", "w1", "b1", "first").layer("x", "w3", "b3", "third").on("Sigmoid", {"first"}, "slope");
  p.on("Mul", {"first", "slope"}, "silu").on("Mul", {"silu", "third"}, "inner");
  p.dense("best", "dense");
  p.ms("MoE", {"x", "router", "w1", "b1", "w2", "b2", "w3", "b3"}, {"y"},
       {attribute("k", 2), attribute("activation_type", "silu")});
  for (const int how : {1, 2}) {
    const std::string n = std::to_string(how);
    const int64_t axis = how == 1 ? 2 : 1;  // rows of gate and value interleaved, or as halves
    p.ints("at" + n, {axis}).ints("rows" + n, {4, 16, 6}).ints("columns" + n, {4, 16});
    p.on("Unsqueeze", {"w1", "at" + n}, "gate" + n).on("Unsqueeze", {"w3", "at" + n}, "value" + n);
    p.on("Concat", {"gate" + n, "value" + n}, "c" + n, {attribute("axis", static_cast<int>(axis))})
        .on("Reshape", {"c" + n, "rows" + n}, "w" + n + n);
    p.on("Unsqueeze", {"b1", "at" + n}, "d" + n).on("Unsqueeze", {"b3", "at" + n}, "e" + n);
    p.on("Concat", {"d" + n, "e" + n}, "f" + n, {attribute("axis", static_cast<int>(axis))})
        .on("Reshape", {"f" + n, "columns" + n}, "g" + n);
    p.ms("MoE", {"x", "router", "w" + n + n, "g" + n, "w2", "b2"}, {"y" + n},
         {attribute("k", 2), attribute("activation_type", "swiglu"), attribute("swiglu_fusion", how)});
  }
  p.agree({{"y", "dense"}, {"y1", "dense"}, {"y2", "dense"}}, 1e-4);
}

TEST_CASE("experts whose weights are codes of 4 and 8 bits") {
  for (const int width : {4, 8}) {
    Mixture p;
    const int64_t fields = 8 / width;
    p.integers("q1", DType::U8, {4, 8, 6 / fields}, 0, 255).integers("q2", DType::U8, {4, 6, 8 / fields}, 0, 255);
    p.real("s1", {4, 8}).real("s2", {4, 6, 2});
    p.ms("QMoE", {"x", "router", "q1", "s1", "b1", "q2", "s2", "b2"}, {"y"},
         {attribute("k", 2), attribute("expert_weight_bits", width)});
    // The same weights as numbers, unpacked by arithmetic.
    p.number("middle", width == 4 ? 8 : 128).number("sixteen", 16);
    for (const char* n : {"1", "2"}) {
      const std::string i = n;
      p.on("Cast", {"q" + i}, "v" + i, {attribute("to", 1)});
      std::string numbers = "v" + i;
      if (width == 4) {
        p.on("Div", {"v" + i, "sixteen"}, "h" + i).on("Floor", {"h" + i}, "high" + i).on("Mul", {"high" + i, "sixteen"}, "m" + i);
        p.on("Sub", {"v" + i, "m" + i}, "low" + i).ints("three" + i, {3});
        p.on("Unsqueeze", {"low" + i, "three" + i}, "lu" + i).on("Unsqueeze", {"high" + i, "three" + i}, "hu" + i);
        p.on("Concat", {"lu" + i, "hu" + i}, "pairs" + i, {attribute("axis", 3)});
        p.ints("size" + i, i == "1" ? std::vector<int64_t>{4, 8, 6} : std::vector<int64_t>{4, 6, 8});
        p.on("Reshape", {"pairs" + i, "size" + i}, "all" + i);
        numbers = "all" + i;
      }
      p.on("Sub", {numbers, "middle"}, "n" + i);
    }
    p.on("Unsqueeze", {"s1", "two"}, "f1").on("Mul", {"n1", "f1"}, "r1");
    p.ints("split", {4, 6, 2, 4}).ints("whole", {4, 6, 8}).ints("last", {3}).on("Reshape", {"n2", "split"}, "n2s");
    p.on("Unsqueeze", {"s2", "last"}, "f2").on("Mul", {"n2s", "f2"}, "r2s").on("Reshape", {"r2s", "whole"}, "r2");
    p.ms("MoE", {"x", "router", "r1", "b1", "r2", "b2"}, {"z"}, {attribute("k", 2), attribute("normalize_routing_weights", 1)});
    p.agree({{"y", "z"}}, 1e-3);
  }
}
