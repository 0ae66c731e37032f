// Operations that a file defines: import, rules of derivatives, errors.
#include "driver/op_file.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "driver/load.h"
#include "ir/graphs.h"
#include "support/eval.h"
#include "support/random.h"
#include "support/schema.h"
#include "support/source_dir.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;
using nlohmann::json;

namespace {

json example() {
  std::ifstream f(source_dir() + "/examples/custom/soft_gate.ops.json");
  return json::parse(f);
}

struct Loaded {
  TempDir dir;
  Diagnostics d;
  std::optional<LoadedModel> model;

  Loaded(const json& ops, std::vector<std::string> words) {
    CompileOptions o;
    o.input = source_dir() + "/examples/custom/soft_gate.onnx";
    o.op_file = dir / "ops.json";
    o.bind = {{"n", 5}};
    o.transforms = std::move(words);
    std::ofstream(o.op_file) << ops.dump();
    model = load_model(o, d);
  }
  // Results for random inputs. Modules with the same inputs get the same data.
  std::vector<std::vector<double>> run() {
    REQUIRE_MESSAGE(model, d.text());
    const Graph& g = model->module->main();
    std::vector<HostValue> in;
    for (NodeId n : g.inputs()) {
      Random random(in.size() + 1);
      std::vector<int64_t> dims;
      std::vector<double> v;
      for (Dim size : g.dims(g.result(n))) dims.push_back(size.size());
      for (int64_t i = num_elements(g.type(g.result(n))).value(); i > 0; --i) v.push_back(random.uniform(-1, 1));
      in.push_back(tensor_of(DType::F32, dims, v));
    }
    const auto out = eval::evaluate(*model->module, in, d);
    REQUIRE_MESSAGE(out, d.text());
    std::vector<std::vector<double>> all;
    for (const HostValue& v : *out) all.push_back(numbers(v));
    return all;
  }
  size_t custom_ops() const {
    size_t count = 0;
    for (GraphId id : graphs_in_use(*model->module))
      for (NodeId n : model->module->graph(id).nodes()) count += model->module->graph(id).op(n) == OpKind::CustomOp;
    return count;
  }
};

void check_equal(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].size() == b[i].size());
    for (size_t k = 0; k < a[i].size(); ++k) CHECK(a[i][k] == doctest::Approx(b[i][k]).epsilon(1e-5));
  }
}

}  // namespace

TEST_CASE("the example follows its schema, and its node computes what the body says") {
  check_schema("ops", example().dump());
  Loaded all(example(), {});
  const auto y = all.run();
  CHECK(all.custom_ops() == 1);
  json defaults = example();
  auto& body = defaults["ops"][0]["body"];
  body[0] = {{"op", "mul"}, {"in", {"x", 1.5}}, {"out", "scaled"}};  // as the model gives alpha
  Loaded by_number(defaults, {});
  check_equal(y, by_number.run());
}

TEST_CASE("a node has the kernels for its element types, with its attributes") {
  const Loaded loaded(example(), {});
  REQUIRE_MESSAGE(loaded.model, loaded.d.text());
  const Graph& g = loaded.model->module->main();
  for (NodeId n : g.nodes()) {
    if (g.op(n) != OpKind::CustomOp) continue;
    const auto& a = g.attrs<CustomAttrs>(n);
    CHECK(a.targets == std::vector<std::string>{"cpu", "cuda", "wgpu"});
    CHECK(a.sources[1].find("expf(-(1.5f) * x[i])") != std::string::npos);
    CHECK(a.ports == std::vector<std::string>{"x", "shift", "y"});
    CHECK(a.size_names == std::vector<std::string>{"d", "n"});
    CHECK(a.threads == std::vector<int64_t>{1, 1, 1, 256, 1, 1, 64, 1, 1});
    CHECK(a.grids[0] == Dim(5));
  }
  json other = example();
  other["ops"][0]["kernels"]["cuda"]["types"] = {{"T", "f16"}};
  const Loaded half(other, {});
  REQUIRE_MESSAGE(half.model, half.d.text());
  for (NodeId n : half.model->module->main().nodes())
    if (half.model->module->main().op(n) == OpKind::CustomOp)
      CHECK(half.model->module->main().attrs<CustomAttrs>(n).targets == std::vector<std::string>{"cpu", "wgpu"});
}

TEST_CASE("faults of kernels are errors that name them") {
  const auto error = [](const char* target, const json& kernel) {
    json ops = example();
    ops["ops"][0]["kernels"] = {{target, kernel}};
    return Loaded(ops, {}).d.text();
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  has(error("tpu", {{"source", {"x"}}}), "no target with kernels");
  has(error("cuda", {{"grid", {1}}}), "lacks \"source\"");
  has(error("cuda", {{"source", {"x\n}"}}}), "printable ASCII");
  has(error("cuda", {{"source", {"$beta"}}}), "no attribute \"beta\"");
  has(error("cuda", {{"source", {"x"}}, {"grid", {"m"}}}), "a size that no input has");
  has(error("cuda", {{"source", {"x"}}, {"grid", {1, 1, 1, 1}}}), "at most three");
  has(error("cuda", {{"source", {"x"}}, {"threads", {0}}}), "\"ops[0].kernels.cuda.threads[0]\" must be at least 1");
  has(error("cuda", {{"source", {"x"}}, {"threads", {2048}}}), "must be at most 1024");
  has(error("cpu", {{"source", {"x"}}, {"threads", {2}}}), "at most one extent");
  has(error("cuda", {{"source", {"x"}}, {"types", {{"T", "f7"}}}}), "no element type");
}

TEST_CASE("gradients, tangents and batches by the rules of the file are those of the body") {
  json plain = example();
  for (const char* rule : {"vjp", "jvp", "vmap"}) plain["ops"][0].erase(rule);
  const std::vector<std::vector<std::string>> cases{{"grad y", "wrt shift"},
                                                    {"grad y", "wrt inputs", "hvp"},
                                                    {"jvp x"},
                                                    {"vmap x", "size 3"},
                                                    {"grad y", "wrt weight,shift", "vmap x", "size 2"}};
  for (const auto& words : cases) {
    INFO(words[0]);
    Loaded by_rule(example(), words), by_body(plain, words);
    check_equal(by_rule.run(), by_body.run());
  }
}

TEST_CASE("a rule of the file is used in place of the body's") {
  json doubled = example();
  auto& vjp = doubled["ops"][0]["vjp"];
  vjp["nodes"].push_back({{"op", "mul"}, {"in", {"dx", 2}}, {"out", "twice"}});
  vjp["outputs"][0] = "twice";
  const auto once = Loaded(example(), {"grad y", "wrt inputs"}).run(), twice = Loaded(doubled, {"grad y", "wrt inputs"}).run();
  for (size_t k = 0; k < once[1].size(); ++k) CHECK(twice[1][k] == doctest::Approx(2 * once[1][k]));
}

TEST_CASE("faults of a file are errors that say where") {
  const auto refused = [](const json& j, const std::string& why) {
    Loaded l(j, {});
    CHECK_FALSE(l.model);
    CHECK_MESSAGE(l.d.text().find(why) != std::string::npos, l.d.text(), why);
  };
  const auto with = [](const std::function<void(json&)>& change) {
    json j = example();
    change(j["ops"][0]);
    return j;
  };
  refused(json::array(), "not a JSON object");
  refused({{"format", "rlxc-rules"}}, "lacks \"format\"");
  refused({{"format", "rlxc-ops"}}, "lacks \"ops\"");
  refused({{"format", "rlxc-ops"}, {"ops", {1}}}, "must be an object");
  refused(with([](json& op) { op["name"] = 3; }), "\"ops[0].name\" must be a text");
  refused(with([](json& op) { op["bodies"] = 3; }), "\"bodies\" is not known");
  refused(with([](json& op) { op["inputs"] = "x"; }), "must be a list");
  refused(with([](json& op) { op["inputs"][0]["shape"] = {"n", "*"}; }), "no number or expression");
  refused(with([](json& op) { op["inputs"][0]["type"] = "f31"; }), "must be an element type");
  refused(with([](json& op) { op["inputs"][1]["name"] = "x"; }), "given twice");
  refused(with([](json& op) { op["inputs"][1]["shape"] = {"n"}; }), "does not fit its shape");
  refused(with([](json& op) { op["inputs"].erase(1); }), "takes 1 inputs, has 2");
  refused(with([](json& op) { op["outputs"][0]["shape"] = {"d", "n"}; }), "its shape rule says f32[4,5]");
  refused(with([](json& op) { op["outputs"][0]["shape"] = {"k"}; }), "a size that no input has");
  refused(with([](json& op) { op["attributes"]["alpha"]["default"] = "one"; }), "of another type");
  refused(with([](json& op) { op["attributes"] = json::object(); }), "there is no attribute \"alpha\"");
  refused(with([](json& op) { op["attributes"]["beta"] = {{"type", "int"}}; }), "lacks the attribute \"beta\"");
  refused(with([](json& op) { op["body"][0]["op"] = "no_such"; }), "there is no operation \"no_such\"");
  refused(with([](json& op) { op["body"][0]["op"] = "loop"; }), "there is no operation \"loop\"");
  refused(with([](json& op) { op["body"][0]["in"] = {"z", 1}; }), "there is no value \"z\"");
  refused(with([](json& op) { op["body"][0]["in"] = {1, 2}; }), "is no number");
  refused(with([](json& op) { op["body"][0]["in"] = {"x", "$beta"}; }), "is no number");
  refused(with([](json& op) { op["body"][0]["attrs"] = {{"axis", 1}}; }), "unknown attribute \"axis\"");
  refused(with([](json& op) { op["body"].erase(3); }), "there is no value \"y\"");
  refused(with([](json& op) { op["vjp"]["outputs"] = {"dx"}; }), "vjp gives 1 values, 2 are needed");
  refused(with([](json& op) { op["vjp"]["outputs"] = {"dshift", "dx"}; }), "for \"x\", which is f32[5,4]");
  refused(with([](json& op) { op["vmap"]["nodes"][3]["attrs"]["dims"] = {"many", "1", "d"}; }), "there is no size \"many\"");
  json twice = example();
  twice["ops"].push_back(twice["ops"][0]);
  refused(twice, "is defined twice");
}
