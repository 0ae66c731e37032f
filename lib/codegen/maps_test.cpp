// Models with map inputs or outputs, run on data in ONNX's layout.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "commands/run.h"
#include "support/onnx_model.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::string tensor(DType t, const std::vector<int64_t>& dims, const std::vector<double>& values) {
  std::string out, raw;
  for (int64_t d : dims) out += field(1, d);
  for (double v : values)
    for (std::byte b : element_bytes(t, v)) raw += static_cast<char>(b);
  return out + field(2, static_cast<int64_t>(onnx_dtype(t))) + field(9, raw);
}
// MapProto of f32.
std::string map(const std::vector<int64_t>& keys, const std::vector<double>& values) {
  std::string packed, all = field(2, int64_t{1});
  for (int64_t k : keys) packed += varint(static_cast<uint64_t>(k));
  for (double v : values) all += field(3, tensor(DType::F32, {}, {v}));
  return field(2, int64_t{7}) + field(3, packed) + field(5, all);
}
std::string map_of_words(const std::vector<std::string>& keys, const std::vector<double>& values) {
  std::string out, all = field(2, int64_t{1});
  for (const std::string& k : keys) out += field(4, k);
  for (double v : values) all += field(3, tensor(DType::F32, {}, {v}));
  return field(2, int64_t{8}) + out + field(5, all);
}

struct Case {
  TempDir dir;
  std::string said;

  Case(const OnnxModel& m, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    std::filesystem::create_directories(dir / "data");
    std::ofstream(dir / "model.onnx", std::ios::binary) << m.bytes();
    for (size_t i = 0; i < inputs.size(); ++i)
      std::ofstream(dir / ("data/input_" + std::to_string(i) + ".pb"), std::ios::binary) << inputs[i];
    for (size_t i = 0; i < outputs.size(); ++i)
      std::ofstream(dir / ("data/output_" + std::to_string(i) + ".pb"), std::ios::binary) << outputs[i];
  }
  ExitCode run(Engine engine) {
    CompileOptions o;
    o.input = dir / "model.onnx";
    RunRequest request;
    request.data = dir / "data";
    request.engine = engine;
    std::ostringstream out;
    Diagnostics d(o.input);
    const ExitCode code = run_model(o, request, out, d);
    said = out.str() + d.text();
    return code;
  }
};

OnnxModel classifier() {
  OnnxModel m(17);
  m.opset("ai.onnx.ml", 3);
  m.input("x", DType::F32, {2, 2}, {0, 0, 0, 0});
  m.add(
      node("LinearClassifier", {"x"}, {"label", "scores"},
           {attribute("coefficients", std::vector<double>{1, -1, 0.5, 2, -1, 0}),
            attribute("intercepts", std::vector<double>{0, 0, 0}), attribute("classlabels_ints", std::vector<int64_t>{7, 3, 5})},
           "ai.onnx.ml"));
  m.add(node("Normalizer", {"scores"}, {"p"}, {attribute("norm", "L1")}, "ai.onnx.ml"));
  m.add(node("ZipMap", {"p"}, {"maps"}, {attribute("classlabels_int64s", std::vector<int64_t>{7, 3, 5})}, "ai.onnx.ml"));
  m.output("label");
  m.output("maps");
  return m;
}

}  // namespace

TEST_CASE("a classifier that ends with maps, by kernels and by the reference") {
  const std::vector<double> x{1, 2, -1, 0.5};
  const auto at = [](const std::string& one, const std::string& two) {
    return field(2, int64_t{4}) + field(6, one) + field(6, two);
  };
  const std::string label = tensor(DType::I64, {2}, {3, 5});
  // scores (-1, 4.5, -1) and (-1.5, 0.5, 1)
  const std::string maps = at(map({7, 3, 5}, {-1 / 6.5, 4.5 / 6.5, -1 / 6.5}), map({3, 5, 7}, {0.5 / 3, 1.0 / 3, -1.5 / 3}));
  Case good(classifier(), {tensor(DType::F32, {2, 2}, x)}, {label, maps});
  for (Engine e : {Engine::Reference, Engine::Kernels}) {
    CHECK_MESSAGE(good.run(e) == ExitCode::Ok, good.said);
    CHECK(good.said.find("ok    maps") != std::string::npos);
  }
  const std::string wrong = at(map({7, 3, 5}, {0, 4.5 / 6.5, -1 / 6.5}), map({7, 3, 5}, {-1.5 / 3, 0.5 / 3, 1.0 / 3}));
  Case bad(classifier(), {tensor(DType::F32, {2, 2}, x)}, {label, wrong});
  for (Engine e : {Engine::Reference, Engine::Kernels}) CHECK_MESSAGE(bad.run(e) == ExitCode::Finding, bad.said);
}

TEST_CASE("a model that takes a map") {
  OnnxModel m(17);
  m.opset("ai.onnx.ml", 3);
  m.raw_graph(field(11, field(1, "words") + field(2, field(5, field(1, int64_t{8}) + field(2, field(1, field(1, int64_t{1})))))));
  m.add(node("DictVectorizer", {"words"}, {"y"}, {attribute("string_vocabulary", std::vector<std::string>{"b", "z", "a"})},
             "ai.onnx.ml"));
  m.output("y");
  const std::string y = tensor(DType::F32, {3}, {1, 0, 2});
  Case good(m, {map_of_words({"b", "a"}, {1, 2})}, {y});
  for (Engine e : {Engine::Reference, Engine::Kernels}) CHECK_MESSAGE(good.run(e) == ExitCode::Ok, good.said);
  Case wrong(m, {map_of_words({"b", "a"}, {1, 2})}, {tensor(DType::F32, {3}, {1, 2, 0})});
  CHECK_MESSAGE(wrong.run(Engine::Kernels) == ExitCode::Finding, wrong.said);
  Case twice(m, {map_of_words({"a", "a"}, {1, 2})}, {y});
  CHECK(twice.run(Engine::Reference) == ExitCode::Invalid);
  CHECK_MESSAGE(twice.said.find("one value for each key") != std::string::npos, twice.said);
  Case few(m, {map_of_words({"a", "b"}, {1})}, {y});
  CHECK(few.run(Engine::Reference) == ExitCode::Invalid);
  Case none(m, {""}, {tensor(DType::F32, {3}, {0, 0, 0})});
  CHECK_MESSAGE(none.run(Engine::Reference) == ExitCode::Ok, none.said);
}
