// Elementwise ops: the definitions of ops/elementwise.h over broadcast operands, in blocks. Results are computed in double
// (integers exactly) and rounded once to their type, in a region after every step.
#include "ops/elementwise.h"

#include <algorithm>

#include "eval/broadcast.h"
#include "eval/context.h"
#include "eval/join.h"
#include "eval/norm.h"
#include "ir/region.h"

namespace rlxc::eval {

BroadcastRows::BroadcastRows(std::span<const int64_t> out, std::span<const TensorData* const> operands) {
  const size_t n = operands.size();
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides;
  for (size_t k = 0; k < out.size(); ++k) {
    if (out[k] == 1) continue;
    std::vector<int64_t> s(n, 0);
    for (size_t i = 0; i < n; ++i) {
      const auto& d = operands[i]->dims;
      if (operands[i]->splat || k + d.size() < out.size()) continue;
      const size_t own = k + d.size() - out.size();
      if (d[own] != 1) s[i] = product(std::span(d).subspan(own + 1));
    }
    bool joined = !dims.empty();
    for (size_t i = 0; joined && i < n; ++i) joined = strides.back()[i] == s[i] * out[k];
    if (joined) {
      dims.back() *= out[k];
      strides.back() = std::move(s);
    } else {
      dims.push_back(out[k]);
      strides.push_back(std::move(s));
    }
  }
  steps_.assign(n, 0);
  if (!dims.empty()) {
    length_ = dims.back();
    steps_ = strides.back();
    dims.pop_back();
    strides.pop_back();
  }
  dims_ = std::move(dims);
  strides_ = std::move(strides);
  for (int64_t d : dims_) rows_ *= d;
}

namespace {

constexpr int64_t kBlock = 1024;

struct Source {
  const TensorData* tensor;
  int64_t offset, step;

  template <class V>
  void read(int64_t n, V* out) const {
    load(*tensor, offset, step == 0 ? 1 : n, out);
    if (step == 0) std::fill(out + 1, out + n, out[0]);
  }
};

template <class V>
constexpr unsigned domain_of() {
  if constexpr (std::is_same_v<V, double>) return ops::kFloats;
  else if constexpr (std::is_same_v<V, Complex>) return ops::kComplexes;
  else return ops::kIntegers | ops::kBools;
}

unsigned domain_of(DType t) {
  switch (dtype_class(t)) {
    case DTypeClass::Float: return ops::kFloats;
    case DTypeClass::Int:
    case DTypeClass::UInt: return ops::kIntegers;
    case DTypeClass::Bool: return ops::kBools;
    case DTypeClass::Complex: return ops::kComplexes;
    default: return 0;
  }
}

template <class V, class M>
void compute(M meaning, const ops::Params& p, const Source* in, int64_t n, TensorData& out, int64_t at) {
  V x[3][kBlock];
  for (int i = 0; i < M::arity; ++i) in[i].read(n, x[i]);
  auto apply = [&](int64_t i) {
    if constexpr (M::arity == 1) return meaning(p, x[0][i]);
    else if constexpr (M::arity == 2) return meaning(p, x[0][i], x[1][i]);
    else return meaning(p, x[0][i], x[1][i], x[2][i]);
  };
  using R = decltype(apply(0));
  std::conditional_t<std::is_same_v<R, bool>, Int, R> y[kBlock];
  for (int64_t i = 0; i < n; ++i) y[i] = apply(i);
  store(out, at, n, y);
}

// Computes powers in the type of the base, for any type of the exponent.
void compute_pow(const Source* in, int64_t n, TensorData& out, int64_t at) {
  if (!is_float(in[0].tensor->dtype) && !is_float(in[1].tensor->dtype)) {
    with_numbers(in[0].tensor->dtype, [&](auto v) {
      using V = decltype(v);
      if constexpr (!std::is_same_v<V, Complex>) compute<V>(ops::Meaning<OpKind::Pow>(), {}, in, n, out, at);
      return true;
    });
    return;
  }
  compute<double>(ops::Meaning<OpKind::Pow>(), {}, in, n, out, at);
}

void compute_where(const Source* in, int64_t n, TensorData& out, int64_t at) {
  Int c[kBlock];
  in[0].read(n, c);
  with_numbers(out.dtype, [&](auto v) {
    using V = decltype(v);
    V a[kBlock], b[kBlock];
    in[1].read(n, a);
    in[2].read(n, b);
    for (int64_t i = 0; i < n; ++i) a[i] = c[i] != 0 ? a[i] : b[i];
    store(out, at, n, a);
    return true;
  });
}

void compute_cast(const Source& in, int64_t n, TensorData& out, int64_t at, bool saturate) {
  with_numbers(in.tensor->dtype, [&](auto v) {
    using V = decltype(v);
    V x[kBlock];
    in.read(n, x);
    if constexpr (std::is_same_v<V, double>) {
      if (is_integer(out.dtype) && bits(out.dtype) < 8) {  // wraps to the low bits
        Int low[kBlock];
        for (int64_t i = 0; i < n; ++i) low[i] = Int(ops::lit(ops::Wrap<int32_t>(), x[i]).v);
        store(out, at, n, low);
        return true;
      }
    }
    store(out, at, n, x, saturate);
    return true;
  });
}

// Computes one block of one op. The operands have the types that the op requires.
void compute_block(OpKind op, const ops::Params& p, const Source* in, int64_t n, TensorData& out, int64_t at) {
  if (op == OpKind::Cast) return compute_cast(in[0], n, out, at, true);
  if (op == OpKind::Where) return compute_where(in, n, out, at);
  if (op == OpKind::Pow) return compute_pow(in, n, out, at);
  ops::visit(op, [&](auto meaning) {
    using M = decltype(meaning);
    with_numbers(in[0].tensor->dtype, [&](auto v) {
      using V = decltype(v);
      if constexpr ((M::domain & domain_of<V>()) != 0) compute<V>(meaning, p, in, n, out, at);
      return true;
    });
  });
}

bool accepts(OpKind op, DType t) {
  unsigned domain = 0;
  ops::visit(op, [&](auto m) { domain = decltype(m)::domain; });
  if (op == OpKind::Cast || op == OpKind::Where) domain = ~0u;
  return (domain & domain_of(t)) != 0;
}

ops::Params params_of(const Attrs& attrs, DType t) {
  ops::Params p;
  if (const auto* ab = std::get_if<AlphaBetaAttrs>(&attrs)) {
    p.alpha = ab->alpha;
    p.beta = ab->beta;
  }
  if (const auto* c = std::get_if<ClampAttrs>(&attrs)) {
    p.alpha = c->min;
    p.beta = c->max;
  }
  p.width = bits(t);
  return p;
}

// Iterates over the operands of the node in blocks: f(sources, block length, result offset).
template <class F>
bool for_blocks(Context& c, std::span<const int64_t> dims, const std::vector<const TensorData*>& tensors, F f) {
  if (!c.charge(static_cast<double>(product(dims)))) return false;
  std::vector<Source> sources(tensors.size());
  BroadcastRows(dims, tensors).for_each([&](int64_t out, int64_t length, const int64_t* offset, const int64_t* step) {
    for (int64_t at = 0; at < length; at += kBlock) {
      for (size_t i = 0; i < sources.size(); ++i) sources[i] = {tensors[i], offset[i] + at * step[i], step[i]};
      f(sources.data(), std::min(kBlock, length - at), out + at);
    }
  });
  return true;
}

template <class F>
bool for_blocks(Context& c, std::span<const int64_t> dims, F f) {
  std::vector<const TensorData*> tensors;
  for (const HostValue* v : c.in) tensors.push_back(&v->tensor);
  return for_blocks(c, dims, tensors, f);
}

// Equality of strings, and selection between them.
bool eval_strings(Context& c) {
  TensorData d;
  if (!c.make_result(0, &d)) return false;
  std::vector<const TensorData*> tensors;
  for (const HostValue* v : c.in) tensors.push_back(&v->tensor);
  BroadcastRows(d.dims, tensors).for_each([&](int64_t out, int64_t length, const int64_t* offset, const int64_t* step) {
    for (int64_t i = 0; i < length; ++i) {
      auto text = [&](size_t k) -> const std::string& {
        return tensors[k]->strings[static_cast<size_t>(offset[k] + i * step[k])];
      };
      if (c.op == OpKind::Where)
        d.strings[static_cast<size_t>(out + i)] = text(element_as_int(*tensors[0], offset[0] + i * step[0]) ? 1 : 2);
      else writable(d)[out + i] = std::byte((text(0) == text(1)) == (c.op == OpKind::Eq));
    }
  });
  return c.put(std::move(d));
}

std::string number_text(const TensorData& t, int64_t i) {
  if (is_integer(t.dtype))
    return t.dtype == DType::U64 ? std::to_string(static_cast<uint64_t>(load_int(t, i))) : std::to_string(load_int(t, i));
  if (t.dtype == DType::Bool) return load_int(t, i) ? "1" : "0";
  const double v = element_as_double(t, i);
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "INF" : "-INF";
  // The fewest digits that round-trip in the value's own type.
  for (int digits = 1;; ++digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*g", digits, v);
    const double back = std::strtod(text, nullptr);
    if (digits >= 17 || (t.dtype == DType::F64 ? back == v : static_cast<float>(back) == static_cast<float>(v))) return text;
  }
}

bool cast_strings(Context& c, const TensorData& x, TensorData* d) {
  const DType to = d->dtype;
  if (is_complex(to) || is_complex(x.dtype)) return c.unsupported("complex numbers have no text");
  for (int64_t i = 0; i < d->elements(); ++i) {
    if (to == DType::String) {
      d->strings[static_cast<size_t>(i)] =
          x.dtype == DType::String ? x.strings[static_cast<size_t>(x.splat ? 0 : i)] : number_text(x, x.splat ? 0 : i);
      continue;
    }
    const std::string& s = x.strings[static_cast<size_t>(x.splat ? 0 : i)];
    char* end = nullptr;
    if (is_integer(to)) {
      const Int v = to == DType::U64 ? Int(std::strtoull(s.c_str(), &end, 10)) : Int(std::strtoll(s.c_str(), &end, 10));
      if (*end == '\0' && !s.empty()) {
        store(*d, i, 1, &v);
        continue;
      }
    }
    const double v = std::strtod(s.c_str(), &end);
    if (s.empty() || *end != '\0') return c.fail("\"" + s.substr(0, 40) + "\" is not a number");
    store(*d, i, 1, &v);
  }
  return true;
}

}  // namespace

bool eval_elementwise(Context& c) {
  const DType t = c.t(0).dtype;
  if (t == DType::String && (c.op == OpKind::Eq || c.op == OpKind::Ne)) return eval_strings(c);
  if (!accepts(c.op, t)) return c.unsupported(std::string(name(c.op)) + " is not defined for " + std::string(name(t)));
  TensorData d;
  const ops::Params p = params_of(c.attrs, t);
  return c.make_result(0, &d) &&
         for_blocks(c, d.dims, [&](const Source* in, int64_t n, int64_t at) { compute_block(c.op, p, in, n, d, at); }) &&
         c.put(std::move(d));
}

bool eval_where(Context& c) {
  if (c.t(1).dtype == DType::String) return eval_strings(c);
  TensorData d;
  return c.make_result(0, &d) &&
         for_blocks(c, d.dims, [&](const Source* in, int64_t n, int64_t at) { compute_where(in, n, d, at); }) &&
         c.put(std::move(d));
}

bool eval_cast(Context& c) {
  TensorData d;
  if (!c.make_result(0, &d)) return false;
  if (c.t(0).dtype == DType::String || d.dtype == DType::String) return cast_strings(c, c.t(0), &d) && c.put(std::move(d));
  const bool saturate = c.a<CastAttrs>().saturate;
  return for_blocks(c, d.dims, [&](const Source* in, int64_t n, int64_t at) { compute_cast(in[0], n, d, at, saturate); }) &&
         c.put(std::move(d));
}

namespace {

// Computes step `wanted` into `d`, given the values of earlier cores.
bool run_steps(Context& c, std::span<const RegionStep> steps, size_t wanted, std::span<const TensorData> cores, TensorData& d) {
  const std::vector<bool> needed = needed_steps(steps, wanted);
  const TensorData none;
  std::vector<const TensorData*> read(c.in.size() + cores.size(), &none);  // operands, then cores
  std::vector<TensorData> values(steps.size());                            // one block per step
  for (size_t i = 0; i < steps.size(); ++i) {
    const RegionStep& s = steps[i];
    if (!needed[i]) continue;
    if (is_core(s)) {
      read[c.in.size() + i] = &cores[i];
      continue;
    }
    if (!c.make(s.dtype, {kBlock}, &values[i])) return false;
    for (uint16_t arg : s.args)
      if (arg != RegionStep::kNone && !(arg & RegionStep::kStep)) read[arg] = &c.t(arg);
    const uint16_t first = s.args[s.op == OpKind::Where ? 1 : 0];
    if (first == RegionStep::kNone ||
        !accepts(s.op, first & RegionStep::kStep ? steps[first & ~RegionStep::kStep].dtype : c.t(first).dtype))
      return c.unsupported("the region step " + std::string(name(s.op)) + " is not defined for its operands");
  }
  return for_blocks(c, d.dims, read,
                    [&](const Source* in, int64_t n, int64_t at) {
                      for (size_t s = 0; s < steps.size(); ++s) {
                        if (!needed[s] || is_core(steps[s])) continue;
                        Source args[3] = {};
                        for (size_t k = 0; k < 3; ++k) {
                          const uint16_t arg = steps[s].args[k];
                          if (arg == RegionStep::kNone) continue;
                          const size_t step = arg & ~RegionStep::kStep;
                          args[k] = !(arg & RegionStep::kStep) ? in[arg]
                                    : is_core(steps[step])     ? in[c.in.size() + step]
                                                               : Source{&values[step], 0, 1};
                        }
                        compute_block(steps[s].op, {steps[s].alpha(), steps[s].beta(), bits(args[0].tensor->dtype)}, args, n,
                                      s == wanted ? d : values[s], s == wanted ? at : 0);
                      }
                    }) &&
         c.charge(static_cast<double>(d.elements()) * static_cast<double>(steps.size()));
}

// The value of a step's argument, broadcast to `dims`.
bool run_argument(Context& c, std::span<const RegionStep> steps, uint16_t arg, std::span<const TensorData> cores,
                  std::vector<int64_t> dims, TensorData* d) {
  const size_t step = arg & ~RegionStep::kStep;
  const bool stored = !(arg & RegionStep::kStep) || is_core(steps[step]);
  if (!stored) return c.make(steps[step].dtype, std::move(dims), d) && run_steps(c, steps, step, cores, *d);
  const TensorData& from = arg & RegionStep::kStep ? cores[step] : c.t(arg);
  if (from.dims == dims) {
    *d = from;
    return true;
  }
  return c.make(from.dtype, std::move(dims), d) &&
         for_blocks(c, d->dims, {&from}, [&](const Source* in, int64_t n, int64_t at) { compute_cast(in[0], n, *d, at, false); });
}

}  // namespace

bool eval_region(Context& c) { return put_steps_after(c, c.a<FusionAttrs>().steps, c.a<FusionAttrs>().also, {}); }

bool put_steps_after(Context& c, std::span<const RegionStep> steps, std::span<const int64_t> also,
                     std::vector<TensorData> cores) {
  cores.resize(steps.size());
  const auto put = [&](size_t step) {
    TensorData result;
    return run_argument(c, steps, static_cast<uint16_t>(RegionStep::kStep | step), cores, c.result_dims(), &result) &&
           c.put(std::move(result));
  };
  return put(steps.size() - 1) && std::ranges::all_of(also, [&](int64_t step) { return put(static_cast<size_t>(step)); });
}

bool put_attention(Context& c, TensorData sums, const std::function<bool(const TensorData&, TensorData*)>& product) {
  const std::span<const RegionStep> steps = c.a<FusionAttrs>().steps;
  const std::vector<int64_t> dims = sums.dims;
  const size_t values = last_matmul_step(steps);
  const auto softmax_step = static_cast<size_t>(std::ranges::find(steps, OpKind::Softmax, &RegionStep::op) - steps.begin());
  const auto value_of = [](size_t step) { return static_cast<uint16_t>(RegionStep::kStep | step); };
  std::vector<TensorData> cores(steps.size());
  cores[0] = std::move(sums);
  TensorData scores, probabilities, result;
  if (!run_argument(c, steps, steps[softmax_step].args[0], cores, dims, &scores)) return false;
  auto x = load_all<double>(scores);
  if (!c.charge(6.0 * static_cast<double>(x.size())) || !c.make(DType::F32, dims, &cores[softmax_step])) return false;
  softmax(x, dims, static_cast<int64_t>(dims.size()) - 1, false);
  store(cores[softmax_step], 0, cores[softmax_step].elements(), x.data());
  return run_argument(c, steps, value_of(values - 1), cores, dims, &probabilities) && product(probabilities, &cores[values]) &&
         run_argument(c, steps, value_of(steps.size() - 1), cores, c.result_dims(), &result) && c.put(std::move(result));
}

namespace {

// Computes the steps that reduce, of arguments broadcast to `dims`.
bool run_reductions(Context& c, std::span<const RegionStep> steps, const std::vector<int64_t>& dims,
                    std::vector<TensorData>* cores) {
  std::vector<int64_t> kept = dims;
  for (int64_t axis : reduced_axes(steps)) kept[static_cast<size_t>(axis)] = 1;
  for (size_t i = 0; i < steps.size(); ++i) {
    const RegionStep& s = steps[i];
    TensorData x;
    if (is_core(s) && !(run_argument(c, steps, s.args[0], *cores, dims, &x) && c.make(s.dtype, kept, &(*cores)[i]) &&
                        reduce_tensor(c, x, s.as<ReduceAttrs>(), &(*cores)[i])))
      return false;
  }
  return true;
}

}  // namespace

bool eval_reduce_region(Context& c) {
  const auto& a = c.a<FusionAttrs>();
  std::vector<int64_t> dims;
  for (const HostValue* v : c.in) {
    if (!v) continue;
    const auto& d = v->tensor.dims;
    if (d.size() > dims.size()) dims.insert(dims.begin(), d.size() - dims.size(), 1);
    for (size_t k = 0; k < d.size(); ++k)
      if (int64_t& to = dims[dims.size() - d.size() + k]; to == 1) to = d[k];
  }
  std::vector<TensorData> cores(a.steps.size());
  if (!run_reductions(c, a.steps, dims, &cores)) return false;
  TensorData result;
  return run_argument(c, a.steps, static_cast<uint16_t>(RegionStep::kStep | (a.steps.size() - 1)), cores, c.result_dims(),
                      &result) &&
         c.put(std::move(result));
}

bool eval_concat_region(Context& c) {
  const auto& a = c.a<ConcatRegionAttrs>();
  const size_t count = a.parts.size() / static_cast<size_t>(a.results);
  const bool rows = reduces_rows(a.steps);
  // The broadcast shape of some operands; with rows that are reduced that of the result, but for the last axis.
  const std::vector<int64_t> result = c.result_dims();
  const auto dims_of = [&](const std::vector<bool>& read) {
    std::vector<int64_t> dims(result.size(), 1);
    if (rows) std::copy(result.begin(), result.end() - 1, dims.begin());
    for (size_t k = 0; k < read.size(); ++k) {
      if (!read[k]) continue;
      const std::vector<int64_t>& own = c.t(k).dims;
      for (size_t d = 0; d < own.size(); ++d)
        if (own[own.size() - 1 - d] != 1) dims[dims.size() - 1 - d] = own[own.size() - 1 - d];
    }
    return dims;
  };
  const std::vector<int64_t> row = dims_of(operands_of_rows(a.steps, c.in.size()));
  std::vector<TensorData> cores(a.steps.size());
  if (rows && !run_reductions(c, a.steps, row, &cores)) return false;
  for (size_t r = 0; r < a.parts.size(); r += count) {
    std::vector<TensorData> parts(count);
    std::vector<const TensorData*> all;
    for (size_t i = 0; i < count; ++i) {
      const auto step = static_cast<size_t>(a.parts[r + i]);
      if (!run_argument(c, a.steps, static_cast<uint16_t>(RegionStep::kStep | step), cores,
                        dims_of(operands_of(a.steps, step, c.in.size())), &parts[i]))
        return false;
      all.push_back(&parts[i]);
    }
    TensorData whole;
    if (!join(c, all, a.axis, false, &whole) || !c.put(std::move(whole))) return false;
  }
  return true;
}

bool eval_norm_region(Context& c) {
  const auto& a = c.a<FusionAttrs>();
  const std::span<const RegionStep> steps = a.steps;
  const std::vector<int64_t> dims = c.result_dims();
  std::vector<TensorData> cores(steps.size());
  for (size_t at = 0; at < steps.size(); ++at) {
    const RegionStep& norm = steps[at];
    TensorData before;
    if (!is_core(norm)) continue;
    if (!run_argument(c, steps, norm.args[0], cores, dims, &before)) return false;
    auto x = load_all<double>(before);
    if (!c.charge(6.0 * static_cast<double>(x.size())) || !c.make(norm.dtype, dims, &cores[at])) return false;
    if (norm.op == OpKind::GroupNorm) {
      const auto [groups, eps] = norm.as<GroupNormAttrs>();
      const int64_t grouped[] = {dims[0] * groups, product(std::span(dims).subspan(1)) / groups};
      normalise(x, grouped, 1, eps, false, {});
    } else if (norm.op == OpKind::Softmax || norm.op == OpKind::LogSoftmax) {
      softmax(x, dims, norm_axis(norm), norm.op == OpKind::LogSoftmax);
    } else {
      normalise(x, dims, norm_axis(norm), norm.as<NormAttrs>().eps, norm.op == OpKind::RmsNorm, {});
    }
    store(cores[at], 0, cores[at].elements(), x.data());
  }
  return put_steps_after(c, steps, a.also, std::move(cores));
}

}  // namespace rlxc::eval
