#include "ir/attrs.h"

#include <doctest/doctest.h>

using namespace rlxc;

TEST_CASE("attributes of every op print and parse back, and equal ones are interned once") {
  DimTable dims;
  AttrTable table;
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    CAPTURE(std::string(name(op)));
    Attrs copy = default_attrs(op);
    std::string message;
    for (const auto& given : attr_fields(default_attrs(op), dims, true)) {
      const auto& field = given.first;
      const auto& value = given.second;
      CAPTURE(field);
      CHECK(set_attr_field(copy, field, value, dims, &message));
    }
    CHECK(table.intern(copy) == table.intern(default_attrs(op)));
    CHECK(attr_fields(copy, dims, false, op).empty());
    CHECK(op_from_name(name(op)) == op);
    CHECK(op_from_name(kind_name(op)) == op);
  }
}

TEST_CASE("region steps, epilogues, symbolic sizes and enumerations have text forms") {
  DimTable dims;
  std::string message;
  Attrs region = RegionAttrs{};
  const AttrValue steps = std::vector<std::string>{"add(i0,i1):f32", "leaky_relu(s0;0.1,0):f32", "cast(s1):f16"};
  REQUIRE(set_attr_field(region, "steps", steps, dims, &message));
  CHECK(attr_fields(region, dims, true)[0].second == steps);
  CHECK_FALSE(set_attr_field(region, "steps", std::vector<std::string>{"matmul(i0,i1):f32"}, dims, &message));
  CHECK_FALSE(set_attr_field(region, "nothing", int64_t{1}, dims, &message));
  CHECK(message == "unknown attribute \"nothing\"");

  Attrs fused = FusedMatMulAttrs{};
  REQUIRE(set_attr_field(fused, "act", std::string("leaky_relu(0.1,0)"), dims, &message));
  CHECK(std::get<FusedMatMulAttrs>(fused).act.alpha == 0.1);
  Attrs narrow = NarrowAttrs{};
  REQUIRE(set_attr_field(narrow, "len", std::string("seq-1"), dims, &message));
  CHECK(attr_fields(narrow, dims).back().second == AttrValue(std::string("seq-1")));
  Attrs pad = PadAttrs{};
  CHECK(set_attr_field(pad, "mode", std::string("reflect"), dims, &message));
  CHECK_FALSE(set_attr_field(pad, "mode", std::string("sideways"), dims, &message));
}
