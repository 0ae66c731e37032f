// Rewrites that a file gives: what they match, what they leave alone, errors.
#include "driver/rule_file.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "eval/equivalence.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/passes.h"
#include "support/eval.h"
#include "support/schema.h"
#include "support/source_dir.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;
using nlohmann::json;

namespace {

json example() {
  std::ifstream f(source_dir() + "/examples/custom/rules.json");
  return json::parse(f);
}
json one_rule(json rule) {
  rule["name"] = "own";
  return {{"format", "rlxc-rules"}, {"rules", {rule}}};
}

struct Rewritten {
  TempDir dir;
  Diagnostics d;
  PassOptions options;
  std::unique_ptr<Module> m;
  PassResult result;  // names rules of the options

  Rewritten(const json& rules, const std::string& nodes, int64_t limit = -1) {
    std::ofstream(dir / "rules.json") << rules.dump();
    options.user_rules = read_rules(dir / "rules.json", d);
    if (!options.user_rules) return;
    const std::string text = "module \"m\" mir {\ngraph @main {\n" + nodes + "}\n}\n";
    m = parse_text(text, d);
    REQUIRE_MESSAGE(m, d.text());
    const auto before = parse_text(text, d);
    const TargetTraits target;
    std::vector<Decision> decisions;
    std::vector<PrecisionNote> notes;
    RewriteCounter counter{limit};
    PassContext context{target, options, d, decisions, notes, &counter};
    result = user_rules(*m, context);
    if (!d.ok()) return;
    REQUIRE_MESSAGE(verify(*m, d), d.text());
    std::vector<HostValue> in;
    for (NodeId n : m->main().inputs()) in.push_back(reals_like(m->main(), m->main().result(n)));
    const auto a = eval::evaluate(*before, in, d), b = eval::evaluate(*m, in, d);
    REQUIRE_MESSAGE((a && b), d.text());
    for (size_t i = 0; i < a->size(); ++i) check_close((*b)[i], (*a)[i], 1e-5, 1e-6);
    if (limit < 0) CHECK_FALSE(user_rules(*m, context).changed);
  }
  static HostValue reals_like(const Graph& g, ValueId v) {
    std::vector<int64_t> dims;
    std::vector<double> x;
    for (Dim d : g.dims(v)) dims.push_back(d.size());
    for (int64_t i = num_elements(g.type(v)).value(); i > 0; --i) x.push_back(0.1 * static_cast<double>(i % 11) - 0.4);
    return tensor_of(g.dtype(v), dims, x);
  }
  size_t count(OpKind op) const {
    size_t out = 0;
    for (NodeId n : m->main().nodes()) out += m->main().op(n) == op;
    return out;
  }
};

constexpr const char* kSilu =
    "%0 = input \"x\" : f32[2,3]\n%1 = sigmoid(%0) : f32[2,3]\n%2 = mul(%1, %0) : f32[2,3]\nreturn %2 \"y\"\n";
constexpr const char* kScales =
    "%0 = input \"x\" : f32[2,3]\n%1 = constant {data = dense [1, 2, 3]} : f32[3]\n"
    "%2 = constant {data = dense [4, 5, 6]} : f32[3]\n%3 = mul(%0, %1) : f32[2,3]\n%4 = mul(%2, %3) : f32[2,3]\n"
    "return %4 \"y\"\n";

}  // namespace

TEST_CASE("the rules of the example") {
  check_schema("rules", example().dump());
  Rewritten silu(example(), kSilu);
  CHECK(silu.count(OpKind::Silu) == 1);
  CHECK(silu.count(OpKind::Sigmoid) == 0);
  CHECK(silu.result.counts == decltype(silu.result.counts){{"silu", 1}});

  Rewritten log(example(),
                "%0 = input \"x\" : f32[2,3]\n%1 = softmax(%0) {axis = 0} : f32[2,3]\n%2 = log(%1) : f32[2,3]\n"
                "return %2 \"y\"\n");
  CHECK(log.count(OpKind::LogSoftmax) == 1);  // with the axis of the softmax, or the results would differ

  Rewritten scales(example(), kScales);
  CHECK(scales.count(OpKind::Mul) == 2);
  CHECK(scales.result.changed);
}

TEST_CASE("what a condition or another reader forbids") {
  Rewritten read_twice(example(),
                       "%0 = input \"x\" : f32[2,3]\n%1 = sigmoid(%0) : f32[2,3]\n%2 = mul(%1, %0) : f32[2,3]\n"
                       "return %2 \"y\", %1 \"gate\"\n");
  CHECK_FALSE(read_twice.result.changed);
  Rewritten half(example(),
                 "%0 = input \"x\" : f16[2,3]\n%1 = softmax(%0) {axis = 0} : f16[2,3]\n%2 = log(%1) : f16[2,3]\n"
                 "return %2 \"y\"\n");
  CHECK_FALSE(half.result.changed);
  json wide = example();
  wide["rules"][2]["sizes"]["d"]["min"] = 4;
  CHECK_FALSE(Rewritten(wide, kScales).result.changed);
  wide["rules"][2]["sizes"] = {{"2*d", {{"multiple_of", 6}}}};
  CHECK(Rewritten(wide, kScales).result.changed);
  wide["rules"][2]["values"]["a"]["max"] = 2.5;  // the larger constant is the other one
  CHECK_FALSE(Rewritten(wide, kScales).result.changed);
  CHECK_FALSE(Rewritten(example(), kSilu, 0).result.changed);  // --bisect-limit 0
}

TEST_CASE("numbers, attributes and operands from outside") {
  const json halved = one_rule({{"pattern", {{{"op", "mul"}, {"in", {"x", 1}}, {"out", "y"}}}}, {"result", "y"}, {"with", "x"}});
  const std::string times =
      "%0 = input \"x\" : f32[2]\n%1 = constant {data = dense [NUMBER]} : f32[]\n%2 = mul(%0, %1) : f32[2]\n"
      "%3 = neg(%2) : f32[2]\nreturn %3 \"y\"\n";
  for (const auto& [number, fits] : {std::pair("1", true), std::pair("2", false)}) {
    std::string text = times;
    text.replace(text.find("NUMBER"), 6, number);
    CHECK(Rewritten(halved, text).result.changed == fits);
  }
  const json axis = one_rule({{"pattern", {{{"op", "softmax"}, {"in", {"x"}}, {"out", "y"}, {"attrs", {{"axis", 1}}}}}},
                              {"result", "y"},
                              {"replacement",
                               {{{"op", "log_softmax"}, {"in", {"x"}}, {"out", "l"}, {"attrs", {{"axis", 1}}}},
                                {{"op", "exp"}, {"in", {"l"}}, {"out", "z"}}}},
                              {"with", "z"}});
  for (int k : {0, 1})
    CHECK(Rewritten(axis, "%0 = input \"x\" : f32[2,3]\n%1 = softmax(%0) {axis = " + std::to_string(k) +
                              "} : f32[2,3]\nreturn %1 \"y\"\n")
              .result.changed == (k == 1));
}

TEST_CASE("rules that change a type or come to no end are errors") {
  const json other = one_rule({{"pattern", {{{"op", "neg"}, {"in", {"x"}}, {"out", "y"}}}},
                               {"result", "y"},
                               {"replacement", {{{"op", "cast"}, {"in", {"x"}}, {"out", "z"}, {"attrs", {{"to", "f16"}}}}}},
                               {"with", "z"}});
  const std::string neg = "%0 = input \"x\" : f32[2]\n%1 = neg(%0) \"it\" : f32[2]\nreturn %1 \"y\"\n";
  Rewritten typed(other, neg);
  CHECK(typed.d.text().find("gives f16[2] in place of f32[2]") != std::string::npos);
  const json forever = one_rule({{"pattern", {{{"op", "neg"}, {"in", {"x"}}, {"out", "y"}}}},
                                 {"result", "y"},
                                 {"replacement", {{{"op", "neg"}, {"in", {"x"}}, {"out", "z"}}}},
                                 {"with", "z"}});
  Rewritten endless(forever, neg);
  CHECK(endless.d.text().find("come to no end") != std::string::npos);
  const json twice =
      one_rule({{"pattern", {{{"op", "neg"}, {"in", {"x"}}, {"out", "y"}}}},
                {"result", "y"},
                {"replacement", {{{"op", "neg"}, {"in", {"x"}}, {"out", "a"}}, {{"op", "neg"}, {"in", {"a"}}, {"out", "z"}}}},
                {"with", "z"}});
  Rewritten growing(twice, neg);  // each round doubles the graph
  CHECK(growing.d.text().find("come to no end") != std::string::npos);
}

TEST_CASE("faults of a rule file are errors that say where") {
  const TempDir dir;
  const auto refused = [&](const json& j, const std::string& why) {
    std::ofstream(dir / "rules.json") << j.dump();
    Diagnostics d;
    CHECK_FALSE(read_rules(dir / "rules.json", d));
    CHECK_MESSAGE(d.text().find(why) != std::string::npos, d.text(), why);
  };
  const auto with = [](const std::function<void(json&)>& change) {
    json j = example();
    change(j["rules"][0]);
    return j;
  };
  refused({{"format", "rlxc-rules"}, {"rules", 1}}, "\"rules\" must be a list");
  refused(with([](json& r) { r["pattern"][0]["attrs"] = {{"axi", 1}}; }), "unknown attribute \"axi\"");
  refused(with([](json& r) { r.erase("pattern"); }), "lacks \"pattern\"");
  refused(with([](json& r) { r["pattern"] = json::array(); }), "the pattern has no nodes");
  refused(with([](json& r) { r["result"] = "gate"; }), "is no result of the last node");
  refused(with([](json& r) { r["with"] = "gate"; }), "\"with\" names no value");
  refused(with([](json& r) { r["pattern"][1]["out"] = r["result"] = "gate"; }), "names \"gate\" twice");
  refused(with([](json& r) { r["pattern"][1]["in"] = {"x", "x"}; }), "does not lead to the result");
  refused(with([](json& r) { r["pattern"][0]["in"] = {"$a"}; }), "numbers of a pattern are given");
  refused(with([](json& r) { r["replacement"][0]["out"] = "y"; }), "which is a name of the pattern");
  refused(with([](json& r) { r["values"] = {{"q", json::object()}}; }), "a condition on \"q\"");
  refused(with([](json& r) { r["values"] = {{"x", {{"type", "f31"}}}}; }), "no element type \"f31\"");
  refused(with([](json& r) { r["values"] = {{"x", {{"constant", 1}}}}; }), "must be true");
  refused(with([](json& r) { r["sizes"] = {{"*", json::object()}}; }), "is no expression of sizes");
  refused(with([](json& r) { r["sizes"] = {{"n", {{"multiple_of", 0}}}}; }), "must be at least 1");
  for (const auto& [text, why] : {std::pair("{\"format\": \"rlxc-rules\",\n \"rules\": [{\"name\": \"r\",\n  \"pattern\": 3}]}",
                                            "line 3 column 14: \"rules[0].pattern\" must be a list"),
                                  std::pair("{\"format\":\n 3 4}", "line 2 column 4: expected ',' or '}'")}) {
    std::ofstream(dir / "rules.json") << text;
    Diagnostics d;
    CHECK_FALSE(read_rules(dir / "rules.json", d));
    CHECK_MESSAGE(d.text().find(why) != std::string::npos, d.text());
  }
}
