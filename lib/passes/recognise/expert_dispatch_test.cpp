#include "passes/recognise/expert_dispatch.h"

#include <array>
#include <limits>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// Forms of masks, reads of shares and scatters of rows.
enum class Form { FlatIndex, Pairs, Compared, OntoZeros, AnyChoice, ColumnOfAll };

struct Case {
  Form form = Form::FlatIndex;
  bool to_choice = false, other_share = false, missing = false, onto_input = false;
  Dim tokens = 6;
  int64_t hidden = 8, inner = 12, experts = 4, k = 2;

  std::vector<ValueId> operator()(Builder& b) const {
    const ValueId x = f32_input(b, "x", {tokens, hidden});
    const ValueId logits = b.matmul(x, f32_param(b, "router", {hidden, experts}));
    const NodeId best = b.create_node(OpKind::TopK, std::array{b.create(OpKind::Softmax, {logits}, AxisAttrs{1})},
                                      TopKAttrs{Dim(k), 1, true, true});
    const ValueId who = b.graph().result(best, 1);
    ValueId share = b.graph().result(best, 0);
    if (form == Form::ColumnOfAll)
      share = b.create(OpKind::ScatterElements, {b.expand(num(b, 0), {tokens, Dim(experts)}), who, share},
                       ScatterAttrs{1, Reduction::None});
    else if (form != Form::Pairs && form != Form::AnyChoice) share = b.reshape(share, {b.dims().mul(tokens, Dim(k)), Dim(1)});
    ValueId sum = onto_input ? x : b.expand(num(b, 0), {tokens, Dim(hidden)});
    for (int64_t e = 0; e < experts - missing; ++e) sum = expert(b, x, share, who, sum, e);
    return {sum};
  }

  // [choice, token] of the rows, as two vectors.
  std::array<ValueId, 2> rows_of(Builder& b, ValueId who, int64_t e) const {
    const ValueId number = b.scalar(DType::I64, static_cast<double>(e));
    if (form == Form::Compared) {
      const ValueId found = b.create(OpKind::NonZero, {b.create(OpKind::Eq, {who, number})});
      return {vector(b, b.narrow(found, 0, Dim(1), Dim(1))), vector(b, b.narrow(found, 0, Dim(0), Dim(1)))};
    }
    const ValueId hot =
        form == Form::FlatIndex
            ? b.create(OpKind::OneHot, {who, b.ints({0, 1})}, OneHotAttrs{2, Dim(experts)})
            : b.cast(b.create(OpKind::Eq, {b.reshape(who, {tokens, Dim(k), Dim(1)}), b.ints({0, 1, 2, 3})}), DType::I64);
    const ValueId mask = b.create(OpKind::Gather, {b.transpose(hot, {2, 1, 0}), number}, AxisAttrs{0});
    const ValueId chosen = form == Form::FlatIndex ? b.cast(mask, DType::Bool)
                                                   : b.unary(OpKind::Not, b.create(OpKind::Eq, {mask, b.scalar(DType::I64, 0)}));
    const ValueId found = b.transpose(b.create(OpKind::NonZero, {chosen}), {1, 0});
    return {vector(b, b.narrow(found, 1, Dim(0), Dim(1))), vector(b, b.narrow(found, 1, Dim(1), Dim(1)))};
  }
  static ValueId vector(Builder& b, ValueId v) { return b.reshape(v, {b.dims().product(b.graph().dims(v))}); }
  static ValueId column(Builder& b, ValueId v) { return b.reshape(v, {b.graph().dims(v)[0], Dim(1)}); }

  // The tokens with the expert among their choices, each with its share.
  ValueId by_token(Builder& b, ValueId x, ValueId share, ValueId who, ValueId sum, int64_t e) const {
    const ValueId chosen = b.create(OpKind::Eq, {who, b.scalar(DType::I64, static_cast<double>(e))});
    const ValueId any = b.reduce(ReduceOp::Max, b.cast(chosen, DType::I32), {1}, false);
    const ValueId token = vector(b, b.create(OpKind::NonZero, {b.cast(any, DType::Bool)}));
    const Dim n = b.graph().dims(token)[0];
    const ValueId own =
        form == Form::AnyChoice
            ? b.reduce(ReduceOp::Sum, b.mul(share, b.cast(chosen, DType::F32)), {1}, false)
            : b.create(OpKind::Gather, {share, b.scalar(DType::I64, other_share ? 0 : static_cast<double>(e))}, AxisAttrs{1});
    const std::string name(static_cast<size_t>(e + 1), 'e');
    const ValueId rows = b.create(OpKind::Gather, {x, token}, AxisAttrs{0});
    const ValueId h = b.unary(OpKind::Silu, b.matmul(rows, f32_param(b, "up" + name, {hidden, inner})));
    const ValueId factor = column(b, b.create(OpKind::Gather, {own, token}, AxisAttrs{0}));
    const ValueId part = b.mul(b.matmul(h, f32_param(b, "down" + name, {inner, hidden})), factor);
    return b.create(OpKind::ScatterElements, {sum, b.expand(column(b, token), {n, Dim(hidden)}), part},
                    ScatterAttrs{0, Reduction::Add});
  }

  ValueId expert(Builder& b, ValueId x, ValueId share, ValueId who, ValueId sum, int64_t e) const {
    if (form == Form::AnyChoice || form == Form::ColumnOfAll) return by_token(b, x, share, who, sum, e);
    const auto [choice, token] = rows_of(b, who, e);
    const Dim n = b.graph().dims(token)[0];
    const std::string name(static_cast<size_t>(e + 1), 'e');
    const ValueId rows = b.create(OpKind::Gather, {x, token}, AxisAttrs{0});
    const ValueId h = b.unary(OpKind::Silu, b.matmul(rows, f32_param(b, "up" + name, {hidden, inner})));
    const ValueId y = b.add(b.matmul(h, f32_param(b, "down" + name, {inner, hidden})), f32_param(b, "bias" + name, {hidden}));
    const ValueId of = other_share ? choice : token;
    ValueId factor;
    if (form == Form::Pairs) {
      const ValueId pairs = b.concat(std::array{column(b, of), column(b, choice)}, 1);
      factor = column(b, b.create(OpKind::GatherNd, {share, pairs}, BatchDimsAttrs{}));
    } else {
      const ValueId index = b.add(choice, b.mul(of, b.scalar(DType::I64, static_cast<double>(k))));
      factor = b.create(OpKind::Gather, {share, index}, AxisAttrs{0});
    }
    const ValueId part = b.mul(y, factor), to = column(b, to_choice ? choice : token);
    if (form == Form::Pairs) return b.create(OpKind::ScatterNd, {sum, to, part}, ScatterAttrs{0, Reduction::Add});
    const ValueId all = b.expand(to, {n, Dim(hidden)});
    if (form != Form::OntoZeros) return b.create(OpKind::ScatterElements, {sum, all, part}, ScatterAttrs{0, Reduction::Add});
    const ValueId zeros = b.expand(num(b, 0), {tokens, Dim(hidden)});
    const ValueId own = b.create(OpKind::ScatterElements, {zeros, all, part}, ScatterAttrs{0, Reduction::None});
    return e == 0 && !onto_input ? own : b.add(sum, own);
  }
};

int64_t grouped(const Rewrite& r) {
  int64_t n = 0;
  for (NodeId node : r.after->main().nodes()) n += r.after->main().op(node) == OpKind::GroupedMatMul;
  return n;
}

}  // namespace

TEST_CASE("experts that are sent their tokens become rows that choose theirs, and nothing is looked for in the data") {
  for (const Form form : {Form::FlatIndex, Form::Pairs, Form::Compared, Form::OntoZeros, Form::AnyChoice, Form::ColumnOfAll})
    for (const bool onto_input : {false, true}) {
      const Rewrite r("recognise_moe", Case{.form = form, .onto_input = onto_input});
      CHECK_MESSAGE(grouped(r) == 2, r.first_decline());
      CHECK(r.left().find("non_zero") == std::string::npos);
      CHECK(r.left().find("scatter") == std::string::npos);
      REQUIRE(r.run.decisions.size() == 1);
      CHECK(r.run.decisions[0].detail == "4 experts");
    }
}

TEST_CASE("experts that are sent tokens of a symbolic number of tokens") {
  for (const Form form : {Form::FlatIndex, Form::Pairs, Form::Compared, Form::OntoZeros, Form::AnyChoice, Form::ColumnOfAll}) {
    Module m;
    Diagnostics d;
    Builder b(m.main(), &d);
    Case c{.form = form};
    c.tokens = m.dims.symbol("tokens");
    m.main().add_output(c(b)[0], m.symbol("y"));
    REQUIRE_MESSAGE(verify(m, d), d.text());
    PassRun run;
    CHECK(run(m, "recognise_moe").changed);
    CHECK(ops(m.main()).find("non_zero") == std::string::npos);
  }
}

TEST_CASE("rows that go to other tokens, shares of others and experts that are missing stay as they are") {
  for (const Case& c : {Case{.to_choice = true}, Case{.missing = true}}) {
    const Rewrite r("recognise_moe", c);
    CHECK(grouped(r) == 0);
    CHECK(r.first_decline() == "unlike");
  }
  for (const Form form : {Form::FlatIndex, Form::Pairs, Form::ColumnOfAll}) {
    const Rewrite r("recognise_moe", Case{.form = form, .other_share = true});
    CHECK(grouped(r) == 0);
    CHECK(r.first_decline() == "unlike");
  }
}

TEST_CASE("few large experts that are sent many tokens stay apart, unless the target cannot send them") {
  const Case c{.tokens = 512, .hidden = 64, .inner = 256, .k = 3};
  const Rewrite r("recognise_moe", c);
  CHECK(grouped(r) == 0);
  CHECK(r.first_decline() == "cost");
  const auto never = [](PassRun& run) { run.target.machine.wait_ns = std::numeric_limits<double>::infinity(); };
  CHECK(grouped(Rewrite("recognise_moe", c, never)) == 2);
}

TEST_CASE("an index that is concatenated with itself over and over is given up at once") {
  Module m;
  Builder b(m.main());
  const ValueId x = f32_input(b, "x", {6, 4});
  const NodeId best = b.create_node(OpKind::TopK, std::array{x}, TopKAttrs{Dim(2), 1, true, true});
  const ValueId mask = b.create(OpKind::Eq, {b.graph().result(best, 1), b.scalar(DType::I64, 0)});
  ValueId index = b.narrow(b.transpose(b.create(OpKind::NonZero, {mask}), {1, 0}), 1, Dim(0), Dim(1));
  const ValueId rows = b.create(OpKind::Gather, {x, Case::vector(b, index)}, AxisAttrs{0});
  for (int level = 0; level < 8; ++level) index = b.concat(std::vector<ValueId>(16, index), 1);
  const ValueId to = b.narrow(index, 1, Dim(0), Dim(1));
  m.main().add_output(b.create(OpKind::ScatterNd, {x, to, rows}, ScatterAttrs{0, Reduction::Add}), m.symbol("y"));
  REQUIRE(m.main().outputs()[0].valid());
  PassRun run;
  CHECK_FALSE(run(m, "recognise_moe").changed);
  REQUIRE(run.decisions.size() == 1);
  CHECK(run.decisions[0].reason == "unlike");
}
