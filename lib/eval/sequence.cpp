// Sequences of tensors.
#include "eval/join.h"

namespace rlxc::eval {
namespace {

bool is_sequence(Context& c) { return c.in[0]->kind == TypeKind::Sequence || c.fail("operand 0 must be a sequence"); }

// The position that operand `i` gives, in a sequence of `size`; negative ones count from the end, `size` itself if `end`.
bool position(Context& c, size_t i, int64_t size, bool end, int64_t* out) {
  if (c.t(i).elements() != 1) return c.fail("the position must be one integer");
  *out = load_int(c.t(i));
  if (*out < -size || *out >= size + end)
    return c.fail("position " + std::to_string(*out) + " is outside a sequence of " + std::to_string(size));
  if (*out < 0) *out += size;
  return true;
}

bool put_sequence(Context& c, std::vector<HostValue> items) {
  return c.out.push_back({TypeKind::Sequence, {}, std::move(items)}), true;
}

bool eval_sequence_empty(Context& c) { return put_sequence(c, {}); }

bool eval_sequence_insert(Context& c) {
  if (!is_sequence(c)) return false;
  auto items = c.in[0]->items;
  auto at = static_cast<int64_t>(items.size());
  if (c.has(2) && !position(c, 2, at, true, &at)) return false;
  items.insert(items.begin() + at, *c.in[1]);
  return put_sequence(c, std::move(items));
}

bool eval_sequence_at(Context& c) {
  int64_t at = 0;
  if (!is_sequence(c) || !position(c, 1, static_cast<int64_t>(c.in[0]->items.size()), false, &at)) return false;
  return c.out.push_back(c.in[0]->items[static_cast<size_t>(at)]), true;
}

bool eval_concat_from_sequence(Context& c) {
  const auto& a = c.a<SequenceConcatAttrs>();
  if (!is_sequence(c)) return false;
  if (c.in[0]->items.empty()) return c.fail("an empty sequence has nothing to concatenate");
  std::vector<const TensorData*> parts;
  for (const HostValue& v : c.in[0]->items) parts.push_back(&v.tensor);
  TensorData d;
  return join(c, parts, a.axis, a.new_axis, &d) && c.put(std::move(d));
}

}  // namespace

std::span<const Entry> sequence_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::SequenceEmpty, eval_sequence_empty},
                                     {OpKind::SequenceInsert, eval_sequence_insert},
                                     {OpKind::SequenceAt, eval_sequence_at},
                                     {OpKind::ConcatFromSequence, eval_concat_from_sequence}};
  return kTable;
}

}  // namespace rlxc::eval
