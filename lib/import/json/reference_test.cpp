#include <doctest/doctest.h>

#include "import/json/import.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/pass_run.h"
#include "support/random.h"
#include "support/reference_lines.h"

using namespace rlxc;

namespace {

std::unique_ptr<Module> read(std::string_view text, Diagnostics& d) { return import_json::parse_json(text, "", {}, d); }

std::string errors(std::string_view text) {
  Diagnostics d;
  CHECK_FALSE(read(text, d));
  return d.text();
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

using Lines = test::ReferenceLines;

// Returns the ops that a document becomes, without leaves. The module must be valid.
std::string ops(const std::string& text) {
  Diagnostics d;
  const auto m = read(text, d);
  REQUIRE_MESSAGE(m, d.text() << text);
  CHECK_MESSAGE(verify(*m, d), d.text());
  std::string s;
  for (NodeId n : m->main().nodes())
    if (!has_trait(m->main().op(n), kLeaf)) s += (s.empty() ? "" : " ") + std::string(name(m->main().op(n)));
  return s;
}

std::string one(const std::string& op, const std::vector<std::vector<int>>& inputs, const std::vector<int>& result,
                const std::string& dtype = "F32", const std::string& input_dtype = "F32") {
  Lines l;
  std::vector<int> ids;
  for (size_t i = 0; i < inputs.size(); ++i)
    l.input("x" + std::to_string(i), inputs[i], input_dtype), ids.push_back(static_cast<int>(i));
  return l.add(op, ids, result, dtype).graph();
}

}  // namespace

TEST_CASE("a graph of the reference form, with symbols, labels and names") {
  const std::string text = R"({"name":"mlp","nodes":[
{"id":0,"op":{"Input":{"name":"x"}},"inputs":[],"shape":{"dims":[{"Dynamic":0},{"Static":4}],"dtype":"F32"},"name":"x","origin":null},
{"id":1,"op":{"Param":{"name":"w"}},"inputs":[],"shape":{"dims":[{"Static":4},{"Static":2}],"dtype":"F32"},"name":"w"},
{"id":2,"op":{"Constant":{"data":[0,0,128,63,0,0,0,64]}},"inputs":[],"shape":{"dims":[{"Static":2}],"dtype":"F32"}},
{"id":5,"op":"MatMul","inputs":[0,1],"shape":{"dims":[{"Dynamic":0},{"Static":2}],"dtype":"F32"},"name":null,"origin":{"hir":5,"label":"ffn","pass":null}},
{"id":6,"op":{"Binary":"Add"},"inputs":[5,2],"shape":{"dims":[{"Dynamic":0},{"Static":2}],"dtype":"F32"},"name":null,"origin":null},
{"id":7,"op":{"Activation":"Gelu"},"inputs":[6],"shape":{"dims":[{"Dynamic":0},{"Static":2}],"dtype":"F32"},"name":null,"origin":null}
],"outputs":[7,7]})";
  const std::string expected = R"(module "mlp" mir {
graph @main {
  %0 = input "x" : f32[batch,4]
  %1 = param "w" : f32[4,2]
  %2 = constant {data = dense [1, 2]} : f32[2]
  %3 = matmul(%0, %1) "ffn" : f32[batch,2]
  %4 = add(%3, %2) : f32[batch,2]
  %5 = gelu(%4) : f32[batch,2]
  return %5, %5
}
}
)";
  // The same graph wrapped as in MIR and LIR files.
  for (const std::string& form :
       {text, "{\"inner\":" + text + "}", "{\"mir\":{\"inner\":" + text + "},\"buffers\":{\"arena_size\":64}}"}) {
    Diagnostics d;
    const auto m = read(form, d);
    REQUIRE_MESSAGE(m, d.text());
    CHECK(verify(*m, d));
    m->main().compact();
    CHECK(print(*m) == expected);
  }
  Diagnostics d;
  std::string named = text;
  named.replace(named.rfind('}'), 1, R"(,"symbols":{"0":"n"},"output_names":["a","b"]})");
  const auto m = read(named, d);
  REQUIRE(m);
  CHECK(has(print(*m), "\"a\""));
  CHECK(has(print(*m), "f32[n,4]"));
}

TEST_CASE("each operation of the reference form becomes ours") {
  CHECK(ops(one(R"({"Compare":"Lt"})", {{2, 3}, {3}}, {2, 3}, "Bool")) == "lt");
  CHECK(ops(one(R"({"Cast":{"to":"F16"}})", {{2}}, {2}, "F16")) == "cast");
  CHECK(ops(one(R"({"Reshape":{"new_shape":[3,-1]}})", {{2, 6}}, {3, 4})) == "reshape");
  CHECK(ops(one(R"({"Expand":{"target_shape":[4,3]}})", {{1, 3}}, {4, 3})) == "expand");
  CHECK(ops(one(R"({"Transpose":{"perm":[1,0]}})", {{2, 3}}, {3, 2})) == "transpose");
  CHECK(ops(one(R"({"Narrow":{"axis":1,"start":1,"len":2}})", {{2, 6}}, {2, 2})) == "narrow");
  CHECK(ops(one(R"({"Concat":{"axis":0}})", {{2, 3}, {1, 3}}, {3, 3})) == "concat");
  CHECK(ops(one(R"({"Softmax":{"axis":-1}})", {{2, 3}}, {2, 3})) == "softmax");
  CHECK(ops(one(R"({"Cumsum":{"axis":-2,"exclusive":true}})", {{2, 3}}, {2, 3})) == "cumsum");
  CHECK(ops(one(R"({"Reduce":{"op":"Mean","axes":[1],"keep_dim":false}})", {{2, 3}}, {2})) == "reduce");
  CHECK(ops(one(R"({"TopK":{"k":2}})", {{2, 3}}, {2, 2})) == "topk cast");
  CHECK(ops(one(R"({"DotGeneral":{"lhs_contracting":[1],"rhs_contracting":[0],"lhs_batch":[],"rhs_batch":[]}})", {{2, 3}, {3, 4}},
                {2, 4})) == "dot_general");
  CHECK(ops(one(R"({"LoraMatMul":{"scale":0.5}})", {{2, 3}, {3, 4}, {3, 1}, {1, 4}}, {2, 4})) == "matmul matmul matmul mul add");
  CHECK(ops(one(R"({"LayerNorm":{"axis":-1,"eps":1e-5}})", {{2, 3}, {3}, {3}}, {2, 3})) == "layer_norm");
  CHECK(ops(one(R"({"RmsNorm":{"axis":-1,"eps":1e-5}})", {{2, 3}, {3}, {3}}, {2, 3})) == "rms_norm");
  CHECK(ops(one(R"({"LayerNorm2d":{"eps":1e-5}})", {{1, 3, 4, 5}, {3}, {3}}, {1, 3, 4, 5})) == "transpose layer_norm transpose");
  CHECK(ops(one(R"({"GroupNorm":{"num_groups":2,"eps":1e-5}})", {{1, 4, 3, 3}, {4}, {4}}, {1, 4, 3, 3})) == "group_norm");
  CHECK(ops(one("\"ResizeNearest2x\"", {{1, 3, 4, 5}}, {1, 3, 8, 10})) == "reshape expand reshape");
  CHECK(ops(one(R"({"Conv":{"kernel_size":[3,3],"stride":[2,2],"padding":[1,1],"dilation":[1,1],"groups":1}})",
                {{1, 3, 8, 8}, {5, 3, 3, 3}}, {1, 5, 4, 4})) == "conv");
  CHECK(
      ops(one(
          R"({"ConvTranspose2d":{"kernel_size":[2,2],"stride":[2,2],"padding":[0,0],"dilation":[1,1],"output_padding":[0,0],"groups":1}})",
          {{1, 3, 4, 4}, {3, 5, 2, 2}}, {1, 5, 8, 8})) == "conv_transpose");
  CHECK(ops(one(R"({"Pool":{"kind":"Max","kernel_size":[2,2],"stride":[2,2],"padding":[0,0]}})", {{1, 3, 4, 4}}, {1, 3, 2, 2})) ==
        "pool");
  CHECK(ops(one(R"({"Attention":{"num_heads":2,"head_dim":4,"mask_kind":"Causal","score_scale":null,"attn_logit_softcap":null}})",
                {{1, 5, 8}, {1, 5, 8}, {1, 5, 8}}, {1, 5, 8})) == "attention");
  CHECK(ops(one(R"({"Attention":{"num_heads":2,"head_dim":4,"mask_kind":{"SlidingWindow":3}}})",
                {{1, 2, 5, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}}, {1, 2, 5, 4})) == "attention");
  CHECK(ops(one(R"({"Attention":{"num_heads":2,"head_dim":4,"mask_kind":"Custom"}})", {{1, 5, 8}, {1, 5, 8}, {1, 5, 8}, {1, 5}},
                {1, 5, 8})) == "reshape ge attention");
  CHECK(ops(one(R"({"Rope":{"head_dim":4,"n_rot":4}})", {{1, 5, 8}, {5, 2}, {5, 2}}, {1, 5, 8})) == "rope");
  CHECK(ops(one(R"({"FusedMatMulBiasAct":{"activation":"Gelu"}})", {{2, 3}, {3, 4}, {4}}, {2, 4})) == "fused_matmul_bias_act");
  CHECK(ops(one(R"({"FusedResidualLN":{"has_bias":false,"eps":1e-5}})", {{2, 3}, {2, 3}, {3}, {3}}, {2, 3})) ==
        "fused_residual_ln");
  CHECK(ops(one(R"({"FusedResidualRmsNorm":{"has_bias":true,"eps":1e-5}})", {{2, 3}, {2, 3}, {3}, {3}, {3}}, {2, 3})) ==
        "fused_residual_rms_norm");
  CHECK(ops(one(R"({"FusedSwiGLU":{"cast_to":null,"gate_first":true}})", {{2, 6}}, {2, 3})) == "fused_swiglu");
  CHECK(ops(one(R"({"Quantize":{"axis":null,"scales":[0.5],"zero_points":[3]}})", {{2, 6}}, {2, 6}, "I8")) == "quantize");
  CHECK(ops(one(R"({"Dequantize":{"axis":1,"scales":[0.5,1,2],"zero_points":[0,0,0]}})", {{2, 3}}, {2, 3}, "F32", "I8")) ==
        "dequantize");
  CHECK(ops(one(R"({"ElementwiseRegion":{"chain":[{"Binary":["Add",{"Input":0},{"Input":1}]},{"Activation":["Relu",{"Step":0}]},
    {"Compare":["Gt",{"Step":1},{"Input":0}]},{"Where":[{"Step":2},{"Step":0},{"Input":0}]},{"Cast":["F16",{"Step":3}]}],"num_inputs":2,"scalar_input_mask":0,"input_modulus":[0,3]}})",
                {{2, 3}, {3}}, {2, 3}, "F16")) == "elementwise_region");
  Lines gather;
  CHECK(ops(gather.input("t", {5, 4}).input("i", {3}, "I64").add(R"({"Gather":{"axis":0}})", {0, 1}, {3, 4}).graph()) ==
        "gather");
  Lines where;
  CHECK(ops(where.input("c", {2}, "Bool").input("a", {2}).add("\"Where\"", {0, 1, 1}, {2}).graph()) == "where");
}

TEST_CASE("blocks of the HIR") {
  Diagnostics d;
  const auto m = read(one(R"({"Linear":{"activation":"Silu","has_bias":true}})", {{2, 3}, {3, 4}, {4}}, {2, 4}), d);
  REQUIRE_MESSAGE(m, d.text());
  CHECK(m->stage == Stage::Hir);
  CHECK(ops(one(R"({"Mir":{"Activation":"Relu"}})", {{2}}, {2})) == "relu");
  CHECK(ops(one("\"SwiGLU\"", {{2, 3}, {3, 4}, {3, 4}, {4, 3}}, {2, 3})) == "swiglu");
  CHECK(ops(one(R"({"SharedLinearPair":{"slot":1}})", {{2, 3}, {3, 4}, {3, 5}}, {2, 5})) == "shared_linear_pair");
  CHECK(ops(one(R"({"ResidualRmsNorm":{"eps":1e-6}})", {{2, 3}, {2, 3}, {3}, {3}}, {2, 3})) == "residual_rms_norm");
  const std::vector<std::vector<int>> block = {{1, 5, 8}, {8}, {8},     {8, 8},  {8, 4},  {8, 4}, {8, 8},
                                               {8},       {8}, {8, 16}, {8, 16}, {16, 8}, {5, 2}, {5, 2}};
  CHECK(ops(one(R"({"LlamaDecoderBlock":{"num_heads":2,"head_dim":4,"num_kv_heads":1,"eps":1e-6,"mask":"Causal"}})", block,
                {1, 5, 8})) == "llama_decoder_block");
}

TEST_CASE("branches are inline graphs") {
  const auto branch = [](const char* op) {
    return Lines().input("y", {2}).add(std::string(R"({"Activation":")") + op + "\"}", {0}, {2}).graph();
  };
  Lines l;
  l.input("c", {}, "Bool")
      .input("x", {2})
      .add(R"({"If":{"then_branch":)" + branch("Relu") + R"(,"else_branch":)" + branch("Tanh") + "}}", {0, 1}, {2});
  CHECK(ops(l.graph()) == "if");
  std::string inner = branch("Relu");
  for (int i = 0; i < 80; ++i) {
    Lines next;
    inner = next.input("c", {}, "Bool")
                .input("x", {2})
                .add(R"({"If":{"then_branch":)" + inner + R"(,"else_branch":)" + branch("Tanh") + "}}", {0, 1}, {2})
                .graph();
    if (i > 3) inner = std::string(inner);
  }
  CHECK(has(errors(inner), "nested"));
}

TEST_CASE("faults of the reference form") {
  const std::string many = Lines()
                               .input("x", {2})
                               .add("\"Foo\"", {0}, {2})
                               .add("{\"Bar\":{\"a\":1}}", {1}, {2})
                               .add("{\"Activation\":\"Baz\"}", {0}, {2})
                               .graph();
  const std::string all = errors(many);
  CHECK(has(all, "(Foo)"));
  CHECK(has(all, "(Bar)"));
  CHECK(has(all, "\"Baz\" is unknown"));
  CHECK(has(all, "line 4 column 1"));
  CHECK(has(errors(one("\"MatMul\"", {{2, 3}, {4, 5}}, {2, 5})), "RLX0215"));
  CHECK(has(errors(one("\"MatMul\"", {{2, 3}, {3, 5}}, {2, 6})), "declared f32[2,6], inferred f32[2,5]"));
  CHECK(has(errors(one(R"({"Activation":"Relu"})", {{2}}, {2}, "F16")), "declared f16[2]"));
  CHECK(has(errors(one(R"({"Softmax":{"axis":2}})", {{2, 3}}, {2, 3})), "axis 2"));
  CHECK(has(errors(one(R"({"Softmax":{"axis":true}})", {{2, 3}}, {2, 3})), "expected a number"));
  CHECK(has(errors(one(R"({"Constant":{"data":[1,2,300,4]}})", {}, {1})), "300 is no byte"));
  CHECK(has(errors(one(R"({"Constant":{"data":[1,2]}})", {}, {1})), "2 bytes, its shape asks for 4"));
  CHECK(has(errors(one(R"({"Quantize":{"scales":[0],"zero_points":[0]}})", {{2}}, {2}, "I8")), "positive"));
  CHECK(has(errors(one(R"({"Attention":{"num_heads":2,"head_dim":2,"mask_kind":"None"}})",
                       {{1, 2, 2, 2}, {1, 2, 2, 2}, {1, 2, 2, 2}}, {1, 2, 2, 2})),
            "ambiguous"));
  CHECK(has(errors(R"({"nodes":[{"id":0,"op":"MatMul","inputs":[0,0],"shape":{"dims":[],"dtype":"F32"}}],"outputs":[0]})"),
            "not before it"));
  CHECK(has(errors(R"({"nodes":[],"outputs":[3]})"), "output 0 is node 3"));
  CHECK(has(
      errors(R"({"nodes":[{"id":0,"op":{"Input":{"name":"x"}},"shape":{"dims":[{"Static":-1}],"dtype":"F32"}}],"outputs":[0]})"),
      "negative"));
}

TEST_CASE("damaged reference graphs never crash") {
  const std::string seed =
      Lines()
          .input("c", {}, "Bool")
          .input("x", {2, -2})
          .add(R"({"Activation":"Relu"})", {1}, {2, -2})
          .add(R"({"Softmax":{"axis":-1}})", {2}, {2, -2})
          .add(R"({"Constant":{"data":[0,0,128,63]}})", {}, {})
          .add(R"({"Binary":"Mul"})", {3, 4}, {2, -2})
          .add(R"({"If":{"then_branch":)" + Lines().input("y", {2, -2}).add(R"({"Activation":"Tanh"})", {0}, {2, -2}).graph() +
                   R"(,"else_branch":)" + Lines().input("y", {2, -2}).add(R"({"Activation":"Exp"})", {0}, {2, -2}).graph() + "}}",
               {0, 5}, {2, -2})
          .graph();
  CHECK(ops(seed) == "relu softmax mul if");
  test::Random random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed;
    for (int64_t k = random.integer(1, 3); k > 0; --k) {
      const auto at = static_cast<size_t>(random.integer(0, static_cast<int64_t>(text.size()) - 1));
      if (random.chance(0.5)) text[at] = "0123456789[]{}\",:-"[random.integer(0, 17)];
      else text.erase(at, static_cast<size_t>(random.integer(1, 10)));
    }
    Diagnostics d;
    if (const auto m = read(text, d)) verify(*m, d);
  }
}
