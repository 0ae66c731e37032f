#include "passes/shard/pipeline.h"

#include "ir/text.h"
#include "support/random_blocks.h"
#include "support/random_graph.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// Cuts the model, and compares the program of all devices with the model on one. Returns whether it was cut.
bool cuts_well(const std::function<std::unique_ptr<Module>()>& make, const std::string& mesh, std::vector<std::string> parallel,
               uint64_t seed) {
  const auto before = make(), after = make();
  PassRun run;
  run.options.mesh = mesh;
  run.options.parallel = std::move(parallel);
  run.target.machine.launch_ns = 1e5;  // nothing is cheap enough to be computed twice
  run(*after, "partition");
  if (!run.diagnostics.ok()) return false;
  run(*after, "common_subexpression_elimination");
  run(*after, "dead_code_elimination");
  Diagnostics found;
  CHECK_MESSAGE(verify(*after, found), "seed " << seed << ": " << found.text());
  const auto expected = results_of(*before, seed), actual = results_of(*after, seed);
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double atol = 1e-4 * std::max(1.0, largest_value(expected[i].tensor));
    const eval::Comparison c = eval::compare(actual[i], expected[i], 1e-4, atol);
    CHECK_MESSAGE(c.pass, "seed " << seed << ": " << c.message << " by " << c.max_abs);
  }
  return stages_of(after->main()).has_value();
}

constexpr const char* kMlp = R"(module "mlp" mir {
graph @main {
  %0 = input "x" : f32[B,512]
  %1 = param {data = splat 0.01} "w1" : f32[512,512]
  %2 = param {data = splat 0.02} "w2" : f32[512,512]
  %3 = matmul(%0, %1) : f32[B,512]
  %4 = gelu(%3) : f32[B,512]
  %5 = matmul(%4, %2) : f32[B,512]
  return %5 "y"
}
}
)";

std::string with_batch(std::string text, const std::string& batch) {
  for (size_t at = text.find("[B,"); at != text.npos; at = text.find("[B,")) text.replace(at + 1, 1, batch);
  return text;
}

std::unique_ptr<Module> parse(const std::string& text) {
  Diagnostics d;
  auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  return m;
}

}  // namespace

TEST_CASE("stages of random graphs compute on all devices what one device computes") {
  int cut = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed)
    cut +=
        cuts_well([&] { return random_graph({.seed = seed, .nodes = 25}); }, seed % 2 ? "pipe=2" : "pipe=3", {"pipeline"}, seed);
  CHECK(cut > 100);
}

TEST_CASE("stages of random blocks of networks compute what one device computes, beside split heads and hidden units") {
  int cut = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const auto make = [&] { return random_blocks(seed, 3); };
    cut += cuts_well(make, "pipe=3", {"pipeline"}, seed);
    cuts_well(make, "pipe=2,model=2", {"pipeline", "tensor"}, seed);
    cuts_well(make, "pipe=2,data=2", {"data", "pipeline"}, seed);
  }
  CHECK(cut > 50);
}

TEST_CASE("a device reads the weights of its stage") {
  const auto m = parse(with_batch(kMlp, "1"));
  PassRun run;
  run.options.mesh = "pipe=2";
  run.options.parallel = {"pipeline"};
  run(*m, "partition");
  CHECK(run.diagnostics.text() == "");
  const auto stages = stages_of(m->main());
  REQUIRE(stages.has_value());
  std::vector<uint32_t> params;
  for (NodeId n : m->main().nodes())
    if (m->main().op(n) == OpKind::Param) params.push_back(stages->stages(n));
  CHECK(params == std::vector<uint32_t>{1, 2});
  CHECK(stage_weight_bytes(m->main()) == std::vector<uint64_t>{512 * 512 * 4, 512 * 512 * 4});
}

TEST_CASE("micro-batches follow each other through the stages if the batch is large") {
  const auto sends = [](const std::string& batch) {
    const auto m = parse(with_batch(kMlp, batch));
    PassRun run;
    run.options.mesh = "pipe=2";
    run.options.parallel = {"pipeline"};
    run(*m, "partition");
    run(*m, "common_subexpression_elimination");
    run(*m, "dead_code_elimination");
    CHECK(run.diagnostics.text() == "");
    same_results(*parse(with_batch(kMlp, batch)), *m);
    int count = 0;
    for (NodeId n : m->main().nodes()) count += m->main().op(n) == OpKind::CollectivePermute;
    return count;
  };
  CHECK(sends("1") == 2);  // to the second stage, and the output to the first
  CHECK(sends("1024") > 2);
}

TEST_CASE("models that have no stages are errors") {
  const auto said = [](const std::string& text, const std::string& mesh) {
    const auto m = parse(text);
    PassRun run;
    run.options.mesh = mesh;
    run.options.parallel = {"pipeline"};
    run(*m, "partition");
    return run.diagnostics.text();
  };
  const std::string text = with_batch(kMlp, "4");
  CHECK(said(text, "pipe=4").find("too few for 4 stages") != std::string::npos);
  CHECK(said(text, "pipe=33").find("at most 32 stages") != std::string::npos);
  CHECK(said(text, "a=2,b=2").find("needs a mesh axis \"pipe\"") != std::string::npos);
}

TEST_CASE("stages that a model carries are those that it is cut into") {
  const auto text_with = [](const shard::NodeStages& stages, bool strategy, std::string* said) {
    const auto m = parse(with_batch(kMlp, "8"));
    if (!stages.empty()) m->devices.all = {{"pipe=2", 2, {}}};
    for (NodeId n : m->main().nodes())
      if (!has_trait(m->main().op(n), kLeaf)) m->main().set_node_name(n, m->symbol("n" + std::to_string(n.raw)));
    for (const auto& [name, stage] : stages) m->devices.nodes[name].push_back({"pipe=2", stage, {}});
    PassRun run;
    run.options.mesh = "pipe=2";
    if (strategy) run.options.parallel = {"pipeline"};
    run.target.machine.launch_ns = 1e5;
    run(*m, "partition");
    *said = run.diagnostics.text();
    m->devices = {};
    return print(*m);
  };
  std::string said;
  const auto m = parse(with_batch(kMlp, "8"));
  std::vector<std::string> names;
  for (NodeId n : m->main().nodes())
    if (!has_trait(m->main().op(n), kLeaf)) names.push_back("n" + std::to_string(n.raw));
  REQUIRE(names.size() == 3);
  const std::string none = text_with({}, false, &said);
  const std::string early = text_with({{names[0], 0}, {names[1], 1}, {names[2], 1}}, false, &said);
  CHECK(said == "");
  const std::string late = text_with({{names[1], 0}, {names[2], 1}}, false, &said);
  CHECK(said == "");
  CHECK(none.find("collective_permute") == none.npos);
  CHECK(early.find(names[0] + ".send") != early.npos);
  CHECK(late.find(names[1] + ".send") != late.npos);
  // Without an order, or with more stages than devices, they are ignored.
  CHECK(text_with({{names[0], 1}, {names[2], 0}}, false, &said) == text_with({}, true, &said));
  text_with({{names[0], 1}, {names[2], 0}}, false, &said);
  CHECK(said.find("stages of the model are ignored") != said.npos);
  CHECK(text_with({{names[0], 2}}, false, &said) == none);
  CHECK(said.find("they are ignored") != said.npos);
}
