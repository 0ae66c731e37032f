// Blocks as one launch each: fused kernels must equal the reference evaluator, and the interpreter must see no access out of
// bounds, race or load of an overwritten element.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "analysis/phases.h"
#include "backend/backend.h"
#include "backend/target_traits.h"
#include "codegen/make_package.h"
#include "driver/compile.h"
#include "memory/plan_lir.h"
#include "runtime/emulate_package.h"
#include "runtime/interpret_package.h"
#include "support/random_blocks.h"
#include "support/same_results.h"
#include "support/transformer_layers.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

std::unique_ptr<Module> layers() {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  for (ValueId v : Layers{}(b)) m->main().add_output(v, m->symbol("y"));
  return m;
}

// A module for a target with launches expensive enough to fuse whatever can be fused.
class Blocks {
 public:
  Blocks(std::unique_ptr<Module> m, std::string target, uint64_t seed) : target_(std::move(target)), seed_(seed) {
    TargetTraits traits = *find_target(target_);
    traits.machine.launch_ns = 1e9;
    CompileOptions options;
    options.verify = true;
    Compiled out;
    REQUIRE_MESSAGE(optimise(*m, traits, options, {}, {}, &out, d_), d_.text());
    formed_ = std::ranges::count_if(out.decisions, [](const Decision& x) {
      return x.fused && (x.pattern == "transformer_layer" || x.pattern == "attention_block");
    });
    const auto o = equivalence_options(*m, seed);
    inputs_ = eval::random_inputs(*m, o), expected_ = results_of(*m, o);
    lir_ = plan_lir(std::move(m), {.verify = true}, d_, {.kernels = capability(find_backend(target_)->info)});
    REQUIRE_MESSAGE(lir_.has_value(), d_.text());
  }

  int64_t formed() const { return formed_; }

  void check_steps() {
    const auto package = codegen::make_package(*lir_, "blocks", *capability(find_backend(target_)->info), d_);
    REQUIRE_MESSAGE(package.has_value(), d_.text());
    const Graph& g = lir_->module->main();
    std::set<Symbol> launches;
    for (const codegen::Command& s : package->graphs[0].run)
      if (s.node.valid() && g.launch(s.node).valid()) CHECK(launches.insert(g.launch(s.node)).second);
    CHECK(static_cast<int64_t>(launches.size()) == formed_);
  }

  template <class Make>
  void run(const Make& make_runner) {
    const auto runner = make_runner(*lir_, target_, d_);
    REQUIRE_MESSAGE(runner != nullptr, d_.text());
    const auto actual = runner->run(inputs_, d_);
    REQUIRE_MESSAGE(actual.has_value(), target_ << ", graph " << seed_ << ": " << d_.text());
    for (size_t i = 0; i < expected_.size(); ++i) {
      const auto c = eval::compare((*actual)[i], expected_[i], 1e-3, 1e-3 * largest_value(expected_[i].tensor));
      CHECK_MESSAGE(c.pass, target_ << ", graph " << seed_ << ", output " << i << ": " << c.message);
    }
  }

 private:
  std::string target_;
  uint64_t seed_;
  Diagnostics d_;
  int64_t formed_ = 0;
  std::vector<eval::HostValue> inputs_, expected_;
  std::optional<LirModule> lir_;
};

}  // namespace

TEST_CASE("random blocks as one launch compute what their nodes do") {
  for (const char* target : {"cuda", "wgpu"}) {
    int64_t formed = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      Blocks b(random_blocks(seed, 3), target, seed);
      if (b.formed() == 0) continue;
      formed += b.formed();
      b.check_steps();
      b.run([](const LirModule& lir, const std::string& t, Diagnostics& d) { return make_interpreting_runner(lir, t, d); });
    }
    CHECK(formed > 10);
  }
}

TEST_CASE("which nodes share a launch is decided anew, whatever the input says") {
  const auto m = layers();
  for (NodeId n : m->main().nodes()) m->main().set_launch(n, m->symbol("all"));
  Compiled out;
  Diagnostics d;
  REQUIRE(optimise(*m, *find_target("cpu"), {}, {}, {}, &out, d));
  for (NodeId n : m->main().nodes()) CHECK_FALSE(m->main().launch(n).valid());
}

TEST_CASE("the sources of blocks as one launch compute what their nodes do") {
  std::vector<const char*> targets = {"cuda", "rocm", "metal"};
  if (std::getenv("RLXC_WEBGPU")) targets.push_back("wgpu");
  for (const char* target : targets) {
    Blocks b(layers(), target, 1);
    CHECK(b.formed() == 2);
    b.run([](const LirModule& lir, const std::string& t, Diagnostics& d) { return make_emulated_runner(lir, t, d); });
  }
}
