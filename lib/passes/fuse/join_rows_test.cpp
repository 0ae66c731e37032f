#include "passes/fuse/join_rows.h"

#include <doctest/doctest.h>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Form {
  int mask = 15;           // of the second part
  bool by_column = false;  // factors by column
  int64_t second = 3;      // rows of the second part
};

// Rows of bytes as numbers: the low bits of each but the first byte, less the first byte.
ValueId decoded(Builder& b, std::string_view name, int64_t rows, ValueId mask, ValueId factors) {
  const ValueId x = b.cast(f32_param(b, name, {rows * 2, 3}), DType::U8), all = b.reshape(x, {rows, 6});
  const ValueId low = b.create(OpKind::BitAnd, {b.narrow(all, 1, Dim(1), Dim(5)), mask});
  const ValueId y = b.sub(b.cast(low, DType::F32), b.cast(b.narrow(all, 1, Dim(0), Dim(1)), DType::F32));
  return factors.valid() ? b.mul(y, factors) : y;
}

// The concat of two parts, joined or not.
std::unique_ptr<Module> graph_of(Form f, bool joined) {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId factors = f.by_column ? f32_param(b, "factors", {5}) : ValueId(), mask = b.scalar(DType::U8, 15);
  const std::vector<ValueId> parts{decoded(b, "u", 2, mask, factors),
                                   decoded(b, "v", f.second, f.mask == 15 ? mask : b.scalar(DType::U8, f.mask), factors)};
  m->main().add_output(joined ? fuse::JoinRows(b)(parts) : b.concat(parts, 0), {});
  return m;
}

int64_t nodes_below_concat(Form f) {
  const auto before = graph_of(f, false), after = graph_of(f, true);
  std::string why;
  CHECK_MESSAGE(eval::same_results(*before, *after, 1, 0, 0, &why), why);
  int64_t count = 0;
  const Graph& g = after->main();
  for (ValueId v = g.operand(g.terminator(), 0); g.op(g.def(v)) != OpKind::Concat; v = g.operand(g.def(v), 0)) ++count;
  return count;
}

}  // namespace

TEST_CASE("join_rows: values that are computed alike are computed from a concat of their parameters") {
  CHECK(nodes_below_concat({}) == 6);  // sub, cast, bit_and, narrow, reshape, cast
  CHECK(nodes_below_concat({.second = 2}) == 6);
  CHECK(nodes_below_concat({.by_column = true}) == 7);
}

TEST_CASE("join_rows: where computations differ, their results are concatenated") {
  CHECK(nodes_below_concat({.mask = 7}) == 2);  // under sub and cast
}
