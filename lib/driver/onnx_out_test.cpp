// Models written as ONNX: read back, they compute the same.
#include "driver/onnx_out.h"

#include <fstream>
#include <set>

#include "driver/load.h"
#include "driver/transform_stage.h"
#include "eval/random.h"
#include "ir/text.h"
#include "support/onnx_model.h"
#include "support/rule_samples.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::unique_ptr<Module> through_onnx(Module& m, const std::string& file, const CompileOptions& options, Fused fused,
                                     Diagnostics& d) {
  CompileOptions o = options;
  o.input = file;
  if (!lower_to_tensors(m, o, d)) return nullptr;
  const auto made = onnx_model(m, "-", fused, o, d);
  if (!made) return nullptr;
  std::ofstream(file, std::ios::binary) << made->bytes;
  auto again = load_model(o, d);
  return again ? std::move(again->module) : nullptr;
}

void check_computes_same(const Module& a, const Module& b, const std::vector<HostValue>& in, double rtol, double atol) {
  Diagnostics d;
  const auto x = eval::evaluate(a, in, d), y = eval::evaluate(b, in, d);
  REQUIRE_MESSAGE((x && y), d.text());
  REQUIRE(x->size() == y->size());
  for (size_t i = 0; i < x->size(); ++i) check_close((*y)[i], (*x)[i], rtol, atol);
}

}  // namespace

namespace {

struct Form {
  int64_t opset;
  std::string dialect;
  Fused fused;
};
void check_every_kind(const Form& form) {
  const TempDir dir;
  CompileOptions o;
  o.opset = form.opset, o.dialect = form.dialect;
  for (const Sample& s : all_samples()) {
    INFO(std::string(name(s.op)) << ", opset " << form.opset);
    SampleGraph before(s), one(s);
    for (SampleGraph* each : {&before, &one}) each->set_outputs();
    Diagnostics& d = one.d;
    const auto again = through_onnx(one.m, dir / "m.onnx", o, form.fused, d);
    if (form.opset == 21) {  // a sum over windows beyond the end has no operator
      const auto* pool = std::get_if<PoolAttrs>(&s.attrs);
      CHECK_MESSAGE((again != nullptr) == !(pool && pool->op == ReduceOp::Sum && pool->ceil_mode), d.text());
    } else if (!again) {
      CHECK_MESSAGE(d.text().find("has no ONNX operator") != std::string::npos, d.text());
    }
    if (again) check_computes_same(before.m, *again, before.in, 1e-6, 1e-7);  // attributes are f32 there
  }
}

}  // namespace

TEST_CASE("every kind is written as operators of ONNX that mean the same") { check_every_kind({21, "onnx", Fused::InPlace}); }
TEST_CASE("operators of opset 17") { check_every_kind({17, "onnx", Fused::InPlace}); }
TEST_CASE("operators of opset 15") { check_every_kind({15, "onnx", Fused::Functions}); }
TEST_CASE("operators of opset 13") { check_every_kind({13, "onnx", Fused::InPlace}); }
TEST_CASE("functions for what has no operator") { check_every_kind({21, "onnx", Fused::Functions}); }
TEST_CASE("operators of com.microsoft") { check_every_kind({20, "ort", Fused::Functions}); }

TEST_CASE("sequences, optionals, maps and text") {
  const char* text = R"(module "m" mir {
graph @main {
  %0 = input "s" : seq<f32[2]>
  %1 = input "x" : f32[2]
  %2 = input "at" : i64[]
  %3 = input "words" : string[3]
  %4 = input "flag" : bool[]
  %5 = sequence_insert(%0, %1, %2) : seq<f32[2]>
  %6 = sequence_erase(%5, %2) : seq<f32[2]>
  %7 = sequence_erase(%6) : seq<f32[2]>
  %8 = sequence_at(%5, %2) : f32[2]
  %9 = sequence_length(%5) : i64[]
  %10 = concat_from_sequence(%5) {axis = 1, new_axis = true} : f32[2,length]
  %11 = split_to_sequence(%1) {axis = 0, keep_dim = false} : seq<f32[]>
  %12 = sequence_map(%5, %1) [@body] {carries = 2} : seq<f32[2]>
  %13 = if(%4, %5) [@full, @none] : optional<seq<f32[2]>>
  %14 = optional_has(%13) : bool[]
  %15 = optional_get(%13) : seq<f32[2]>
  %16 = string_normalize(%3) {change = "upper", case_sensitive = false, stopwords = ["B"]} : string[kept]
  %17 = string_index(%3) {strings = ["a", "b"]} : i64[3]
  %18 = map_of_row(%1) {ints = [3, 5]} : seq<map<i64,f32>>
  %19 = string_concat(%3, %3) : string[3]
  %20 = string_equal(%3, %19) : bool[3]
  %21 = string_match(%3) {pattern = "a.*"} : bool[3]
  %22, %23 = string_split(%19) {delimiter = "b"} : string[3,pieces], i64[3]
  return %7 "r0", %8 "r1", %9 "r2", %10 "r3", %11 "r4", %12 "r5", %14 "r6", %15 "r7", %16 "r8", %17 "r9", %18 "r10", %19 "r11", %20 "r12", %21 "r13", %22 "r14", %23 "r15"
}
graph @body {
  %0 = input "e" : f32[2]
  %1 = input "x" : f32[2]
  %2 = add(%0, %1) : f32[2]
  return %2 "y"
}
graph @full {
  %0 = input "s" : seq<f32[2]>
  %1 = optional_make(%0) : optional<seq<f32[2]>>
  return %1
}
graph @none {
  %0 = input "s" : seq<f32[2]>
  %1 = optional_make {to = "f32", sequence = true} : optional<seq<f32[*]>>
  return %1
}
}
)";
  const HostValue row = f32({2}, {1, -2});
  const std::vector<HostValue> in{eval::sequence_of({row, f32({2}, {3, 4})}), f32({2}, {5, 6}), i64({}, {1}),
                                  eval::strings_of({3}, {"a", "b", "ab"}), bools({}, {1})};
  const TempDir dir;
  Diagnostics d;
  CompileOptions o;
  o.opset = 20;
  const auto before = parse_text(text, d), m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  const auto again = through_onnx(*m, dir / "m.onnx", o, Fused::InPlace, d);
  REQUIRE_MESSAGE(again, d.text());
  check_computes_same(*before, *again, in, 0, 0);
}

TEST_CASE("weights whose file is missing keep their place, and one is copied as soon as the file is there") {
  const auto entry = [](std::string_view key, std::string_view value) { return field(13, field(1, key) + field(2, value)); };
  OnnxModel source(21);
  source.input("x", DType::F32, {2}, {1, 2});
  source.raw_graph(field(5, field(1, 2) + field(2, 1) + field(8, "w") + entry("location", "w.bin") + entry("offset", "4") +
                                entry("length", "8") + field(14, 1)));
  source.add(node("Mul", {"x", "w"}, {"y"}));
  source.output("y");
  const TempDir dir;
  CompileOptions o;
  o.input = dir / "m.onnx", o.allow_missing_weights = true;
  std::ofstream(o.input, std::ios::binary) << source.bytes();
  const auto written = [&](const std::string& path) {
    Diagnostics d;
    auto model = load_model(o, d);
    REQUIRE_MESSAGE(model, d.text());
    const auto made = onnx_model(*model->module, path, Fused::InPlace, o, d);
    REQUIRE_MESSAGE(made, d.text());
    return made->bytes;
  };
  const std::string place = entry("location", "w.bin") + entry("offset", "4") + entry("length", "8");
  for (const std::string& path : {dir / "n.onnx", dir / "other/n.onnx"}) CHECK(written(path).find(place) != std::string::npos);
  const float contents[] = {0, 5, 6};
  std::ofstream(dir / "w.bin", std::ios::binary).write(reinterpret_cast<const char*>(contents), sizeof contents);
  CHECK(written(dir / "n.onnx").find(place) != std::string::npos);
  CHECK(written(dir / "other/n.onnx").find("w.bin") == std::string::npos);
}

TEST_CASE("device configurations of nodes are read, and written again with the names of the written model") {
  const auto part = [](std::string_view of, int64_t axis) {
    const std::string group = field(3, field(1, -1) + field(2, 2) + field(2, 3));
    return field(2, field(1, of) + field(2, 0) + field(2, -1) + group + field(4, field(1, axis) + field(2, field(3, 2))));
  };
  const auto devices = [](std::string_view specs, int64_t stage) {
    return field(10, field(1, "tp") + std::string(specs) + field(3, stage));
  };
  OnnxModel source(21);
  source.input("x", DType::F32, {2, 4}, some(8, 1));
  source.input("w", DType::F32, {4, 6}, some(24, 2));
  source.add(node("MatMul", {"x", "w"}, {"t"}) + field(3, "mm") + devices(part("w", -1) + part("t", 1), 0));
  source.add(node("Relu", {"t"}, {"y"}) + field(3, "act") + devices(part("t", 1), 1));
  source.output("y");
  source.raw(field(26, field(1, "tp") + field(2, 4) + field(3, "g0") + field(3, "g1")));
  const TempDir dir;
  Diagnostics d;
  auto m = source.load(d);
  REQUIRE_MESSAGE(m, d.text());
  const DeviceConfigurations before = m->devices;
  REQUIRE(before.all == std::vector<DeviceConfiguration>{{"tp", 4, {"g0", "g1"}}});
  REQUIRE(before.nodes.size() == 2);
  CHECK(before.nodes.at("act") ==
        std::vector<NodeDevices>{{"tp", 1, {{"t", {0, -1}, {{-1, {2, 3}}}, {{1, {{std::nullopt, "", 2}}}}}}}});
  CHECK(before.nodes.at("mm")[0].tensors.size() == 2);

  const auto again = through_onnx(*m, dir / "m.onnx", {}, Fused::InPlace, d);
  REQUIRE_MESSAGE(again, d.text());
  CHECK(d.text() == "");
  DeviceConfigurations after = again->devices;
  const std::string renamed = after.nodes.at("act")[0].tensors.at(0).tensor;
  CHECK(renamed == after.nodes.at("mm")[0].tensors.at(1).tensor);
  for (auto& [name, list] : after.nodes)
    for (TensorSharding& t : list[0].tensors)
      if (t.tensor == renamed) t.tensor = "t";
  CHECK(after == before);

  m = source.load(d);
  m->main().set_node_name(m->main().def(m->main().outputs()[0]), {});
  REQUIRE(through_onnx(*m, dir / "m.onnx", {}, Fused::InPlace, d));
  CHECK(d.text().find("left out: the model that is written lacks \"act\"") != std::string::npos);
}

TEST_CASE("padding to the same size of symbolic sizes is a word of the convolution") {
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER"}) {
    OnnxModel source(21);
    const std::string dims = field(1, field(1, 1)) + field(1, field(1, 2)) + field(1, field(2, "h")) + field(1, field(1, 6));
    source.raw_graph(field(11, field(1, "x") + field(2, field(1, field(1, 1) + field(2, dims)))));
    source.raw_graph(field(5, onnx_export::tensor_file(make_data(DType::F32, {3, 2, 3, 2}, std::vector<float>(36, 0.5F)), "w")));
    source.add(node("Conv", {"x", "w"}, {"y"}, {attribute("auto_pad", mode), attribute("strides", std::vector<int64_t>{2, 2})}));
    source.output("y");
    const TempDir dir;
    Diagnostics d;
    const auto before = source.load(d), m = source.load(d);
    REQUIRE_MESSAGE(m, d.text());
    CompileOptions o;
    o.input = dir / "m.onnx";
    const auto made = onnx_model(*m, "-", Fused::InPlace, o, d);
    REQUIRE_MESSAGE(made, d.text());
    CHECK(made->bytes.find(mode) != std::string::npos);
    CHECK(made->bytes.find("Shape") == std::string::npos);
    std::ofstream(o.input, std::ios::binary) << made->bytes;
    const auto again = load_model(o, d);
    REQUIRE_MESSAGE(again, d.text());
    for (int64_t h : {1, 4, 5}) {
      const HostValue x = tensor_of(DType::F32, {1, 2, h, 6}, some(static_cast<size_t>(12 * h), 3));
      check_computes_same(*before, *again->module, {x}, 1e-6, 1e-7);
    }
  }
}

TEST_CASE("symbolic sizes are computed in the model, names stay, and control flow takes what it captures from outside") {
  const char* text =
      "module \"m\" mir {\ngraph @main {\n%0 = input \"x\" : f32[n,3]\n%1 = constant {data = dense [1, 2, 3]} : f32[3]\n"
      "%2 = reshape(%0) {dims = [\"3*n\"]} : f32[3*n]\n%3 = narrow(%2) {axis = 0, start = 1, len = \"3*n-2\"} : f32[3*n-2]\n"
      "%4 = dim_value {dims = [\"n\"], scalar = true} : i64[]\n%5 = cast(%4) {to = \"f32\"} : f32[]\n%6 = mul(%3, %5) : "
      "f32[3*n-2]\n"
      "%7 = mul(%0, %1) : f32[n,3]\n"
      "%8 = scan(%1, %7, %5) [@step] {states = 1, scan_inputs = 1, input_axes = [0], input_reverse = [0]} : f32[3]\n"
      "return %6 \"a\", %8 \"b\", %7 \"c\", %7 \"d\", %0 \"e\"\n}\n"
      "graph @step {\n%0 = input \"s\" : f32[3]\n%1 = input \"v\" : f32[3]\n%2 = input \"k\" : f32[]\n%3 = mul(%0, %2) : f32[3]\n"
      "%4 = add(%3, %1) : f32[3]\nreturn %4 \"n\"\n}\n}\n";
  const TempDir dir;
  Diagnostics d;
  const auto before = parse_text(text, d);
  auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  const auto again = through_onnx(*m, dir / "m.onnx", {}, Fused::InPlace, d);
  REQUIRE_MESSAGE(again, d.text());
  for (int64_t n : {1, 4}) {
    std::vector<double> x;
    for (int64_t i = 0; i < 3 * n; ++i) x.push_back(0.1 * static_cast<double>(i) - 0.5);
    check_computes_same(*before, *again, {tensor_of(DType::F32, {n, 3}, x)}, 1e-6, 1e-7);
  }
  const Graph& g = again->main();
  std::vector<std::string> names;
  for (size_t i = 0; i < g.outputs().size(); ++i) names.emplace_back(again->bytes(g.output_name(i)));
  CHECK(names == std::vector<std::string>{"a", "b", "c", "d", "e"});
  CHECK(again->text(g.value_name(g.result(g.inputs()[0]))) == "x");
}

TEST_CASE("names of nodes, values and outputs are unique in the written model, whatever those of the module are") {
  // Made-up names meet those of later nodes; a body has the names of the graph around it; outputs have names of inputs.
  const char* text = R"(module "m" mir {
graph @main {
  %0 = input "v" : f32[2]
  %1 = input "n" : i64[]
  %2 = relu(%0) : f32[2]
  %3 = exp(%2) "Relu_v_1" : f32[2]
  %4 = exp(%3) "Relu_v_1" : f32[2]
  %5 = constant {data = dense [1]} : bool[]
  %6 = loop(%1, %5, %4, %2) [@body] {carries = 1} "Exp_v_2" : f32[2]
  return %6 "v", %4 "y", %4 "y", %3 "out"
}
graph @body {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "v" : f32[2]
  %3 = input "w" : f32[2]
  %4 = relu(%3) "Relu_v_1" : f32[2]
  %5 = add(%2, %4) : f32[2]
  return %1, %5
}
}
)";
  const TempDir dir;
  Diagnostics d;
  const auto before = parse_text(text, d);
  auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  const auto again = through_onnx(*m, dir / "m.onnx", {}, Fused::InPlace, d);
  REQUIRE_MESSAGE(again, d.text());
  CHECK(d.text().find("another input or output has the name of output \"v\"") != std::string::npos);
  check_computes_same(*before, *again, {f32({2}, {1, -2}), i64({}, {3})}, 1e-6, 1e-7);
  std::set<std::string> names;
  for (size_t i = 0; i < again->graph_count(); ++i)
    for (const Graph& g = again->graph(GraphId(i)); NodeId n : g.nodes())
      if (g.node_name(n).valid()) CHECK(names.emplace(again->bytes(g.node_name(n))).second);
  CHECK(names.contains("Relu_v_1"));
}
