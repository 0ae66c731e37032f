#include "ir/infer.h"

#include <array>
#include <string>

#include "ir/op_rules.h"

namespace rlxc {

// Type rules named in the op table: infer_x for the name x.
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) \
  bool infer_##infer(InferContext&);
#include "ir/ops.def"
#undef OP

namespace {

using Rule = bool (*)(InferContext&);
constexpr std::array<Rule, kOpCount> kRules = {
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) infer_##infer,
#include "ir/ops.def"
#undef OP
};

bool fits(OperandDomain d, DType t) {
  const DTypeClass c = dtype_class(t);
  return d == OperandDomain::Any || c == DTypeClass::Float ||
         (d == OperandDomain::Number && t != DType::Bool && t != DType::String);
}

}  // namespace

std::optional<std::vector<Type>> infer(Module& m, OpKind op, const Attrs& attrs, std::span<const Type* const> operands,
                                       std::span<const GraphId> bodies, std::string* message) {
  const int n = static_cast<int>(operands.size());
  if (attrs.index() != default_attrs(op).index()) {
    *message = "attributes of another operation";
    return std::nullopt;
  }
  if (n < min_inputs(op) || (max_inputs(op) >= 0 && n > max_inputs(op))) {
    *message = "takes " + std::to_string(min_inputs(op)) +
               (max_inputs(op) < 0                ? " or more"
                : max_inputs(op) > min_inputs(op) ? " to " + std::to_string(max_inputs(op))
                                                  : "") +
               " operands, got " + std::to_string(n);
    return std::nullopt;
  }
  for (int i = 0; i < min_inputs(op) && op != OpKind::Loop; ++i)
    if (!operands[static_cast<size_t>(i)]) {
      *message = "operand " + std::to_string(i) + " is absent";
      return std::nullopt;
    }
  if (!has_trait(op, kSequenceOp | kBody | kTerminator))
    for (const Type* t : operands)
      if (t && t->kind != TypeKind::Tensor) {
        *message = "works on tensors, gets " + text(*t, m.dims);
        return std::nullopt;
      }
  if (const OperandDomain domain = operand_domain(op); operands.size() && operands[0] && !fits(domain, operands[0]->dtype)) {
    *message = (domain == OperandDomain::Real ? "needs floats, gets " : "needs numbers, gets ") + text(*operands[0], m.dims);
    return std::nullopt;
  }
  InferContext c{m, op, attrs, operands, bodies, {}, {}};
  if (!kRules[static_cast<size_t>(op)](c)) {
    *message = c.error;
    return std::nullopt;
  }
  for (const Type& t : c.out)
    for (Dim d : t.dims)
      if (!d.is_static() && m.dims.constant_value(d)) {
        *message = "a negative size: " + text(t, m.dims);
        return std::nullopt;
      }
  return std::move(c.out);
}

bool broadcast(InferContext& c, std::span<const Dim> a, std::span<const Dim> b, std::vector<Dim>* out) {
  const size_t rank = std::max(a.size(), b.size());
  out->resize(rank);
  for (size_t i = 0; i < rank; ++i) {
    const Dim x = i < rank - a.size() ? Dim(1) : a[i - (rank - a.size())];
    const Dim y = i < rank - b.size() ? Dim(1) : b[i - (rank - b.size())];
    if (x == Dim(1)) (*out)[i] = y;
    else if (y == Dim(1) || x == y) (*out)[i] = x;
    else if (!require_equal(c, x, y, "sizes to broadcast")) return false;
    else (*out)[i] = y.is_static() || c.dims().weight(y) < c.dims().weight(x) ? y : x;  // min(n,64) == n: n
  }
  return true;
}

bool same_dtype(InferContext& c, size_t i, size_t j) {
  if (!c.has(i) || !c.has(j) || c.t(i).dtype == c.t(j).dtype) return true;
  return c.fail("operands have different element types: " + c.show(i) + " and " + c.show(j));
}

bool check_axis(InferContext& c, int64_t axis, int rank) {
  if (axis >= 0 && axis < rank) return true;
  return c.fail("axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
}

bool require_equal(InferContext& c, Dim a, Dim b, std::string_view what) {
  if (c.dims().equal(a, b) || c.dims().need_equal(a, b)) return true;
  return c.fail(std::string(what) + " differ: " + c.dims().text(a) + " and " + c.dims().text(b));
}

bool require_at_most(InferContext& c, Dim a, Dim b, std::string_view what) {
  DimTable& t = c.dims();
  const Dim room = t.sub(b, a);
  const auto known = t.constant_value(room);
  if (known ? *known >= 0 : t.at_least(room, 0, 0)) return true;
  if (!known) {
    const Dim low = t.min(a, b);
    const bool for_symbols = low == a && t.at_least(room, 0);
    if (low == a && !for_symbols) return true;
    if (t.need_equal(for_symbols ? t.mod(a, t.add(b, Dim(1))) : low, a)) return true;
  }
  return c.fail(std::string(what) + ": " + t.text(b) + ", must be at least " + t.text(a));
}

bool rounded_result(InferContext& c, size_t scale, DType t, std::vector<Dim> dims, const std::function<bool(const Type&)>& fits) {
  if (!c.has(scale)) return c.has(scale + 1) ? c.fail("a zero point needs a scale") : c.result(t, std::move(dims));
  const auto is_number = [&](size_t i, auto has_type) {
    return c.has(i) && has_type(c.t(i).dtype) && (fits ? fits(c.t(i)) : num_elements(c.t(i)) == 1);
  };
  if (t != DType::F32) return c.fail("only f32 is quantized");
  if (!is_number(scale, [](DType d) { return d == DType::F32; })) return c.fail("the scale must be one f32 number");
  if (!is_number(scale + 1, is_int8)) return c.fail("the zero point must be one u8 or i8 number");
  if (c.has(scale + 2)) {
    const bool fits_back = is_number(scale + 2, [](DType d) { return d == DType::F32; });
    return fits_back ? c.result(t, std::move(dims)) : c.fail("the scale that dequantizes must be one f32 number");
  }
  return c.result(c.t(scale + 1).dtype, std::move(dims));
}

Type join_elements(DimTable& dims, const Type& a, const Type& b) {
  if (!a.ranked) return b;
  if (!b.ranked) return a;
  Type out = a;
  out.ranked = a.rank() == b.rank();
  if (!out.ranked) out.dims.clear();
  for (size_t i = 0; i < out.dims.size(); ++i)
    if (!dims.equal(a.dims[i], b.dims[i])) out.dims[i] = dims.fresh("d");
  return out;
}

Dim conv_output_size(DimTable& t, Dim in, int64_t kernel, int64_t stride, int64_t pad_begin, int64_t pad_end, int64_t dilation,
                     bool ceil_mode) {
  const Dim span = t.sub(t.add(in, t.constant(pad_begin + pad_end)), t.constant(dilation * (kernel - 1) + 1));
  if (!ceil_mode) return t.add(t.floor_div(span, Dim(stride)), Dim(1));
  const Dim rounded = t.add(t.ceil_div(span, Dim(stride)), Dim(1));
  const int64_t window = dilation * (kernel - 1) + 1;
  if (window >= stride + pad_end) return rounded;
  // Drops a window that would start behind the input and its leading padding: one, also where more trailing padding follows.
  const Dim inside = t.add(t.floor_div(t.add(in, t.constant(pad_begin - 1)), Dim(stride)), Dim(1));
  const Dim kept = t.min(rounded, inside);
  return pad_end < window ? kept : t.max(kept, t.sub(rounded, Dim(1)));
}

}  // namespace rlxc
