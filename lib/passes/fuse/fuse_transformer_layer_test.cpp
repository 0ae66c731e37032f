#include "passes/passes.h"
#include "support/count_launches.h"
#include "support/transformer_layers.h"

using namespace rlxc;
using namespace rlxc::testing;

TEST_CASE("a small transformer layer is one launch, a large one stays apart") {
  const Rewrite small("fuse_transformer_layer", Layers{}, JoiningTarget()),
      large("fuse_transformer_layer", Layers{1, 128, 256}, JoiningTarget());
  CHECK(small.result.changed);
  CHECK(count_launches(*small.before) == 12);
  CHECK(count_launches(*small.after) == 2);
  REQUIRE(small.run.decisions.size() == 2);
  for (const Decision& d : small.run.decisions) {
    CHECK(d.fused);
    CHECK(d.pattern == "transformer_layer");
    CHECK(d.launches_saved == 5);
    CHECK(d.members.size() == 6);
  }
  CHECK_FALSE(large.result.changed);
  CHECK(large.first_decline() == "cost");
}

TEST_CASE("why a small layer is not one launch") {
  const auto reason = [](const Layers& layers, const std::function<void(PassRun&)>& target) {
    return Rewrite("fuse_transformer_layer", layers, target).first_decline();
  };
  CHECK(reason({}, [](PassRun&) {}) == "no_kernel");
  CHECK(reason({}, JoiningTarget{4}) == "kernel_limit");
  Layers open;
  open.batch = -1;
  CHECK(reason(open, JoiningTarget()) == "dynamic_shape");
}

TEST_CASE("a threshold of rows decides in place of the cost model") {
  const auto with = [](uint64_t rows) {
    return Rewrite("fuse_transformer_layer", Layers{2, 128, 32}, [rows](PassRun& r) {
      JoiningTarget()(r);
      r.options.fuse_attn_threshold = rows;
    });
  };
  CHECK(with(256).result.changed);
  CHECK(with(255).first_decline() == "threshold");
}

TEST_CASE("what one launch would cost beside the launch of its attention block alone decides about a layer") {
  Layers wide;
  wide.inner = 4096;
  const Rewrite r("fuse_transformer_layer", wide, JoiningTarget());
  CHECK_FALSE(r.result.changed);
  CHECK(r.first_decline() == "cost");
}
