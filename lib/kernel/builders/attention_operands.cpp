#include "kernel/builders/attention_operands.h"

#include <limits>

namespace rlxc::kernel {

AttentionOperands::AttentionOperands(Builder& builder, const AttentionSpec& s)
    : b(builder), spec(s), type(compute_dtype(s.q.dtype)), queries(s.queries.in(b.kernel())), keys(s.keys.in(b.kernel())) {
  q_ = b.input(s.q.name, s.q.dtype, s.q.extent);
  k_ = b.input(s.k.name, s.k.dtype, s.k.extent);
  v_ = b.input(s.v.name, s.v.dtype, s.v.extent);
  if (s.mask) mask_ = b.input(s.mask->name, s.mask->dtype, s.mask->extent);
  fused_ = FusedInputs(b, s.epilogue.inputs);
  y_ = b.output(s.y.name, s.y.dtype, s.y.extent);
}

AttentionOperands::AttentionOperands(const AttentionOperands& o, Expr n)
    : b(o.b),
      spec(o.spec),
      type(o.type),
      queries(n),
      keys(o.keys),
      q_(o.q_),
      k_(o.k_),
      v_(o.v_),
      mask_(o.mask_),
      fused_(o.fused_),
      y_(o.y_) {}

void AttentionOperands::at_head(Expr batch, Expr head) {
  batch_ = batch;
  head_ = first_head_ = head;
  kv_head_ = spec.group == 1 ? head : b.let("kv_head", head / spec.group);
}

void AttentionOperands::at_member(Expr i) { head_ = first_head_ + i; }

Expr AttentionOperands::at(const Operand& o, Expr head, Expr position, Expr element) const {
  auto stride = [&](size_t i) { return o.strides[i].in(b.kernel()); };
  return o.offset.in(b.kernel()) + batch_ * stride(0) + head * stride(1) + position * stride(2) + element * stride(3);
}

Expr AttentionOperands::load_q(Expr query, Expr d, int lanes) const {
  return cast_to(q_.load(at(spec.q, head_, query, d), lanes), type);
}
Expr AttentionOperands::load_k(Expr key, Expr d, int lanes) const {
  return cast_to(k_.load(at(spec.k, kv_head_, key, d), lanes), type);
}
Expr AttentionOperands::load_v(Expr key, Expr d, int lanes) const {
  return cast_to(v_.load(at(spec.v, kv_head_, key, d), lanes), type);
}
AttentionOperands::Source AttentionOperands::source(Part p) const {
  if (p == Part::Q) return {spec.q, q_, head_};
  if (p == Part::Y) return {spec.y, y_, head_};
  return p == Part::K ? Source{spec.k, k_, kv_head_} : Source{spec.v, v_, kv_head_};
}
Expr AttentionOperands::stored(Part p, Expr exists, Expr position, Expr d, int lanes) const {
  const Source s = source(p);
  const Expr zero = broadcast(constant(b.kernel(), s.operand.dtype, 0), lanes);
  return s.from.load_if(exists, at(s.operand, s.head, position, d), zero, lanes);
}
int AttentionOperands::together(Part p, int most) const {
  const Operand& o = source(p).operand;
  int64_t step = 0;
  if (!constant(o.strides[3], &step) || step != 1) return 1;
  const int64_t width = p == Part::V || p == Part::Y ? spec.value_width : spec.width;
  const auto fits = [&](int n) {
    return width % n == 0 && is_multiple(o.offset, n) && is_multiple(o.strides[0], n) && is_multiple(o.strides[1], n) &&
           is_multiple(o.strides[2], n);
  };
  while (most > 1 && !fits(most)) most /= 2;
  if (p != Part::Y) return most;
  for (const Operand& input : spec.epilogue.inputs) {
    const size_t axis = input.strides.size() - 1;
    if (input.split(axis)) return 1;
    if (!is_constant(input.strides[axis], 0)) most = static_cast<int>(contiguous_lanes(input, axis, b.i64(width), most));
  }
  return most;
}
void AttentionOperands::store_y(Expr query, Expr d, Expr value) const {
  value = fused_.values(spec.epilogue.body, {&value, 1}, {batch_, head_, query, d})[0];
  y_.store(at(spec.y, head_, query, d), cast_to(value, spec.y.dtype));
}

Expr AttentionOperands::low() const { return constant(b.kernel(), type, -std::numeric_limits<double>::infinity()); }

Expr AttentionOperands::mask(Expr query, Expr key, int lanes) const {
  auto stride = [&](size_t i) { return spec.mask->strides[i].in(b.kernel()); };
  const bool repeated = is_constant(spec.mask->strides[3], 0);
  const Expr where =
      spec.mask->offset.in(b.kernel()) + batch_ * stride(0) + head_ * stride(1) + query * stride(2) + key * stride(3);
  return broadcast(mask_.load(where, repeated ? 1 : lanes), lanes);
}

Expr AttentionOperands::shown(Expr mask) const { return mask.dtype() == DType::Bool ? mask : mask != lit(mask, 0); }

// `ahead`: the position of the first query minus the first key. Lane i is of key + i, or of query + i.
Expr AttentionOperands::masked(Expr score, std::optional<Expr> mask, Expr ahead, bool along_queries) const {
  const int lanes = score.lanes();
  if (spec.softcap > 0) score = spec.softcap * tanh(score / spec.softcap);
  Expr visible = broadcast(constant_int(b.kernel(), DType::Bool, 1), lanes);
  const Expr zero_lane = constant_int(b.kernel(), DType::I32, 0), lane = lanes > 1 ? ramp(zero_lane, 1, lanes) : zero_lane;
  const Expr first = broadcast(cast_to(ahead, DType::I32), lanes), distance = along_queries ? first + lane : first - lane;
  if (spec.causal || spec.window) visible = visible && distance >= broadcast(zero_lane, lanes);
  if (spec.window) visible = visible && distance <= broadcast(cast_to(b.i64(*spec.window), DType::I32), lanes);
  if (mask && spec.mask_is_bias) score = score + cast_to(*mask, type);
  else if (mask) visible = visible && shown(*mask);
  if (!spec.causal && !spec.window && !(mask && !spec.mask_is_bias)) return score;
  const double lowest = type == DType::F64 ? std::numeric_limits<double>::lowest() : double{std::numeric_limits<float>::lowest()};
  return select(visible, score, broadcast(spec.finite ? constant(b.kernel(), type, lowest) : low(), lanes));
}

Expr AttentionOperands::score(Expr dot, Expr query, Expr key) const { return visible_score(dot * spec.scale, query, key); }

Expr AttentionOperands::visible_score(Expr scaled, Expr query, Expr key) const {
  std::optional<Expr> mask_of_keys;
  if (spec.mask) mask_of_keys = mask(query, key, scaled.lanes());
  return masked(scaled, mask_of_keys, query + (keys - queries) - key, false);
}

Expr AttentionOperands::score_of_queries(Expr scaled, Expr query, Expr key, std::optional<Expr> mask) const {
  return masked(scaled, mask, query + (keys - queries) - key, true);
}

bool AttentionOperands::score_vectors() const {
  return !spec.mask || is_constant(spec.mask->strides[3], 0) || is_constant(spec.mask->strides[3], 1);
}

Expr AttentionOperands::visible_keys(Expr rows, const std::function<Expr(Expr)>& query, Expr key, Expr count, int lanes) const {
  const int together = score_vectors() ? lanes : 1;
  const auto none = [&](int n) { return broadcast(constant_int(b.kernel(), DType::I32, 0), n); };
  Buf seen = b.variable("seen", none(1));
  // `n` keys from the i-th on.
  const auto note = [&](Expr i, int n) {
    Buf any = b.variable("any", none(n));
    b.loop("r", same_mask_for_queries() ? min(rows, 1) : rows,
           [&](Expr r) { any.set(any.get() | cast_to(shown(mask(query(r), key + i, n)), DType::I32)); });
    const Expr found = n > 1 ? reduce_max(any.get()) : any.get();
    seen.set(select(found != 0, cast_to(i + n, DType::I32), seen.get()));
  };
  const Expr whole = count / together;
  b.loop("j", whole, [&](Expr j) { note(j * together, together); });
  if (together > 1) b.loop("j", count % together, [&](Expr j) { note(whole * together + j, 1); });
  return max(min(cast_to(seen.get(), DType::I64), count), 0);  // a range that verification knows
}

Expr AttentionOperands::first_block(Expr first, int64_t block) const {
  if (!spec.window || spec.finite) return b.i64(0);
  return b.let("begin", max(first + (keys - queries) - *spec.window, 0) / block);
}

Expr AttentionOperands::end(Expr first, int64_t count) const {
  return spec.causal && !spec.finite ? b.let("end", max(min(keys, first + count + (keys - queries)), 0)) : keys;
}

}  // namespace rlxc::kernel
