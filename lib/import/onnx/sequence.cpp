// Sequences and optionals.
#include <algorithm>
#include <array>

#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {
namespace {

bool needs(Op& op, size_t i, TypeKind kind) {
  if (op.has(i) && op.type(i).kind == kind) return true;
  return op.fail(Code::BadType, "input " + std::to_string(i) + " must be " +
                                    (kind == TypeKind::Sequence ? "a sequence" : "a tensor") + ", is " + op.show(i));
}

ValueId position(Op& op, size_t i) { return op.has(i) ? op.b.reshape(op.in(i), {}) : ValueId(); }

// Returns the type of an element. Sequences may differ in sizes: symbolic dims become fresh symbols.
Type element_type(Op& op, Type t) {
  t.kind = TypeKind::Tensor;
  for (Dim& d : t.dims)
    if (!d.is_static()) d = op.dims().fresh("element");
  return t;
}

}  // namespace

void sequence_empty(Op& op) {
  const auto to = dtype_from_onnx(static_cast<int>(op.i("dtype", 1) & 0xFFFF));
  if (!to) return (void)op.fail(Code::BadAttribute, "attribute \"dtype\" is not a known element type");
  op.set(0, op.b.create(OpKind::SequenceEmpty, {}, CastAttrs{*to}));
}

void sequence_construct(Op& op) {
  for (size_t i = 0; i < op.inputs(); ++i)
    if (!needs(op, i, TypeKind::Tensor)) return;
  ValueId v = op.b.create(OpKind::SequenceEmpty, {}, CastAttrs{op.dtype(0)});
  for (size_t i = 0; i < op.inputs(); ++i) v = op.b.create(OpKind::SequenceInsert, {v, op.in(i)});
  op.set(0, v);
}

void sequence_insert(Op& op) {
  if (needs(op, 0, TypeKind::Sequence) && needs(op, 1, TypeKind::Tensor))
    op.set(0, op.b.create(OpKind::SequenceInsert, {op.in(0), op.in(1), position(op, 2)}));
}

void sequence_at(Op& op) {
  if (needs(op, 0, TypeKind::Sequence)) op.set(0, op.b.create(OpKind::SequenceAt, {op.in(0), position(op, 1)}));
}

void sequence_erase(Op& op) {
  if (needs(op, 0, TypeKind::Sequence)) op.set(0, op.b.create(OpKind::SequenceErase, {op.in(0), position(op, 1)}));
}

void sequence_length(Op& op) {
  if (needs(op, 0, TypeKind::Sequence)) op.set(0, op.b.unary(OpKind::SequenceLength, op.in(0)));
}

void concat_from_sequence(Op& op) {
  if (!needs(op, 0, TypeKind::Sequence)) return;
  if (!op.type(0).ranked) return (void)op.unsupported("the rank of the elements is not known: " + op.show(0));
  const bool stack = op.i("new_axis", 0) != 0;
  const auto axis = op.axis(op.i("axis", 0), op.rank(0) + stack);
  if (axis) op.set(0, op.b.create(OpKind::ConcatFromSequence, {op.in(0)}, SequenceConcatAttrs{*axis, stack}));
}

void split_to_sequence(Op& op) {
  if (!needs(op, 0, TypeKind::Tensor)) return;
  const auto axis = op.axis(op.i("axis", 0), op.rank(0));
  if (!axis) return;
  bool keep = op.i("keepdims", 1) != 0;
  ValueId sizes = op.in(1);
  if (const auto size = op.has(1) && op.rank(1) == 0 ? op.known_reals(1) : std::nullopt; size && (*size)[0] == 1)
    sizes = {}, keep = true;  // what is done without it, by which all pieces have one size
  op.set(0, op.b.create(OpKind::SplitToSequence, {op.in(0), sizes}, SequenceSplitAttrs{*axis, keep}));
}

void sequence_map(Op& op) {
  const auto body = op.body("body");
  if (!body || !needs(op, 0, TypeKind::Sequence)) return;
  std::vector<Type> types;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < op.inputs(); ++i) {
    if (!op.has(i)) return (void)op.fail(Code::BadArity, "input " + std::to_string(i) + " is absent");
    const bool sequence = op.type(i).kind == TypeKind::Sequence;
    if (sequence && !op.type(i).ranked) return (void)op.unsupported("the rank of the elements is not known: " + op.show(i));
    types.push_back(sequence ? element_type(op, op.type(i)) : op.type(i));
    operands.push_back(op.in(i));
  }
  std::vector<Frame::Capture> captures;
  const Graph* g = op.im.import_body(*body, std::string(op.node().name) + ".body", types, &captures);
  if (!g) return op.give_up();
  const auto count = static_cast<int64_t>(operands.size());
  for (const Frame::Capture& c : captures) operands.push_back(op.im.materialise(c.outer));
  const NodeId n = op.b.create_node(OpKind::SequenceMap, operands, LoopAttrs{count}, std::array{g->id()});
  if (!n.valid()) return;
  for (size_t i = 0; i < op.outputs() && i < op.graph().result_count(n); ++i) op.set(i, op.graph().result(n, i));
}

void optional_make(Op& op) {
  OptionalAttrs a;
  if (op.has(0)) {
    a.to = op.dtype(0);
    return op.set(0, op.b.create(OpKind::OptionalMake, {op.in(0)}, a));
  }
  const AttributeView* t = op.node().attribute("type");
  if (!t || t->type != AttrType::TypeProto) return (void)op.fail(Code::BadAttribute, "an empty optional needs its type");
  const auto type = op.im.read_type(t->message, "attribute \"type\"");
  if (!type) return op.give_up();
  a.to = type->dtype;
  a.sequence = type->kind == TypeKind::Sequence;
  op.set(0, op.b.create(OpKind::OptionalMake, {}, a));
}

void optional_has(Op& op) { op.set(0, op.b.create(OpKind::OptionalHas, {op.in(0)})); }

void optional_get(Op& op) { op.set(0, op.b.create(OpKind::OptionalGet, {op.in(0)})); }

}  // namespace rlxc::onnx_import
