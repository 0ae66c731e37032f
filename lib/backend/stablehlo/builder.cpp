#include "backend/stablehlo/builder.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernel/math.h"
#include "support/number.h"
#include "support/saturate.h"

namespace rlxc::stablehlo {
namespace {

using kernel::ExprOp;

std::string element(DType t) {
  switch (t) {
    case DType::Bool: return "i1";
    case DType::F8E4M3FN: return "f8E4M3FN";
    case DType::F8E5M2: return "f8E5M2";
    case DType::C64: return "complex<f32>";
    case DType::C128: return "complex<f64>";
    default: {
      const std::string s(name(t));
      return s[0] == 'u' ? "ui" + s.substr(1) : s;
    }
  }
}

std::string join_ints(const std::vector<int64_t>& v) {
  std::string s;
  for (int64_t n : v) s += (s.empty() ? "" : ", ") + std::to_string(n);
  return s;
}

// Prints floats as bits if they have no decimal form.
std::string float_literal(DType t, double v) {
  if (std::isnan(v))
    return t == DType::F64 ? "0x7FF8000000000000" : t == DType::F16 ? "0x7E00" : t == DType::BF16 ? "0x7FC0" : "0x7FC00000";
  if (std::isinf(v)) {
    const bool minus = v < 0;
    if (t == DType::F64) return minus ? "0xFFF0000000000000" : "0x7FF0000000000000";
    if (t == DType::F16) return minus ? "0xFC00" : "0x7C00";
    if (t == DType::BF16) return minus ? "0xFF80" : "0x7F80";
    return minus ? "0xFF800000" : "0x7F800000";
  }
  std::string s = t == DType::F64 ? shortest(v) : shortest(static_cast<float>(v));
  const size_t e = s.find('e');
  if (s.find('.') == s.npos) s.insert(e == s.npos ? s.size() : e, ".0");  // MLIR's grammar requires the point
  return s;
}

double bytes(const Hlo& v) {
  double n = bits(v.dtype) / 8.0;
  for (int64_t d : v.dims) n *= static_cast<double>(d);
  return n;
}

// "stablehlo.<op>"(operands)
std::string call(std::string_view op, const std::vector<Hlo>& operands) {
  std::string names;
  for (const Hlo& v : operands) names += (names.empty() ? "" : ", ") + v.name;
  return "\"stablehlo." + std::string(op) + "\"(" + names + ")";
}

std::string types(const std::vector<Hlo>& operands) {
  std::string in;
  for (const Hlo& v : operands) in += (in.empty() ? "" : ", ") + HloBuilder::type(v);
  return " : (" + in + ") -> ";
}

}  // namespace

std::string HloBuilder::type(DType t, const std::vector<int64_t>& dims) {
  std::string s = "tensor<";
  for (int64_t n : dims) s += std::to_string(n) + "x";
  return s + element(t) + ">";
}
std::string HloBuilder::ints(const std::vector<int64_t>& v) {
  return v.empty() ? "array<i64>" : "array<i64: " + join_ints(v) + ">";
}
std::string HloBuilder::list(const std::vector<int64_t>& v) { return "[" + join_ints(v) + "]"; }
std::string HloBuilder::pairs(const std::vector<int64_t>& low, const std::vector<int64_t>& high) {
  std::string s;
  for (size_t i = 0; i < low.size(); ++i) s += (i ? ", [" : "[") + std::to_string(low[i]) + ", " + std::to_string(high[i]) + "]";
  return "dense<[" + s + "]> : tensor<" + std::to_string(low.size()) + "x2xi64>";
}

std::vector<Hlo> HloBuilder::ops(std::string_view op, const std::vector<Hlo>& operands, const std::vector<Hlo>& results,
                                 const std::string& attributes, const std::string& regions) {
  if (results.size() == 1 && regions.empty() && is_preparation(op, operands, results[0]))
    return {prepare(op, operands, results[0], attributes)};
  std::vector<Hlo> out = results;
  const std::string base = "%" + std::to_string(next_++);
  std::string to;
  for (size_t r = 0; r < out.size(); ++r) {
    out[r].name = out.size() == 1 ? base : base + "#" + std::to_string(r);
    to += (r ? ", " : "") + type(out[r]);
  }
  for (const Hlo& v : operands) use(v);
  std::string line = base + (out.size() > 1 ? ":" + std::to_string(out.size()) : "") + " = " + call(op, operands);
  if (!regions.empty()) line += " ({" + regions + "})";
  if (!attributes.empty()) line += " {" + attributes + "}";
  line += types(operands) + (out.size() > 1 ? "(" + to + ")" : to) + "\n";
  if (prepares_ && op == "constant") constants_.emplace(base, line);
  text_ += indent_ + line;
  return out;
}

// Whether the operation belongs to the preparation of weights. Conversions to a wider type do not, so that weights stay as small
// as they are stored; those of a few scales and biases do.
bool HloBuilder::is_preparation(std::string_view op, const std::vector<Hlo>& operands, const Hlo& result) const {
  constexpr std::string_view kOps[] = {"convert",     "transpose", "reshape",  "slice",    "reverse",
                                       "concatenate", "add",       "subtract", "multiply", "divide",
                                       "negate",      "maximum",   "minimum",  "sqrt",     "rsqrt"};
  constexpr double kFew = 1 << 16;  // bytes
  if (!prepares_ || std::ranges::find(kOps, op) == std::end(kOps)) return false;
  double from = 0;
  for (const Hlo& v : operands) {
    const bool stored = stored_.contains(v.name);
    if (!stored && !constants_.contains(v.name)) return false;
    if (stored) from += bytes(v);
  }
  return from > 0 && bytes(result) <= (op == "convert" ? std::max(from, kFew) : from);
}

Hlo HloBuilder::prepare(std::string_view op, const std::vector<Hlo>& operands, const Hlo& result, const std::string& attributes) {
  Hlo out = result;
  const std::string body = call(op, operands) + (attributes.empty() ? "" : " {" + attributes + "}") + types(operands) + type(out);
  if (const auto same = known_.find(body); same != known_.end()) return same->second;
  for (const Hlo& v : operands) {
    if (!stored_.contains(v.name) && read_.insert(v.name).second) prepared_text_ += "    " + constants_.at(v.name);
    read_.insert(v.name);
  }
  out.name = "%" + std::to_string(next_++);
  prepared_text_ += "    " + out.name + " = " + body + "\n";
  stored_.insert(out.name);
  prepared_.push_back(out);
  return known_[body] = out;
}

Hlo HloBuilder::op(std::string_view o, const std::vector<Hlo>& operands, DType t, std::vector<int64_t> dims,
                   const std::string& attributes, const std::string& regions) {
  return ops(o, operands, {{"", t, std::move(dims)}}, attributes, regions)[0];
}

Hlo HloBuilder::dense(DType t, std::vector<int64_t> dims, const std::string& literal) {
  const std::string of = type(t, dims);
  return op("constant", {}, t, std::move(dims), "value = dense<" + literal + "> : " + of);
}
Hlo HloBuilder::constant(DType t, double v, std::vector<int64_t> dims) {
  if (!is_float(t)) return constant_int(t, saturating_cast<int64_t>(v), std::move(dims));
  return dense(t, std::move(dims), float_literal(t, v));
}
Hlo HloBuilder::constant_int(DType t, int64_t v, std::vector<int64_t> dims) {
  if (is_float(t)) return constant(t, static_cast<double>(v), std::move(dims));
  return dense(t, std::move(dims), t == DType::Bool ? (v ? "true" : "false") : std::to_string(v));
}
Hlo HloBuilder::literal(const TensorData& d) {
  const auto one = [&](int64_t i) {
    if (is_float(d.dtype)) return float_literal(d.dtype, element_as_double(d, i));
    const int64_t v = element_as_int(d, i);
    if (d.dtype == DType::Bool) return std::string(v ? "true" : "false");
    return d.dtype == DType::U64 ? std::to_string(static_cast<uint64_t>(v)) : std::to_string(v);
  };
  if (d.splat || d.dims.empty()) return dense(d.dtype, d.dims, one(0));
  // Nested as MLIR writes it: each axis opens and closes a list.
  std::string s;
  for (int64_t i = 0, n = d.elements(); i < n; ++i) {
    std::string open, close;
    int64_t run = 1;
    for (size_t axis = d.dims.size(); axis-- > 0;) {
      run *= d.dims[axis];
      if (i % run == 0) open += "[";
      if ((i + 1) % run == 0) close += "]";
    }
    s += (i ? ", " : "") + open + one(i) + close;
  }
  return dense(d.dtype, d.dims, s);
}
Hlo HloBuilder::dense_ints(const std::vector<int64_t>& values) {
  return dense(DType::I64, {static_cast<int64_t>(values.size())}, list(values));
}

Hlo HloBuilder::broadcast(const Hlo& v, const std::vector<int64_t>& dims, const std::vector<int64_t>& axes) {
  if (v.dims == dims) return v;
  return op("broadcast_in_dim", {v}, v.dtype, dims, "broadcast_dimensions = " + ints(axes));
}
Hlo HloBuilder::broadcast(const Hlo& v, const std::vector<int64_t>& dims) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < v.dims.size(); ++i) axes.push_back(static_cast<int64_t>(dims.size() - v.dims.size() + i));
  return broadcast(v, dims, axes);
}
Hlo HloBuilder::reshape(const Hlo& v, std::vector<int64_t> dims) {
  return v.dims == dims ? v : op("reshape", {v}, v.dtype, std::move(dims));
}
Hlo HloBuilder::transpose(const Hlo& v, const std::vector<int64_t>& perm) {
  std::vector<int64_t> dims;
  for (int64_t p : perm) dims.push_back(v.dims[static_cast<size_t>(p)]);
  return op("transpose", {v}, v.dtype, std::move(dims), "permutation = " + ints(perm));
}
Hlo HloBuilder::slice(const Hlo& v, size_t axis, int64_t start, int64_t limit, int64_t step) {
  std::vector<int64_t> begin(v.dims.size(), 0), end = v.dims, steps(v.dims.size(), 1), dims = v.dims;
  begin[axis] = start;
  end[axis] = limit;
  steps[axis] = step;
  dims[axis] = limit > start ? (limit - start + step - 1) / step : 0;
  return op("slice", {v}, v.dtype, std::move(dims),
            "start_indices = " + ints(begin) + ", limit_indices = " + ints(end) + ", strides = " + ints(steps));
}
Hlo HloBuilder::convert(const Hlo& v, DType t) { return v.dtype == t ? v : op("convert", {v}, t, v.dims); }
Hlo HloBuilder::compare(std::string_view direction, const Hlo& a, const Hlo& b) {
  return op("compare", {a, b}, DType::Bool, a.dims,
            "comparison_direction = #stablehlo<comparison_direction " + std::string(direction) + ">");
}
Hlo HloBuilder::iota(DType t, std::vector<int64_t> dims, size_t axis) {
  return op("iota", {}, t, std::move(dims), "iota_dimension = " + std::to_string(axis) + " : i64");
}
Hlo HloBuilder::pad(const Hlo& v, const Hlo& fill, const std::vector<int64_t>& low, const std::vector<int64_t>& high) {
  std::vector<int64_t> dims = v.dims;
  for (size_t i = 0; i < dims.size(); ++i) dims[i] += low[i] + high[i];
  return op("pad", {v, fill}, v.dtype, std::move(dims),
            "edge_padding_low = " + ints(low) + ", edge_padding_high = " + ints(high) +
                ", interior_padding = " + ints(std::vector<int64_t>(low.size(), 0)));
}

std::string HloBuilder::open_region(std::vector<Hlo>& arguments) {
  std::string head;
  for (Hlo& a : arguments) {
    a.name = "%b" + std::to_string(next_++);
    head += (head.empty() ? "" : ", ") + a.name + ": " + type(a);
  }
  std::string inside = "\n";
  if (!arguments.empty()) inside += indent_ + "^bb0(" + head + "):\n";
  indent_ += "  ";
  return std::exchange(text_, std::move(inside));
}

std::string HloBuilder::close_region(std::string outside, const std::vector<Hlo>& results) {
  for (const Hlo& v : results) use(v);
  text_ += indent_ + call("return", results) + types(results) + "()\n";
  indent_.resize(indent_.size() - 2);
  return std::exchange(text_, std::move(outside)) + indent_;
}

std::string HloBuilder::combiner(std::string_view combine, DType t) {
  return region({{"", t, {}}, {"", t, {}}}, [&](const std::vector<Hlo>& x) { return std::vector{op(combine, x, t, {})}; });
}

Hlo HloBuilder::reduce(std::string_view combine, const Hlo& v, const Hlo& start, const std::vector<int64_t>& axes, bool keep) {
  std::vector<int64_t> dims, kept = v.dims;
  for (int64_t a : axes) kept[static_cast<size_t>(a)] = 1;
  for (size_t i = 0; i < v.dims.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) dims.push_back(v.dims[i]);
  const Hlo r = op("reduce", {v, start}, v.dtype, std::move(dims), "dimensions = " + ints(axes), combiner(combine, v.dtype));
  return keep ? reshape(r, kept) : r;
}
Hlo HloBuilder::window(std::string_view combine, const Hlo& v, const Hlo& start, const std::string& attributes,
                       std::vector<int64_t> dims) {
  return op("reduce_window", {v, start}, v.dtype, std::move(dims), attributes, combiner(combine, v.dtype));
}
Hlo HloBuilder::dot(const Hlo& a, const Hlo& b, const std::vector<int64_t>& batch_a, const std::vector<int64_t>& batch_b,
                    const std::vector<int64_t>& contract_a, const std::vector<int64_t>& contract_b, std::vector<int64_t> dims,
                    DType result) {
  // Matrix units round sums of bf16 once, at the end. Other devices add f16 in f16 unless the result is f32.
  DType sums = a.dtype;
  if (a.dtype == DType::F16 || (a.dtype == DType::BF16 && result != a.dtype)) sums = DType::F32;
  if (is_integer(a.dtype) && is_integer(result)) sums = result;
  const Hlo y = op("dot_general", {a, b}, sums, std::move(dims),
                   "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = " + list(batch_a) +
                       ", rhs_batching_dimensions = " + list(batch_b) + ", lhs_contracting_dimensions = " + list(contract_a) +
                       ", rhs_contracting_dimensions = " + list(contract_b) + ">" + precision_config(a.dtype));
  return convert(y, result);
}

std::string HloBuilder::precision_config(DType t) const {
  const bool passes = t == DType::F32 || t == DType::F64 || t == DType::F16 || t == DType::C64 || t == DType::C128;
  if (!passes || precision_ == "DEFAULT") return {};
  const std::string one = "#stablehlo<precision " + precision_ + ">";
  return ", precision_config = [" + one + ", " + one + "]";
}

void HloBuilder::comment(const ForeignText& name, std::string_view kind) {
  text_ += indent_ + "// " + name.line() + " (" + std::string(kind) + ")\n";
}

// Composes functions that StableHLO lacks, or takes their definitions of kernel/math.h.
Hlo HloBuilder::function(ExprOp op_, const std::vector<Hlo>& x) {
  constexpr std::pair<ExprOp, std::string_view> kNames[] = {{ExprOp::Add, "add"},
                                                            {ExprOp::Sub, "subtract"},
                                                            {ExprOp::Mul, "multiply"},
                                                            {ExprOp::Div, "divide"},
                                                            {ExprOp::Mod, "remainder"},
                                                            {ExprOp::Min, "minimum"},
                                                            {ExprOp::Max, "maximum"},
                                                            {ExprOp::Neg, "negate"},
                                                            {ExprOp::Abs, "abs"},
                                                            {ExprOp::And, "and"},
                                                            {ExprOp::Or, "or"},
                                                            {ExprOp::Xor, "xor"},
                                                            {ExprOp::Not, "not"},
                                                            {ExprOp::BitNot, "not"},
                                                            {ExprOp::Shl, "shift_left"},
                                                            {ExprOp::Exp, "exponential"},
                                                            {ExprOp::Expm1, "exponential_minus_one"},
                                                            {ExprOp::Log, "log"},
                                                            {ExprOp::Log1p, "log_plus_one"},
                                                            {ExprOp::Sqrt, "sqrt"},
                                                            {ExprOp::Rsqrt, "rsqrt"},
                                                            {ExprOp::Sin, "sine"},
                                                            {ExprOp::Cos, "cosine"},
                                                            {ExprOp::Tanh, "tanh"},
                                                            {ExprOp::Floor, "floor"},
                                                            {ExprOp::Ceil, "ceil"},
                                                            {ExprOp::RoundEven, "round_nearest_even"},
                                                            {ExprOp::Pow, "power"},
                                                            {ExprOp::Atan2, "atan2"}};
  for (const auto& [o, n] : kNames)
    if (o == op_) return same(n, x);
  const Hlo& a = x[0];
  auto number = [&](double v) { return constant(a.dtype, v, a.dims); };
  auto do_ = [&](std::string_view n, const Hlo& p, const Hlo& q) { return same(n, {p, q}); };
  auto one = [&](std::string_view n, const Hlo& p) { return same(n, {p}); };
  switch (op_) {
    case ExprOp::Fma: return do_("add", do_("multiply", a, x[1]), x[2]);
    case ExprOp::Lt: return compare("LT", a, x[1]);
    case ExprOp::Le: return compare("LE", a, x[1]);
    case ExprOp::Eq: return compare("EQ", a, x[1]);
    case ExprOp::Ne: return compare("NE", a, x[1]);
    case ExprOp::IsNan: return compare("NE", a, a);
    case ExprOp::IsInf: return compare("EQ", one("abs", a), number(INFINITY));
    case ExprOp::Select: return op("select", {a, x[1], x[2]}, x[1].dtype, x[1].dims);
    case ExprOp::Shr: return same(dtype_class(a.dtype) == DTypeClass::UInt ? "shift_right_logical" : "shift_right_arithmetic", x);
    case ExprOp::Trunc: return op("select", {compare("LT", a, number(0)), one("ceil", a), one("floor", a)}, a.dtype, a.dims);
    case ExprOp::Tan: return do_("divide", one("sine", a), one("cosine", a));
    case ExprOp::Atan: return do_("atan2", a, number(1));
    default: break;
  }
  const kernel::Kernel k = kernel::define(op_, kernel::Type(a.dtype));
  std::map<uint32_t, Hlo> known;  // Lets of the definition
  Hlo result;
  std::vector<Hlo> values(k.vars.size());
  for (size_t i = 0; i < k.symbols.size(); ++i) values[k.symbols[i].raw] = x[i];
  for (const kernel::Stmt& s : k.body) {
    if (s.kind == kernel::StmtKind::Let) values[s.var.raw] = expression(k, s.value, values, a.dims);
    if (s.kind == kernel::StmtKind::Store) result = expression(k, s.value, values, a.dims);
  }
  return result;
}

Hlo HloBuilder::expression(const kernel::Kernel& k, kernel::ExprId root, const std::vector<Hlo>& parameters,
                           const std::vector<int64_t>& dims) {
  std::map<uint32_t, Hlo> done;
  std::vector<kernel::ExprId> work{root};
  while (!work.empty()) {
    const kernel::ExprId id = work.back();
    const kernel::ExprNode& e = k.expr(id);
    bool ready = true;
    for (int a = 0; a < kernel::operand_count(e.op); ++a)
      if (!done.contains(e.args[static_cast<size_t>(a)].raw)) {
        work.push_back(e.args[static_cast<size_t>(a)]);
        ready = false;
      }
    if (!ready) continue;
    work.pop_back();
    if (done.contains(id.raw)) continue;
    std::vector<Hlo> x;
    for (int a = 0; a < kernel::operand_count(e.op); ++a) x.push_back(done.at(e.args[static_cast<size_t>(a)].raw));
    Hlo v;
    if (e.op == ExprOp::Const)
      v = is_float(e.type.dtype) ? constant(e.type.dtype, kernel::const_double(e), dims)
                                 : constant_int(e.type.dtype, e.payload, dims);
    else if (e.op == ExprOp::Var) v = parameters[static_cast<size_t>(e.payload)];
    else if (e.op == ExprOp::Cast) v = convert(x[0], e.type.dtype);
    else if (e.op == ExprOp::Bitcast) v = op("bitcast_convert", x, e.type.dtype, dims);
    else v = function(e.op, x);
    done.emplace(id.raw, std::move(v));
  }
  return done.at(root.raw);
}

}  // namespace rlxc::stablehlo
