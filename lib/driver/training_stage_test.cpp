// Programs that train: states in place, precision, reports, checkpoints.
#include "driver/training_stage.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "backend/backend.h"
#include "backend/registry.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/training_report.h"
#include "eval/random.h"
#include "ir/text.h"
#include "runtime/interpret_package.h"
#include "runtime/run_training.h"
#include "support/json_writer.h"
#include "support/schema.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// logits = gelu(x*w1 + b1)*w2 + b2 of random weights, as a file.
std::string perceptron(const TempDir& dir) {
  Module m("perceptron");
  Diagnostics d;
  Builder b(m.main(), &d);
  const auto param = [&](const char* name, std::vector<Dim> dims) {
    const Type t = tensor_type(DType::F32, std::move(dims));
    return b.param(name, t, m.data.add(eval::random_value(m, t, {}, m.data.size() + 1).tensor));
  };
  const ValueId x = b.input("x", tensor_type(DType::F32, {m.dims.symbol("batch"), Dim(6)}));
  const ValueId hidden = b.unary(OpKind::Gelu, b.add(b.matmul(x, param("w1", {6, 16})), param("b1", {16})));
  m.main().add_output(b.add(b.matmul(hidden, param("w2", {16, 4})), param("b2", {4})), m.symbol("logits"));
  std::ofstream(dir / "perceptron.rlxir") << print(m, {.full_data = true});
  return dir / "perceptron.rlxir";
}

CompileOptions training_of(const TempDir& dir, const std::string& optimizer) {
  CompileOptions o;
  o.input = perceptron(dir);
  o.train = o.verify = true;
  o.loss = "cross-entropy";
  o.optimizer = optimizer;
  return o;
}

struct Trained {
  Diagnostics d;
  std::optional<Compiled> step, forward;
  std::vector<eval::HostValue> inputs, expected;
  Trained(const CompileOptions& o, const std::string& target) {
    auto model = load_model(o, d);
    REQUIRE_MESSAGE(model, d.text());
    inputs = random_inputs(*model->module, model->training, {{"batch", 4}}, 1, 3);
    auto results = eval::evaluate(*model->module, inputs, d);
    REQUIRE_MESSAGE(results, d.text());
    expected = std::move(*results);
    step = compile(std::move(*model), target, o, {}, d);
    REQUIRE_MESSAGE(step, d.text());
    forward = compile_forward(*step, target, o, d);
    REQUIRE_MESSAGE(forward, d.text());
  }
};

// A matrix is never copied. A reduction may read what a bias was while it writes the new one: then it is.
bool matrices_stay(const Compiled& c) {
  const Graph& g = c.lir.module->main();
  for (size_t i = 0; i < c.training->states.size(); ++i) {
    const ValueId v = g.outputs()[i + 1];
    if (g.rank(v) == 2 && c.lir.plans[0].slot[v.raw].region != Region::State) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a step of every optimizer updates its states in place, on cpu and an emulated device") {
  const TempDir dir;
  for (const transform::Optimizer& optimizer : transform::optimizers())
    for (const char* target : {"cpu", "cuda"}) {
      CAPTURE(std::string(optimizer.name));
      CAPTURE(std::string(target));
      const Trained t(training_of(dir, std::string(optimizer.name)), target);
      CHECK(t.step->lir.states.size() == t.step->training->states.size());
      Diagnostics d;
      CHECK(matrices_stay(*t.step));
      const auto runner = make_interpreting_runner(t.step->lir, target, d);
      REQUIRE_MESSAGE(runner, d.text());
      const auto actual = runner->run(t.inputs, d);
      REQUIRE_MESSAGE(actual, d.text());
      for (size_t i = 0; i < actual->size(); ++i) CHECK(eval::compare((*actual)[i], t.expected[i], 1e-4, 1e-5).pass);
    }
}

TEST_CASE("training.json follows its schema, and says what is kept and what is computed again") {
  const TempDir dir;
  CompileOptions o = training_of(dir, "adam");
  o.frozen = {"b1"};
  o.bind = {{"batch", 64}};
  const auto written = [&](const Trained& t) {
    std::string json;
    JsonWriter w(json);
    write_training(*t.step, t.forward->lir, w, {"perceptron.rlxir", "", false, "cpu", "0"});
    check_schema("training", json);
    return json;
  };
  const Trained t(o, "cpu");
  const std::string json = written(t);
  CHECK(json.find("\"name\": \"mean:w1\", \"kind\": \"moment\", \"parameter\": \"w1\"") != json.npos);
  CHECK(json.find("{\"name\": \"b1\", \"why\": \"--freeze\"}") != json.npos);
  CHECK(json.find("\"saved_bytes\": 0") == json.npos);
  CHECK(json.find("\"recomputed\": []") != json.npos);
  o.max_arena = static_cast<uint64_t>(t.step->lir.plans[0].arena_size.size()) - 64;
  Diagnostics d;
  auto model = load_model(o, d);
  REQUIRE(model);
  if (compile(std::move(*model), "cpu", o, {}, d)) {
    const std::string again = written(Trained(o, "cpu"));
    CHECK(again.find("\"recomputed\": []") == again.npos);
  }
}

TEST_CASE("with a mixed precision the states stay in f32, and f16 scales the loss") {
  const TempDir dir;
  for (const std::string precision : {"automixed", "automixed-bf16"}) {
    CAPTURE(precision);
    const bool scales = precision == "automixed";
    CompileOptions o = training_of(dir, "adamw");
    o.precision_name = precision;
    const Trained t(o, "cpu");
    CHECK(t.step->training->scales == scales);
    bool low = false;
    const Module& m = *t.step->lir.module;
    for (NodeId n : m.main().nodes())
      for (size_t r = 0; r < m.main().result_count(n); ++r) low |= bits(m.main().dtype(m.main().result(n, r))) == 16;
    CHECK(low);
    for (const transform::TrainingState& s : t.step->training->states) CHECK(bits(s.initial.dtype) >= 32);
    CHECK_FALSE(t.step->precision.empty());
    Diagnostics d;
    const auto runner = make_interpreting_runner(t.step->lir, "cpu", d);
    REQUIRE_MESSAGE(runner, d.text());
    const auto actual = runner->run(t.inputs, d);
    REQUIRE_MESSAGE(actual, d.text());
    const double loss = element_as_double((*actual)[0].tensor, 0);
    CHECK(loss == doctest::Approx(element_as_double(t.expected[0].tensor, 0)).epsilon(1e-2));
  }
  CompileOptions o = training_of(dir, "sgd");
  o.precision_name = "fp8-e4m3";
  Diagnostics d;
  CHECK_FALSE(load_model(o, d));
  CHECK_MESSAGE(d.text().find("--train does not know --precision fp8-e4m3") != std::string::npos, d.text());
}

TEST_CASE("a loaded trainer: steps, evaluations, and checkpoints that are whole or refused") {
  const TempDir dir;
  const Trained t(training_of(dir, "momentum"), "cpu");
  Diagnostics d;
  const auto step = cpu_backend().program(t.step->lir, d), forward = cpu_backend().program(t.forward->lir, d);
  REQUIRE_MESSAGE((step && forward), d.text());
  const TrainingProgram program = training_program(*t.step, forward->name);
  const auto trainer = LoadedTrainer::build(*step, *forward, program, d);
  REQUIRE_MESSAGE(trainer, d.text());
  const int64_t batch = 4;
  REQUIRE(trainer->set_sizes({&batch, 1}, {&batch, 1}, d));
  const std::vector<const void*> inputs{t.inputs[0].tensor.bytes.data(), t.inputs[1].tensor.bytes.data()};
  double loss = 0, before = 0;
  std::vector<void*> none(t.forward->lir.module->main().outputs().size() - 1);
  REQUIRE(trainer->loss(inputs, none, &before, d));
  REQUIRE(trainer->step(inputs, &loss, d));
  CHECK(loss == doctest::Approx(before));
  CHECK(loss == doctest::Approx(element_as_double(t.expected[0].tensor, 0)).epsilon(1e-4));
  for (size_t i = 0; i < program.states.size(); ++i) {
    const TensorData& first = program.states[i].initial;
    const TensorData now = make_data(first.dtype, first.dims, trainer->state(i));
    CHECK(eval::compare({TypeKind::Tensor, now, {}}, t.expected[i + 1], 1e-4, 1e-5).pass);
  }
  const std::string file = dir / "a.safetensors";
  REQUIRE_MESSAGE(trainer->save(file, d), d.text());
  CHECK(std::filesystem::file_size(file) == checkpoint_layout(program).bytes);
  REQUIRE(trainer->step(inputs, &loss, d));
  const double second = loss;
  REQUIRE(trainer->load(file, d));
  REQUIRE(trainer->step(inputs, &loss, d));
  CHECK(loss == second);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  CHECK_FALSE(trainer->load(file, d));
  CHECK_MESSAGE(d.text().find("no checkpoint of this program") != std::string::npos, d.text());
}

TEST_CASE("options of training without --train are errors, except where the model is read as it is") {
  const TempDir dir;
  CompileOptions o = training_of(dir, "sgd");
  o.train = false;
  Diagnostics d;
  CHECK_FALSE(load_model(o, d));
  CHECK(d.text().find("--loss says how to train") != std::string::npos);
  o.loss.clear();
  o.lr_input = true;
  Diagnostics of_rate;
  CHECK_FALSE(load_model(o, of_rate));
  CHECK(of_rate.text().find("--lr-input says how to train") != std::string::npos);
  o.parameters_only = true;
  Diagnostics none;
  CHECK(load_model(o, none));
}
