#include "shard/annotations.h"

#include "ir/text.h"
#include "support/mlp_text.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

TensorSharding tensor(std::string name, std::vector<int64_t> devices, std::vector<ShardedAxis> axes) {
  return {std::move(name), std::move(devices), {}, std::move(axes)};
}
ShardedAxis axis(int64_t at, int64_t shards) { return {at, {{std::nullopt, {}, shards}}}; }

std::unique_ptr<Module> mlp() {
  Diagnostics d;
  auto m = parse_text(kMlp, d);
  REQUIRE_MESSAGE(m, d.text());
  return m;
}

// The text of the model after the pass; `configure` sets flags or annotations.
std::string divided(std::string_view mesh, const std::function<void(Module&, PassOptions&)>& configure, std::string* said) {
  const auto m = mlp();
  PassRun run;
  run.options.mesh = mesh;
  configure(*m, run.options);
  run(*m, "partition");
  run(*m, "dead_code_elimination");
  *said = run.diagnostics.text();
  if (run.diagnostics.ok()) same_results(*mlp(), *m);
  m->devices = {};
  return print(*m);
}

DeviceConfigurations on(int64_t devices, std::vector<TensorSharding> tensors) {
  DeviceConfigurations c;
  c.all = {{"other", devices + 1, {}}, {"tp", devices, {}}};
  c.nodes["up"] = {{"other", std::nullopt, {tensor("w1", {0}, {})}}, {"tp", std::nullopt, std::move(tensors)}};
  return c;
}

}  // namespace

TEST_CASE("a model with a device configuration is divided as flags of the same shardings divide it") {
  struct Case {
    std::string mesh;
    std::vector<std::string> flags;
    DeviceConfigurations devices;
  };
  TensorSharding copies = tensor("w1", {-1, -2}, {axis(1, 2)});
  copies.groups = {{-1, {0, 2}}, {-2, {1, 3}}};
  TensorSharding in_blocks = tensor("w1", {0, 1}, {{1, {{2, {}, 1}, {std::nullopt, {}, 2}}}});
  const Case cases[] = {
      {"model=2", {"w1=model:1"}, on(2, {tensor("w1", {0, 1}, {axis(-1, 2)})})},
      {"model=3", {"w2=model:0"}, on(3, {tensor("w2", {0, 1, 2}, {axis(0, 3)})})},
      {"data=2,model=2", {"w1=model:1"}, on(4, {copies})},
      {"data=2,model=2",
       {"x=data:0", "w1=model:0,data:1"},
       on(4, {tensor("x", {-1, -2}, {axis(0, 2)}), tensor("w1", {0, 2, 1, 3}, {axis(0, 2), axis(1, 2)})})},
      {"model=2", {"w1=model:1/2"}, on(2, {in_blocks})},
  };
  for (Case c : cases) {
    if (c.flags.size() == 2) c.devices.nodes["up"][1].tensors[0].groups = {{-1, {0, 1}}, {-2, {2, 3}}};
    std::string said;
    const std::string by_flags = divided(
        c.mesh, [&](Module&, PassOptions& o) { o.shards = c.flags; }, &said);
    const std::string by_model = divided(
        c.mesh, [&](Module& m, PassOptions&) { m.devices = c.devices; }, &said);
    CHECK(said == "");
    CHECK(by_model == by_flags);
    CHECK(by_model.find("device_slice") != std::string::npos);
  }
}

TEST_CASE("flags decide before the device configuration of the model") {
  std::string said;
  const auto annotated = on(2, {tensor("w1", {0, 1}, {axis(1, 2)})});
  const auto flag = [](Module&, PassOptions& o) { o.shards = {"w1=model:0"}; };
  const std::string expected = divided("model=2", flag, &said);
  CHECK(divided(
            "model=2", [&](Module& m, PassOptions& o) { m.devices = annotated, flag(m, o); }, &said) == expected);
}

TEST_CASE("shards that the axes of the mesh do not give to their devices are reported and ignored") {
  const ShardedAxis huge{0, {{int64_t{1} << 40, {}, 1}, {std::nullopt, {}, 2}}};
  const TensorSharding bad[] = {tensor("w1", {1, 0}, {axis(1, 2)}), tensor("w1", {0, 7}, {axis(1, 2)}),
                                tensor("w1", {0}, {axis(1, 2)}),    tensor("w1", {0, 1, 2}, {axis(1, 3)}),
                                tensor("w1", {0, 1}, {axis(5, 2)}), tensor("w1", {0, 1}, {huge}),
                                tensor("w1", {}, {axis(1, 2)}),     tensor("w1", {0, 1}, {axis(INT64_MIN, 2)})};
  for (const TensorSharding& t : bad) {
    std::string said;
    const std::string model = divided(
        "model=2", [&](Module& m, PassOptions&) { m.devices = on(2, {t}); }, &said);
    CHECK_MESSAGE(said.find("RLX0231") != std::string::npos, said);
    CHECK(said.find("error") == std::string::npos);
    CHECK(model.find("device_slice") == std::string::npos);
  }
}

TEST_CASE("an annotated model is divided as the shardings that it was annotated with") {
  struct Case {
    std::string mesh;
    std::vector<std::string> flags;
  };
  const Case cases[] = {{"model=2", {"w1=model:1"}},
                        {"model=3", {"w2=model:0"}},
                        {"data=2,model=2", {"w1=model:0,data:1", "x=data:0"}},
                        {"data=2,model=3", {"w1=model+data:0", "w2=whole"}},
                        {"data=2,model=2", {"x=data+model:0"}},
                        {"model=2", {"w1=model:1/2"}}};
  for (const Case& c : cases) {
    INFO(c.mesh << " " << c.flags[0]);
    std::string message, said;
    const auto mesh = Mesh::parse(c.mesh, &message);
    REQUIRE(mesh);
    const auto m = mlp();
    Diagnostics d;
    shard::Shardings s(m->main(), *mesh);
    for (size_t i = c.flags.size(); i-- > 0;) {
      const auto request = shard::parse_request(c.flags[i], *mesh, d);
      REQUIRE(request);
      CHECK(s.apply(*request, d));
    }
    s.propagate(d);
    const auto annotated = [&](Module& to, PassOptions&) { shard::annotate(to, *mesh, shard::named_shardings(s)); };
    const auto by_flags = [&](Module& to, PassOptions& o) {
      annotated(to, o);  // gives all nodes a name
      to.devices = {};
      o.shards = c.flags;
    };
    const std::string expected = divided(c.mesh, by_flags, &said);
    CHECK(divided(c.mesh, annotated, &said) == expected);
    CHECK(said == "");
    // Only the configuration of as many devices is replaced.
    const auto again = [&](Module& to, PassOptions& o) {
      to.devices = on(mesh->devices(), {tensor("w1", {0}, {axis(0, 7)})});
      annotated(to, o);
      CHECK(to.devices.all.size() == 2);
    };
    CHECK(divided(c.mesh, again, &said) == expected);
  }
}

TEST_CASE("heads that are padded stay together in an annotation") {
  // 4 heads of 16 rows on 3 devices: parts of 2 heads, the last of padding.
  const auto m = mlp();
  std::string message;
  const auto mesh = Mesh::parse("model=3", &message);
  const Graph& g = m->main();
  shard::NamedShardings heads;
  ValueId wide;
  for (NodeId n : g.nodes())
    if (g.op(n) == OpKind::Param && g.dims(g.result(n)).back().size() % 4 == 0) wide = g.result(n);
  REQUIRE(wide.valid());
  const int64_t size = g.dims(wide).back().size(), rows = size / 4;
  shard::NamedSharding& one = heads[std::string(m->bytes(g.value_name(wide)))];
  one.sharding = shard::whole(g.rank(wide));
  one.sharding.back() = {{0}, 1, 2 * rows};
  for (Dim dim : g.dims(wide)) one.sizes.push_back(dim.size());
  shard::annotate(*m, *mesh, heads);
  Diagnostics d;
  shard::Shardings s(g, *mesh);
  s.apply_hints(shard::annotated_requests(m->devices, *mesh, d), d);
  CHECK(s.of(wide) == one.sharding);
  CHECK(d.text() == "");
}
