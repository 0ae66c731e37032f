// Gradients of loops against central differences of the reference evaluator, in f64.
#include <array>

#include "ir/term.h"
#include "ir/verify.h"
#include "support/eval.h"
#include "support/random.h"
#include "transform/gradients.h"
#include "transform/tangents.h"

using namespace rlxc;
using namespace rlxc::test;
using transform::Term;

namespace {

constexpr DType kReal = DType::F64;
using Shapes = std::vector<std::vector<int64_t>>;

Type real_type(const std::vector<int64_t>& dims) { return tensor_type(kReal, {dims.begin(), dims.end()}); }
Term input(Builder& b, const std::string& name, const std::vector<int64_t>& dims) { return {&b, b.input(name, real_type(dims))}; }

// y = make(inputs), a scalar: its gradients by all inputs.
template <class Make>
void check(const Shapes& shapes, Make make) {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  std::vector<Term> x;
  std::vector<ValueId> wrt;
  std::vector<HostValue> in;
  Random random(7);
  for (const auto& s : shapes) {
    x.push_back(input(b, "x" + std::to_string(x.size()), s));
    wrt.push_back(x.back().v);
    size_t n = 1;
    for (int64_t k : s) n *= static_cast<size_t>(k);
    std::vector<double> v(n);
    for (double& e : v) e = random.uniform(-0.9, 0.9);
    in.push_back(tensor_of(kReal, s, v));
  }
  const Term y = make(b, x);
  REQUIRE_MESSAGE(y.valid(), d.text());
  const auto g = transform::gradients(b, y.v, {}, wrt, {}, d);
  REQUIRE_MESSAGE(g, d.text());
  std::vector<ValueId> outputs{y.v};
  outputs.insert(outputs.end(), g->begin(), g->end());
  m.main().set_outputs(outputs);
  CHECK_MESSAGE(verify(m, d), d.text());
  const auto value = [&](const std::vector<HostValue>& at) {
    auto r = eval::evaluate(m, at, d);
    REQUIRE_MESSAGE(r, d.text());
    return std::move(*r);
  };
  const auto made = value(in);
  for (size_t i = 0; i < in.size(); ++i) {
    const auto got = numbers(made[i + 1]);
    for (size_t k = 0; k < got.size(); ++k) {
      double difference = 0;
      for (double step : {1e-5, -1e-5}) {
        auto moved = in;
        std::vector<double> v = numbers(in[i]);
        v[k] += step;
        moved[i] = tensor_of(kReal, shapes[i], v);
        difference += numbers(value(moved)[0])[0] * (step > 0 ? 1 : -1);
      }
      const double want = difference / 2e-5;
      CHECK_MESSAGE(std::abs(got[k] - want) <= 1e-6 * (1 + std::abs(want)), "x", i, "[", k, "]: ", got[k], " and ", want);
    }
  }
}

Term total(Term x) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  return sum(x, axes, false);
}

// states s [3] and r [2], slices of x [4,5] along `axis` and of u [5,2], captured w [3,4]; stacks s and s*r.
std::vector<Term> recurrence(Builder& b, const std::vector<Term>& x, int64_t reverse) {
  Module& m = b.module();
  Graph& body = m.graph(m.make_graph("step"));
  Builder in(body);
  const Term s = input(in, "s", {3}), r = input(in, "r", {2}), xt = input(in, "xt", {4}), ut = input(in, "ut", {2}),
             w = input(in, "w", {3, 4});
  const Term next = tanh(s + reshape(matmul(w, reshape(xt, {Dim(4), Dim(1)})), {Dim(3)})), other = r * ut + total(s);
  body.set_outputs(std::array{next.v, other.v, (next * 2).v, (s * narrow(other, 0, Dim(0), Dim(1))).v});
  ScanAttrs a;
  a.states = 2, a.scan_inputs = 2;
  a.input_axes = {1, 0}, a.input_reverse = {reverse, 0}, a.output_axes = {1, 0}, a.output_reverse = {0, reverse};
  const NodeId n = b.create_node(OpKind::Scan, std::array{x[0].v, x[1].v, x[2].v, x[3].v, x[4].v}, a, std::array{body.id()});
  std::vector<Term> out;
  for (size_t i = 0; n.valid() && i < 4; ++i) out.push_back({&b, b.graph().result(n, i)});
  return out;
}
const Shapes kRecurrence{{3}, {2}, {4, 5}, {5, 2}, {3, 4}};

}  // namespace

TEST_CASE("the gradient of a scan") {
  for (int64_t reverse : {0, 1}) {
    check(kRecurrence, [&](Builder& b, const std::vector<Term>& x) {
      const auto y = recurrence(b, x, reverse);
      return total(square(y[0])) + total(square(y[1])) + total(square(y[2])) + total(square(y[3]));
    });
    check(kRecurrence, [&](Builder& b, const std::vector<Term>& x) { return total(square(recurrence(b, x, reverse)[3])); });
    check(kRecurrence, [&](Builder& b, const std::vector<Term>& x) { return total(recurrence(b, x, reverse)[0]); });
  }
}

TEST_CASE("the gradient of a loop, of a fixed number of iterations and with a condition, and of loops in loops") {
  for (bool conditional : {false, true})
    check({{2}, {2}, {3}, {2}, {4, 5}, {5, 2}, {3, 4}}, [&](Builder& b, const std::vector<Term>& x) {
      Module& m = b.module();
      Graph& body = m.graph(m.make_graph("body"));
      Builder in(body);
      const Term i{&in, in.input("i", tensor_type(DType::I64, {}))};
      const Term go{&in, in.input("go", tensor_type(DType::Bool, {}))};
      const Term v = input(in, "v", {2}), count{&in, in.input("count", tensor_type(DType::I64, {}))};
      std::vector<Term> inner;
      for (size_t k = 0; k < kRecurrence.size(); ++k) inner.push_back(input(in, "c" + std::to_string(k), kRecurrence[k]));
      const auto deep = recurrence(in, inner, 1);
      const Term scale{&in, in.cast((i + count).v, kReal)};
      const Term next = sin(v * (scale + 1)) + total(deep[3]) * v;
      const Term more = conditional ? count < 4 : go;
      body.set_outputs(std::array{more.v, next.v, (count + 2).v, (next * v).v});
      const ValueId trips = b.scalar(DType::I64, conditional ? 9 : 3);
      const std::array operands{trips, ValueId(), x[0].v, b.scalar(DType::I64, 0), x[2].v, x[3].v, x[4].v, x[5].v, x[6].v};
      const NodeId n = b.create_node(OpKind::Loop, operands, LoopAttrs{2}, std::array{body.id()});
      if (!n.valid()) return Term{&b, {}};
      const Term last{&b, b.graph().result(n, 0)}, stack{&b, b.graph().result(n, 2)};
      return total(last * x[1]) + total(square(stack));
    });
}

TEST_CASE("gradients of recurrent cells") {
  struct Kind {
    OpKind op;
    int64_t gates;
    bool option;  // linear before reset, or relu
  };
  for (const Kind& kind : {Kind{OpKind::Lstm, 4, false},
                           {OpKind::Gru, 3, false},
                           {OpKind::Gru, 3, true},
                           {OpKind::Rnn, 1, false},
                           {OpKind::Rnn, 1, true}})
    for (RnnDirection direction : {RnnDirection::Forward, RnnDirection::Reverse, RnnDirection::Bidirectional})
      for (bool batch_first : {false, true}) {
        INFO(std::string(name(kind.op)), " ", static_cast<int>(direction), " ", batch_first);
        const int64_t ways = direction == RnnDirection::Bidirectional ? 2 : 1, hidden = 2, wide = kind.gates * hidden;
        const std::vector<int64_t> state =
            batch_first ? std::vector<int64_t>{2, ways, hidden} : std::vector<int64_t>{ways, 2, hidden};
        RnnAttrs a;
        a.hidden = hidden, a.direction = direction, a.batch_first = batch_first;
        a.linear_before_reset = kind.op == OpKind::Gru && kind.option;
        if (kind.op == OpKind::Rnn && kind.option) a.activations.assign(static_cast<size_t>(ways), "Relu");
        const std::vector<int64_t> x = batch_first ? std::vector<int64_t>{2, 3, 3} : std::vector<int64_t>{3, 2, 3};
        const auto run = [&](Builder& b, std::vector<ValueId> in) {
          const NodeId n = b.create_node(kind.op, in, a);
          if (!n.valid()) return Term{&b, {}};
          Term y = total(square(Term{&b, b.graph().result(n, 0)})) + total(sin(Term{&b, b.graph().result(n, 1)}));
          return kind.op == OpKind::Lstm ? y + total(sin(Term{&b, b.graph().result(n, 2)})) : y;
        };
        check({x, {ways, wide, 3}, {ways, wide, hidden}, {ways, 2 * wide}, state}, [&](Builder& b, const std::vector<Term>& v) {
          std::vector<ValueId> in{v[0].v, v[1].v, v[2].v, v[3].v, ValueId(), v[4].v};
          if (kind.op == OpKind::Lstm) in.push_back(v[4].v);  // the state and the memory start as one value
          return run(b, in);
        });
        check({x, {ways, wide, 3}, {ways, wide, hidden}}, [&](Builder& b, const std::vector<Term>& v) {
          return run(b, {v[0].v, v[1].v, v[2].v});
        });
      }
}

TEST_CASE("what has no rule in a body is named") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  Graph& body = m.graph(m.make_graph("step"));
  Builder in(body);
  const Term s = input(in, "s", {2, 2}), x = input(in, "x", {2, 2});
  in.set_node_name(m.symbol("deep"));
  const ValueId lrn = in.create(OpKind::Lrn, {x.v});
  body.set_outputs(std::array{(s * Term{&in, lrn}).v});
  const ValueId start = b.input("start", real_type({2, 2})), all = b.input("all", real_type({3, 2, 2}));
  ScanAttrs a;
  a.states = a.scan_inputs = 1, a.input_axes = a.input_reverse = {0};
  const NodeId scan = b.create_node(OpKind::Scan, std::array{start, all}, a, std::array{body.id()});
  REQUIRE_MESSAGE(scan.valid(), d.text());
  const ValueId y = m.main().result(scan);
  CHECK_FALSE(transform::gradients(b, y, {}, std::array{all}, {}, d));
  CHECK_MESSAGE(d.text().find("\"deep\" (lrn) is not known") != std::string::npos, d.text());
}

namespace {

// A row is appended in each of three iterations, and all rows are scaled.
NodeId growing_loop(Builder& b, ValueId x) {
  Module& m = b.module();
  const Dim rows = m.dims.symbol("rows");
  Graph& body = m.graph(m.make_graph("grow"));
  Builder in(body);
  in.input("i", tensor_type(DType::I64, {}));
  const ValueId go = in.input("go", tensor_type(DType::Bool, {}));
  const Term v{&in, in.input("v", tensor_type(kReal, {rows, Dim(2)}))};
  const Term all = transform::concat({sin(v), narrow(v, 0, Dim(0), Dim(1)) * 2}, 0);
  body.set_outputs(std::array{go, all.v});
  b.set_node_name(m.symbol("growing"));
  return b.create_node(OpKind::Loop, std::array{b.scalar(DType::I64, 3), ValueId(), x}, LoopAttrs{1}, std::array{body.id()});
}

}  // namespace

TEST_CASE("derivatives of a loop whose carried value grows are refused by name") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", real_type({1, 2})), dx = b.input("dx", real_type({1, 2}));
  const NodeId loop = growing_loop(b, x);
  REQUIRE_MESSAGE(loop.valid(), d.text());
  const ValueId y = m.main().result(loop);
  CHECK_FALSE(transform::tangents(b, std::array{y}, std::array{x}, std::array{dx}, {}, d));
  CHECK_FALSE(transform::gradients(b, y, {}, std::array{x}, {}, d));
  for (const char* what : {"tangent", "gradient"}) {
    const std::string message =
        std::string("the ") + what + " of \"growing\" (loop) is not known: its carried value 0 changes its size";
    CHECK_MESSAGE(d.text().find(message) != std::string::npos, d.text());
  }
}

TEST_CASE("an invalid value is an error of the compiler, and no access") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", real_type({2}));
  CHECK_FALSE(transform::gradients(b, ValueId(), {}, std::array{x}, {}, d));
  CHECK_FALSE(transform::gradients(b, x, {}, std::array{ValueId(1000)}, {}, d));
  CHECK_FALSE(transform::tangents(b, std::array{x}, std::array{x}, std::array{ValueId()}, {}, d));
  CHECK(d.errors() == 3);
}
