#include <doctest/doctest.h>

#include "analysis/cost.h"
#include "memory/plan_lir.h"
#include "passes/runner.h"
#include "report/dispatch.h"
#include "report/fusion.h"
#include "report/fusion_facts.h"
#include "report/manifest.h"
#include "report/precision.h"
#include "report/table.h"
#include "support/deep_module.h"
#include "support/golden.h"
#include "support/pass_run.h"
#include "support/random_graph.h"
#include "support/schema.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

const report::ReportContext kContext{"model.onnx", std::string(64, 'b'), false, "cpu", "0.1.0"};

template <class Write>
std::string json(Write write) {
  std::string s;
  JsonWriter out(s);
  write(out);
  return s;
}

struct Fused {
  testing::PassRun run;
  report::ModuleCounts before;
  LirModule lir;
  explicit Fused(std::unique_ptr<Module> m) : before(report::count_module(*m)) {
    run(*m, "mark_elementwise_regions");
    for (size_t i = 0; i < m->graph_count(); ++i) m->graph(GraphId(i)).compact();
    Diagnostics d;
    auto planned = plan_lir(std::move(m), {}, d);
    REQUIRE_MESSAGE(planned.has_value(), d.text());
    lir = std::move(*planned);
  }
  Module& module() const { return *lir.module; }
  report::FusionReport report() const { return {before, report::count_module(lir), run.decisions, lir, {OpKind::NormRegion}}; }
};

Decision miss(Module& m, std::string_view node, const std::vector<std::string>& members, std::string reason) {
  Decision d;
  d.pattern = "matmul_bias_act", d.node = m.symbol(node), d.reason = std::move(reason), d.lapses_when_merged = true;
  for (const std::string& s : members) d.members.push_back(m.symbol(s));
  d.graph = GraphId(0), d.hint = "use it once", d.detail = "2 uses";
  return d;
}

}  // namespace

TEST_CASE("the fusion report of a residual block") {
  Fused f(deep_module(1));
  f.run.decisions.push_back(miss(f.module(), "/model/layers.0/mlp/up/MatMul", {}, "multi_consumer"));
  const std::string text = json([&](JsonWriter& out) { report::write_fusion(f.report(), out, kContext); });
  check_schema("fusion", text);
  check_golden("report/fusion.json", text);
  std::string people;
  report::write_fusion_text(f.report(), &people, kContext);
  check_golden("report/fusion.txt", people);
}

TEST_CASE("the lists of the fusion report add up to its summary") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Fused f(testing::random_graph({.seed = seed, .nodes = 60}));
    const report::FusionReport r = f.report();
    const report::LaunchFacts facts(f.lir, f.run.decisions);
    CHECK(static_cast<int64_t>(facts.launches.size()) == r.after.launches);
    CHECK(r.after.launches <= r.before.launches);
    CHECK(r.after.traffic <= r.before.traffic);
    for (const report::IntermediateValue& h : facts.intermediates) {
      CHECK(f.module().graph(h.graph).def(h.value) == h.from);
      CHECK_FALSE(h.to.empty());
    }
    int64_t traffic = 0;
    for (const report::LaunchFacts::Launch& l : facts.launches) {
      for (NodeId n : l.nodes) {
        const Cost cost = node_cost(f.module().graph(l.graph), n);
        traffic += cost.bytes_read + cost.bytes_written;
      }
    }
    CHECK(traffic == r.after.traffic);
    if (seed == 0) check_schema("fusion", json([&](JsonWriter& out) { report::write_fusion(r, out, kContext); }));
  }
}

TEST_CASE("a neighbour that was declined is told with the reason that the pass recorded") {
  const Fused f(deep_module(2));
  const std::vector<Decision> decisions = {
      miss(f.module(), "/model/layers.0/mlp/up/MatMul", {"/model/layers.0/mlp/act/Silu"}, "multi_consumer"),
      miss(f.module(), "/model/layers.1/mlp/up/MatMul", {"elsewhere"}, "rank")};
  size_t told = 0;
  for (const report::IntermediateValue& h : report::LaunchFacts(f.lir, decisions).intermediates)
    for (const Decision* d : h.decisions) {
      told += d == &decisions[0];
      CHECK(d != &decisions[1]);
    }
  CHECK(told == 1);
}

TEST_CASE("repeated misses count once, and those that came true later do not count") {
  Module m;
  Decision formed = miss(m, "b", {"c"}, "fused");
  formed.fused = true;
  const auto kept = report::settled({miss(m, "a", {}, "rank"), miss(m, "a", {}, "rank"), miss(m, "a", {}, "dtype"),
                                     miss(m, "c", {}, "rank"), formed, miss(m, "b", {}, "rank")});
  REQUIRE(kept.size() == 4);
  CHECK(kept[0].reason == "rank");
  CHECK(kept[1].reason == "dtype");
  CHECK(kept[2].fused);
  CHECK(m.text(kept[3].node) == "b");
}

TEST_CASE("what stayed apart from its elementwise readers counts no more when it is part of another kernel") {
  Module m;
  Decision apart = miss(m, "a", {"b"}, "cost"), other = apart, region = miss(m, "c", {"a"}, "fused");
  apart.pattern = "elementwise_region", other.pattern = "softmax", other.lapses_when_merged = false,
  region.pattern = "reduce_region", region.fused = true;
  const auto kept = report::settled({apart, other, region});
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].pattern == "softmax");
}

TEST_CASE("the dispatch report") {
  Module m;
  const std::vector<report::DispatchNode> nodes = {
      {OpKind::MatMul, report::DispatchPath::Native, GraphId(0), NodeId(3), m.symbol("fc"), {}},
      {OpKind::Erf, report::DispatchPath::CommonIr, GraphId(0), NodeId(4), {}, {}},
      {OpKind::DotGeneral, report::DispatchPath::Rewritten, GraphId(1), NodeId(5), m.symbol("dot"), {}},
      {OpKind::Erf, report::DispatchPath::Unsupported, GraphId(0), NodeId(6), m.symbol("odd\nname"), "complex operands"},
  };
  for (const size_t count : {size_t{3}, size_t{4}}) {
    const auto some = std::span(nodes).first(count);
    const std::string text = json([&](JsonWriter& out) { report::write_dispatch(m, some, out, kContext); });
    check_schema("dispatch", text);
    CHECK((text.find("\"compile_ready\": true") != text.npos) == (count == 3));
  }
  std::string people;
  report::write_dispatch_text(m, nodes, &people, kContext);
  check_golden("report/dispatch.txt", people);
}

TEST_CASE("the precision and quantization reports take each their notes") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {Dim(2), Dim(3)}));
  const ValueId q = b.create(OpKind::Quantize, {x, b.scalar(DType::F32, 0.5), b.scalar(DType::I8, 0)}, QuantAttrs{});
  m.main().add_output(b.cast(x, DType::F16), {});
  m.main().add_output(q, {});
  const std::vector<PrecisionNote> notes = {
      {"x", "f32", "f16", "input of matmul fc"}, {"h", "f32", "i8", "calibration"}, {"y", "f16", "f32", "output keeps its type"}};
  CalibrationRecord record;
  record.entries.push_back({"h", {1, {0.5, 0.25}, {0, 0}}});
  const report::PrecisionReport r{PrecisionPolicy::AutoMixedBf16, notes, &record, m};
  const std::string precision = json([&](JsonWriter& out) { report::write_precision(r, out, kContext); });
  check_schema("precision", precision);
  check_golden("report/precision.json", precision);
  const std::string quant = json([&](JsonWriter& out) { report::write_quant(r, out, kContext); });
  check_schema("quant", quant);
  check_golden("report/quant.json", quant);
}

TEST_CASE("the manifest lists files by path") {
  report::Manifest manifest;
  manifest.fingerprint = std::string(32, '1');
  manifest.files = {{"plan.json", std::string(64, '2'), 20}, {"lir.json", std::string(64, '3'), 10}};
  manifest.options = R"({"precision": "f32"})";
  const std::string text = json([&](JsonWriter& out) { report::write_manifest(manifest, out, kContext); });
  check_schema("manifest", text);
  CHECK(text.find("lir.json") < text.find("plan.json"));
}

TEST_CASE("tables align, names stay on one line") {
  std::string s;
  report::Table t({"a", "count"});
  t.add({"longer", "1"});
  t.print(&s);
  CHECK(s == "  a       count\n  longer      1\n");
}
