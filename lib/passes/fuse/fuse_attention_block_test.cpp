#include "ir/text.h"
#include "passes/passes.h"
#include "support/count_launches.h"
#include "support/transformer_layers.h"

using namespace rlxc;
using namespace rlxc::testing;

TEST_CASE("a small attention and its projections are one launch") {
  Layers wide;
  wide.inner = 4096;
  const Rewrite r("fuse_attention_block", wide, JoiningTarget());
  CHECK(count_launches(*r.before) == 14);
  CHECK(count_launches(*r.after) == 6);
  for (const Decision& d : r.run.decisions) CHECK((d.fused && d.launches_saved == 4));
}

TEST_CASE("an attention in the launch of its layer is not decided about again") {
  Module m;
  Builder b(m.main());
  for (ValueId v : Layers{}(b)) m.main().add_output(v, m.symbol("y"));
  PassRun run;
  JoiningTarget()(run);
  CHECK(run(m, "fuse_transformer_layer").changed);
  CHECK_FALSE(run(m, "fuse_attention_block").changed);
  CHECK(run.decisions.size() == 2);
}

TEST_CASE("the text of a graph says which launch a node belongs to, and is read back") {
  const Rewrite r("fuse_attention_block", Layers{}, JoiningTarget());
  const std::string text = print(*r.after, {.full_data = true});
  CHECK(text.find(" launch \"attention_block_1\"") != std::string::npos);
  Diagnostics d;
  const auto again = parse_text(text, d);
  REQUIRE_MESSAGE(again != nullptr, d.text());
  CHECK(print(*again, {.full_data = true}) == text);
}
