// A counted loop with carried values.
#pragma once
#include <array>
#include <string>

#include "ir/builder.h"
#include "ir/term.h"

namespace rlxc::compose {

// Runs step(i, carried) -> next carried values `trips` times. i is an i64 scalar. Returns the last values, none after errors.
template <class Step>
std::vector<transform::Term> repeat(Builder& b, std::string_view name, Dim trips, const std::vector<transform::Term>& carried,
                                    Step step) {
  Module& m = b.module();
  Graph& body = m.graph(m.make_graph(std::string(name) + std::to_string(m.graph_count())));
  Builder inner(body);
  const transform::Term i{&inner, inner.input("i", tensor_type(DType::I64, {}))};
  const ValueId go = inner.input("go", tensor_type(DType::Bool, {}));
  std::vector<ValueId> operands{b.create(OpKind::DimValue, {}, DimsAttrs{{trips}, true}), ValueId()}, results{go};
  std::vector<transform::Term> x;
  for (const transform::Term& t : carried) {
    if (!t.valid()) return {};
    operands.push_back(t.v);
    x.push_back({&inner, inner.input("x" + std::to_string(x.size()), b.graph().type(t.v))});
  }
  for (const transform::Term& t : step(i, x)) {
    if (!t.valid()) return {};
    results.push_back(t.v);
  }
  body.set_outputs(results);
  const NodeId loop =
      b.create_node(OpKind::Loop, operands, LoopAttrs{static_cast<int64_t>(carried.size())}, std::array{body.id()});
  std::vector<transform::Term> out;
  for (size_t r = 0; loop.valid() && r < carried.size(); ++r) out.push_back({&b, b.graph().result(loop, r)});
  return out;
}

}  // namespace rlxc::compose
