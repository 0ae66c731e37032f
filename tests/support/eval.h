// Evaluates one op on given values, for tests of the evaluator and of passes.
#pragma once
#include <doctest/doctest.h>

#include "eval/value.h"
#include "ir/builder.h"

namespace rlxc::test {

using eval::HostValue, eval::numbers, eval::tensor_of;

inline HostValue f32(std::vector<int64_t> dims, const std::vector<double>& values) {
  return tensor_of(DType::F32, std::move(dims), values);
}
inline HostValue i64(std::vector<int64_t> dims, const std::vector<double>& values) {
  return tensor_of(DType::I64, std::move(dims), values);
}

// Returns the results of the op; empty, with the message, if it cannot be built or evaluated. absent() stands for an absent
// operand: a HostValue of kind Optional without elements.
inline HostValue absent() { return {TypeKind::Optional, {}, {}}; }
inline std::vector<HostValue> run_op(OpKind op, Attrs attrs, const std::vector<HostValue>& inputs,
                                     std::string* message = nullptr) {
  Module m;
  Diagnostics diagnostics;
  Builder b(m.main(), &diagnostics);
  std::vector<ValueId> operands;
  std::vector<HostValue> given;
  for (const HostValue& v : inputs) {
    if (v.kind == TypeKind::Optional) {
      operands.push_back(ValueId());
      continue;
    }
    operands.push_back(b.input("x" + std::to_string(operands.size()), eval::type_of(v)));
    given.push_back(v);
  }
  const NodeId n = b.create_node(op, operands, std::move(attrs));
  std::optional<std::vector<HostValue>> results;
  if (n.valid()) {
    for (size_t i = 0; i < m.main().result_count(n); ++i)
      m.main().add_output(m.main().result(n, i), m.symbol("y" + std::to_string(i)));
    results = eval::evaluate(m, given, diagnostics);
  }
  if (!results) {
    if (message) *message = diagnostics.text();
    else FAIL_CHECK(diagnostics.text());
    return std::vector<HostValue>(8);
  }
  return *results;
}
inline HostValue run1(OpKind op, Attrs attrs, const std::vector<HostValue>& inputs) {
  return run_op(op, std::move(attrs), inputs)[0];
}

inline void check_close(const HostValue& actual, const HostValue& expected, double rtol = 1e-5, double atol = 1e-6) {
  const auto r = eval::compare(actual, expected, rtol, atol);
  CHECK_MESSAGE(r.pass, r.message);
}
inline void check_values(const HostValue& actual, const std::vector<double>& expected, double tolerance = 1e-6) {
  const auto values = numbers(actual);
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (expected[i] != expected[i]) CHECK(values[i] != values[i]);
    else if (values[i] != expected[i]) CHECK_MESSAGE(values[i] == doctest::Approx(expected[i]).epsilon(tolerance), "element ", i);
  }
}

}  // namespace rlxc::test
