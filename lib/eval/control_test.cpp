#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;
using enum OpKind;

TEST_CASE("if: one body runs, with captures") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const Type t = tensor_type(DType::F32, {Dim(2)});
  const ValueId c = b.input("c", tensor_type(DType::Bool, {})), x = b.input("x", t);
  GraphId bodies[2];
  for (int k = 0; k < 2; ++k) {
    bodies[k] = m.make_graph(k == 0 ? "then" : "else");
    Builder body(m.graph(bodies[k]), &d);
    const ValueId in = body.input("in", t);
    m.graph(bodies[k]).add_output(k == 0 ? body.add(in, in) : body.unary(Neg, in), m.symbol("out"));
  }
  const ValueId operands[] = {c, x};
  const NodeId n = b.create_node(If, operands, IfAttrs{}, bodies);
  REQUIRE_MESSAGE(n.valid(), d.text());
  m.main().add_output(m.main().result(n), m.symbol("y"));
  for (int k = 0; k < 2; ++k) {
    const auto r =
        eval::evaluate(m, std::vector<HostValue>{tensor_of(DType::Bool, {}, {k == 0 ? 1.0 : 0.0}), f32({2}, {1, 2})}, d);
    REQUIRE_MESSAGE(r, d.text());
    check_values((*r)[0], k == 0 ? std::vector<double>{2, 4} : std::vector<double>{-1, -2});
  }
}

TEST_CASE("loop: carries, captures, scans, a condition; real trip counts decide sizes") {
  // s += x; scan s; until i reaches `limit` (captured) or the trip count.
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const Type scalar = tensor_type(DType::F32, {}), index = tensor_type(DType::I64, {}), flag = tensor_type(DType::Bool, {});
  const ValueId trips = b.input("trips", index), s0 = b.input("s0", scalar), x = b.input("x", scalar),
                limit = b.input("limit", index);
  const GraphId id = m.make_graph("body");
  Graph& g = m.graph(id);
  Builder body(g, &d);
  const ValueId i = body.input("i", index);
  body.input("going", flag);
  const ValueId s = body.input("s", scalar), step = body.input("x", scalar), end = body.input("limit", index);
  const ValueId next = body.add(s, step);
  g.add_output(body.create(Lt, {i, end}), m.symbol("more"));
  g.add_output(next, m.symbol("next"));
  g.add_output(next, m.symbol("scan"));
  const ValueId operands[] = {trips, ValueId(), s0, x, limit};
  const GraphId bodies[] = {id};
  const NodeId n = b.create_node(Loop, operands, LoopAttrs{1}, bodies);
  REQUIRE_MESSAGE(n.valid(), d.text());
  m.main().add_output(m.main().result(n, 0), m.symbol("last"));
  m.main().add_output(b.reduce(ReduceOp::Sum, m.main().result(n, 1), {0}, false), m.symbol("sum"));
  m.main().add_output(m.main().result(n, 1), m.symbol("all"));
  auto run = [&](double count, double end_at) {
    const auto r =
        eval::evaluate(m, std::vector<HostValue>{i64({}, {count}), f32({}, {10}), f32({}, {0.5}), i64({}, {end_at})}, d);
    REQUIRE_MESSAGE(r, d.text());
    return *r;
  };
  auto r = run(3, 100);
  check_values(r[0], {11.5});
  check_values(r[1], {33});
  check_values(r[2], {10.5, 11, 11.5});
  r = run(100, 1);
  check_values(r[2], {10.5, 11});
  r = run(0, 1);
  check_values(r[0], {10});
  CHECK(r[2].tensor.dims == std::vector<int64_t>{0});
  eval::Options small;
  small.max_steps = 1000;
  Diagnostics limited;
  CHECK(
      !eval::evaluate(m, std::vector<HostValue>{i64({}, {1e9}), f32({}, {10}), f32({}, {0.5}), i64({}, {1e9})}, limited, small));
  CHECK(limited.exit() == ExitCode::Limit);
}

TEST_CASE("scan: axes and directions") {
  // s += slice; out = s, over axis 1 backwards, written to axis 1 forwards and backwards.
  for (const int64_t out_reverse : {0, 1}) {
    Module m;
    Diagnostics d;
    Builder b(m.main(), &d);
    const Type row = tensor_type(DType::F32, {Dim(2)});
    const ValueId s0 = b.input("s0", row), x = b.input("x", tensor_type(DType::F32, {Dim(2), Dim(3)}));
    const GraphId id = m.make_graph("body");
    Graph& g = m.graph(id);
    Builder body(g, &d);
    const ValueId s = body.input("s", row), slice = body.input("slice", row);
    const ValueId next = body.add(s, slice);
    g.add_output(next, m.symbol("next"));
    g.add_output(next, m.symbol("scan"));
    const ValueId operands[] = {s0, x};
    const GraphId bodies[] = {id};
    const NodeId n = b.create_node(Scan, operands, ScanAttrs{1, 1, {1}, {1}, {1}, {out_reverse}}, bodies);
    REQUIRE_MESSAGE(n.valid(), d.text());
    m.main().add_output(m.main().result(n, 0), m.symbol("last"));
    m.main().add_output(m.main().result(n, 1), m.symbol("all"));
    const auto r = eval::evaluate(m, std::vector<HostValue>{f32({2}, {0, 100}), f32({2, 3}, {1, 2, 3, 4, 5, 6})}, d);
    REQUIRE_MESSAGE(r, d.text());
    check_values((*r)[0], {6, 115});
    check_values((*r)[1],
                 out_reverse ? std::vector<double>{6, 5, 3, 115, 111, 106} : std::vector<double>{3, 5, 6, 106, 111, 115});
  }
}

TEST_CASE("sequences: build, read, concatenate") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", tensor_type(DType::F32, {Dim(2)})), y = b.input("y", tensor_type(DType::F32, {Dim(2)}));
  Type seq{TypeKind::Sequence, DType::F32, true, {Dim(2)}};
  const ValueId given = b.input("s", seq);
  const ValueId empty = b.create(SequenceEmpty, {}, CastAttrs{DType::F32, true});
  const ValueId s = b.create(SequenceInsert, {b.create(SequenceInsert, {empty, x}), y, b.scalar(DType::I64, 0)});
  m.main().add_output(s, m.symbol("s"));
  m.main().add_output(b.create(SequenceAt, {given, b.scalar(DType::I64, -1)}), m.symbol("at"));
  m.main().add_output(b.create(ConcatFromSequence, {given}, SequenceConcatAttrs{0, false}), m.symbol("joined"));
  m.main().add_output(b.create(ConcatFromSequence, {given}, SequenceConcatAttrs{1, true}), m.symbol("stacked"));
  const auto in = eval::sequence_of({f32({2}, {5, 6}), f32({2}, {7, 8})});
  const auto r = eval::evaluate(m, std::vector<HostValue>{f32({2}, {1, 2}), f32({2}, {3, 4}), in}, d);
  REQUIRE_MESSAGE(r, d.text());
  REQUIRE((*r)[0].items.size() == 2);
  check_values((*r)[0].items[0], {3, 4});
  check_values((*r)[1], {7, 8});
  check_values((*r)[2], {5, 6, 7, 8});
  check_values((*r)[3], {5, 7, 6, 8});
}
