// Every single pass, and every pipeline, preserves the results of random graphs. RLXC_RANDOM_GRAPHS sets the number of graphs per
// kind.
#include <cstdlib>

#include "backend/target_traits.h"
#include "driver/compile.h"
#include "driver/pipeline.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/random_blocks.h"
#include "support/random_graph.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

using Make = std::unique_ptr<Module> (*)(uint64_t seed);
std::unique_ptr<Module> blocks(uint64_t seed) { return random_blocks(seed); }
std::unique_ptr<Module> wide_blocks(uint64_t seed) { return random_blocks(seed, 5, DType::F64); }
std::unique_ptr<Module> operations(uint64_t seed) { return random_graph({.seed = seed, .symbolic = seed % 2 == 0}); }

uint64_t graphs() {
  const char* wanted = std::getenv("RLXC_RANDOM_GRAPHS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : 60;
}

// f32 values may differ by 1e-3 of an output's largest value. In f64 the same graphs may differ by 1e-9, which shows that the
// differences are rounding.
void check_same(const std::vector<eval::HostValue>& before, const Module& after, const eval::EquivalenceOptions& o,
                const std::string& what) {
  const auto now = results_of(after, o);
  REQUIRE(now.size() == before.size());
  for (size_t i = 0; i < now.size(); ++i) {
    const double largest = largest_value(before[i].tensor);
    const bool wide = before[i].tensor.dtype == DType::F64;
    const eval::Comparison c = wide ? eval::compare(now[i], before[i], 1e-9, 1e-9 * largest)
                                    : eval::compare(now[i], before[i], o.rtol, o.atol + 1e-3 * largest);
    CHECK_MESSAGE(c.pass, what << ", output " << i << ": " << c.message << " max abs " << c.max_abs << " of " << largest);
  }
}

// Passes that change results on purpose, or need a record that the graphs lack.
bool is_exact(const PassInfo& pass) { return pass.group != "precision" && pass.group != "quantize"; }

}  // namespace

TEST_CASE("random graphs: each pass alone keeps what is computed, and finds nothing more to do") {
  for (const Make make : {&blocks, &wide_blocks, &operations})
    for (uint64_t seed = 1; seed <= graphs(); ++seed) {
      const auto before = make(seed);
      const auto o = equivalence_options(*before, seed);
      const auto expected = results_of(*before, o);
      for (const PassInfo& pass : all_passes()) {
        if (seed % 8 == 0 && !is_required(pass)) {
          const auto same = make(seed);
          PassRun none;
          RewriteCounter counter{0};
          none.context.rewrites = &counter;
          CHECK_MESSAGE(!none(*same, pass.name).changed, pass.name << " does not count what it does");
        }
        if (!is_exact(pass)) continue;
        const auto after = make(seed);
        PassRun run;
        const std::string what = std::string(pass.name) + ", graph " + std::to_string(seed) + " of " + before->name.line();
        if (run(*after, pass.name).changed) check_same(expected, *after, o, what);
        CHECK_MESSAGE(run.diagnostics.ok(), what << ": " << run.diagnostics.text());
      }
    }
}

TEST_CASE("random graphs: the pipelines of cpu and tpu keep what is computed") {
  for (const Make make : {&blocks, &wide_blocks, &operations})
    for (uint64_t seed = 1; seed <= graphs(); ++seed) {
      const auto before = make(seed);
      const auto o = equivalence_options(*before, seed);
      const auto expected = results_of(*before, o);
      for (const char* target : {"cpu", "tpu"}) {
        const auto after = make(seed);
        CompileOptions options;
        options.verify = true;
        Compiled out;
        Diagnostics d;
        REQUIRE_MESSAGE(optimise(*after, *find_target(target), options, {}, {}, &out, d), d.text());
        check_same(expected, *after, o, std::string(target) + ", graph " + std::to_string(seed) + " of " + before->name.line());
      }
    }
}

TEST_CASE("random graphs: a compile that ends after any rewrite keeps what is computed") {
  for (const Make make : {&blocks, &wide_blocks, &operations})
    for (uint64_t seed = 4; seed <= graphs(); seed += 4) {
      const auto before = make(seed);
      const auto o = equivalence_options(*before, seed);
      const auto expected = results_of(*before, o);
      const auto cut = [&](int64_t limit) {
        const auto after = make(seed);
        CompileOptions options;
        options.verify = true, options.bisect_limit = limit;
        Compiled out;
        Diagnostics d;
        REQUIRE_MESSAGE(optimise(*after, *find_target("cpu"), options, {}, {}, &out, d), d.text());
        check_same(expected, *after, o,
                   std::to_string(limit) + " rewrites, graph " + std::to_string(seed) + " of " + before->name.line());
        return out.passes.rewrites.made;
      };
      const int64_t all = cut(-1);
      for (const int64_t limit : {int64_t{0}, all / 3, all / 2, all - 1})
        if (limit >= 0) CHECK(cut(limit) == limit);
    }
}
