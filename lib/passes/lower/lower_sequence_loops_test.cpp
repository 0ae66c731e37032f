#include "ir/builder.h"
#include "ir/text.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// h <- tanh(h + x[i]) for 4 steps, collecting all h; `concat` is applied to the sequence.
std::string model(const std::string& concat, const std::string& insert = "sequence_insert(%3, %6)",
                  const std::string& trips = "4") {
  return "module \"m\" mir {\ngraph @main {\n"
         "  %0 = input \"x\" : f32[4,3,2]\n  %1 = input \"h\" : f32[3,2]\n"
         "  %2 = constant {data = dense [" +
         trips +
         "]} : i64[]\n  %3 = constant {data = dense [1]} : bool[]\n"
         "  %4 = sequence_empty : seq<f32[*]>\n"
         "  %5, %6 = loop(%2, %3, %1, %4, %0) [@body] {carries = 2} \"loop\" : f32[3,2], seq<f32[3,2]>\n"
         "  %7 = concat_from_sequence(%6) " +
         concat +
         "\n  return %5 \"last\", %7 \"all\"\n}\n"
         "graph @body {\n"
         "  %0 = input \"i\" : i64[]\n  %1 = input \"c\" : bool[]\n  %2 = input \"h\" : f32[3,2]\n  %3 = input \"s\" : "
         "seq<f32[3,2]>\n"
         "  %4 = input \"x\" : f32[4,3,2]\n  %5 = gather(%4, %0) : f32[3,2]\n  %6 = add(%2, %5) : f32[3,2]\n"
         "  %7 = tanh(%6) : f32[3,2]\n  %8 = " +
         insert + " : seq<f32[3,2]>\n  return %1, %7, %8\n}\n}\n";
}

std::unique_ptr<Module> parse(const std::string& text) {
  Diagnostics d;
  auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  return m;
}

}  // namespace

TEST_CASE("a loop that collects its steps in a sequence stacks them instead") {
  for (const std::string concat :
       {"{new_axis = true} : f32[4,3,2]", "{axis = 2, new_axis = true} : f32[3,2,4]", ": f32[12,2]", "{axis = 1} : f32[3,8]"}) {
    CAPTURE(concat);
    const auto before = parse(model(concat)), after = parse(model(concat));
    PassRun run;
    CHECK(count(run(*after, "lower_sequence_loops"), "sequences_lowered") == 1);
    run(*after, "dead_code_elimination");
    CHECK(ops(after->main()).find("sequence") == std::string::npos);
    CHECK(ops(after->graph(GraphId(1))).find("sequence") == std::string::npos);
    CHECK_FALSE(run(*after, "lower_sequence_loops").changed);
    same_results(*before, *after);
  }
}

TEST_CASE("sequences that are more than collected stay") {
  PassRun run;
  const auto at_front = parse(model("{new_axis = true} : f32[4,3,2]", "sequence_insert(%3, %6, %0)"));
  CHECK_FALSE(run(*at_front, "lower_sequence_loops").changed);
  const auto kept = parse(model("{new_axis = true} : f32[4,3,2]"));
  Builder b(kept->main());
  const NodeId loop = kept->main().def(kept->main().outputs()[0]);
  kept->main().add_output(b.create(OpKind::SequenceLength, {kept->main().result(loop, 1)}), {});
  CHECK_FALSE(run(*kept, "lower_sequence_loops").changed);
}
