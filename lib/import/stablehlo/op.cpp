// Op: checked results, attributes of both forms, and values that are broadcast late.
#include <algorithm>

#include "import/stablehlo/importer.h"
#include "support/saturate.h"
#include "support/text.h"

namespace rlxc::stablehlo_import {

bool Op::fail(Code code, const std::string& message) {
  im.diagnostics().error(code, message, im.where(text.at) + ", " + ForeignText(text.name).line());
  return false;
}

bool Op::needs(size_t n) {
  return in_.size() == n ||
         fail(Code::BadArity, "it takes " + std::to_string(n) + " operands, gets " + std::to_string(in_.size()));
}

DimTable& Op::dims() const { return im.module().dims; }
Builder& Op::b() const { return im.block().b; }

DType Op::declared(size_t i) const {
  const DType t = text.result_types[i].dtype.value_or(DType::F32);
  return part_ ? part_type(t) : t;
}
Dims Op::declared_dims(size_t i) const {
  Dims out;
  for (const int64_t n : text.result_types[i].dims) out.push_back(n == kUnknownSize ? dims().fresh("d") : Dim(n));
  return out;
}

void Op::set(size_t i, Value v) {
  if (!v.valid() || i >= out_.size()) return;
  const TensorType& t = text.result_types[i];
  const auto wrong = [&] {
    fail(Code::BadShape,
         "it gives " + rlxc::text(tensor_type(v.dtype, v.dims), dims()) + ", and its type is " + ForeignText(t.text).line());
  };
  const bool complex = t.dtype && is_complex(*t.dtype);
  if (!t.dtype || (v.is_complex() || (part_ && complex) ? !complex || part_type(*t.dtype) != v.dtype : t.dtype != v.dtype))
    return wrong();
  if (!(im.lifted() && t.dims.empty())) {
    if (t.dims.size() != v.dims.size()) return wrong();
    for (size_t k = 0; k < t.dims.size(); ++k)
      if (t.dims[k] != kUnknownSize && v.dims[k] != Dim(t.dims[k])) {
        if (v.dims[k].is_static() || !dims().assume_equal(v.dims[k], Dim(t.dims[k]))) return wrong();
        v.dims[k] = Dim(t.dims[k]);
      }
  }
  out_[i] = std::move(v);
}

void Op::set_all(const std::vector<Value>& values) {
  for (size_t i = 0; i < std::min(values.size(), out_.size()); ++i) set(i, values[i]);
}

const Attr* Op::attr(std::string_view name, std::string_view other) const {
  const Attr* a = text.find(name);
  return a || other.empty() ? a : text.find(other);
}
std::optional<Ints> Op::ints(std::string_view name, std::string_view other) const {
  const Attr* a = attr(name, other);
  return a ? integers(*a) : std::nullopt;
}
Ints Op::ints_or(size_t count, int64_t value, std::string_view name, std::string_view other) const {
  auto v = ints(name, other);
  return v ? *v : Ints(count, value);
}
int64_t Op::integer(std::string_view name, int64_t otherwise, std::string_view other) const {
  const Attr* a = attr(name, other);
  return a && a->kind == Attr::Kind::Int ? a->integer : otherwise;
}
std::string_view Op::word(std::string_view name) const {
  const Attr* a = text.find(name);
  return a ? a->text : std::string_view();
}

ValueId Op::base(const Value& v) { return v.valid() ? im.local(v.id, v.block) : v.id; }

ValueId Op::view(ValueId x, Dims to) {
  if (!x.valid()) return x;
  const Graph& g = *im.block().graph;
  for (NodeId n = g.def(x); g.op(n) == OpKind::Reshape; n = g.def(g.operand(n, 0)))
    if (std::ranges::equal(g.dims(g.operand(n, 0)), to)) return g.operand(n, 0);
  return b().reshape(x, std::move(to));
}

ValueId Op::whole(const Value& v) {
  const ValueId x = base(v);
  if (!x.valid()) return x;
  const auto have = im.block().graph->dims(x);
  if (std::ranges::equal(have, v.dims)) return x;
  const auto few = static_sizes(have), all = static_sizes(v.dims);
  const bool same = few && all && product(have) == product(v.dims);
  return same ? view(x, v.dims) : b().expand(x, v.dims);
}

Value Op::made(ValueId v) const {
  Value out;
  if (!v.valid()) return out;
  const Graph& g = *im.block().graph;
  out.id = v;
  out.block = &im.block();
  out.dtype = g.dtype(v);
  out.dims.assign(g.dims(v).begin(), g.dims(v).end());
  return out;
}
Value Op::with_dims(ValueId v, Dims d) const {
  Value out = made(v);
  out.dims = std::move(d);
  return out;
}

Value Op::scalar(DType t, double v) {
  Value out = made(b().scalar(t, v));
  if (is_integer(t) || t == DType::Bool) out.known = Dims{dims().constant(saturating_cast<int64_t>(v))};
  return out;
}

Value Op::size(Dim d, DType t) {
  if (const auto n = dims().constant_value(d); n && is_integer(t)) {
    Value out = made(b().constant(make_data(DType::I64, {}, Ints{*n})));
    out = cast(out, t);
    out.known = Dims{d};
    return out;
  }
  Value out = cast(made(b().create(OpKind::DimValue, {}, DimsAttrs{{d}, true})), t);
  out.known = Dims{d};
  return out;
}

Value Op::elementwise(OpKind kind, const std::vector<Value>& x, const Attrs* attrs) {
  const Dims* longest = &x[0].dims;
  std::vector<ValueId> operands;
  for (const Value& v : x) {
    if (!v.valid()) return {};
    if (v.dims.size() > longest->size()) longest = &v.dims;
  }
  for (const Value& v : x) {
    if (!v.dims.empty())
      for (size_t i = 0; i < v.dims.size(); ++i)
        if (v.dims.size() != longest->size() ||
            (v.dims[i] != (*longest)[i] && !dims().equal(v.dims[i], (*longest)[i]) &&
             (v.dims[i].is_static() && (*longest)[i].is_static() ? true : !dims().assume_equal(v.dims[i], (*longest)[i])))) {
          fail(Code::BadShape, "shapes of its operands differ: " + rlxc::text(tensor_type(v.dtype, v.dims), dims()) + " and " +
                                   rlxc::text(tensor_type(v.dtype, *longest), dims()));
          return {};
        }
    operands.push_back(base(v));
  }
  const ValueId made_id = b().create(kind, operands, attrs ? *attrs : default_attrs(kind));
  if (!made_id.valid()) {
    if (im.diagnostics().ok()) fail(Code::BadType, b().error());
    return {};
  }
  return with_dims(made_id, *longest);
}

Value Op::cast(const Value& v, DType t) {
  if (!v.valid() || v.dtype == t) return v;
  Value out = with_dims(b().cast(base(v), t), v.dims);
  const bool exact = (is_integer(t) && bits(t) >= 32) || t == DType::Bool;
  if (exact) out.known = v.known;
  if (t == DType::Bool && v.known)
    for (Dim& d : *out.known) {
      const auto n = dims().constant_value(d);
      if (!n) {
        out.known.reset();
        break;
      }
      d = Dim(*n != 0);
    }
  out.iota = is_integer(t) ? v.iota : std::nullopt;
  return out;
}

Value Op::reshape(const Value& v, Dims d) {
  if (!v.valid()) return v;
  Value out;
  const bool one = im.block().graph == v.block->graph ? v.block->graph->rank(v.id) == 0
                                                      : base(v).valid() && im.block().graph->rank(base(v)) == 0;
  if (one) out = with_dims(base(v), std::move(d));
  else if (std::ranges::equal(v.dims, d)) out = v;
  else out = made(view(whole(v), std::move(d)));
  out.known = v.known;
  return out;
}

Value Op::transpose(const Value& v, const Ints& perm) {
  if (!v.valid() || std::ranges::is_sorted(perm)) return v;
  return made(b().transpose(whole(v), perm));
}

Value Op::broadcast(const Value& v, const Dims& to, const Ints& axes) {
  if (!v.valid()) return v;
  ValueId x = base(v);
  Graph& g = *im.block().graph;
  if (x.valid() && g.rank(x) > 0) {
    // The own dims at their places, and 1 elsewhere. Leading axes of 1 are left out.
    Dims own(g.dims(x).begin(), g.dims(x).end());
    while (own.size() < v.dims.size()) own.insert(own.begin(), Dim(1));
    if (static_cast<size_t>(g.rank(x)) != own.size()) x = b().reshape(x, own);
    std::vector<std::pair<int64_t, size_t>> order;
    for (size_t i = 0; i < axes.size(); ++i) order.emplace_back(axes[i], i);
    std::ranges::sort(order);
    Ints perm;
    Dims placed(to.size(), Dim(1));
    for (const auto& [axis, i] : order) {
      perm.push_back(static_cast<int64_t>(i));
      placed[static_cast<size_t>(axis)] = own[i];
    }
    x = b().transpose(x, perm);
    size_t leading = 0;
    while (leading + 1 < placed.size() && placed[leading] == Dim(1)) ++leading;
    const Dims all = placed;
    placed.erase(placed.begin(), placed.begin() + static_cast<std::ptrdiff_t>(leading));
    const ValueId kept = view(x, all);  // with the leading axes, if that needs no reshape
    x = !kept.valid() || g.op(g.def(kept)) != OpKind::Reshape ? kept : view(x, placed);
  }
  Value out = with_dims(x, to);
  if (v.known && v.known->size() == 1 && to.size() <= 1) {
    const auto n = to.empty() ? std::optional<int64_t>(1) : dims().constant_value(to[0]);
    if (n && *n <= kMostKnown) out.known = Dims(static_cast<size_t>(*n), (*v.known)[0]);
  } else if (v.known && v.dims == to) {
    out.known = v.known;
  }
  if (v.iota && *v.iota < static_cast<int64_t>(axes.size())) out.iota = axes[static_cast<size_t>(*v.iota)];
  return out;
}

Value Op::concat(const std::vector<Value>& x, int64_t axis) {
  if (x.size() == 1) return x[0];
  std::vector<ValueId> parts;
  for (const Value& v : x) {
    parts.push_back(whole(v));
    if (!parts.back().valid()) return {};
  }
  return made(b().concat(parts, axis));
}

Value Op::narrow(const Value& v, int64_t axis, Dim start, Dim length) {
  if (!v.valid() || (start == Dim(0) && v.dims[static_cast<size_t>(axis)] == length)) return v;
  return made(b().narrow(whole(v), axis, start, length));
}

Value Op::pad(const Value& v, const Dims& before, const Dims& after, const Value& fill) {
  if (!v.valid()) return v;
  const auto none = [](const Dims& d) { return std::ranges::all_of(d, [](Dim x) { return x == Dim(0); }); };
  if (none(before) && none(after)) return v;
  const ValueId x = whole(v), f = base(fill);
  if (!x.valid() || !f.valid()) return {};
  return made(b().create(OpKind::Pad, {x, f}, PadAttrs{before, after, PadMode::Constant}));
}

Value Op::iota(DType t, const Dims& to, int64_t axis) {
  const Dim n = to[static_cast<size_t>(axis)];
  const bool direct = is_integer(t) && bits(t) >= 32;
  const DType own = direct || t == DType::F32 || t == DType::F64 ? t : is_float(t) ? DType::F32 : DType::I64;
  Value v = made(b().create(OpKind::Range, {b().scalar(own, 0), b().scalar(own, 1)}, DimsAttrs{{n}, false}));
  v = broadcast(cast(v, t), to, {axis});
  v.iota = axis;
  return v;
}

Value Op::clamp(const Value& x, const Value& low, const Value& high) {
  return elementwise(OpKind::Min, {elementwise(OpKind::Max, {x, low}), high});
}

Dim Op::product(std::span<const Dim> d) const { return dims().product(d); }

Value Op::flat(const Value& v) { return reshape(v, {product(v.dims)}); }

std::optional<int64_t> Op::constant(const Value& v) const {
  return v.known && v.known->size() == 1 ? dims().constant_value((*v.known)[0]) : std::nullopt;
}

std::optional<double> Op::splat(const Value& v) const {
  if (!v.valid()) return std::nullopt;
  const Graph& g = *v.block->graph;
  const NodeId n = g.def(v.id);
  if (g.op(n) != OpKind::Constant) return std::nullopt;
  const TensorData& data = im.module().data[g.attrs<DataAttrs>(n).data];
  if (!data.splat && data.elements() != 1) return std::nullopt;
  return element_as_double(data, 0);
}

std::optional<Ints> Op::static_sizes(std::span<const Dim> d) const {
  Ints out;
  for (const Dim x : d) {
    if (!x.is_static()) return std::nullopt;
    out.push_back(x.size());
  }
  return out;
}

std::optional<Ints> Op::sizes(const Value& v) {
  auto out = static_sizes(v.dims);
  if (!out) unsupported("its sizes must be known, and it has " + rlxc::text(tensor_type(v.dtype, v.dims), dims()));
  return out;
}

}  // namespace rlxc::stablehlo_import
