#include "passes/fuse/weigh_attention_block.h"

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// Two layers of projections, attention, projection and a product.
struct Layers {
  int64_t batch = 1, rows = 128, width = 256;
  std::vector<ValueId> operator()(Builder& b) const {
    ValueId x = f32_input(b, "x", {batch, rows, width});
    AttentionAttrs a;
    a.num_heads = 4, a.num_kv_heads = 4, a.layout = a.out_layout = AttentionLayout::Packed;
    for (const std::string layer : {"first", "second"}) {
      const auto projected = [&](ValueId v, const char* name) { return b.matmul(v, f32_param(b, layer + name, {width, width})); };
      const ValueId q = projected(x, "q"), k = projected(x, "k"), v = projected(x, "v");
      x = projected(projected(b.create(OpKind::Attention, {q, k, v}, a), "o"), "f");
    }
    return {x};
  }
};

}  // namespace

TEST_CASE("the report says what one kernel of an attention block and of a layer would take") {
  for (const bool large : {false, true}) {
    const Rewrite r("weigh_attention_block", large ? Layers{} : Layers{8, 2, 8});
    REQUIRE(r.run.decisions.size() == 8);  // the pass ran twice
    for (size_t i = 0; i < 4; ++i) {
      const Decision& d = r.run.decisions[i];
      CHECK(d.pattern == (i % 2 ? "transformer_layer" : "attention_block"));
      CHECK(d.reason == (large ? "cost" : "no_kernel"));
      CHECK(d.detail.starts_with(i % 2 ? "6 launches; " : "5 launches; "));
      CHECK_FALSE(d.fused);
    }
  }
}
