// Attributes of a NormRegion by the text of its steps.
#pragma once
#include <doctest/doctest.h>

#include "ir/attrs.h"

namespace rlxc::test {

inline Attrs norm_region(std::vector<std::string> steps, int64_t axis, bool keep) {
  Attrs a = NormRegionAttrs{};
  DimTable dims;
  std::string why;
  REQUIRE_MESSAGE(set_attr_field(a, "steps", std::move(steps), dims, &why), why);
  REQUIRE(set_attr_field(a, "axis", axis, dims, &why));
  REQUIRE(set_attr_field(a, "keep", keep, dims, &why));
  return a;
}

// Around a reduction over these axes.
inline Attrs reduce_region(std::vector<std::string> steps, ReduceOp op, std::vector<int64_t> axes) {
  Attrs a = norm_region(std::move(steps), 0, false);
  auto& r = std::get<NormRegionAttrs>(a);
  r.reduce = op, r.axes = std::move(axes);
  return a;
}

}  // namespace rlxc::test
