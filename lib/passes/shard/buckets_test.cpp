#include "passes/shard/buckets.h"

#include "ir/text.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// The number of all_reduces that are left if the batch is split over two devices. `lines` define %8 and %9.
int sums_of(const std::string& lines) {
  const std::string text =
      "module \"sums\" mir {\ngraph @main {\n%0 = input \"x\" : f32[4,8]\n" + lines + "return %8 \"a\", %9 \"b\"\n}\n}\n";
  Diagnostics d;
  const auto before = parse_text(text, d), after = parse_text(text, d);
  REQUIRE_MESSAGE(d.ok(), d.text());
  PassRun run;
  run.options.mesh = "data=2";
  run.options.parallel = {"data"};
  run(*after, "partition");
  run(*after, "dead_code_elimination");
  CHECK(run.diagnostics.text() == "");
  same_results(*before, *after);
  int count = 0;
  for (NodeId n : after->main().nodes()) count += after->main().op(n) == OpKind::AllReduce;
  return count;
}

constexpr const char* kSum = "%8 = reduce(%0) {op = \"sum\", axes = [0]} : f32[8]\n";

}  // namespace

TEST_CASE("sums that do not need each other are one exchange") {
  CHECK(sums_of(std::string(kSum) + "%1 = gelu(%0) : f32[4,8]\n%9 = reduce(%1) {op = \"sum\", axes = [0, 1]} : f32[]\n") == 1);
}

TEST_CASE("a sum that needs another is an exchange of its own") {
  CHECK(sums_of(std::string(kSum) + "%1 = sub(%0, %8) : f32[4,8]\n%9 = reduce(%1) {op = \"sum\", axes = [0, 1]} : f32[]\n") == 2);
}

TEST_CASE("a sum and a maximum are two exchanges") {
  CHECK(sums_of(std::string(kSum) + "%9 = reduce(%0) {op = \"max\", axes = [0]} : f32[8]\n") == 2);
}
