#include "shard/partition.h"

#include "analysis/exchange.h"
#include "ir/text.h"
#include "support/mlp_text.h"
#include "support/random.h"
#include "support/random_blocks.h"
#include "support/random_graph.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

Mesh mesh_from(std::string_view s) {
  std::string message;
  const auto mesh = Mesh::parse(s, &message);
  REQUIRE_MESSAGE(mesh.has_value(), message);
  return *mesh;
}

// Splits a few random values. With `pads`, dims that do not divide are padded.
void split_randomly(const Graph& g, shard::Shardings& s, test::Random& random, bool pads) {
  std::vector<ValueId> values;
  for (NodeId n : g.nodes())
    for (size_t r = 0; r < g.result_count(n); ++r)
      if (g.rank(g.result(n, r)) > 0) values.push_back(g.result(n, r));
  for (int k = 0, done = 0; k < 30 && done < 4; ++k) {
    const ValueId v = values[random.below(values.size())];
    const size_t dim = random.below(static_cast<uint64_t>(g.rank(v)));
    std::vector<size_t> axes{random.below(s.mesh().axes.size())};
    if (random.chance(0.1)) axes = {1, 0};
    const int64_t blocks = random.chance(0.1) ? 2 : 1, parts = s.mesh().group_size(axes);
    const bool padded = pads && blocks == 1 && g.dims(v)[dim].is_static() && g.dims(v)[dim].size() > 1;
    done += s.split(v, dim, {axes, blocks, padded ? shard::padding_of(g.dims(v)[dim].size(), parts) : 0});
  }
}

int64_t count_collectives(const Graph& g) {
  int64_t count = 0;
  for (NodeId n : g.nodes()) count += has_trait(g.op(n), kCollective);
  return count;
}

int64_t count_collectives_that_exchange(const Graph& g) {
  int64_t count = 0;
  for (NodeId n : g.nodes()) count += exchanges_data(g.op(n));
  return count;
}

// Compares the program of all devices with the model on one. Returns whether it was divided.
bool divides_well(const std::function<std::unique_ptr<Module>()>& make, std::string_view mesh, uint64_t seed, bool pads = false) {
  const auto before = make(), after = make();
  test::Random random(seed);
  shard::Shardings s(after->main(), mesh_from(mesh));
  split_randomly(after->main(), s, random, pads);
  Diagnostics d;
  s.propagate(d);
  const bool changed = shard::partition(after->main(), s);
  const auto check = [&](std::string_view stage) {
    Diagnostics found;
    CHECK_MESSAGE(verify(*after, found), stage << ", seed " << seed << ": " << found.text());
    const auto expected = results_of(*before, seed), actual = results_of(*after, seed);
    REQUIRE(actual.size() == expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const double atol = 1e-4 * std::max(1.0, largest_value(expected[i].tensor));
      const eval::Comparison c = eval::compare(actual[i], expected[i], 1e-4, atol);
      CHECK_MESSAGE(c.pass, stage << ", seed " << seed << ": " << c.message << " by " << c.max_abs);
    }
  };
  check("partition");
  PassRun run;
  run(*after, "dead_code_elimination");
  run(*after, "lower_collectives");
  check("lower_collectives");
  CHECK_FALSE(run(*after, "lower_collectives").changed);
  return changed && count_collectives(after->main()) > 0;
}

std::unique_ptr<Module> parse(std::string_view text) {
  Diagnostics d;
  auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  return m;
}

// Runs the pass with these options on a model given as text and compares the results.
struct Partitioned {
  std::unique_ptr<Module> m;
  PassRun run;
  Partitioned(std::string_view model, const std::function<void(PassOptions&)>& configure) : m(parse(model)) {
    configure(run.options);
    run(*m, "partition");
    run(*m, "dead_code_elimination");
    if (run.diagnostics.ok()) same_results(*parse(model), *m);
  }
  std::string ops_left() const {
    std::string s;
    for (NodeId n : m->main().nodes())
      if (!has_trait(m->main().op(n), kLeaf)) s += (s.empty() ? "" : " ") + std::string(name(m->main().op(n)));
    return s;
  }
};

std::unique_ptr<Module> recognised_blocks(uint64_t seed) {
  auto m = random_blocks(seed, 3);
  PassRun run;
  for (std::string_view pass : {"recognise_layer_norm", "recognise_rms_norm", "recognise_softmax", "recognise_rope",
                                "recognise_attention", "dead_code_elimination"})
    run(*m, pass);
  return m;
}

}  // namespace

TEST_CASE("random graphs with random shardings compute on all devices what one device computes") {
  int divided = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed)
    divided += divides_well([&] { return random_graph({.seed = seed, .nodes = 25}); }, seed % 3 ? "a=2,b=2" : "a=2,b=3", seed);
  CHECK(divided > 600);
}

TEST_CASE("random blocks of networks with random shardings compute on all devices what one device computes") {
  int divided = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed)
    divided += divides_well([&] { return recognised_blocks(seed); }, seed % 2 ? "a=2,b=2" : "a=2,b=4", seed);
  CHECK(divided > 600);
}

TEST_CASE("dims that do not divide are padded, and devices compute what one device computes") {
  int divided = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const auto graph = [&] { return random_graph({.seed = seed, .nodes = 25}); };
    divided += divides_well(graph, seed % 3 ? "a=2,b=5" : "a=4,b=3", seed, true);
    divided += divides_well([&] { return recognised_blocks(seed); }, seed % 2 ? "a=3,b=2" : "a=5,b=3", seed, true);
  }
  CHECK(divided > 270);
}

// A mean, a largest value, a product, rows by index and a quotient of integers over dims that three devices cannot share.
TEST_CASE("padding does not reach sums, extremes, indices and divisors") {
  const Partitioned p(R"(module "odd" mir {
graph @main {
  %0 = input "x" : f32[5,7]
  %1 = param {data = dense [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]} "w" : f32[7,2]
  %4 = exp(%0) : f32[5,7]
  %5 = reduce(%4) {op = "mean", axes = [1], keep_dim = false} : f32[5]
  %6 = constant {data = splat 3} : i64[5,7]
  %7 = cast(%0) {to = "i64"} : i64[5,7]
  %8 = mul(%7, %7) : i64[5,7]
  %9 = add(%8, %6) : i64[5,7]
  %10 = div(%6, %9) : i64[5,7]
  %11 = reduce(%0) {op = "max", axes = [1], keep_dim = false} : f32[5]
  %12 = matmul(%4, %1) : f32[5,2]
  %13 = gather(%1, %10) {axis = 0} : f32[5,7,2]
  return %5 "mean", %11 "largest", %12 "product", %13 "rows", %10 "quotient"
}
}
)",
                      [](PassOptions& o) {
                        o.mesh = "a=3";
                        o.shards = {"x=a:1", "w=a:0"};
                      });
  CHECK(p.run.diagnostics.text() == "");
  CHECK(p.ops_left().find("all_reduce") != std::string::npos);
  CHECK(p.ops_left().find("range") != std::string::npos);
}

TEST_CASE("heads, hidden units and words that do not divide are split with padding") {
  const Partitioned p(R"(module "odd" mir {
graph @main {
  %0 = input "x" : f32[1,4,6]
  %1 = param {data = splat 0.25} "wq" : f32[6,6]
  %2 = param {data = splat 0.5} "wk" : f32[6,6]
  %3 = matmul(%0, %1) : f32[1,4,6]
  %4 = matmul(%0, %2) : f32[1,4,6]
  %5 = attention(%3, %4, %4) {num_heads = 3, num_kv_heads = 3, layout = "packed", out_layout = "packed"} : f32[1,4,6]
  %6 = matmul(%5, %1) : f32[1,4,6]
  return %6 "y"
}
}
)",
                      [](PassOptions& o) {
                        o.mesh = "model=2";
                        o.parallel = {"tensor"};
                      });
  CHECK(p.run.diagnostics.text() == "");
  CHECK(p.ops_left().find("attention") != std::string::npos);
  for (NodeId n : p.m->main().nodes())
    if (p.m->main().op(n) == OpKind::Attention) CHECK(p.m->main().attrs<AttentionAttrs>(n).num_heads == 2);
}

TEST_CASE("--parallel tensor splits an MLP by its hidden units and needs one all_reduce") {
  const Partitioned p(kMlp, [](PassOptions& o) {
    o.mesh = "model=4";
    o.parallel = {"tensor"};
  });
  CHECK(p.run.diagnostics.text() == "");
  CHECK(p.ops_left() == "device_slice matmul gelu device_slice matmul all_reduce add");
}

TEST_CASE("--parallel data splits the batch and gathers the output") {
  const Partitioned p(kMlp, [](PassOptions& o) {
    o.mesh = "data=2";
    o.parallel = {"data"};
  });
  CHECK(p.ops_left() == "device_slice matmul gelu matmul add all_gather");
}

TEST_CASE("strategies combine over a mesh of two axes") {
  const Partitioned p(kMlp, [](PassOptions& o) {
    o.mesh = "data=2,model=2";
    o.parallel = {"data", "tensor"};
  });
  CHECK(p.ops_left() == "device_slice device_slice matmul gelu device_slice matmul all_reduce add all_gather");
}

TEST_CASE("a name decides how its value is split, also if it is a regular expression") {
  for (const std::string& rule : {std::string("w1=model:1"), std::string("w[13]=model:1")}) {
    const Partitioned p(kMlp, [&](PassOptions& o) {
      o.mesh = "model=2";
      o.shards = {rule};
    });
    CHECK(p.ops_left() == "device_slice matmul gelu device_slice matmul all_reduce add");
  }
}

TEST_CASE("a value that is kept whole is gathered") {
  const Partitioned p(kMlp, [&](PassOptions& o) {
    o.mesh = "model=2";
    o.shards = {"w1=model:1", "w2=whole"};
  });
  CHECK(p.ops_left() == "device_slice matmul gelu device_slice matmul all_reduce add");
}

TEST_CASE("operands that contradict each other are reported by name") {
  const Partitioned p(kMlp, [&](PassOptions& o) {
    o.mesh = "a=2,b=2";
    o.shards = {"w1=a:1", "w2=b:0"};
  });
  const std::string said = p.run.diagnostics.text();
  CHECK_MESSAGE(said.find("RLX0231") != said.npos, said);
  CHECK_MESSAGE(said.find("\"up\" f32[4,16] is split as a:1") != said.npos, said);
}

TEST_CASE("shardings that cannot be are errors that name the flag or the value") {
  const std::pair<std::string, std::string> cases[] = {{"w1=model:2", "has no dim 2"},
                                                       {"w1=model:0/5", "does not divide"},
                                                       {"w9=model:0", "no value of the model has the name"},
                                                       {"w1=pipe:0", "has no axis \"pipe\""},
                                                       {"w1=model", "is not AXIS:DIM"},
                                                       {"w1=model:0,model:1", "twice"},
                                                       {"(((=model:0", "no value of the model"}};
  for (const auto& [rule, why] : cases) {
    const Partitioned p(kMlp, [&rule = rule](PassOptions& o) {
      o.mesh = "model=4";
      o.shards = {rule};
    });
    CHECK_FALSE(p.run.diagnostics.ok());
    CHECK_MESSAGE(p.run.diagnostics.text().find(why) != std::string::npos, p.run.diagnostics.text());
  }
  for (const std::string mesh :
       {"model", "model=0", "model=2,model=2", "a=300,b=300", "=2", "model=2,", "a=99999999999999999999"}) {
    const Partitioned p(kMlp, [&](PassOptions& o) { o.mesh = mesh; });
    CHECK_MESSAGE(!p.run.diagnostics.ok(), mesh);
  }
}

TEST_CASE("the columns of packed projections are split within each block") {
  const Partitioned p(R"(module "packed" mir {
graph @main {
  %0 = input "x" : f32[1,4,8]
  %1 = param {data = splat 0.25} "w" : f32[8,24]
  %2 = matmul(%0, %1) : f32[1,4,24]
  %3 = narrow(%2) {axis = 2, start = 0, len = 8} : f32[1,4,8]
  %4 = narrow(%2) {axis = 2, start = 8, len = 8} : f32[1,4,8]
  %5 = narrow(%2) {axis = 2, start = 16, len = 8} : f32[1,4,8]
  %6 = attention(%3, %4, %5) {num_heads = 4, num_kv_heads = 4, layout = "packed", out_layout = "packed"} : f32[1,4,8]
  %7 = param {data = splat 0.5} "o" : f32[8,8]
  %8 = matmul(%6, %7) : f32[1,4,8]
  return %8 "y"
}
}
)",
                      [](PassOptions& o) {
                        o.mesh = "model=2";
                        o.parallel = {"tensor"};
                      });
  CHECK(p.ops_left() == "device_slice matmul narrow narrow narrow attention device_slice matmul reduce_scatter all_gather");
}

TEST_CASE("rows of a table that is split are looked up where they are") {
  const Partitioned p(R"(module "words" mir {
graph @main {
  %0 = input "ids" : i64[2,3]
  %1 = param {data = dense [0, 1, 2, 3, 4, 5, 6, 7]} "words" : f32[4,2]
  %2 = gather(%1, %0) {axis = 0} : f32[2,3,2]
  return %2 "y"
}
}
)",
                      [](PassOptions& o) {
                        o.mesh = "model=4";
                        o.parallel = {"tensor"};
                      });
  CHECK(p.ops_left().find("gather") != std::string::npos);
  CHECK(p.ops_left().find("all_reduce") != std::string::npos);
}

constexpr std::string_view kExperts = R"(module "experts" mir {
graph @main {
  %0 = input "x" : f32[6,2]
  %1 = constant {data = dense [0, 3, 1, 2, 2, 1]} : i64[6]
  %2 = param {data = dense [-0.73, 0.69, 0.53, -0.49, -0.01, -0.1, 0.3, 0.58, -0.81, -0.94, 0.67, -0.13, 0.52, -1.0, -0.11, 0.44, -0.54, 0.89, 0.8, -0.94, -0.95, 0.08, 0.88, -0.24, -0.57, -0.16, -0.94, -0.56, -0.12, -0.01, -0.53, -0.54]} "up" : f32[4,2,4]
  %3 = param {data = dense [-0.56, -0.08, -0.42, -0.96, 0.68, 0.11, 0.28, -0.63, 0.99, 0.72, -0.76, -0.33, 0.44, 0.42, 0.87, -0.16, 0.66, 0.34, -0.39, 0.18, 0.76, 0.69, 0.01, 0.18, -0.93, -0.51, 0.59, -0.17, -0.65, 0.1, 0.41, 0.35]} "down" : f32[4,4,2]
  %4 = grouped_matmul(%0, %2, %1) : f32[6,4]
  %5 = gelu(%4) : f32[6,4]
  %6 = grouped_matmul(%5, %3, %1) : f32[6,2]
  return %6 "y"
}
}
)";

TEST_CASE("--parallel expert adds the rows of all experts up once, after their last product") {
  for (const std::string mesh : {"expert=2", "expert=4", "expert=2,model=2"}) {
    const Partitioned p(kExperts, [&](PassOptions& o) {
      o.mesh = mesh;
      o.parallel = {"expert"};
      if (mesh.ends_with("model=2")) o.parallel.emplace_back("tensor");
    });
    CHECK(p.run.diagnostics.text() == "");
    CHECK(count_collectives_that_exchange(p.m->main()) == 1);
  }
  const Partitioned none(kMlp, [](PassOptions& o) {
    o.mesh = "expert=2";
    o.parallel = {"expert"};
  });
  CHECK(none.run.diagnostics.text().find("finds no experts") != std::string::npos);
}

TEST_CASE("rows of experts that other nodes read are added up where they are made") {
  std::string text(kExperts);
  text.replace(text.find("  return"), 8, "  %7 = reduce(%5) {op = \"sum\", axes = [0]} : f32[4]\n  return %7 \"z\",");
  const Partitioned p(text, [](PassOptions& o) {
    o.mesh = "expert=2";
    o.parallel = {"expert"};
  });
  CHECK(p.run.diagnostics.text() == "");
  CHECK(count_collectives_that_exchange(p.m->main()) == 2);
}

TEST_CASE("--parallel auto takes the fastest strategy that fits the memory of a device") {
  const auto ops = [](const std::string& mesh, uint64_t memory) {
    const Partitioned p(kMlp, [&](PassOptions& o) {
      o.mesh = mesh;
      o.parallel = {"auto"};
      o.device_memory = memory;
    });
    return p.run.diagnostics.ok() ? p.ops_left() : p.run.diagnostics.text();
  };
  // Weights take 1024 bytes, of which tensor and pipeline leave 512; activations take 512 bytes at most. A pipeline computes no
  // faster than one device.
  CHECK(ops("d=2", 1100) == "device_slice matmul gelu device_slice matmul all_reduce add");
  CHECK_FALSE(ops("d=2", 0).starts_with("error"));
  const std::string refused = ops("d=2", 500);
  CHECK_MESSAGE(refused.find("no strategy fits 500 bytes a device on the mesh d=2: tensor over d needs 512 B") != refused.npos,
                refused);
  CHECK_MESSAGE(refused.find("the memory of 3 such devices") != refused.npos, refused);
  CHECK(ops("a=2,b=2,c=2,d=2", 0).find("more than 3 axes") != std::string::npos);
  const Partitioned both(kMlp, [](PassOptions& o) {
    o.mesh = "d=2";
    o.parallel = {"auto", "tensor"};
  });
  CHECK(both.run.diagnostics.text().find("goes with no other strategy") != std::string::npos);
}

// Two convolutions and a pool over 16 rows, of which devices have parts.
TEST_CASE("rows of windows that other devices have are exchanged") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    test::Random random(seed);
    const auto number = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
    };
    const int64_t taps = number(1, 5), stride = number(1, 2), begin = number(0, taps - 1),
                  end = std::max<int64_t>(taps - stride - begin, 0);
    const std::string pooled = random.chance(0.5) ? "max" : "mean";
    const int64_t kernel = number(2, 3), pad = kernel - 2;
    const auto list = [](int64_t a, int64_t b) { return "[" + std::to_string(a) + ", " + std::to_string(b) + "]"; };
    const int64_t rows = 16 / stride, pooled_rows = rows / 2;
    const std::string text =
        "module \"image\" mir {\ngraph @main {\n%0 = input \"x\" : f32[2,2,16,6]\n%1 = input \"w\" : f32[4,2," +
        std::to_string(taps) + ",3]\n%2 = conv(%0, %1) {strides = " + list(stride, 1) + ", pads_begin = " + list(begin, 1) +
        ", pads_end = " + list(end, 1) + ", dilations = [1, 1], output_padding = [0, 0], groups = 1} : f32[2,4," +
        std::to_string(rows) + ",6]\n%3 = relu(%2) : f32[2,4," + std::to_string(rows) + ",6]\n%4 = pool(%3) {op = \"" + pooled +
        "\", kernel = " + list(kernel, 2) + ", strides = [2, 2], pads_begin = " + list(pad, 0) +
        ", pads_end = [0, 0], dilations = [1, 1], count_include_pad = true} : f32[2,4," + std::to_string(pooled_rows) +
        ",3]\nreturn %4 \"y\"\n}\n}\n";
    const Partitioned p(text, [&](PassOptions& o) {
      o.mesh = seed % 2 ? "s=2" : "s=4";
      o.shards = {"x=s:2"};
    });
    CHECK_MESSAGE(p.run.diagnostics.text() == "", text);
    CHECK_MESSAGE(p.ops_left().find("conv") != std::string::npos, p.ops_left());
    CHECK_MESSAGE(p.ops_left().find("device_slice") != std::string::npos, p.ops_left());
    if (taps > stride && begin > 0) CHECK_MESSAGE(p.ops_left().find("collective_permute") != std::string::npos, p.ops_left());
  }
}
