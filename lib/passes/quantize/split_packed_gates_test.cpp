#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "split_packed_gates";

struct Case {
  int64_t first = 6;       // columns of the first slice
  bool zeros = false;      // a zero point for each column
  bool gated = true;       // the slices are multiplied
  bool weight = true;      // known at load time
  bool read = false;       // others read the whole
  bool flattened = false;  // rows are reshaped between
  bool pairs = true;

  std::vector<ValueId> operator()(Builder& b) const {
    const ValueId x = b.input("x", tensor_type(DType::U8, {6, 4}));
    const Type type = tensor_type(DType::I8, {4, 12});
    const ValueId w = weight ? b.param("w", type) : b.input("w", type);
    const ValueId zero = zeros ? b.param("z", tensor_type(DType::I8, {12})) : b.scalar(DType::I8, 3);
    ValueId v = b.cast(b.create(OpKind::QMatMul, {x, w, b.scalar(DType::U8, 100), zero}), DType::F32);
    v = b.mul(v, f32_param(b, "scale", {12}));
    if (flattened) v = b.reshape(v, {2, 3, 12});
    v = pair(b, b.add(v, f32_param(b, "bias", {1, 12})));
    const int axis = b.graph().rank(v) - 1;
    const ValueId up = b.narrow(v, axis, 0, first), gate = b.narrow(v, axis, first, 12 - first);
    std::vector<ValueId> results;
    if (gated && first == 6) results = {b.mul(up, pair(b, b.unary(OpKind::Gelu, gate)))};
    else results = {b.unary(OpKind::Abs, up), b.unary(OpKind::Gelu, gate)};
    if (read) results.push_back(v);
    return results;
  }
  ValueId pair(Builder& b, ValueId v) const {
    if (!pairs) return v;
    const ValueId s = num(b, 0.04), z = b.scalar(DType::U8, 120);
    return b.create(OpKind::Dequantize, {b.create(OpKind::Quantize, {v, s, z}, QuantAttrs{0, 0, DType::U8, true}), s, z},
                    QuantAttrs{0, 0, DType::F32, true});
  }
};

}  // namespace

TEST_CASE("split_packed_gates: halves of columns that are multiplied are two matmuls") {
  for (const bool zeros : {false, true})
    for (const bool flattened : {false, true})
      for (const bool pairs : {false, true}) {
        const Rewrite r(kPass, Case{.zeros = zeros, .flattened = flattened, .pairs = pairs});
        size_t matmuls = 0;
        for (NodeId n : r.after->main().nodes()) matmuls += r.after->main().op(n) == OpKind::QMatMul;
        CHECK(matmuls == 2);
        for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed, {0, 0});
      }
}

TEST_CASE("split_packed_gates: what stays") {
  CHECK_FALSE(Rewrite(kPass, Case{.gated = false}).result.changed);
  CHECK_FALSE(Rewrite(kPass, Case{.first = 4}).result.changed);
  CHECK_FALSE(Rewrite(kPass, Case{.weight = false}).result.changed);
  CHECK_FALSE(Rewrite(kPass, Case{.read = true}).result.changed);
  const auto grid = [](PassRun& run) { run.target.integer_fusions = false; };
  CHECK_FALSE(Rewrite(kPass, Case{}, grid).result.changed);
}
