#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_integer_attention";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

struct Case {
  std::vector<Dim> batch = {2, 3};
  Dim queries = 5;
  DType codes = DType::U8;
  int64_t zeros = 1;
  bool scaled = true, scores_read = false, again = false, keep = false, mask = false, mask_after = false;
  int heads = 1;
  int64_t groups = 1;  // queries' heads of each head of keys and values

  std::vector<Dim> dims(Dim rows, Dim columns) const {
    std::vector<Dim> d = batch;
    d.insert(d.end(), {rows, columns});
    return d;
  }
  ValueId input(Builder& b, const std::string& name, std::vector<Dim> d) const {
    return b.input(name, tensor_type(codes, std::move(d)));
  }

  // Keys or values [2,6,7,width] of fewer heads, each repeated as exporters do: a new axis is expanded and folded.
  ValueId repeated(Builder& b, const std::string& name, Dim width) const {
    const ValueId few = b.transpose(input(b, name, {2, 7, Dim(6 / groups), width}), {0, 2, 1, 3});
    const ValueId wide = b.expand(b.reshape(few, {2, Dim(6 / groups), 1, 7, width}), {2, Dim(6 / groups), Dim(groups), 7, width});
    return b.reshape(wide, {2, 6, 7, width});
  }

  // A mask of two steps: where(x and y, 0, -5).
  static ValueId masked(Builder& b) {
    FusionAttrs a;
    a.steps = {{OpKind::And, DType::Bool, {0, 1, kNone}}, {OpKind::Where, DType::F32, {kStep, 2, 3}}};
    return b.create(
        OpKind::ElementwiseRegion,
        {b.input("m0", tensor_type(DType::Bool, {5, 1})), b.input("m1", tensor_type(DType::Bool, {7})), num(b, 0), num(b, -5)},
        a);
  }

  // softmax(q k s + m), rounded, times v.
  void attention(Builder& b, int number, ValueId add, std::vector<ValueId>* results) const {
    const std::string n = std::to_string(number);
    const ValueId q = input(b, "q" + n, dims(queries, 8));
    const ValueId k = groups > 1 ? b.reshape(b.transpose(b.reshape(repeated(b, "k" + n, 8), {12, 7, 8}), {0, 2, 1}), dims(8, 7))
                                 : input(b, "k" + n, dims(8, 7));
    const ValueId v = groups > 1 ? repeated(b, "v" + n, 4) : input(b, "v" + n, dims(7, 4));
    const ValueId zero = b.input("z" + n, tensor_type(codes, zeros == 1 ? std::vector<Dim>{} : std::vector<Dim>{Dim(zeros)}));
    const std::vector<RegionStep> scale = {{OpKind::QMatMul, DType::I32, {kNone, kNone, kNone}},
                                           {OpKind::Cast, DType::F32, {kStep, kNone, kNone}},
                                           {OpKind::Mul, DType::F32, {kStep | 1, 4, kNone}},
                                           {OpKind::Add, DType::F32, {kStep | 2, 5, kNone}}};
    const ValueId s = b.create(OpKind::FusedQMatMul, {q, k, zero, ValueId(), num(b, 0.0001), add}, FusionAttrs{scale});
    FusionAttrs norm;
    if (keep) norm.also = {0};
    norm.steps = {{OpKind::Softmax, DType::F32, {0, kNone, kNone}, AxisAttrs{3}},
                  {OpKind::Div, DType::F32, {kStep, 1, kNone}},
                  {OpKind::Add, DType::F32, {kStep | 1, static_cast<uint16_t>(again ? 0 : 1), kNone}},
                  {OpKind::Round, DType::F32, {kStep | 2, kNone, kNone}},
                  {OpKind::Clamp, DType::F32, {kStep | 3, kNone, kNone}, ClampAttrs{0, 255}},
                  {OpKind::Cast, DType::U8, {kStep | 4, kNone, kNone}}};
    const ValueId p = b.create(OpKind::NormRegion, {s, num(b, 0.0039)}, norm);
    const std::vector<RegionStep> last(scale.begin(), scale.begin() + 3);
    results->push_back(scaled ? b.create(OpKind::FusedQMatMul, {p, v, ValueId(), ValueId(), num(b, 0.01)}, FusionAttrs{last})
                              : b.create(OpKind::QMatMul, {p, v, ValueId(), zero}));
    if (scores_read) results->push_back(s);
  }

  std::vector<ValueId> operator()(Builder& b) const {
    std::vector<ValueId> results;
    const ValueId add = mask ? masked(b) : f32_input(b, "m", {7});
    for (int i = 0; i < heads; ++i) attention(b, i, add, &results);
    if (mask_after) results.push_back(add);
    return results;
  }
};

}  // namespace

TEST_CASE("fuse_integer_attention: matmul, softmax and matmul, with and without steps after the last") {
  for (bool scaled : {false, true})
    for (DType codes : {DType::U8, DType::I8}) {
      Rewrite r(kPass, Case{.codes = codes, .scaled = scaled});
      CHECK(r.left() == "q_attention");
      const Graph& g = r.after->main();
      const NodeId n = r.find(OpKind::QAttention);
      REQUIRE(n.valid());
      CHECK(g.attrs<FusionAttrs>(n).steps.size() == (scaled ? 13 : 11));
      CHECK(g.operands(n).size() == (scaled ? 11 : 10));
      CHECK(r.run.decisions.at(0).fused);
      CHECK(r.run.decisions.at(0).launches_saved == 2);
    }
}

TEST_CASE("fuse_integer_attention: a mask that only attentions read is computed in each of them") {
  Rewrite r(kPass, Case{.mask = true, .heads = 2});
  CHECK(r.left() == "q_attention q_attention");
  Rewrite read(kPass, Case{.mask = true, .mask_after = true, .heads = 2});
  CHECK(read.left() == "elementwise_region q_attention q_attention");
}

TEST_CASE("fuse_integer_attention: a mask that is one node, and what a mask is computed from") {
  Rewrite r(kPass, [](Builder& b) -> std::vector<ValueId> {
    std::vector<ValueId> results;
    const ValueId rows = b.input("rows", tensor_type(DType::I64, {5, 1})),
                  columns = b.input("columns", tensor_type(DType::I64, {7}));
    const ValueId causal = b.create(OpKind::Le, {columns, rows});
    const ValueId mask = b.create(OpKind::Where, {causal, num(b, 0), num(b, -5)});
    for (int i = 0; i < 2; ++i) Case().attention(b, i, mask, &results);
    return results;
  });
  CHECK(r.left() == "q_attention q_attention");
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

TEST_CASE("fuse_integer_attention: values that are read elsewhere stay") {
  Rewrite scores(kPass, Case{.scores_read = true});
  CHECK(scores.left() == "fused_q_matmul norm_region fused_q_matmul");
  CHECK(scores.first_decline() == "multi_consumer");
  CHECK(Rewrite(kPass, Case{.keep = true}).left() == "fused_q_matmul norm_region fused_q_matmul");
  CHECK(Rewrite(kPass, Case{.again = true}).left() == "fused_q_matmul norm_region fused_q_matmul");
}

TEST_CASE("fuse_integer_attention: zero points of rows and empty values stay") {
  Rewrite rows(kPass, Case{.zeros = 5});
  CHECK(rows.left() == "fused_q_matmul norm_region fused_q_matmul");
  CHECK(rows.first_decline() == "shape");
  CHECK(Rewrite(kPass, Case{.queries = 0}).first_decline() == "shape");
}

TEST_CASE("fuse_integer_attention: a symbolic number of queries") {
  Rewrite symbolic(kPass, [](Builder& b) { return Case{.queries = b.module().dims.symbol("rows")}(b); });
  CHECK(symbolic.left() == "q_attention");
}

TEST_CASE("fuse_integer_attention: keys and values that several heads read are not repeated") {
  for (bool again : {false, true}) {
    Rewrite r(kPass, Case{.batch = {2, 6}, .codes = DType::I8, .groups = again ? 6 : 3});
    CHECK(r.left().find("expand") == std::string::npos);
    const NodeId n = r.find(OpKind::QAttention);
    REQUIRE(n.valid());
    const Graph& g = r.after->main();
    CHECK(g.rank(g.operand(n, 1)) == 5);
    CHECK(g.dims(g.operand(n, 1))[1] == Dim(again ? 1 : 2));
    CHECK(g.dims(g.operand(n, 2))[2] == Dim(1));
    for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
  }
}

TEST_CASE("fuse_integer_attention: not beyond the steps or operands of the target") {
  for (bool steps : {false, true}) {
    Rewrite r(kPass, Case{}, [&](PassRun& run) { (steps ? run.target.region_max_steps : run.target.region_max_inputs) = 3; });
    CHECK(r.left() == "fused_q_matmul norm_region fused_q_matmul");
    CHECK(r.first_decline() == (steps ? "step_limit" : "operand_limit"));
  }
}
