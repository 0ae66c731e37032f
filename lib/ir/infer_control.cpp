// Type rules of control flow and sequences. Bodies do not capture values implicitly: outer values are operands.
#include <algorithm>

#include "ir/infer.h"

namespace rlxc {
namespace {

std::vector<Type> output_types(const Graph& g) {
  std::vector<Type> out;
  for (ValueId v : g.outputs()) out.push_back(g.type(v));
  return out;
}

// The common type. Dims that differ become a fresh symbol.
bool merge(InferContext& c, const Type& a, const Type& b, Type* out) {
  const bool tensors = a.kind == TypeKind::Tensor;
  if (a.kind != b.kind || a.dtype != b.dtype || a.of_sequence != b.of_sequence || a.key != b.key ||
      (tensors && a.rank() != b.rank()))
    return c.fail("results of the bodies differ: " + text(a, c.dims()) + " and " + text(b, c.dims()));
  *out = tensors ? a : join_elements(c.dims(), a, b);
  if (!tensors) return true;
  for (size_t i = 0; i < a.dims.size(); ++i)
    if (!c.dims().equal(a.dims[i], b.dims[i])) out->dims[i] = c.dims().fresh("d");
  return true;
}

bool body_inputs(InferContext& c, const Graph& g, size_t want) {
  if (g.inputs().size() == want) return true;
  return c.fail("the body takes " + std::to_string(g.inputs().size()) + " inputs, gets " + std::to_string(want));
}

}  // namespace

bool infer_if_(InferContext& c) {
  if (c.bodies.size() != 2) return c.fail("needs two bodies");
  const auto& conditions = c.a<IfAttrs>();
  if (conditions.then_equal.size() % 2 || conditions.else_equal.size() % 2) return c.fail("equal sizes come in pairs");
  if (c.t(0).dtype != DType::Bool || num_elements(c.t(0)).value_or(1) != 1)
    return c.fail("the condition must be one bool, is " + c.show(0));
  const Graph &then_body = c.module.graph(c.bodies[0]), &else_body = c.module.graph(c.bodies[1]);
  if (!body_inputs(c, then_body, c.in.size() - 1) || !body_inputs(c, else_body, c.in.size() - 1)) return false;
  const auto a = output_types(then_body), b = output_types(else_body);
  if (a.size() != b.size() || a.empty()) return c.fail("the bodies give different numbers of results");
  for (size_t i = 0; i < a.size(); ++i) {
    Type t;
    if (!merge(c, a[i], b[i], &t)) return false;
    c.result(std::move(t));
  }
  return true;
}

bool infer_loop(InferContext& c) {
  const int64_t carries = c.a<LoopAttrs>().carries;
  if (c.bodies.size() != 1) return c.fail("needs one body");
  const Graph& body = c.module.graph(c.bodies[0]);
  if (carries < 0 || static_cast<size_t>(carries) + 2 > std::max<size_t>(c.in.size(), 2))
    return c.fail("has fewer operands than carries");
  if (!body_inputs(c, body, c.in.size())) return false;
  const auto results = output_types(body);
  if (results.size() < 1 + static_cast<size_t>(carries)) return c.fail("the body gives too few results");
  for (size_t i = 0; i < static_cast<size_t>(carries); ++i) {
    if (!c.has(i + 2)) return c.fail("carry " + std::to_string(i) + " is absent");
    const Type& declared = body.type(body.result(body.inputs()[i + 2]));  // already widened over all iterations
    c.result(declared);
  }
  std::optional<Dim> trips;
  for (size_t i = 1 + static_cast<size_t>(carries); i < results.size(); ++i) {
    if (!trips) trips = c.dims().fresh("trips");
    Type t = results[i];
    t.dims.insert(t.dims.begin(), *trips);
    c.result(std::move(t));
  }
  return true;
}

bool infer_scan(InferContext& c) {
  const auto& a = c.a<ScanAttrs>();
  if (c.bodies.size() != 1) return c.fail("needs one body");
  const Graph& body = c.module.graph(c.bodies[0]);
  const auto states = static_cast<size_t>(a.states), inputs = static_cast<size_t>(a.scan_inputs);
  if (a.states < 0 || a.scan_inputs < 1 || states + inputs > c.in.size() || a.input_axes.size() != inputs)
    return c.fail("has too few operands");
  if (!body_inputs(c, body, c.in.size())) return false;
  const auto results = output_types(body);
  if (results.size() < states || a.output_axes.size() != results.size() - states)
    return c.fail("the body gives the wrong number of results");
  std::optional<Dim> length;
  for (size_t i = 0; i < inputs; ++i) {
    const Type& t = c.t(states + i);
    if (!check_axis(c, a.input_axes[i], t.rank())) return false;
    const Dim d = t.dims[static_cast<size_t>(a.input_axes[i])];
    if (length && !require_equal(c, *length, d, "lengths of scan inputs")) return false;
    length = d;
  }
  for (size_t i = 0; i < states; ++i) c.result(c.t(i));
  for (size_t i = states; i < results.size(); ++i) {
    Type t = results[i];
    if (!check_axis(c, a.output_axes[i - states], t.rank() + 1)) return false;
    t.dims.insert(t.dims.begin() + a.output_axes[i - states], *length);
    c.result(std::move(t));
  }
  return true;
}

bool infer_custom_op(InferContext& c) {
  const auto& a = c.a<CustomAttrs>();
  if (c.bodies.size() != 1 + static_cast<size_t>(a.vjp) + static_cast<size_t>(a.jvp) + static_cast<size_t>(a.vmap))
    return c.fail("needs a body for its results, and one for each rule that it has");
  const Graph& body = c.module.graph(c.bodies[0]);
  if (!body_inputs(c, body, c.in.size())) return false;
  for (Type& t : output_types(body)) c.result(std::move(t));
  return true;
}

bool infer_sequence_empty(InferContext& c) { return c.result(Type{TypeKind::Sequence, c.a<CastAttrs>().to, false, {}}); }

bool infer_sequence_insert(InferContext& c) {
  if (c.t(0).kind != TypeKind::Sequence) return c.fail("operand 0 must be a sequence, is " + c.show(0));
  if (!same_dtype(c, 0, 1)) return false;
  if (c.t(1).kind != TypeKind::Tensor || c.t(0).key != MapKey::None)
    return c.fail("a sequence takes tensors, not " + c.show(1) + " into " + c.show(0));
  return c.result(join_elements(c.dims(), c.t(0), holder_type(TypeKind::Sequence, c.t(1))));
}

bool infer_sequence_at(InferContext& c) {
  if (c.t(0).kind != TypeKind::Sequence || !c.t(0).ranked)
    return c.fail("needs a sequence of tensors of known rank, is " + c.show(0));
  Type t = element_type(c.t(0));
  for (Dim& d : t.dims)  // elements may differ in shape
    if (!d.is_static()) d = c.dims().fresh("element");
  return c.result(std::move(t));
}

bool infer_sequence_length(InferContext& c) {
  return c.t(0).kind == TypeKind::Sequence ? c.result(DType::I64, {}) : c.fail("needs a sequence, is " + c.show(0));
}

bool infer_sequence_erase(InferContext& c) {
  return c.t(0).kind == TypeKind::Sequence ? c.result(c.t(0)) : c.fail("needs a sequence, is " + c.show(0));
}

bool infer_split_to_sequence(InferContext& c) {
  const auto& a = c.a<SequenceSplitAttrs>();
  if (c.t(0).kind != TypeKind::Tensor || !check_axis(c, a.axis, c.t(0).rank()))
    return c.error.empty() ? c.fail("needs a tensor, is " + c.show(0)) : false;
  Type t = c.t(0);
  t.kind = TypeKind::Sequence;
  if (!a.keep_dim && !c.has(1)) t.dims.erase(t.dims.begin() + a.axis);
  else t.dims[static_cast<size_t>(a.axis)] = c.has(1) ? c.dims().fresh("part") : Dim(1);
  return c.result(std::move(t));
}

bool infer_sequence_map(InferContext& c) {
  const int64_t count = c.a<LoopAttrs>().carries;
  if (c.bodies.size() != 1) return c.fail("needs one body");
  const Graph& body = c.module.graph(c.bodies[0]);
  if (count < 1 || static_cast<size_t>(count) > c.in.size() || c.t(0).kind != TypeKind::Sequence)
    return c.fail("needs a sequence");
  if (!body_inputs(c, body, c.in.size())) return false;
  for (Type& t : output_types(body)) {
    if (t.kind != TypeKind::Tensor) return c.fail("the results of the body must be tensors");
    t.kind = TypeKind::Sequence;
    c.result(std::move(t));
  }
  return true;
}

bool infer_optional_make(InferContext& c) {
  const auto& a = c.a<OptionalAttrs>();
  Type t{TypeKind::Optional, a.to, false, {}, a.sequence};
  if (c.has(0)) {
    if (c.t(0).kind == TypeKind::Optional) return c.fail("an optional of an optional");
    t = holder_type(TypeKind::Optional, c.t(0));
  }
  return c.result(std::move(t));
}

bool infer_optional_has(InferContext& c) { return c.result(DType::Bool, {}); }

bool infer_optional_get(InferContext& c) {
  Type t = c.t(0);
  if (t.kind != TypeKind::Optional) return c.result(std::move(t));
  t = element_type(std::move(t));
  if (t.kind == TypeKind::Tensor && !t.ranked) return c.fail("needs an optional of known rank, is " + c.show(0));
  return c.result(std::move(t));
}

bool infer_concat_from_sequence(InferContext& c) {
  if (c.t(0).kind != TypeKind::Sequence || !c.t(0).ranked || c.t(0).key != MapKey::None)
    return c.fail("needs a sequence of tensors of known rank, is " + c.show(0));
  const auto& a = c.a<SequenceConcatAttrs>();
  std::vector<Dim> out = c.t(0).dims;
  if (!check_axis(c, a.axis, c.t(0).rank() + a.new_axis)) return false;
  if (a.new_axis) out.insert(out.begin() + a.axis, c.dims().fresh("n"));
  else out[static_cast<size_t>(a.axis)] = c.dims().fresh("n");
  return c.result(c.t(0).dtype, std::move(out));
}

namespace {

std::optional<MapKey> key_of(InferContext& c) {
  const auto& a = c.a<MapKeysAttrs>();
  const auto distinct = [](auto keys) {
    std::ranges::sort(keys);
    return std::ranges::adjacent_find(keys) == keys.end();
  };
  if (a.ints.empty() == a.strings.empty()) {
    c.fail("needs keys, all integers or all strings");
    return std::nullopt;
  }
  if (!distinct(a.ints) || !distinct(a.strings)) {
    c.fail("a key occurs twice");
    return std::nullopt;
  }
  return a.ints.empty() ? MapKey::String : MapKey::I64;
}
bool needs_map(InferContext& c) { return c.t(0).kind == TypeKind::Map || c.fail("needs a map, is " + c.show(0)); }

}  // namespace

bool infer_map_of_row(InferContext& c) {
  const auto key = key_of(c);
  const Type& x = c.t(0);
  if (!key) return false;
  if (x.kind != TypeKind::Tensor || x.rank() < 1 || x.rank() > 2) return c.fail("needs rows of values, is " + c.show(0));
  return require_equal(c, x.dims.back(), Dim(static_cast<int64_t>(c.a<MapKeysAttrs>().size())), "columns and keys") &&
         c.result(holder_type(TypeKind::Sequence, map_type(*key, x.dtype)));
}

bool infer_map_lookup(InferContext& c) {
  const auto key = key_of(c);
  if (!key || !needs_map(c)) return false;
  if (*key != c.t(0).key) return c.fail("the keys are not those of " + c.show(0));
  return c.result(c.t(0).dtype, {Dim(static_cast<int64_t>(c.a<MapKeysAttrs>().size()))});
}

bool infer_map_values(InferContext& c) { return needs_map(c) && c.result(c.t(0).dtype, {c.dims().fresh("keys")}); }

}  // namespace rlxc
