#include "passes/interface/maps_as_rows.h"

#include <array>

#include "ir/verify.h"
#include "support/eval.h"
#include "support/pass_run.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// Compares the maps that the graph of `make` returns with the rows after the pass.
template <class Make>
void same_by_rows(const HostValue& x, Make make) {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId out = make(b, b.input("x", eval::type_of(x)));
  REQUIRE_MESSAGE(d.ok(), d.text());
  m.main().add_output(out, m.symbol("maps"));
  const auto expected = eval::evaluate(m, std::array{x}, d);
  REQUIRE_MESSAGE(expected, d.text());
  const auto keys = map_columns(m);
  REQUIRE((keys.size() == 1 && keys[0]));
  testing::PassRun run;
  CHECK(run(m, "maps_as_rows").changed);
  CHECK(run.diagnostics.text().find("a column for each key") != std::string::npos);
  CHECK_MESSAGE(verify(m, d), d.text());
  CHECK(m.text(m.main().output_name(0)) == "maps");
  CHECK_FALSE(run(m, "maps_as_rows").changed);
  const auto rows = eval::evaluate(m, std::array{x}, d);
  REQUIRE_MESSAGE(rows, d.text());
  CHECK((*rows)[0].tensor.dims.size() == 2);
  const auto r = eval::compare(eval::maps_of_rows((*rows)[0].tensor, *keys[0]), (*expected)[0], 0, 0);
  CHECK_MESSAGE(r.pass, r.message);
}

}  // namespace

TEST_CASE("an output of maps becomes rows, with the columns in the order of the keys") {
  const HostValue x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto zipped = [](MapKeysAttrs a) { return [a](Builder& b, ValueId v) { return b.create(OpKind::MapOfRow, {v}, a); }; };
  same_by_rows(x, zipped({{0, 1, 2}, {}, false}));
  same_by_rows(x, zipped({{7, -1, 3}, {}, false}));
  same_by_rows(x, zipped({{}, {"dog", "cat", "bird"}, false}));
  same_by_rows(f32({3}, {1, 2, 3}), zipped({{}, {"dog", "cat", "bird"}, false}));
}

TEST_CASE("maps that are read again stay") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId maps =
      b.create(OpKind::MapOfRow, {b.input("x", tensor_type(DType::F32, {Dim(2), Dim(1)}))}, MapKeysAttrs{{5}, {}, false});
  const ValueId count = b.unary(OpKind::SequenceLength, maps);
  m.main().set_outputs(std::array{maps, count, maps});
  const auto keys = map_columns(m);
  testing::PassRun run;
  run(m, "maps_as_rows");
  CHECK((keys[0] && !keys[1] && keys[2]));
  CHECK_MESSAGE(verify(m, d), d.text());
  CHECK(m.main().live_nodes() == 3);
}
