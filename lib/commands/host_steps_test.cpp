#include <doctest/doctest.h>

#include <sstream>

#include "commands/run.h"
#include "support/onnx_model.h"
#include "support/output_file.h"
#include "support/temp_dir.h"

namespace rlxc {
namespace {

using test::attribute;
using test::node;

void declare(test::OnnxModel& m, std::string_view name, DType t, const std::vector<int64_t>& dims) {
  m.raw_graph(test::field(11, test::value_info(name, t, dims)));
}

// The interpreter's report on a model with random inputs.
std::string ran(const test::OnnxModel& m, ExitCode* code) {
  const test::TempDir dir;
  CompileOptions o;
  o.input = dir / "model.onnx";
  Diagnostics d;
  REQUIRE(write_file(o.input, m.bytes(), d));
  RunRequest run;
  run.engine = Engine::Interpreter;
  std::ostringstream out;
  *code = run_model(o, run, out, d);
  return out.str() + d.text();
}

TEST_CASE("nodes on strings run on the host, those before and behind them as kernels") {
  test::OnnxModel m;
  declare(m, "x", DType::F32, {2, 3});
  m.add(node("Abs", {"x"}, {"a"}));
  m.add(node("Cast", {"a"}, {"text"}, {attribute("to", 8)}));
  m.add(node("Cast", {"text"}, {"b"}, {attribute("to", 1)}));
  m.add(node("Add", {"b", "x"}, {"y"}));
  m.output("y");
  m.output("text");
  ExitCode code{};
  const std::string said = ran(m, &code);
  CHECK_MESSAGE(code == ExitCode::Ok, said);
  CHECK_MESSAGE(said.find("2 of 4 nodes have no kernels") != std::string::npos, said);
}

TEST_CASE("a sequence whose element the data select is taken apart on the host") {
  test::OnnxModel m;
  declare(m, "x", DType::F32, {-1, 3});
  declare(m, "at", DType::I64, {});
  m.add(node("Neg", {"x"}, {"a"}));
  m.add(node("SequenceConstruct", {"a", "x"}, {"s"}));
  m.add(node("SequenceAt", {"s", "at"}, {"e"}));
  m.add(node("Shape", {"e"}, {"dims"}));
  m.add(node("Relu", {"e"}, {"y"}));
  m.output("y");
  m.output("dims");
  ExitCode code{};
  const std::string said = ran(m, &code);
  CHECK_MESSAGE(code == ExitCode::Ok, said);
  CHECK_MESSAGE(said.find("have no kernels") != std::string::npos, said);
}

}  // namespace
}  // namespace rlxc
