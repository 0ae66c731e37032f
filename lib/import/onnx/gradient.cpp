// Gradient: the derivative of one model value by others, named in attributes. The inputs are the point of evaluation; if they
// differ from the named values, the values in between are recomputed.
#include "import/onnx/handlers.h"
#include "support/text.h"
#include "transform/gradients.h"

namespace rlxc::onnx_import {

void gradient(Op& op) {
  const std::vector<std::string> xs = op.strings("xs"), zs = op.strings("zs");
  if (xs.empty() || op.inputs() != xs.size() + zs.size())
    return (void)op.fail(Code::BadArity, "needs an input for each of xs and zs");
  const auto value_of = [&](std::string_view name) {
    const ValId v = op.im.named(name);
    return v.valid() && !op.im.val(v).bad ? op.im.materialise(v) : ValueId();
  };
  const ValueId y = value_of(op.s("y", ""));
  if (!y.valid()) return op.give_up();
  std::vector<ValueId> named, given;
  for (const auto* names : {&xs, &zs})
    for (const std::string& name : *names) {
      if (!op.has(named.size())) return (void)op.fail(Code::BadArity, "the input for " + quote(name) + " is absent");
      given.push_back(op.in(named.size()));
      named.push_back(value_of(name));
      if (!named.back().valid() || !given.back().valid()) return op.give_up();
    }
  for (size_t i = 0; i < xs.size(); ++i)
    if (!transform::depends_on(op.graph(), y, named[i]))
      return (void)op.fail(Code::BadGraph, quote(op.s("y", "")) + " does not depend on " + quote(xs[i]) + " in the same graph");
  const ValueId at = transform::substitute(op.b, y, named, given, op.im.pending());
  if (!at.valid()) return;
  const std::span all(given);
  const auto results = transform::gradients(op.b, at, {}, all.first(xs.size()), all.subspan(xs.size()), op.im.pending());
  for (size_t i = 0; results && i < results->size(); ++i) op.set(i, (*results)[i]);
}

}  // namespace rlxc::onnx_import
