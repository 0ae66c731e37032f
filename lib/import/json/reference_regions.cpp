// Regions of the reference vocabulary: programs of elementwise steps, and chains of resizes.
#include "import/json/reference_rows.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;

// Step operands: {"Input": i} or {"Step": i}.
struct StepReader {
  Node& n;
  std::span<const ValueId> operands;
  std::vector<RegionStep>& steps;
  std::vector<DType> types;

  bool argument(JsonReader& r, uint16_t* arg, DType* type) {
    std::string_view key;
    int64_t i = 0;
    if (!r.begin_object() || !r.next_key(&key)) return false;
    const bool step = key == "Step";
    const auto limit = static_cast<int64_t>(step ? steps.size() : operands.size());
    if ((!step && key != "Input") || !r.integer(&i) || i < 0 || i >= limit)
      return n.fail(Code::BadAttribute, "a step reads what does not exist");
    *arg = static_cast<uint16_t>(i | (step ? RegionStep::kStep : 0));
    *type = step ? types[static_cast<size_t>(i)] : n.b.graph().dtype(operands[static_cast<size_t>(i)]);
    return !r.next_key(&key) && r.ok();
  }

  bool step(JsonReader& r) {
    RegionStep s;
    std::string_view kind;
    if (!r.begin_object() || !r.next_key(&kind)) return false;
    const std::string tag(kind);
    size_t i = 0;
    DType first = DType::F32, second = DType::F32;
    std::string word;
    for (r.begin_array(); r.next_item(); ++i) {
      if (i == 0 && tag != "Where") {
        if (!r.string(&word)) return false;
        continue;
      }
      const size_t a = tag == "Where" ? i : i - 1;
      if (a >= s.args.size()) return n.fail(Code::BadAttribute, "a step has too many operands");
      DType t{};
      if (!argument(r, &s.args[a], &t)) return false;
      if (a == 0) first = t;
      if (a == 1) second = t;
    }
    if (!r.ok()) return false;
    const auto op = tag == "Where" ? OpKind::Where : tag == "Cast" ? OpKind::Cast : op_from_name(word).value_or(OpKind::Return);
    const auto to = tag == "Cast" ? dtype_from_name(word) : std::nullopt;
    if (!has_trait(op, kElementwise) || (tag == "Cast" && !to))
      return n.fail(Code::UnsupportedOp, "the step \"" + word + "\" is unknown");
    s.op = op;
    s.attrs = step_attrs(default_attrs(op));
    s.dtype = to ? *to : has_trait(op, kCompare) ? DType::Bool : op == OpKind::Where ? second : first;
    types.push_back(s.dtype);
    steps.push_back(s);
    return !r.next_key(&kind) && r.ok();
  }
};
// Builds the program on these operands. A prologue may upsample one of them.
ValueId program(Node& n, std::vector<ValueId> operands) {
  const std::string prologue = n.find("prologue") ? n.word("prologue") : "None";
  const int64_t first = n.integer("prologue_input", 0);
  if (prologue == "ResizeNearest2x" && first >= 0 && first < static_cast<int64_t>(operands.size())) {
    ValueId& x = operands[static_cast<size_t>(first)];
    x = reference_twice_as_large(n, x);
  } else if (prologue != "None") {
    n.fail(Code::UnsupportedAttribute, "the prologue \"" + prologue + "\" of input " + std::to_string(first));
    return ValueId();
  }
  const Field* f = n.find("chain");
  if (!f) {
    n.fail(Code::BadAttribute, "\"chain\" is missing");
    return ValueId();
  }
  FusionAttrs a;
  JsonReader r(f->value);
  StepReader steps{n, operands, a.steps, {}};
  for (r.begin_array(); n.good && r.next_item();)
    if (!steps.step(r)) break;
  if (!r.ok()) n.fail(Code::BadJson, "\"chain\": " + r.error());
  return n.good ? n.b.create(OpKind::ElementwiseRegion, operands, std::move(a)) : ValueId();
}
ValueId region(Node& n) { return program(n, n.in); }

// Runs the program on each operand and concatenates the results along axis 0.
ValueId batch_region(Node& n) {
  const auto count = static_cast<size_t>(std::max<int64_t>(n.integer("num_batch_inputs", 1), 1));
  if (!n.good || !n.count(count, count)) return {};
  std::vector<ValueId> parts;
  for (ValueId x : n.in) {
    parts.push_back(program(n, {x}));
    if (!parts.back().valid()) return {};
  }
  return n.b.concat(parts, 0);
}

// Steps [{"ResizeNearest2x": {"Input": 0}}, ..]. Returns the result of the last one.
ValueId transform_region(Node& n) {
  const Field* f = n.find("steps");
  if (!f || n.in.empty()) {
    n.fail(Code::BadAttribute, "needs \"steps\" and an input");
    return ValueId();
  }
  std::vector<ValueId> made;
  JsonReader r(f->value);
  std::string_view kind, source;
  for (r.begin_array(); n.good && r.next_item();) {
    int64_t i = 0;
    if (!r.begin_object() || !r.next_key(&kind)) break;
    const bool known = kind == "ResizeNearest2x";
    if (!known) {
      n.fail(Code::UnsupportedOp, "the step \"" + std::string(kind) + "\" is unknown");
      return ValueId();
    }
    if (!r.begin_object() || !r.next_key(&source)) break;
    const std::vector<ValueId>& from = source == "Step" ? made : n.in;
    if (!r.integer(&i) || (source != "Step" && source != "Input") || i < 0 || i >= static_cast<int64_t>(from.size())) {
      n.fail(Code::BadAttribute, "a step reads what does not exist");
      return ValueId();
    }
    made.push_back(reference_twice_as_large(n, from[static_cast<size_t>(i)]));
    if (!made.back().valid() || r.next_key(&source) || r.next_key(&kind)) break;
  }
  if (!r.ok()) n.fail(Code::BadJson, "\"steps\": " + r.error());
  return !n.good ? ValueId() : made.empty() ? n.in[0] : made.back();
}

}  // namespace

std::span<const ReferenceRow> reference_region_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"ElementwiseRegion", region},
      {"BatchElementwiseRegion", batch_region},
      {"TransformRegion", transform_region},
  };
  return kRows;
}

}  // namespace rlxc::import_json
