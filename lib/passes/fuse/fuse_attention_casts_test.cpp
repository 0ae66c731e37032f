#include <doctest/doctest.h>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_attention_casts";

struct Form {
  DType keys = DType::F16, values = DType::F16, queries = DType::F32;
  bool tap = false, shared = false;
};

Rewrite::Build attention_of(Form f) {
  return [f](Builder& b) {
    const ValueId q = b.cast(f32_input(b, "q", {1, 4, 3, 8}), f.queries);
    const auto cache = [&](std::string_view name, DType t) {
      return b.cast(b.input(name, tensor_type(t, {1, 2, 6, 8})), f.queries);
    };
    const ValueId k = cache("k", f.keys), v = f.shared ? k : cache("v", f.values);
    std::vector<ValueId> out{b.create(OpKind::Attention, {q, k, v}, AttentionAttrs{})};
    if (f.tap) out.push_back(b.unary(OpKind::Neg, k));
    return out;
  };
}

std::string left(Form f) { return Rewrite(kPass, attention_of(f)).left(); }

}  // namespace

TEST_CASE("fuse_attention_casts: keys and values are read as they are stored") {
  CHECK(left({}) == "attention");
  CHECK(left({.keys = DType::BF16, .values = DType::BF16}) == "attention");
  CHECK(left({.shared = true}) == "attention");
  CHECK(left({.tap = true}) == "cast attention neg");
}

TEST_CASE("fuse_attention_casts: other types stay") {
  CHECK(left({.values = DType::BF16}) == "cast cast attention");
  CHECK(left({.keys = DType::F64, .values = DType::F64}) == "cast cast attention");
  CHECK(left({.keys = DType::F32, .values = DType::F32, .queries = DType::F64}) == "cast cast cast attention");
}
