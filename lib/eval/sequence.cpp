// Sequences and optionals of tensors.
#include <algorithm>

#include "eval/join.h"

namespace rlxc::eval {
namespace {

bool is_sequence(Context& c) { return c.in[0]->kind == TypeKind::Sequence || c.fail("operand 0 must be a sequence"); }

// Reads a position in a sequence of `size` elements from operand `i`. Negative ones count from the end; `size` is allowed if
// `end`.
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

bool eval_sequence_length(Context& c) {
  return is_sequence(c) && c.put(DType::I64, {}, std::vector<Int>{static_cast<int64_t>(c.in[0]->items.size())});
}

bool eval_sequence_erase(Context& c) {
  if (!is_sequence(c)) return false;
  auto items = c.in[0]->items;
  int64_t at = static_cast<int64_t>(items.size()) - 1;
  if (items.empty()) return c.fail("an empty sequence has nothing to erase");
  if (c.has(1) && !position(c, 1, static_cast<int64_t>(items.size()), false, &at)) return false;
  items.erase(items.begin() + at);
  return put_sequence(c, std::move(items));
}

bool eval_split_to_sequence(Context& c) {
  const auto& a = c.a<SequenceSplitAttrs>();
  const auto& dims = c.dims(0);
  if (a.axis < 0 || a.axis >= static_cast<int64_t>(dims.size())) return c.fail("axis is out of range");
  const int64_t whole = dims[static_cast<size_t>(a.axis)];
  std::vector<int64_t> sizes;
  if (c.has(1) && c.dims(1).size() == 1) {
    sizes = c.ints(1);
  } else {
    const int64_t chunk = c.has(1) ? load_int(c.t(1)) : 1;
    if (chunk < 1) return c.fail("pieces of size " + std::to_string(chunk));
    for (int64_t at = 0; at < whole; at += chunk) sizes.push_back(std::min(chunk, whole - at));
  }
  int64_t at = 0;
  std::vector<HostValue> items;
  for (int64_t n : sizes) {
    if (n < 0 || n > whole - at) return c.fail("the pieces do not add up to the axis of size " + std::to_string(whole));
    TensorData piece;
    if (!take(c, c.t(0), a.axis, at, n, &piece)) return false;
    if (!a.keep_dim && !c.has(1)) piece.dims.erase(piece.dims.begin() + a.axis);
    items.push_back({TypeKind::Tensor, std::move(piece), {}});
    at += n;
  }
  if (at != whole) return c.fail("the pieces do not add up to the axis of size " + std::to_string(whole));
  return put_sequence(c, std::move(items));
}

bool eval_sequence_map(Context& c) {
  const auto count = static_cast<size_t>(c.a<LoopAttrs>().carries);
  const Graph& body = c.run.module.graph(c.graph.bodies(c.node)[0]);
  if (!is_sequence(c)) return false;
  std::vector<std::vector<HostValue>> results(c.graph.result_count(c.node));
  for (size_t i = 0; i < c.in[0]->items.size(); ++i) {
    if (!c.charge(1 + static_cast<double>(body.live_nodes()))) return false;
    std::vector<HostValue> inputs, out;
    for (size_t k = 0; k < c.in.size(); ++k) {
      const bool sequence = k < count && c.has(k) && c.in[k]->kind == TypeKind::Sequence;
      if (sequence && i >= c.in[k]->items.size()) return c.fail("the sequences have different lengths");
      inputs.push_back(!c.has(k) ? HostValue() : sequence ? c.in[k]->items[i] : *c.in[k]);
    }
    if (!run_graph(c.run, body, std::move(inputs), &out)) return false;
    if (out.size() != results.size()) return c.fail("the body gives the wrong number of results");
    for (size_t k = 0; k < out.size(); ++k) results[k].push_back(std::move(out[k]));
  }
  for (auto& r : results) put_sequence(c, std::move(r));
  return true;
}

bool eval_optional_make(Context& c) {
  HostValue v{TypeKind::Optional, {}, {}};
  if (c.has(0)) v.items.push_back(*c.in[0]);
  return c.out.push_back(std::move(v)), true;
}

bool eval_optional_has(Context& c) {
  const bool full = c.has(0) && (c.in[0]->kind != TypeKind::Optional || !c.in[0]->items.empty());
  return c.put(DType::Bool, {}, std::vector<Int>{full ? 1 : 0});
}

bool eval_optional_get(Context& c) {
  if (c.in[0]->kind != TypeKind::Optional) return c.out.push_back(*c.in[0]), true;
  if (c.in[0]->items.empty()) return c.fail("the optional is empty");
  return c.out.push_back(c.in[0]->items[0]), true;
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
                                     {OpKind::SequenceLength, eval_sequence_length},
                                     {OpKind::SequenceErase, eval_sequence_erase},
                                     {OpKind::SplitToSequence, eval_split_to_sequence},
                                     {OpKind::SequenceMap, eval_sequence_map},
                                     {OpKind::OptionalMake, eval_optional_make},
                                     {OpKind::OptionalHas, eval_optional_has},
                                     {OpKind::OptionalGet, eval_optional_get},
                                     {OpKind::ConcatFromSequence, eval_concat_from_sequence}};
  return kTable;
}

}  // namespace rlxc::eval
