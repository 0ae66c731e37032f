// Attention of few queries, whose keys workgroups share, must equal the reference evaluator; the interpreter must see no race.
#include <doctest/doctest.h>

#include "backend/backend.h"
#include "backend/registry.h"
#include "codegen/make_package.h"
#include "eval/compare.h"
#include "ir/text.h"
#include "memory/plan_lir.h"
#include "runtime/interpret_package.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Shape {
  const char *q, *k, *v, *mask, *attrs, *y;
};

void check_parts(const Shape& s, const std::string& target) {
  INFO(target << ": " << s.q << " of " << s.k);
  const std::string has_mask = s.mask ? std::string("  %9 = input \"mask\" : ") + s.mask + "\n" : "";
  const std::string text =
      std::string("module \"m\" hir {\ngraph @main {\n  %0 = input \"q\" : ") + s.q + "\n  %1 = input \"k\" : " + s.k +
      "\n  %2 = input \"v\" : " + s.v + "\n" + has_mask + "  %3 = attention(%0, %1, %2" + (s.mask ? ", %9" : "") +
      ") {layout = \"bhsd\", out_layout = \"bhsd\", " + s.attrs + "} \"y\" : " + s.y + "\n  return %3 \"y\"\n}\n}\n";
  Diagnostics d;
  auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m != nullptr, d.text());
  const auto o = equivalence_options(*m, 1);
  const auto inputs = eval::random_inputs(*m, o);
  const auto expected = results_of(*m, o);
  const auto lir = plan_lir(std::move(m), {.verify = true}, d, {.kernels = capability(find_backend(target)->info)});
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  const auto package = codegen::make_package(*lir, "m", *capability(find_backend(target)->info), d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  CHECK(package->kernels.size() == 2);
  const auto runner = make_interpreting_runner(*lir, target, d);
  REQUIRE_MESSAGE(runner != nullptr, d.text());
  const auto actual = runner->run(inputs, d);
  REQUIRE_MESSAGE(actual.has_value(), d.text());
  const auto c = eval::compare((*actual)[0], expected[0], 1e-3, 3e-3);
  CHECK_MESSAGE(c.pass, c.message);
}

}  // namespace

TEST_CASE("attention of few queries in parts of the keys") {
  const Shape shapes[] = {
      {"f32[2,6,3,40]", "f32[2,2,400,40]", "f32[2,2,400,24]", nullptr, R"(num_heads = 6, num_kv_heads = 2, mask = "causal")",
       "f32[2,6,3,24]"},
      {"f32[1,4,1,64]", "f32[1,1,515,64]", "f32[1,1,515,64]", "bool[1,1,1,515]",
       R"(num_heads = 4, num_kv_heads = 1, mask = "custom")", "f32[1,4,1,64]"},
      {"f32[1,12,2,256]", "f32[1,1,260,256]", "f32[1,1,260,128]", "f32[1,1,2,260]",
       R"(num_heads = 12, num_kv_heads = 1, mask = "bias")", "f32[1,12,2,128]"},
      {"f16[1,4,1,8]", "f16[1,2,300,8]", "f16[1,2,300,4]", nullptr, R"(num_heads = 4, num_kv_heads = 2, mask = "none")",
       "f16[1,4,1,4]"},
      {"f32[1,2,1,80]", "f32[1,2,600,80]", "f32[1,2,600,80]", nullptr,
       R"(num_heads = 2, num_kv_heads = 2, mask = "sliding_window", window = 150, softcap = 3.0)", "f32[1,2,1,80]"},
  };
  for (const char* target : {"cuda", "rocm", "metal", "wgpu"})
    for (const Shape& s : shapes) check_parts(s, target);
}
