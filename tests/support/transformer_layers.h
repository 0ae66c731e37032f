// Two layers of projections, attention, projection and a matmul, for tests of passes on whole blocks.
#pragma once
#include "codegen/lowering_cache.h"
#include "support/rewrite.h"

namespace rlxc::testing {

struct Layers {
  int64_t batch = 1, rows = 8, width = 8;  // batch -1: a symbol
  int64_t inner = 0;                       // columns of an extra matmul before the last one; 0: none
  std::vector<ValueId> operator()(Builder& b) const {
    const Dim outer = batch < 0 ? b.dims().symbol("batch") : Dim(batch);
    ValueId x = f32_input(b, "x", {outer, rows, width});
    AttentionAttrs a;
    a.num_heads = 4, a.num_kv_heads = 4, a.layout = a.out_layout = AttentionLayout::Packed;
    for (const std::string layer : {"first", "second"}) {
      const auto projected = [&](ValueId v, const char* name, int64_t columns) {
        return b.matmul(v, f32_param(b, layer + name, {b.graph().dims(v).back().size(), columns}));
      };
      const ValueId q = projected(x, "q", width), k = projected(x, "k", width), v = projected(x, "v", width);
      x = projected(b.create(OpKind::Attention, {q, k, v}, a), "o", width);
      if (inner) x = projected(x, "i", inner);
      x = projected(x, "f", width);
    }
    return {x};
  }
};

// A target with expensive launches, whose kernels can be fused if the result has at most `max_arguments` arguments.
struct JoiningTarget {
  size_t max_arguments = 0;  // 0: unlimited
  void operator()(PassRun& r) const {
    codegen::CapabilityRow row;
    row.mapping.workgroups = true, row.mapping.load_bytes = row.mapping.vector_bytes = 16, row.mapping.warp = 32;
    row.max_arguments = max_arguments;
    r.target.machine = {2000, 800, 20000, 128, 0};
    r.lowerings = std::make_shared<codegen::LoweringCache>(std::move(row));
    r.context.lowerings = r.lowerings.get();
  }
};

}  // namespace rlxc::testing
