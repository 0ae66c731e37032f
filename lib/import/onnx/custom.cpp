// Nodes of operations that the user defines.
#include "import/onnx/importer.h"
#include "ir/custom_op.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

std::optional<AttrValue> value_of(const AttributeView& a) {
  switch (a.type) {
    case AttrType::Int: return AttrValue(a.i);
    case AttrType::Float: return AttrValue(static_cast<double>(a.f));
    case AttrType::String: return AttrValue(std::string(a.s));
    case AttrType::Ints: return AttrValue(a.ints());
    case AttrType::Floats: {
      const std::vector<float> list = a.floats();
      return AttrValue(std::vector<double>(list.begin(), list.end()));
    }
    case AttrType::Strings: {
      const auto list = a.strings();
      return AttrValue(std::vector<std::string>(list.begin(), list.end()));
    }
    default: return std::nullopt;
  }
}

}  // namespace

void Importer::custom_op(const OpDefinition& definition, NodeWork& work) {
  while (!work.inputs.empty() && !work.inputs.back().valid()) work.inputs.pop_back();
  std::vector<ValueId> operands;
  for (ValId v : work.inputs) {
    if (v.valid() && vals_[v.raw].bad) return finish_node(work, {});
    operands.push_back(v.valid() ? materialise(v) : ValueId());
  }
  Parameters parameters;
  for (const AttributeView& a : work.view.attributes) {
    const auto value = value_of(a);
    if (value) {
      parameters.emplace(a.name, *value);
      continue;
    }
    diagnostics_.error(Code::UnsupportedAttribute, "the attribute " + quote(a.name) + " is of no type that --ops has",
                       where(work.view));
    return finish_node(work, {});
  }
  std::string message;
  frame().builder.set_node_name(node_name(work.view));
  const NodeId n = create_custom_op(frame().builder, definition, operands, std::move(parameters), &message);
  local_ = Diagnostics();
  if (!n.valid() || work.outputs.size() > frame().graph->result_count(n)) {
    diagnostics_.error(Code::BadGraph, n.valid() ? "has more outputs than its definition" : message, where(work.view));
    return finish_node(work, {});
  }
  std::vector<ValId> results;
  for (size_t r = 0; r < work.outputs.size(); ++r) results.push_back(value(frame().graph->result(n, r)));
  finish_node(work, results);
}

}  // namespace rlxc::onnx_import
