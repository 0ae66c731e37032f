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

}  // namespace rlxc::test
