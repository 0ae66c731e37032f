#include "report/diff.h"

#include <doctest/doctest.h>

#include "support/schema.h"

using namespace rlxc;
using namespace rlxc::report;

namespace {

Snapshot snapshot(int launches, int arena, const char* miss) {
  Snapshot s;
  std::string message;
  const std::string fusion =
      R"({"summary": {"launches": {"before": 9, "after": )" + std::to_string(launches) +
      R"(}}, "ops": [{"op": "MatMul", "before": 3, "after": 2}], "declined": [{"pattern": "attention", "node": ")" + miss +
      R"(", "reason": "layout"}], "launches": [{"node": 1}]})";
  CHECK_MESSAGE(read_facts("fusion.json", fusion, "", &s, &message), message);
  CHECK(read_facts("plan.json", R"({"arena": {"bytes": )" + std::to_string(arena) + R"(, "method": "x"}, "peak": null})", "", &s,
                   &message));
  CHECK(read_facts("manifest.json",
                   R"({"files": [{"path": "kernels/cpu/a.c", "sha256": ")" + std::to_string(arena) +
                       R"("}, {"path": "lir.json", "sha256": "x"}]})",
                   "", &s, &message));
  return s;
}

Condition condition(const char* text) {
  std::string message;
  const auto c = parse_condition(text, &message);
  REQUIRE_MESSAGE(c.has_value(), message);
  return *c;
}

}  // namespace

TEST_CASE("facts of artefacts are numbers, texts and items under dotted names") {
  const Snapshot s = snapshot(7, 100, "a");
  CHECK(s.size() == 5);
  CHECK(s.at("fusion.launches").number == 7);
  CHECK(s.at("ops.MatMul").number == 2);
  CHECK(s.at("plan.arena").number == 100);
  CHECK(s.at("kernels.cpu/a.c").text == "100");
  CHECK(s.at("fusion.declined attention @ a (layout)").item);
  Snapshot old, bad;
  std::string message;
  CHECK(read_facts("plan.json", R"({"savings": {"unshared": 12}})", "", &old, &message));  // format 1
  CHECK(old.at("plan.without_reuse").number == 12);
  const char* fusion2 =
      R"({"summary": {"groups": 3, "misses": 7}, "patterns": [{"pattern": "a", "groups": 3, "misses": 7}], "reasons": [)"
      R"({"pattern": "a", "reason": "cost", "count": 4}, {"pattern": "a", "reason": "layout", "count": 1}, )"
      R"({"pattern": "a", "reason": "no_kernel", "count": 2}]})";
  CHECK(read_facts("fusion.json", fusion2, "cpu/", &old, &message));  // format 2
  CHECK(old.at("cpu/fusion.formed").number == 3);
  CHECK(old.at("cpu/fusion.declined.a").number == 7);
  for (const char* name : {"cpu/fusion.misses", "cpu/fusion.misses.a", "cpu/fusion.misses.a.layout"})
    CHECK(find_fact(old, name).value_or(Fact{}).number == 1);
  for (const char* name : {"cpu/fusion.misses.a.cost", "cpu/fusion.misses.a.no_kernel"})
    CHECK(find_fact(old, name).value_or(Fact{1, {}, false}).number == 0);
  CHECK_FALSE(find_fact(old, "fusion.misses").has_value());
  CHECK_FALSE(read_facts("plan.json", "{\"arena\": [", "", &bad, &message));
  CHECK_FALSE(message.empty());
}

TEST_CASE("a comparison lists every change, and only those") {
  Diff d, none;
  std::string message;
  REQUIRE(compare(snapshot(7, 100, "a"), snapshot(8, 103, "b"), {}, &d, &message));
  REQUIRE(compare(snapshot(7, 100, "a"), snapshot(7, 100, "a"), {}, &none, &message));
  CHECK(diff_text(d) ==
        "                   before  after  change\n"
        "  fusion.launches       7      8  14.3 %\n"
        "  plan.arena          100    103     3 %\n"
        "- fusion.declined attention @ a (layout)\n"
        "+ fusion.declined attention @ b (layout)\n"
        "~ kernels.cpu/a.c\n");
  CHECK(d.finding());
  CHECK_FALSE(none.finding());
  CHECK(diff_text(none) == "no difference\n");
}

TEST_CASE("conditions look at values, changes and relative changes") {
  const auto failed = [](const char* text) {
    Diff d;
    std::string message;
    REQUIRE_MESSAGE(compare(snapshot(7, 100, "a"), snapshot(8, 103, "a"), {condition(text)}, &d, &message), message);
    return d.finding();
  };
  CHECK(failed("plan.arena>+2%"));
  CHECK_FALSE(failed("plan.arena > +3%"));
  CHECK(failed("plan.arena>=3%"));
  CHECK(failed("fusion.launches>+0"));
  CHECK_FALSE(failed("fusion.launches<-0"));
  CHECK(failed("fusion.launches==8"));
  CHECK_FALSE(failed("fusion.launches!=8"));
  std::string message;
  for (const char* bad : {"plan.arena", ">3", "plan.arena>", "plan.arena>x", "plan.arena=3", "plan.arena>3x"})
    CHECK_FALSE_MESSAGE(parse_condition(bad, &message).has_value(), bad);
}

TEST_CASE("an assertion on a fact that no compile can have is refused, one on a count of 0 holds") {
  const auto refused = [](const char* text) {
    std::string message;
    return check_assertion(condition(text), &message) ? std::string() : message;
  };
  for (const char* good :
       {"fusion.misses.attention==0", "fusion.misses.attention.multi_consumer==0", "fusion.misses==0", "ops.Conv==0",
        "dispatch.native.Attention==0", "precision.casts.f32_f16==0", "plan.peak<=8MiB", "plan.weights<=1G"})
    CHECK_MESSAGE(refused(good).empty(), good << ": " << refused(good));
  CHECK(refused("fusion.misses.atention==0").find("did you mean fusion.misses.attention?") != std::string::npos);
  CHECK(refused("fusion.misses.attention.nosuch==0").find("reason") != std::string::npos);
  CHECK(refused("ops.Convv==0").find("did you mean ops.Conv?") != std::string::npos);
  for (const char* bad : {"dispatch.native.Atention==0", "precision.casts.f32_f17==0", "plan.peek<=1",
                          "fusion.formed.attention.cost==1", "plan.arena>+2%"})
    CHECK_MESSAGE(!refused(bad).empty(), bad);
  std::string message;
  for (const char* bad : {"plan.peak<=nan", "plan.peak<=inf"}) CHECK_MESSAGE(!parse_condition(bad, &message), bad);
  Diff d;
  CHECK(compare(snapshot(7, 1, "a"), snapshot(7, 1, "a"), {condition("fusion.misses.rope>0")}, &d, &message));
  CHECK_FALSE(d.finding());
}

TEST_CASE("a condition on what neither compile has, or on a text, is an error and not silently true") {
  Diff d;
  std::string message;
  CHECK_FALSE(compare(snapshot(7, 1, "a"), snapshot(7, 1, "a"), {condition("plan.arnea>1")}, &d, &message));
  CHECK(message.find("plan.arena") != message.npos);
  CHECK_FALSE(compare(snapshot(7, 1, "a"), snapshot(7, 1, "a"), {condition("kernels.cpu/a.c>1")}, &d, &message));
}

TEST_CASE("a comparison as JSON follows its schema") {
  Diff d;
  std::string message, text;
  REQUIRE(compare(snapshot(7, 100, "a"), snapshot(8, 103, "b"), {condition("plan.arena>+2%")}, &d, &message));
  {
    JsonWriter w(text);
    write_diff(d, w, "0");
  }
  rlxc::test::check_schema("diff", text);
}
