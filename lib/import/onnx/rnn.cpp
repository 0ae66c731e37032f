// Recurrent layers: the operands are in ONNX order already.
#include <algorithm>
#include <array>

#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

bool known_activation(std::string_view s) {
  static constexpr std::string_view names[] = {"Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
                                               "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
  return std::ranges::find(names, s) != std::end(names);
}

void recurrent(Op& op, OpKind kind, std::vector<std::string> defaults, size_t results) {
  RnnAttrs a;
  const auto hidden = op.rank(2) == 3 ? op.dims().constant_value(op.sizes(2)[2]) : std::nullopt;
  a.hidden = op.i("hidden_size", hidden.value_or(0));
  const std::string_view direction = op.s("direction", "forward");
  const auto names = enum_names(RnnDirection{});
  const auto at = std::ranges::find(names, direction);
  if (at == names.end()) return (void)op.fail(Code::BadAttribute, "direction " + quote(direction) + " is unknown");
  a.direction = static_cast<RnnDirection>(at - names.begin());
  const size_t directions = a.direction == RnnDirection::Bidirectional ? 2 : 1;
  if (const AttributeView* given = op.node().attribute("activations"))
    for (std::string_view s : given->strings()) a.activations.emplace_back(s);
  if (a.activations.empty())
    for (size_t i = 0; i < directions; ++i) a.activations.insert(a.activations.end(), defaults.begin(), defaults.end());
  if (a.activations.size() != directions * defaults.size())
    return (void)op.fail(Code::BadAttribute, "activations has " + std::to_string(a.activations.size()) + " entries, must have " +
                                                 std::to_string(directions * defaults.size()));
  for (const std::string& s : a.activations)
    if (!known_activation(s)) return (void)op.fail(Code::BadAttribute, "activation " + quote(s) + " is unknown");
  a.activation_alpha = op.floats("activation_alpha");
  a.activation_beta = op.floats("activation_beta");
  a.clip = op.f("clip", 0);
  a.input_forget = op.i("input_forget", 0) != 0;
  a.linear_before_reset = op.i("linear_before_reset", 0) != 0;
  a.batch_first = op.i("layout", 0) != 0;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < op.inputs(); ++i) operands.push_back(op.in(i));
  const NodeId n = op.b.create_node(kind, operands, std::move(a));
  if (!n.valid()) return;
  for (size_t i = 0; i < results; ++i)
    if (op.wants(i)) op.set(i, op.graph().result(n, i));
}

}  // namespace

void lstm(Op& op) { recurrent(op, OpKind::Lstm, {"Sigmoid", "Tanh", "Tanh"}, 3); }

void gru_rnn(Op& op) {
  if (op.row.kind == OpKind::Gru) recurrent(op, OpKind::Gru, {"Sigmoid", "Tanh"}, 2);
  else recurrent(op, OpKind::Rnn, {"Tanh"}, 2);
}

}  // namespace rlxc::onnx_import
