// Imports a node by the row of its operator: checks its operands and attributes, and calls the handler.
#include <algorithm>
#include <cmath>
#include <optional>

#include "import/onnx/op.h"
#include "ir/custom_op.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// Attributes without an effect on results beyond the last digits, or only in forms that the import does not depend on. Op ""
// stands for all operators.
struct IdleAttribute {
  std::string_view op, name;
};
constexpr IdleAttribute kIdle[] = {{"", "broadcast"},
                                   {"", "consumed_inputs"},
                                   {"", "nodes_hitrates"},
                                   {"", "nodes_hitrates_as_tensor"},
                                   {"", "noop_with_empty_axes"},
                                   {"", "output_sequence"},
                                   {"", "seed"},
                                   {"", "softmax_precision"},
                                   {"", "stash_type"},
                                   {"BatchNormalization", "momentum"},
                                   {"Cast", "round_mode"},
                                   {"Cast", "saturate"},
                                   {"CastLike", "round_mode"},
                                   {"CastLike", "saturate"},
                                   {"CategoryMapper", "default_int64"},
                                   {"CategoryMapper", "default_string"},
                                   {"Dropout", "ratio"},
                                   {"FlexAttention", "precision"},
                                   {"Imputer", "replaced_value_float"},
                                   {"Imputer", "replaced_value_int64"},
                                   {"LabelEncoder", "default_float"},
                                   {"LabelEncoder", "default_int64"},
                                   {"LabelEncoder", "default_string"},
                                   {"LinearAttention", "chunk_size"},
                                   {"LinearClassifier", "multi_class"},
                                   {"OneHotEncoder", "zeros"},
                                   {"QMoE", "accuracy_level"},
                                   {"QuantizeLinear", "precision"},
                                   {"QuantizeLinear", "saturate"},
                                   {"Resize", "keep_aspect_ratio_policy"},
                                   {"SVMClassifier", "kernel_params"},
                                   {"SVMClassifier", "kernel_type"}};

// Attributes that change results and have one supported value: the default, which exporters write out. Those without a default
// must be absent.
struct FixedAttribute {
  std::string_view op, name;
  std::optional<double> only = {};
};
constexpr FixedAttribute kFixed[] = {{"CausalConvWithState", "channels_last", 0},
                                     {"CausalConvWithState", "dilation", 1},
                                     {"CausalConvWithState", "input_channel_offset", 0},
                                     {"CausalConvWithState", "input_channels", 0},
                                     {"CausalConvWithState", "state_channels_last", -1},
                                     {"CausalConvWithState", "state_length", 0},
                                     {"CausalConvWithState", "state_update_capacity", 0},
                                     {"CausalConvWithState", "state_window", 0},
                                     {"GroupQueryAttention", "causal", 1},
                                     {"GroupQueryAttention", "k_norm_epsilon"},
                                     {"GroupQueryAttention", "q_norm_epsilon"},
                                     {"LinearAttention", "state_window", 0},
                                     {"MoE", "swiglu_limit_after_activation", 0},
                                     {"QMoE", "fc1_expert_weight_bits"},
                                     {"QMoE", "fc2_expert_weight_bits"},
                                     {"QMoE", "fc3_expert_weight_bits"},
                                     {"QMoE", "swiglu_limit_after_activation", 0}};

bool has_value(const AttributeView& given, std::optional<double> only) {
  return only && (given.type == AttrType::Int     ? static_cast<double>(given.i) == *only
                  : given.type == AttrType::Float ? static_cast<double>(given.f) == *only
                                                  : false);
}

// A list without entries is as good as absent.
bool is_idle(std::string_view op, const AttributeView& given) {
  if (given.type == AttrType::Ints || given.type == AttrType::Floats || given.type == AttrType::Strings)
    if (given.ints().empty() && given.floats().empty() && given.strings().empty()) return true;
  return std::ranges::any_of(kIdle, [&](const IdleAttribute& a) { return a.name == given.name && (a.op.empty() || a.op == op); });
}

// Why no operator of these domains is supported.
constexpr std::pair<std::string_view, std::string_view> kRefusedDomains[] = {
    {"com.microsoft.nchwc",
     "its weights have the order of the processor that optimised the model; save the model with the optimisation level extended"},
    {"com.ms.internal.nhwc", "an internal operator of onnxruntime; save the model with the optimisation level extended"},
};

std::string_view refusal(const OpRow* row, std::string_view domain) {
  if (row) return row->refusal;
  const auto it = std::ranges::find(kRefusedDomains, domain, [](const auto& d) { return d.first; });
  return it == std::end(kRefusedDomains) ? std::string_view() : it->second;
}

}  // namespace

void Importer::dispatch(NodeWork& work) {
  const NodeView& node = work.view;
  const OpRow* row = find_row(node.domain, node.op_type);
  if (!row || !row->handler) {
    if (options_.operations)
      if (const OpDefinition* own = find_definition(*options_.operations, node.domain, node.op_type))
        return custom_op(*own, work);
    if (const FunctionView* f = find_function(node)) return call_function(*f, work, where(node));
    const std::string_view why = refusal(row, node.domain);
    diagnostics_.error(Code::UnsupportedOp, "the operator is not supported" + (why.empty() ? "" : ": " + std::string(why)),
                       where(node), "rlxc list onnx shows what is; a function of the model or a file for --ops may define it");
    return finish_node(work, {});
  }
  while (!work.inputs.empty() && !work.inputs.back().valid()) work.inputs.pop_back();
  for (ValId v : work.inputs)
    if (v.valid() && vals_[v.raw].bad) return finish_node(work, {});
  Op op(*this, work, *row, opset(node.domain));
  const auto count = static_cast<int>(work.inputs.size());
  const auto is_absent = [&](int i) {
    return !work.inputs[static_cast<size_t>(i)].valid() && (i >= 32 || (row->optional >> i & 1) == 0);
  };
  int absent = 0;
  while (absent < std::min(row->min_in, count) && !is_absent(absent)) ++absent;
  if (count < row->min_in || (row->max_in >= 0 && count > row->max_in)) {
    op.fail(Code::BadArity, "takes " + std::to_string(row->min_in) +
                                (row->max_in < 0             ? " or more"
                                 : row->max_in > row->min_in ? " to " + std::to_string(row->max_in)
                                                             : "") +
                                " inputs, has " + std::to_string(count));
  } else if (absent < row->min_in) {
    op.fail(Code::BadArity, "input " + std::to_string(absent) + " is absent");
  } else if (row->takes != AcceptedKinds::Any) {
    for (size_t i = 0; i < work.inputs.size() && !op.failed(); ++i) {
      if (!op.has(i)) continue;
      if (op.type(i).kind != TypeKind::Tensor)
        op.fail(Code::BadType, "input " + std::to_string(i) + " must be a tensor, is " + op.show(i));
      else if (row->takes == AcceptedKinds::Numbers && op.dtype(i) == DType::String)
        op.unsupported("strings are not supported here");
    }
  }
  const bool trains = std::ranges::any_of(work.inputs, [&](ValId v) { return v.valid() && vals_[v.raw].trainable; });
  const bool folded = !op.failed() && row->fold && row->fold(op);
  // Trained values reach their users through nodes. The contents serve as sizes.
  const std::vector<ValId> contents(op.results().begin(), op.results().end());
  if (!op.failed() && (!folded || trains)) {
    op.b.set_node_name(node_name(node));
    row->handler(op);
  }
  for (size_t i = 0; trains && !op.failed() && i < op.results().size(); ++i) {
    const ValId v = op.results()[i];
    if (!v.valid() || !is_float(type(v).dtype) || type(v).kind != TypeKind::Tensor) continue;
    vals_[v.raw].trainable = true;
    if (folded && contents[i].valid() && contents[i] != v) {
      vals_[v.raw].known = vals_[contents[i].raw].known;
      vals_[v.raw].known_checked = true;
    }
  }
  if (!local_.ok()) {
    const std::string place = where(node);
    for (Diagnostic item : local_.items()) {
      item.where = place;
      diagnostics_.add(std::move(item));
    }
    local_ = Diagnostics();
    return finish_node(work, {});
  }
  if (op.failed()) return finish_node(work, {});
  for (size_t i = 0; i < work.outputs.size(); ++i)
    if (work.outputs[i].valid() && !op.results()[i].valid()) {
      diagnostics_.error(Code::UnsupportedAttribute, "output " + std::to_string(i) + " is not supported", where(node));
      return finish_node(work, {});
    }
  for (const AttributeView& a : node.attributes) {
    if (a.asked || folded || is_idle(node.op_type, a)) continue;
    const auto fixed =
        std::ranges::find_if(kFixed, [&](const FixedAttribute& f) { return f.op == node.op_type && f.name == a.name; });
    if (fixed != std::end(kFixed)) {
      if (has_value(a, fixed->only)) continue;
      diagnostics_.error(Code::UnsupportedAttribute, "the attribute " + quote(a.name) + " is not supported", where(node),
                         fixed->only ? "only its default is, " + std::to_string(std::llround(*fixed->only)) : "");
      return finish_node(work, {});
    }
    if (ignored_.emplace(node.op_type, a.name).second)
      diagnostics_.warning(Code::UnsupportedAttribute, "the attribute " + quote(a.name) + " is not known, and has no effect",
                           where(node));
  }
  finish_node(work, op.results());
}

// Binds the results to names. Without results the node failed, and its values are marked bad.
void Importer::finish_node(NodeWork& work, std::span<const ValId> results) {
  for (size_t i = 0; i < work.outputs.size(); ++i) {
    if (!work.outputs[i].valid()) continue;
    ValId v = i < results.size() && results[i].valid() ? results[i] : bad_value();
    if (vals_[v.raw].id.valid() && type(v).kind == TypeKind::Tensor && !type(v).is_static())  // only contents tell the size
      if (const TensorData* data = tensor(v)) v = constant(TensorData(*data));
    if (!bind(work.outputs[i], v))
      diagnostics_.error(Code::DuplicateName, "the value " + module_.text(work.outputs[i]).quoted() + " is defined twice",
                         where(work.view));
    if (vals_[v.raw].id.valid() && !type(v).is_static())
      if (const auto given = declared(work.outputs[i])) reconcile(vals_[v.raw].id, *given, module_.bytes(work.outputs[i]), false);
  }
}

}  // namespace rlxc::onnx_import
