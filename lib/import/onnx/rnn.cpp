// Recurrent layers. The operands have ONNX order.
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

void recurrent(Op& op, OpKind kind, std::span<const ValueId> operands, std::vector<std::string> defaults, size_t results) {
  RnnAttrs a;
  const Type& r = op.graph().type(operands[2]);
  const auto hidden = r.rank() == 3 ? op.dims().constant_value(r.dims[2]) : std::nullopt;
  a.hidden = op.i("hidden_size", hidden.value_or(0));
  const std::string_view direction = op.s("direction", "forward");
  const auto names = enum_names(RnnDirection{});
  const auto at = std::ranges::find(names, direction);
  if (at == names.end()) return (void)op.fail(Code::BadAttribute, "direction " + quote(direction) + " is unknown");
  a.direction = static_cast<RnnDirection>(at - names.begin());
  const size_t directions = a.direction == RnnDirection::Bidirectional ? 2 : 1;
  if (const AttributeView* given = op.node().attribute("activations"))
    for (std::string_view s : given->strings()) a.activations.emplace_back(s);
  // The schema's default of RNN is that of two directions.
  if (directions == 1 && a.activations.size() == 2 * defaults.size() &&
      std::ranges::all_of(a.activations, [&](const std::string& s) { return s == defaults[0]; }))
    a.activations.resize(defaults.size());
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
  const NodeId n = op.b.create_node(kind, operands, std::move(a));
  if (!n.valid()) return;
  for (size_t i = 0; i < results; ++i)
    if (op.wants(i)) op.set(i, op.graph().result(n, i));
}

std::vector<ValueId> operands(Op& op, size_t count) {
  std::vector<ValueId> all;
  for (size_t i = 0; i < count; ++i) all.push_back(op.in(i));
  return all;
}

}  // namespace

void lstm(Op& op) { recurrent(op, OpKind::Lstm, operands(op, op.inputs()), {"Sigmoid", "Tanh", "Tanh"}, 3); }

void gru_rnn(Op& op) {
  if (op.row.kind == OpKind::Gru) recurrent(op, OpKind::Gru, operands(op, op.inputs()), {"Sigmoid", "Tanh"}, 2);
  else recurrent(op, OpKind::Rnn, operands(op, op.inputs()), {"Tanh"}, 2);
}

// W and R are quantized, [directions, inputs or hidden, 4 * hidden]; operands 8 to 11 are their scales and zero points, per
// direction or per column. Computed with dequantized weights: quantizing the activations would only save time.
void dynamic_quantize_lstm(Op& op) {
  if (op.rank(1) != 3 || op.rank(2) != 3) return (void)op.fail(Code::BadShape, "W and R must be of rank 3");
  if (!op.has(8) || !op.has(10)) return (void)op.fail(Code::BadArity, "needs the scales of W and R");
  std::vector<ValueId> all = operands(op, 8);
  for (const size_t i : {1, 2}) {
    const size_t scale = 6 + 2 * i;
    const std::vector<Dim> per = {op.sizes(i)[0], Dim(1), op.rank(scale) == 2 ? op.sizes(scale)[1] : Dim(1)};
    const auto part = [&](size_t operand) { return op.b.cast(op.b.reshape(op.in(operand), per), op.dtype(0)); };
    ValueId w = op.b.cast(op.in(i), op.dtype(0));
    if (op.has(scale + 1)) w = op.b.sub(w, part(scale + 1));
    all[i] = op.b.transpose(op.b.mul(w, part(scale)), {0, 2, 1});
    if (!all[i].valid()) return;
  }
  recurrent(op, OpKind::Lstm, all, {"Sigmoid", "Tanh", "Tanh"}, 3);
}

}  // namespace rlxc::onnx_import
