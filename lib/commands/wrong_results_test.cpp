// Each command that judges results finds each result that is wrong.
#include <doctest/doctest.h>

#include <sstream>

#include "commands/first_difference.h"
#include "commands/run.h"
#include "commands/trials.h"
#include "eval/value.h"
#include "ir/builder.h"
#include "passes/result_check.h"
#include "runtime/npy.h"
#include "support/mutants.h"
#include "support/onnx_model.h"
#include "support/output_file.h"
#include "support/temp_dir.h"

namespace rlxc {
namespace {

eval::HostValue f32(const std::vector<double>& v) { return eval::tensor_of(DType::F32, {static_cast<int64_t>(v.size())}, v); }

// y = -(-x) on the data x, with `expected` recorded. Nothing is recorded if it is empty.
ExitCode ran(const std::vector<double>& x, const std::vector<double>& expected, const std::vector<std::string>& flags,
             std::string* said) {
  const test::TempDir dir;
  test::OnnxModel m;
  m.raw_graph(test::field(11, test::value_info("x", DType::F32, {static_cast<int64_t>(x.size())})));
  m.add(test::node("Neg", {"x"}, {"n"}));
  m.add(test::node("Neg", {"n"}, {"y"}));
  m.output("y");
  CompileOptions o;
  o.input = dir / "model.onnx";
  RunRequest run;
  run.engine = Engine::Reference;
  run.data = dir.path();
  for (const std::string& flag : flags)
    if (flag == "f16") o.precision_name = flag;
    else if (flag == "int8") o.weights = flag;
    else if (flag == "cosine") run.min_cosine = -1;
    else run.save_outputs = dir / "saved.npz";
  Diagnostics d;
  REQUIRE(write_file(o.input, m.bytes(), d));
  REQUIRE(write_file(dir / "x.npy", npy_bytes(f32(x).tensor), d));
  if (!expected.empty()) REQUIRE(write_file(dir / "output_0.npy", npy_bytes(f32(expected).tensor), d));
  std::ostringstream out;
  const ExitCode code = run_model(o, run, out, d);
  *said = out.str() + d.text();
  return code;
}

TEST_CASE("rlxc run fails wrong results by each of its tolerances") {
  std::string said;
  for (const auto& right : test::results_to_mutate())
    for (const char* how : {"", "f16", "int8", "cosine"}) {
      CHECK_MESSAGE(ran(right, right, {how}, &said) == ExitCode::Ok, said);
      for (const auto& mutant : test::mutants(right))
        if (how != std::string("cosine") || mutant.fails_at_any_cosine) {
          CHECK_MESSAGE(ran(mutant.values, right, {how}, &said) == ExitCode::Finding, mutant.name << " " << how << ": " << said);
          CHECK_MESSAGE(said.find("max abs 0, max rel 0") == said.npos, said);
        }
    }
}

TEST_CASE("rlxc run does not pass what it cannot compare") {
  std::string said;
  CHECK(ran({1, 2}, {}, {}, &said) == ExitCode::NotCompared);
  CHECK(said.find("nothing was compared") != said.npos);
  CHECK(ran({1, 2}, {}, {"save"}, &said) == ExitCode::Ok);
}

// A module with a constant result.
void constant(Module& m, const std::vector<double>& v) {
  Builder b(m.main());
  const ValueId c = b.constant(f32(v).tensor);
  m.main().add_output(b.unary(OpKind::Neg, c), m.symbol("y"));
}

TEST_CASE("--verify-each finds passes that make results wrong") {
  for (const auto& right : test::results_to_mutate())
    for (const char* group : {"simplify", "precision", "quantize"}) {
      const PassInfo pass{"pass", group, nullptr, ""};
      for (const auto& mutant : test::mutants(right)) {
        Module before, after;
        constant(before, right);
        constant(after, mutant.values);
        ResultCheck check(before, 1);
        REQUIRE(check.not_comparable().empty());
        CHECK(check.difference(before, pass).empty());
        CHECK_MESSAGE(!check.difference(after, pass).empty(), mutant.name << " " << group);
      }
    }
}

TEST_CASE("rlxc calibrate --accuracy rejects wrong outputs") {
  for (const auto& right : test::results_to_mutate()) {
    Accuracy same;
    judge_outputs({f32(right)}, {f32(right)}, 0.999, &same);
    CHECK(same.good);
    for (const auto& mutant : test::mutants(right)) {
      Accuracy a;
      judge_outputs({f32(right), f32(mutant.values)}, {f32(right), f32(right)}, 0.98, &a);
      CHECK_MESSAGE(!a.good, mutant.name);
    }
  }
}

TEST_CASE("the search for the first difference sees wrong values") {
  int64_t first = 0;
  for (const auto& right : test::results_to_mutate()) {
    const ReferenceValue expected{{static_cast<int64_t>(right.size())}, right};
    for (const eval::Tolerance& t : {eval::Tolerance{1e-2, 1e-2, {}, 0.4}, eval::similar(0.98)}) {
      CHECK(compare_value(f32(right), expected, t, &first) == ValueVerdict::Agrees);
      for (const auto& mutant : test::mutants(right))
        CHECK_MESSAGE(compare_value(f32(mutant.values), expected, t, &first) != ValueVerdict::Agrees, mutant.name);
    }
    CHECK(compare_value(f32({1}), expected, {1e-3, 1e-5}, &first) == ValueVerdict::OtherLayout);
  }
}

}  // namespace
}  // namespace rlxc
