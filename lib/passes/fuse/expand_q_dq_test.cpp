#include "eval/value.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "expand_q_dq";

ValueId number(Builder& b, DType t, double v) { return b.constant(eval::tensor_of(t, {}, {v}).tensor); }
ValueId row(Builder& b, std::vector<double> v) {
  const auto n = static_cast<int64_t>(v.size());
  return b.constant(eval::tensor_of(DType::F32, {n}, std::move(v)).tensor);
}

}  // namespace

TEST_CASE("expand_q_dq: one scale for a tensor or for each coordinate of an axis") {
  for (DType t : {DType::I8, DType::U8, DType::I16, DType::U16}) {
    Rewrite r(kPass, [&](Builder& b) {
      const ValueId x = f32_input(b, "x", {3, 4});
      const ValueId q = b.create(OpKind::Quantize, {x, number(b, DType::F32, 0.01), number(b, t, 7)}, QuantAttrs{0, 0, t});
      const ValueId rows = b.create(OpKind::Quantize, {x, row(b, {0.5, 0.125, 0.01, 0.003})}, QuantAttrs{1, 0, DType::I8});
      const auto back = [&](ValueId v, ValueId s) { return b.create(OpKind::Dequantize, {v, s}, QuantAttrs{1, 0, DType::F32}); };
      return std::vector{back(q, number(b, DType::F32, 0.01)), back(rows, row(b, {0.5, 0.125, 0.01, 0.003})), q};
    });
    CHECK(r.left().find("quantize") == std::string::npos);
  }
}

TEST_CASE("expand_q_dq: a pair whose integers nobody else reads stays in floats, bit by bit") {
  for (DType t : {DType::I8, DType::U8, DType::I16, DType::U16})
    for (const bool zero : {false, true})
      for (const bool shared : {false, true}) {
        const Rewrite r(
            kPass,
            [&](Builder& b) {
              const ValueId scale = number(b, DType::F32, bits(t) == 8 ? 0.01 : 1e-5), point = zero ? number(b, t, 7) : ValueId();
              const ValueId q = b.create(OpKind::Quantize, {f32_input(b, "x", {3, 40}), scale, point}, QuantAttrs{0, 0, t});
              std::vector<ValueId> out{b.create(OpKind::Dequantize, {q, scale, point}, QuantAttrs{0, 0, DType::F32})};
              if (shared) out.push_back(q);
              return out;
            },
            {}, 0);
        size_t converted = 0;
        for (NodeId n : r.after->main().nodes()) converted += r.after->main().dtype(r.after->main().result(n)) == DType::I32;
        CHECK((converted > 0) == shared);
      }
}

TEST_CASE("expand_q_dq: blocked scales stay, unless the last block is shorter") {
  for (const int64_t size : {8, 7, 5, 3}) {
    Rewrite r(kPass, [&](Builder& b) {
      const bool one = size < 4;
      const ValueId scale = b.constant(one ? eval::tensor_of(DType::F32, {2, 1}, {0.5, 0.25}).tensor
                                           : eval::tensor_of(DType::F32, {2, 2}, {0.5, 0.25, 0.125, 1}).tensor);
      const int64_t block = one ? int64_t{1} << 40 : 4;
      return std::vector{b.create(OpKind::Quantize, {f32_input(b, "x", {2, size}), scale}, QuantAttrs{1, block, DType::I8})};
    });
    CHECK((r.left() == "quantize") == (size == 8));
  }
}

TEST_CASE("expand_q_dq: not where the target has no regions") {
  Rewrite r(
      kPass,
      [](Builder& b) {
        return std::vector{b.create(OpKind::Quantize, {f32_input(b, "x", {4}), number(b, DType::F32, 0.1)}, QuantAttrs{})};
      },
      [](PassRun& run) { run.target.native.reset(static_cast<size_t>(OpKind::ElementwiseRegion)); });
  CHECK(r.left() == "quantize");
}
