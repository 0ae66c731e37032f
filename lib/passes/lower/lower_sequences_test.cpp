#include "ir/text.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kInputs = R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[2,3]
  %1 = input "y" : f32[2,3]
  %2 = input "at" : i64[]
  %3 = sequence_empty : seq<f32[*]>
  %4 = sequence_insert(%3, %0) : seq<f32[2,3]>
  %5 = constant {data = dense [-1]} : i64[]
  %6 = sequence_insert(%4, %1, %5) : seq<f32[2,3]>
)";

std::unique_ptr<Module> parse(const std::string& rest) {
  Diagnostics d;
  auto m = parse_text(std::string(kInputs) + rest + "}\n}\n", d);
  REQUIRE_MESSAGE(m, d.text());
  return m;
}

// Checks that no sequences are left and the results are unchanged.
void check_lowered(const std::string& rest) {
  const auto before = parse(rest), after = parse(rest);
  PassRun run;
  CHECK(run(*after, "lower_sequences").changed);
  CHECK_FALSE(run(*after, "lower_sequences").changed);
  run(*after, "dead_code_elimination");
  CHECK_MESSAGE(ops(after->main()).find("sequence") == std::string::npos, ops(after->main()));
  CHECK_MESSAGE(ops(after->main()).find("optional") == std::string::npos, ops(after->main()));
  same_results(*before, *after);
}

}  // namespace

TEST_CASE("elements, lengths and concatenations of known sequences need no sequence") {
  check_lowered("  %7 = sequence_at(%6, %5) : f32[2,3]\n  return %7 \"r\"\n");
  check_lowered("  %7 = sequence_length(%6) : i64[]\n  return %7 \"r\"\n");
  check_lowered("  %7 = concat_from_sequence(%6) {axis = 1} : f32[2,6]\n  return %7 \"r\"\n");
  check_lowered("  %7 = concat_from_sequence(%6) {axis = 2, new_axis = true} : f32[2,3,2]\n  return %7 \"r\"\n");
  check_lowered(
      "  %7 = sequence_erase(%6) : seq<f32[2,3]>\n  %8 = sequence_at(%7, %5) : f32[2,3]\n  %9 = sequence_length(%6) : i64[]\n"
      "  return %8 \"r\", %9 \"n\"\n");
  check_lowered(
      "  %7 = split_to_sequence(%0) {axis = 1, keep_dim = false} : seq<f32[2]>\n  %8 = sequence_at(%7, %5) : f32[2]\n"
      "  return %8 \"r\"\n");
  check_lowered(
      "  %7 = constant {data = dense [3]} : i64[]\n  %8 = split_to_sequence(%0, %7) {axis = 1} : seq<f32[2,part]>\n"
      "  %9 = sequence_at(%8, %5) : f32[2,last]\n  return %9 \"r\"\n");
}

TEST_CASE("optionals of known content") {
  check_lowered(
      "  %7 = optional_make(%6) : optional<seq<f32[2,3]>>\n  %8 = optional_get(%7) : seq<f32[2,3]>\n"
      "  %9 = sequence_at(%8, %5) : f32[2,3]\n  %10 = optional_has(%7) : bool[]\n  return %9 \"r\", %10 \"has\"\n");
  check_lowered("  %7 = optional_make : optional<f32[*]>\n  %8 = optional_has(%7) : bool[]\n  return %8 \"has\"\n");
}

TEST_CASE("bodies over the elements of known sequences are copied for each") {
  const auto check = [](const std::string& body, const std::string& rest) {
    const auto text = [&] {
      std::string all = std::string(kInputs) + rest + "}\n" + body + "}\n";
      Diagnostics d;
      auto m = parse_text(all, d);
      REQUIRE_MESSAGE(m, d.text());
      return m;
    };
    const auto before = text(), after = text();
    PassRun run;
    CHECK(run(*after, "lower_sequences").changed);
    run(*after, "dead_code_elimination");
    CHECK_FALSE(run(*after, "lower_sequences").changed);
    CHECK_MESSAGE(ops(after->main()).find("sequence") == std::string::npos, ops(after->main()));
    CHECK_MESSAGE(ops(after->main()).find("loop") == std::string::npos, ops(after->main()));
    same_results(*before, *after);
  };
  check(
      "graph @body {\n  %0 = input \"e\" : f32[2,3]\n  %1 = input \"c\" : f32[2,3]\n  %2 = reshape(%0) {dims = [6]} : "
      "f32[6]\n"
      "  %3 = add(%0, %1) : f32[2,3]\n  return %2, %3\n}\n",
      "  %7, %8 = sequence_map(%6, %1) [@body] {carries = 1} : seq<f32[6]>, seq<f32[2,3]>\n"
      "  %9 = sequence_at(%7, %5) : f32[6]\n  %10 = concat_from_sequence(%8) {axis = 0} : f32[4,3]\n"
      "  return %9 \"r\", %10 \"s\"\n");
  check(
      "graph @body {\n  %0 = input \"i\" : i64[]\n  %1 = input \"go\" : bool[]\n  %2 = input \"out\" : seq<f32[2,3]>\n"
      "  %3 = input \"in\" : seq<f32[2,3]>\n  %4 = sequence_at(%3, %0) : f32[2,3]\n  %5 = neg(%4) : f32[2,3]\n"
      "  %6 = sequence_insert(%2, %5) : seq<f32[2,3]>\n  return %1, %6\n}\n",
      "  %7 = constant {data = dense [2]} : i64[]\n  %8 = sequence_insert(%3, %1) : seq<f32[2,3]>\n"
      "  %9 = loop(%7, _, %8, %6) [@body] {carries = 1} : seq<f32[2,3]>\n"
      "  %10 = concat_from_sequence(%9) {axis = 0} : f32[6,3]\n  return %10 \"r\"\n");
}

TEST_CASE("positions that only data tell, and sequences that leave the graph, stay") {
  PassRun run;
  CHECK_FALSE(run(*parse("  %7 = sequence_at(%6, %2) : f32[2,3]\n  return %7 \"r\"\n"), "lower_sequences").changed);
  CHECK_FALSE(run(*parse("  return %6 \"r\"\n"), "lower_sequences").changed);
  const auto past_the_end =
      parse("  %7 = constant {data = dense [2]} : i64[]\n  %8 = sequence_at(%6, %7) : f32[2,3]\n  return %8\n");
  CHECK_FALSE(run(*past_the_end, "lower_sequences").changed);
}
