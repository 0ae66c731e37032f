// Checks the op table against what each room provides: name lookup, attributes, evaluation.
#include <doctest/doctest.h>

#include <string>

#include "eval/eval.h"
#include "ir/attrs.h"

using namespace rlxc;

TEST_CASE("every operation has a name, a meaning, attributes that are listed, and an evaluator") {
  DimTable dims;
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    INFO(std::string(name(op)));
    CHECK(op_from_name(name(op)) == op);
    CHECK(op_from_name(kind_name(op)) == op);
    CHECK_FALSE(doc(op).empty());
    for (const auto& given : attr_fields(default_attrs(op), dims, true, op)) {
      const auto& field = given.first;
      const auto& value = given.second;
      Attrs a = default_attrs(op);
      std::string message;
      CHECK_MESSAGE(set_attr_field(a, field, value, dims, &message), field, ": ", message);
    }
    CHECK((eval::has_evaluator(op) || has_trait(op, kTerminator)));
  }
}
