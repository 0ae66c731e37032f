#include "ir/text.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// How often the pass cuts an MLP of 512 rows whose columns two devices share. `between`: lines from the gathered rows %1 to the
// operand %9 of the scatter. The results have to stay the same.
int64_t cuts_of(const std::string& between, const std::string& outputs, const std::string& sums = "f32") {
  const std::string text =
      "module \"mlp\" mir {\ngraph @main {\n%0 = input \"x\" : f32[1,256,32]\n"
      "%1 = all_gather(%0) {mesh = \"model=2\", along = [\"model\"], axis = 1} : f32[1,512,32]\n"
      "%2 = input \"w\" : f32[32,48]\n%3 = input \"v\" : f32[48,32]\n%4 = input \"bias\" : f32[48]\n" +
      between + "%10 = reduce_scatter(%9) {mesh = \"model=2\", along = [\"model\"], axis = 1} : " + sums +
      "[1,256,32]\n%11 = all_gather(%10) {mesh = \"model=2\", along = [\"model\"], axis = 1} : " + sums + "[1,512,32]\nreturn " +
      outputs + "\n}\n}\n";
  Diagnostics d;
  const auto before = parse_text(text, d), after = parse_text(text, d);
  REQUIRE_MESSAGE(d.ok(), d.text());
  PassRun run;
  const int64_t count = testing::count(run(*after, "cut_gathered_rows"), "gathers_cut");
  CHECK_FALSE(run(*after, "cut_gathered_rows").changed);
  same_results(*before, *after);
  return count;
}

const std::string kUp = "%5 = fused_matmul_bias_act(%1, %2, %4) {act = \"relu\"} : f32[1,512,48]\n";
const std::string kDown = "%9 = matmul(%6, %3) : f32[1,512,32]\n";

}  // namespace

TEST_CASE("rows that devices gather and scatter are worked on in parts") {
  CHECK(cuts_of(kUp + "%6 = sigmoid(%5) : f32[1,512,48]\n" + kDown, "%11 \"y\"") == 1);
  CHECK(cuts_of(kUp + "%6 = mul(%5, %4) : f32[1,512,48]\n" + kDown, "%11 \"y\"") == 1);
}

TEST_CASE("rows that are combined, or read elsewhere, stay whole") {
  const std::string whole = "%11 \"y\"";
  CHECK(cuts_of(kUp + "%6 = softmax(%5) {axis = 1} : f32[1,512,48]\n" + kDown, whole) <= 0);
  CHECK(cuts_of(kUp + "%6 = sigmoid(%5) : f32[1,512,48]\n" + kDown, whole + ", %1 \"rows\"") <= 0);
  CHECK(cuts_of(kUp + "%6 = sigmoid(%5) : f32[1,512,48]\n" + kDown, whole + ", %9 \"sums\"") <= 0);
  // An operand with a row for each row.
  CHECK(cuts_of("%12 = input \"scale\" : f32[512,1]\n" + kUp + "%6 = mul(%5, %12) : f32[1,512,48]\n" + kDown, whole) <= 0);
  // The result does not fit in the place of the rows.
  CHECK(cuts_of(kUp + "%6 = sigmoid(%5) : f32[1,512,48]\n%12 = matmul(%6, %3) : f32[1,512,32]\n"
                      "%9 = cast(%12) {to = \"f64\"} : f64[1,512,32]\n",
                whole, "f64") <= 0);
  // Little lies between.
  CHECK(cuts_of("%12 = input \"u\" : f32[32,4]\n%13 = input \"d\" : f32[4,32]\n%6 = matmul(%1, %12) : f32[1,512,4]\n"
                "%9 = matmul(%6, %13) : f32[1,512,32]\n",
                whole) <= 0);
}
