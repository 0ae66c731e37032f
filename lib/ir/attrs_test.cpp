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
  Attrs region = FusionAttrs{};
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

TEST_CASE("attributes of fused nodes are read in their form before version 3 of the formats") {
  struct Form {
    std::vector<std::pair<std::string, AttrValue>> before;
    std::vector<std::string> steps;
    std::vector<int64_t> also;
  };
  using Texts = std::vector<std::string>;
  using Ints = std::vector<int64_t>;
  for (const Form& f : {Form{{{"steps", Texts{"add(i0,i1):f32", "layer_norm(s0;1e-06,0):f32", "neg(s1):f32"}},
                              {"axis", int64_t{2}},
                              {"keep", true},
                              {"also", Ints{1}}},
                             {"add(i0,i1):f32", "layer_norm(s0;axis=2,eps=1e-06):f32", "neg(s1):f32"},
                             {0, 1}},
                        Form{{{"steps", Texts{"group_norm(i0;0.001,4):f32"}}}, {"group_norm(i0;groups=4,eps=0.001):f32"}, {}},
                        Form{{{"steps", Texts{"softmax(i0):f32"}}, {"axis", int64_t{1}}}, {"softmax(i0;axis=1):f32"}, {}},
                        Form{{{"steps", Texts{"reduce_max(i0):f32"}}, {"axes", Ints{1, 2}}}, {"reduce_max(i0;axes=1 2):f32"}, {}},
                        Form{{{"strides", Ints{2, 1}}, {"groups", int64_t{3}}, {"steps", Texts{"q_conv():i32", "cast(s0):f32"}}},
                             {"q_conv(;strides=2 1,groups=3):i32", "cast(s0):f32"},
                             {}}}) {
    DimTable dims;
    AttrTable table;
    std::string message;
    Attrs before = FusionAttrs{}, after = FusionAttrs{};
    for (const auto& [name, value] : f.before) REQUIRE_MESSAGE(set_attr_field(before, name, value, dims, &message), message);
    REQUIRE(set_attr_field(after, "steps", f.steps, dims, &message));
    REQUIRE(set_attr_field(after, "also", f.also, dims, &message));
    CHECK(table.intern(before) == table.intern(after));
    CHECK(attr_fields(after, dims, true)[0].second == attr_fields(before, dims, true)[0].second);
  }
  DimTable dims;
  std::string message;
  Attrs region = FusionAttrs{{{OpKind::Neg, DType::F32, {0, RegionStep::kNone, RegionStep::kNone}}}};
  CHECK_FALSE(set_attr_field(region, "groups", int64_t{2}, dims, &message));
  CHECK_FALSE(set_attr_field(region, "keep", true, dims, &message));
}
