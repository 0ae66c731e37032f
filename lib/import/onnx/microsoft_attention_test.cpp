#include <cmath>

#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

const auto kHeads = attribute("num_heads", 2);
const std::vector<std::string> kNodeHeads{attribute("q_num_heads", 2), attribute("kv_num_heads", 2)};

std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& more) {
  a.insert(a.end(), more.begin(), more.end());
  return a;
}

}  // namespace

TEST_CASE("attention of a packed projection: masks, a past") {
  OnnxPair p(24);
  p.real("x", {2, 3, 5}).real("w", {5, 24}).real("b", {24}).real("past", {2, 2, 2, 4, 4}).real("bias", {2, 2, 3, 7});
  p.integers("mask", DType::I32, {2, 7}, 0, 1).ints("lengths64", {6, 7});
  p.ms("Attention", {"x", "w", "b", "mask", "past", "bias"}, {"y", "present"}, {kHeads, attribute("unidirectional", 1)});
  p.on("MatMul", {"x", "w"}, "xw").on("Add", {"xw", "b"}, "qkv");
  p.node_of("", "Split", {"qkv"}, {"q", "k", "v"}, {attribute("axis", 2), attribute("num_outputs", 3)});
  p.ints("zero", {0}).ints("one", {1}).on("Gather", {"past", "zero"}, "pk1").on("Gather", {"past", "one"}, "pv1");
  p.on("Squeeze", {"pk1", "zero"}, "pk").on("Squeeze", {"pv1", "zero"}, "pv");
  p.ints("four", {2, 1, 1, 7}).on("Cast", {"mask"}, "keep0", {attribute("to", 9)}).on("Reshape", {"keep0", "four"}, "keep");
  p.number("none", 0).number("hidden", -1e30).on("Where", {"keep", "none", "hidden"}, "m").on("Add", {"m", "bias"}, "mb");
  p.node_of("", "Attention", {"q", "k", "v", "mb", "pk", "pv"}, {"y2", "nk", "nv"},
            with(kNodeHeads, {attribute("is_causal", 1)}));
  p.on("Unsqueeze", {"nk", "zero"}, "nk1")
      .on("Unsqueeze", {"nv", "zero"}, "nv1")
      .on("Concat", {"nk1", "nv1"}, "present2", {attribute("axis", 0)});
  p.agree({{"y", "y2"}, {"present", "present2"}});
}

TEST_CASE("key masks as lengths, and as ends with starts") {
  OnnxPair p(24);
  p.real("x", {2, 3, 5}).real("w", {5, 24}).real("b", {24});
  p.model().input("lengths", DType::I32, {2}, {2, 3});
  p.model().input("ends", DType::I32, {4}, {2, 3, 0, 1});
  p.model().input("keep", DType::Bool, {2, 1, 1, 3}, {1, 1, 0, 1, 1, 1});
  p.model().input("within", DType::Bool, {2, 1, 1, 3}, {1, 1, 0, 0, 1, 1});
  p.ms("Attention", {"x", "w", "b", "lengths"}, {"y"}, {kHeads}).ms("Attention", {"x", "w", "b", "ends"}, {"z"}, {kHeads});
  p.on("MatMul", {"x", "w"}, "xw").on("Add", {"xw", "b"}, "qkv");
  p.node_of("", "Split", {"qkv"}, {"q", "k", "v"}, {attribute("axis", 2), attribute("num_outputs", 3)});
  p.on("Attention", {"q", "k", "v", "keep"}, "y2", kNodeHeads).on("Attention", {"q", "k", "v", "within"}, "z2", kNodeHeads);
  p.agree({{"y", "y2"}, {"z", "z2"}});
}

TEST_CASE("a query that sees padding alone weighs the padding") {
  OnnxPair p(24);
  p.real("x", {2, 3, 5}).real("w", {5, 24}).real("b", {24});
  p.model().input("mask", DType::I32, {2, 3}, {0, 0, 1, 0, 0, 0});
  p.model().input("shown", DType::Bool, {2, 1, 1, 3}, {0, 0, 1, 0, 0, 0});
  p.ms("Attention", {"x", "w", "b", "mask"}, {"y"}, {kHeads, attribute("unidirectional", 1)});
  p.ms("Attention", {"x", "w", "b", "mask"}, {"z"}, {kHeads, attribute("mask_filter_value", -1.0)});
  p.on("MatMul", {"x", "w"}, "xw").on("Add", {"xw", "b"}, "qkv");
  p.node_of("", "Split", {"qkv"}, {"q", "k", "v"}, {attribute("axis", 2), attribute("num_outputs", 3)});
  p.number("zero", 0).number("low", -10000).number("lower", -1);
  p.on("Where", {"shown", "zero", "low"}, "m").on("Where", {"shown", "zero", "lower"}, "n");
  p.on("Attention", {"q", "k", "v", "m"}, "y2", with(kNodeHeads, {attribute("is_causal", 1)}));
  p.on("Attention", {"q", "k", "v", "n"}, "z2", kNodeHeads);
  p.agree({{"y", "y2"}, {"z", "z2"}});
}

TEST_CASE("attention of a quantized projection") {
  OnnxPair p(24);
  p.integers("x", DType::U8, {2, 3, 5}, 0, 255).integers("w", DType::I8, {5, 24}, -128, 127).real("b", {24});
  p.constant("xs", DType::F32, {0.01})
      .constant("ws", DType::F32, {0.02})
      .constant("xz", DType::U8, {120})
      .constant("wz", DType::I8, {3});
  p.ms("QAttention", {"x", "w", "b", "xs", "ws", "", "xz", "wz"}, {"y"}, {kHeads});
  p.on("DequantizeLinear", {"x", "xs", "xz"}, "xr")
      .on("DequantizeLinear", {"w", "ws", "wz"}, "wr")
      .ms("Attention", {"xr", "wr", "b"}, {"y2"}, {kHeads});
  p.agree({{"y", "y2"}}, 1e-4);
}

TEST_CASE("multi-head attention: packed operands, bias, past") {
  OnnxPair p(24);
  p.real("q", {2, 3, 8})
      .real("k", {2, 3, 8})
      .real("v", {2, 3, 8})
      .real("bias", {24})
      .real("pk", {2, 2, 4, 4})
      .real("pv", {2, 2, 4, 4});
  p.ms("MultiHeadAttention", {"q", "k", "v", "bias", "", "", "pk", "pv"}, {"y", "nk", "nv"},
       {kHeads, attribute("unidirectional", 1)});
  p.node_of("", "Split", {"bias"}, {"bq", "bk", "bv"}, {attribute("axis", 0), attribute("num_outputs", 3)});
  p.on("Add", {"q", "bq"}, "qb").on("Add", {"k", "bk"}, "kb").on("Add", {"v", "bv"}, "vb");
  p.node_of("", "Attention", {"qb", "kb", "vb", "", "pk", "pv"}, {"y2", "nk2", "nv2"},
            with(kNodeHeads, {attribute("is_causal", 1)}));
  // q, k and v in one operand [B,S,N,3,D]; k and v in one [B,S,N,2,D].
  p.ints("split", {2, 3, 2, 1, 4});
  for (const char* name : {"q", "k", "v"}) p.on("Reshape", {name, "split"}, std::string(name) + "5");
  p.on("Concat", {"q5", "k5", "v5"}, "qkv", {attribute("axis", 3)}).on("Concat", {"k5", "v5"}, "kv", {attribute("axis", 3)});
  p.ms("MultiHeadAttention", {"qkv"}, {"a"}, {kHeads})
      .ms("MultiHeadAttention", {"q", "kv"}, {"b"}, {kHeads})
      .ms("MultiHeadAttention", {"q", "k", "v"}, {"c"}, {kHeads});
  p.on("Attention", {"q", "k", "v"}, "c2", kNodeHeads);
  p.agree({{"y", "y2"}, {"nk", "nk2"}, {"nv", "nv2"}, {"a", "c2"}, {"b", "c2"}, {"c", "c2"}});
}

TEST_CASE("grouped queries: rotary embedding, packed operands, positions") {
  OnnxPair p(24);
  const auto heads = std::vector<std::string>{kHeads, attribute("kv_num_heads", 1)};
  const auto rotary = with(heads, {attribute("do_rotary", 1)});
  p.real("q", {1, 3, 8}).real("k", {1, 3, 4}).real("v", {1, 3, 4}).real("cos", {8, 2}).real("sin", {8, 2});
  p.model().input("last", DType::I32, {1}, {2});
  p.model().input("total", DType::I32, {}, {3});
  p.model().input("at", DType::I64, {1, 3}, {0, 1, 2});
  p.model().input("moved", DType::I64, {1, 3}, {2, 3, 4});
  p.on("Concat", {"q", "k", "v"}, "qkv", {attribute("axis", 2)});
  p.ms("GroupQueryAttention", {"q", "k", "v", "", "", "last", "total", "cos", "sin"}, {"y", "nk", "nv"}, rotary);
  p.ms("GroupQueryAttention", {"qkv", "", "", "", "", "last", "total", "cos", "sin"}, {"packed"}, rotary);
  p.ms("GroupQueryAttention", {"q", "k", "v", "", "", "last", "total", "cos", "sin", "moved"}, {"later"}, rotary);
  const auto expected = [&](const std::string& at, const std::string& out) {
    p.ms("RotaryEmbedding", {"q", at, "cos", "sin"}, {out + "q"}, {kHeads});
    p.ms("RotaryEmbedding", {"k", at, "cos", "sin"}, {out + "k"}, {attribute("num_heads", 1)});
    p.on("Attention", {out + "q", out + "k", "v"}, out,
         {attribute("q_num_heads", 2), attribute("kv_num_heads", 1), attribute("is_causal", 1)});
  };
  expected("at", "y2");
  expected("moved", "later2");
  p.agree({{"y", "y2"}, {"packed", "y2"}, {"later", "later2"}});
}

// A cache of 6 positions: batch 0 has filled 2, batch 1 has filled 4; two more are added.
TEST_CASE("grouped queries: pasts of different lengths, window, cap, sinks") {
  const int64_t room = 6, fresh = 2, size = 4;
  const std::vector<int64_t> filled{2, 4};
  const auto q = some(2 * 2 * 8, 1), k = some(2 * 2 * 4, 2), v = some(2 * 2 * 4, 3), pk = some(2 * 6 * 4, 4),
             pv = some(2 * 6 * 4, 5), sinks = some(2, 6);
  for (const int window : {-1, 3})
    for (const bool sink : {false, true})
      for (const bool known : {true, false}) {  // the total length
        OnnxPair p;
        auto& m = p.model();
        m.input("q", DType::F32, {2, 2, 8}, q);
        m.input("k", DType::F32, {2, 2, 4}, k);
        m.input("v", DType::F32, {2, 2, 4}, v);
        m.input("pk", DType::F32, {2, 1, 6, 4}, pk);
        m.input("pv", DType::F32, {2, 1, 6, 4}, pv);
        m.input("last", DType::I32, {2}, {3, 5});
        m.input("sinks", DType::F32, {2}, sinks);
        if (known) m.add(node("Constant", {}, {"total"}, {attribute("value_int", 6)}));
        else m.input("total", DType::I32, {}, {6});
        p.ms("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "last", "total", "", "", "", "", sink ? "sinks" : ""},
             {"y", "nk", "nv"},
             {kHeads, attribute("kv_num_heads", 1), attribute("local_window_size", window), attribute("softcap", 0.8)});
        for (const char* name : {"y", "nk", "nv"}) m.output(name);
        std::vector<double> nk = pk, nv = pv, y;
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t s = 0; s < fresh; ++s)
            for (int64_t d = 0; d < size; ++d) {
              const auto to = static_cast<size_t>((b * room + filled[static_cast<size_t>(b)] + s) * size + d),
                         from = static_cast<size_t>((b * fresh + s) * size + d);
              nk[to] = k[from], nv[to] = v[from];
            }
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t s = 0; s < fresh; ++s)
            for (int64_t h = 0; h < 2; ++h) {
              const int64_t at = filled[static_cast<size_t>(b)] + s;
              std::vector<double> e(static_cast<size_t>(size), 0);
              double sum = sink ? std::exp(sinks[static_cast<size_t>(h)]) : 0;
              for (int64_t j = 0; j <= at; ++j) {
                if (window > 0 && j <= at - window) continue;
                double dot = 0;
                for (int64_t d = 0; d < size; ++d)
                  dot += q[static_cast<size_t>((b * fresh + s) * 8 + h * size + d)] *
                         nk[static_cast<size_t>((b * room + j) * size + d)];
                const double w = std::exp(0.8 * std::tanh(dot / 2 / 0.8));
                sum += w;
                for (int64_t d = 0; d < size; ++d)
                  e[static_cast<size_t>(d)] += w * nv[static_cast<size_t>((b * room + j) * size + d)];
              }
              for (double x : e) y.push_back(x / sum);
            }
        const auto got = m.run();
        INFO("window ", window, ", sinks ", sink);
        check_close(got[0], y);
        if (!known) continue;  // the caches are larger
        check_close(got[1], nk);
        check_close(got[2], nv);
      }
}

TEST_CASE("a past in a buffer that keeps its size") {
  OnnxPair p(24);
  p.real("q", {2, 1, 8}).real("k", {2, 1, 8}).real("v", {2, 1, 8}).real("pk", {2, 2, 6, 4}).real("pv", {2, 2, 6, 4});
  p.constant("length", DType::I32, {3});
  p.ms("MultiHeadAttention", {"q", "k", "v", "", "", "", "pk", "pv", "length"}, {"y", "nk", "nv"}, {kHeads});
  p.ms("DecoderMaskedMultiHeadAttention", {"q", "k", "v", "", "", "pk", "pv", "length"}, {"z", "mk", "mv"},
       {kHeads, attribute("past_present_share_buffer", 1)});
  // The first three keys of the past, then the new one; later positions are unchanged.
  p.ints("zero", {0}).ints("three", {3}).ints("four", {4}).ints("six", {6}).ints("two", {2});
  p.on("Slice", {"pk", "zero", "three", "two"}, "pk3").on("Slice", {"pv", "zero", "three", "two"}, "pv3");
  p.node_of("", "Attention", {"q", "k", "v", "", "pk3", "pv3"}, {"y2", "k4", "v4"}, kNodeHeads);
  p.on("Slice", {"pk", "four", "six", "two"}, "rest").on("Concat", {"k4", "rest"}, "nk2", {attribute("axis", 2)});
  p.on("Slice", {"pv", "four", "six", "two"}, "vrest").on("Concat", {"v4", "vrest"}, "nv2", {attribute("axis", 2)});
  p.agree({{"y", "y2"}, {"nk", "nk2"}, {"nv", "nv2"}, {"z", "y2"}, {"mk", "nk2"}, {"mv", "nv2"}});
}

TEST_CASE("one query of a beam reads the keys of the beams that it comes from") {
  OnnxPair p(24);
  p.real("x", {2, 1, 5}).real("w", {5, 24}).real("b", {24}).real("past", {2, 2, 2, 3, 4}).constant("beams", DType::I32, {2});
  p.model().input("from", DType::I32, {1, 2, 3}, {0, 1, 1, 1, 0, 1});
  p.ms("DecoderMaskedSelfAttention", {"x", "w", "b", "", "past", "", "", "beams", "from"}, {"y", "present"}, {kHeads});
  p.on("MatMul", {"x", "w"}, "xw").on("Add", {"xw", "b"}, "qkv");
  p.node_of("", "Split", {"qkv"}, {"q", "k", "v"}, {attribute("axis", 2), attribute("num_outputs", 3)});
  p.ints("zero", {0}).ints("one", {1}).ints("places", {2, 1, 3, 1}).ints("all", {2, 2, 3, 4});
  p.on("Reshape", {"from", "places"}, "f0").on("Cast", {"f0"}, "f1", {attribute("to", 7)}).on("Expand", {"f1", "all"}, "at");
  for (const std::string n : {"k", "v"}) {
    p.on("Gather", {"past", n == "k" ? "zero" : "one"}, "p1" + n).on("Squeeze", {"p1" + n, "zero"}, "p" + n);
    p.on("GatherElements", {"p" + n, "at"}, "r" + n, {attribute("axis", 0)});
  }
  p.node_of("", "Attention", {"q", "k", "v", "", "rk", "rv"}, {"y2"}, kNodeHeads);
  p.agree({{"y", "y2"}});
}

TEST_CASE("grouped queries with a cache of bytes") {
  OnnxPair p(24);
  p.real("q", {1, 3, 16}).real("k", {1, 3, 8}).real("v", {1, 3, 8}).real("ks", {1}).real("none", {1, 2, 0, 4});
  p.constant("last", DType::I32, {2}).constant("total", DType::I32, {3}).number("step", 0.01);
  p.model().input("empty", DType::I8, {1, 2, 0, 4}, {});
  const std::vector<std::string> heads{attribute("num_heads", 4), attribute("kv_num_heads", 2)};
  p.ints("one", {1}).on("Reshape", {"step", "one"}, "scale");
  p.ms("GroupQueryAttention", {"q", "k", "v", "empty", "empty", "last", "total", "", "", "", "", "", "scale", "scale"},
       {"y", "nk", "nv"},
       with(heads, {attribute("k_quant_type", "PER_TENSOR"), attribute("v_quant_type", "PER_TENSOR"),
                    attribute("kv_cache_bit_width", 8)}));
  for (const std::string n : {"k", "v"}) {
    p.on("Div", {n, "step"}, n + "d").on("Round", {n + "d"}, n + "r").on("Clip", {n + "r", "low", "high"}, n + "c");
    p.on("Mul", {n + "c", "step"}, n + "2");
  }
  p.number("low", -128).number("high", 127);
  p.ms("GroupQueryAttention", {"q", "k2", "v2", "none", "none", "last", "total"}, {"y2", "mk", "mv"}, heads);
  p.on("Cast", {"nk"}, "nkf", {attribute("to", 1)}).on("Mul", {"nkf", "step"}, "nk2");
  p.agree({{"y", "y2"}, {"nk2", "mk"}});
}
