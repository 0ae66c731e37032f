// Builds region attributes from the text of their steps.
#pragma once
#include <doctest/doctest.h>

#include "ir/attrs.h"

namespace rlxc::test {

inline void set_field(Attrs& a, std::string_view name, AttrValue value) {
  DimTable dims;
  std::string why;
  REQUIRE_MESSAGE(set_attr_field(a, name, std::move(value), dims, &why), why);
}

inline Attrs norm_region(std::vector<std::string> steps, int64_t axis, bool keep, std::vector<int64_t> also = {}) {
  Attrs a = FusionAttrs{};
  set_field(a, "steps", std::move(steps)), set_field(a, "axis", axis), set_field(a, "keep", keep);
  set_field(a, "also", std::move(also));
  return a;
}

inline Attrs reduce_region(std::vector<std::string> steps, std::vector<int64_t> axes) {
  Attrs a = FusionAttrs{};
  set_field(a, "steps", std::move(steps)), set_field(a, "axes", std::move(axes));
  return a;
}

inline Attrs concat_region(std::vector<std::string> steps, int64_t axis, int64_t results, std::vector<int64_t> parts) {
  Attrs a = ConcatRegionAttrs{};
  set_field(a, "steps", std::move(steps)), set_field(a, "axis", axis), set_field(a, "results", results);
  set_field(a, "parts", std::move(parts));
  return a;
}

}  // namespace rlxc::test
