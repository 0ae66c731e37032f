// Steps of training against update rules written out in double precision.
#include "transform/training.h"

#include <doctest/doctest.h>

#include <cmath>

#include "eval/random.h"
#include "ir/verify.h"

using namespace rlxc;
using namespace rlxc::transform;

namespace {

constexpr int64_t kRows = 4, kIn = 3, kOut = 2;

// y = x*w + b.
struct LinearModel {
  Module m{"linear"};
  Diagnostics d;
  Builder b{m.main(), &d};
  ValueId x = b.input("x", tensor_type(DType::F32, {Dim(kRows), Dim(kIn)}));
  ValueId w = b.param("w", tensor_type(DType::F32, {Dim(kIn), Dim(kOut)}),
                      m.data.add(make_data(DType::F32, {kIn, kOut}, std::vector<float>{.5f, -.25f, 1, 0, -.75f, .125f})));
  ValueId c =
      b.param("b", tensor_type(DType::F32, {Dim(kOut)}), m.data.add(make_data(DType::F32, {kOut}, std::vector<float>{0, 1})));
  ValueId y = b.add(b.matmul(x, w), c);
  LinearModel() { m.main().add_output(y, m.symbol("y")); }

  std::optional<Training> train(TrainingOptions o, bool scales = false) {
    auto t = make_training(m, o, scales, {}, nullptr, d);
    if (!t) return t;
    CHECK_MESSAGE(verify(m, d), d.text());
    return t;
  }
};

TrainingOptions options(std::string optimizer, std::string loss = "mse") {
  TrainingOptions o;
  o.train = true;
  o.optimizer = std::move(optimizer);
  o.loss = std::move(loss);
  return o;
}

using Numbers = std::vector<double>;
Numbers numbers_of(const TensorData& d) {
  Numbers out;
  for (int64_t i = 0; i < d.elements(); ++i) out.push_back(element_as_double(d, i));
  return out;
}
eval::HostValue host(const std::vector<float>& v, std::vector<int64_t> dims) {
  return {TypeKind::Tensor, make_data(DType::F32, std::move(dims), v), {}};
}

// Runs steps and keeps the states between them.
struct Stepper {
  Module& m;
  const Training& t;
  Diagnostics d;
  std::vector<eval::HostValue> inputs;
  Stepper(Module& module, const Training& training, std::vector<eval::HostValue> data)
      : m(module), t(training), inputs(std::move(data)) {
    for (const TrainingState& s : t.states) inputs.push_back({TypeKind::Tensor, s.initial, {}});
  }
  double step() {
    auto out = eval::evaluate(m, inputs, d);
    REQUIRE_MESSAGE(out, d.text());
    for (size_t i = 0; i < t.states.size(); ++i) inputs[t.first_state() + i] = std::move((*out)[i + 1]);
    return element_as_double((*out)[0].tensor, 0);
  }
  Numbers state(const std::string& name) {
    for (size_t i = 0; i < t.states.size(); ++i)
      if (t.states[i].name == name) return numbers_of(inputs[t.first_state() + i].tensor);
    FAIL("there is no state " << name);
    return {};
  }
};

const std::vector<float> kX{1, 2, 0.5f, -1, 0, 1, 0.25f, 3, -2, 0, 1, 1}, kTarget{1, 0, 0, 2, -1, 1, 0.5f, 0};

// The same, element by element: parameters w then b, and the moments of each.
struct ByHand {
  Numbers p{.5, -.25, 1, 0, -.75, .125, 0, 1}, first = Numbers(8), second = Numbers(8);
  int t = 0;

  double loss(Numbers* g) const {
    double sum = 0;
    g->assign(8, 0);
    for (int r = 0; r < kRows; ++r)
      for (int k = 0; k < kOut; ++k) {
        double y = p[static_cast<size_t>(6 + k)];
        for (int i = 0; i < kIn; ++i) y += double{kX[static_cast<size_t>(r * kIn + i)]} * p[static_cast<size_t>(i * kOut + k)];
        const double e = y - double{kTarget[static_cast<size_t>(r * kOut + k)]};
        sum += e * e / 8;
        for (int i = 0; i < kIn; ++i)
          (*g)[static_cast<size_t>(i * kOut + k)] += e / 4 * double{kX[static_cast<size_t>(r * kIn + i)]};
        (*g)[static_cast<size_t>(6 + k)] += e / 4;
      }
    return sum;
  }

  void update(const std::string& rule, const Hyper& h, const Numbers& gradient) {
    ++t;
    for (size_t i = 0; i < p.size(); ++i) {
      double g = gradient[i];
      const bool decoupled = rule == "adamw" || rule == "lion";
      if (decoupled) p[i] *= 1 - h.lr * h.weight_decay;
      else g += h.weight_decay * p[i];
      if (rule == "sgd") p[i] -= h.lr * g;
      else if (rule == "momentum" || rule == "nesterov") {
        first[i] = h.momentum * first[i] + g;
        p[i] -= h.lr * (rule == "nesterov" ? g + h.momentum * first[i] : first[i]);
      } else if (rule == "adagrad") {
        first[i] += g * g;
        p[i] -= h.lr * g / (std::sqrt(first[i]) + h.epsilon);
      } else if (rule == "lion") {
        const double direction = h.beta1 * first[i] + (1 - h.beta1) * g;
        p[i] -= h.lr * ((direction > 0) - (direction < 0));
        first[i] = h.beta2 * first[i] + (1 - h.beta2) * g;
      } else {
        first[i] = h.beta1 * first[i] + (1 - h.beta1) * g;
        second[i] = h.beta2 * second[i] + (1 - h.beta2) * g * g;
        const double mean = first[i] / (1 - std::pow(h.beta1, t)), squares = second[i] / (1 - std::pow(h.beta2, t));
        p[i] -= h.lr * mean / (std::sqrt(squares) + h.epsilon);
      }
    }
  }
};

void check_close(const Numbers& a, const Numbers& b, double tolerance = 1e-5) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::fabs(a[i] - b[i]) <= tolerance * (1 + std::fabs(b[i])));
}

Numbers parameters(Stepper& s) {
  Numbers p = s.state("w");
  for (double v : s.state("b")) p.push_back(v);
  return p;
}

}  // namespace

TEST_CASE("every optimizer follows its rule") {
  for (const Optimizer& optimizer : optimizers()) {
    CAPTURE(std::string(optimizer.name));
    TrainingOptions o = options(std::string(optimizer.name));
    o.lr = 0.05;
    o.weight_decay = 0.125;
    LinearModel model;
    const auto t = model.train(o);
    REQUIRE_MESSAGE(t, model.d.text());
    Stepper s(model.m, *t, {host(kX, {kRows, kIn}), host(kTarget, {kRows, kOut})});
    ByHand expected;
    for (int i = 0; i < 20; ++i) {
      Numbers g;
      const double loss = expected.loss(&g);
      CHECK(s.step() == doctest::Approx(loss).epsilon(1e-5));
      expected.update(std::string(optimizer.name), t->hyper, g);
      check_close(parameters(s), expected.p);
    }
    CHECK(s.state("train:step") == Numbers{20});
  }
}

TEST_CASE("gradients are clipped together, and accumulated over steps") {
  TrainingOptions o = options("sgd");
  o.lr = 0.5;
  o.clip_norm = 0.25;
  o.accumulate = 2;
  LinearModel model;
  const auto t = model.train(o);
  REQUIRE_MESSAGE(t, model.d.text());
  Stepper s(model.m, *t, {host(kX, {kRows, kIn}), host(kTarget, {kRows, kOut})});
  ByHand expected;
  for (int i = 0; i < 3; ++i) {
    Numbers g;
    expected.loss(&g);
    s.step();
    check_close(parameters(s), expected.p);
    CHECK(s.state("train:part") == Numbers{1});
    s.step();
    double norm = 0;
    for (double v : g) norm += v * v;
    norm = std::sqrt(norm);
    for (double& v : g) v *= std::min(1.0, 0.25 / (norm + 1e-6));
    expected.update("sgd", t->hyper, g);
    check_close(parameters(s), expected.p);
    CHECK(s.state("train:part") == Numbers{0});
    CHECK(s.state("gradient:w") == Numbers(6));
  }
  CHECK(s.state("train:step") == Numbers{3});
}

TEST_CASE("a scaled loss: infinities skip the update and halve the scale") {
  TrainingOptions o = options("momentum");
  LinearModel model;
  const auto t = model.train(o, true);
  REQUIRE_MESSAGE(t, model.d.text());
  Stepper s(model.m, *t, {host(kX, {kRows, kIn}), host(kTarget, {kRows, kOut})});
  ByHand expected;
  Numbers g;
  expected.loss(&g);
  s.step();
  expected.update("momentum", t->hyper, g);
  check_close(parameters(s), expected.p);
  CHECK(s.state("train:scale") == Numbers{65536});
  CHECK(s.state("train:good") == Numbers{1});
  std::vector<float> large = kX;
  large[0] = INFINITY;
  s.inputs[0] = host(large, {kRows, kIn});
  s.step();
  check_close(parameters(s), expected.p);
  CHECK(s.state("train:scale") == Numbers{32768});
  CHECK(s.state("train:good") == Numbers{0});
  CHECK(s.state("train:step") == Numbers{1});
}

TEST_CASE("the rate is an input, and frozen parameters stay") {
  TrainingOptions o = options("sgd");
  o.lr_input = true;
  o.frozen = {"w"};
  LinearModel model;
  const auto t = model.train(o);
  REQUIRE_MESSAGE(t, model.d.text());
  REQUIRE(t->frozen.size() == 1);
  CHECK(t->frozen[0].why == "--freeze");
  Stepper s(model.m, *t, {host(kX, {kRows, kIn}), host(kTarget, {kRows, kOut}), host({0.125f}, {})});
  ByHand expected;
  Numbers g;
  expected.loss(&g);
  s.step();
  check_close(s.state("b"), {expected.p[6] - 0.125 * g[6], expected.p[7] - 0.125 * g[7]});
}

TEST_CASE("cross-entropy is that of the logits, and leaves out labels below 0") {
  for (const bool softmax : {false, true}) {
    LinearModel model;
    if (softmax) {
      const ValueId y = model.b.create(OpKind::Softmax, {model.y}, AxisAttrs{1});
      model.m.main().set_outputs(std::array{y});
    }
    TrainingOptions o = options("sgd", "cross-entropy");
    o.evaluate_only = true;
    const auto t = model.train(o);
    REQUIRE_MESSAGE(t, model.d.text());
    CHECK(t->target == "label:y");
    const std::vector<int64_t> labels{1, 0, -1, 1};
    Stepper s(model.m, *t, {host(kX, {kRows, kIn}), {TypeKind::Tensor, make_data(DType::I64, {kRows}, labels), {}}});
    const auto out = eval::evaluate(model.m, s.inputs, s.d);
    REQUIRE_MESSAGE(out, s.d.text());
    const ByHand values;
    double sum = 0;
    for (size_t r = 0; r < 4; ++r) {
      double y[2] = {values.p[6], values.p[7]};
      for (size_t i = 0; i < 3; ++i)
        for (size_t k = 0; k < 2; ++k) y[k] += double{kX[r * 3 + i]} * values.p[i * 2 + k];
      if (labels[r] >= 0) sum += std::log(std::exp(y[0]) + std::exp(y[1])) - y[labels[r]];
    }
    CHECK(element_as_double((*out)[0].tensor, 0) == doctest::Approx(sum / 3).epsilon(1e-5));
    CHECK(out->size() == 2);
  }
}

TEST_CASE("what cannot be trained is said") {
  const auto refused = [](TrainingOptions o, std::string_view text) {
    LinearModel model;
    CHECK_FALSE(model.train(std::move(o)));
    CHECK_MESSAGE(model.d.text().find(text) != std::string::npos, model.d.text());
  };
  refused(options("sgd", ""), "--train needs --loss");
  refused(options("sgd", "z"), "\"z\"");
  refused(options("sgd", "cross-entropy:5"), "no axis 5");
  refused(options("sgd", "cross-entropy:one"), "takes a whole number");
  refused(options("rmsprop"), "there is no optimizer");
  TrainingOptions o = options("sgd");
  o.momentum = 0.5;
  refused(o, "--momentum means nothing to --optimizer sgd");
  o = options("sgd");
  o.frozen = {"w", "b"};
  refused(o, "no parameter");
  o.frozen = {"v"};
  refused(o, "--freeze names \"v\"");
}
