#include "ir/attrs.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "support/parse_number.h"
#include "support/text.h"

namespace rlxc {
namespace {

template <class E>
std::string_view enum_text(E e) {
  return enum_names(e)[static_cast<size_t>(e)];
}

template <class T>
concept Enum = std::is_enum_v<T> && !std::is_same_v<T, OpKind> && !std::is_same_v<T, DType>;

// Appends an exact, prefix-free encoding of a field: equal encodings mean equal fields.
struct KeyWriter {
  std::string& key;
  void put(const void* p, size_t n) { key.append(static_cast<const char*>(p), n); }
  void operator()(const char*, bool v) { key += v ? '1' : '0'; }
  void operator()(const char*, int64_t v) { put(&v, sizeof v); }
  void operator()(const char*, double v) { put(&v, sizeof v); }
  void operator()(const char*, Dim v) { (*this)("", v.raw()); }
  void operator()(const char*, DType v) { key += static_cast<char>(v); }
  void operator()(const char*, DataId v) { put(&v.raw, sizeof v.raw); }
  template <Enum E>
  void operator()(const char*, E v) {
    key += static_cast<char>(v);
  }
  void operator()(const char*, const std::string& v) {
    (*this)("", static_cast<int64_t>(v.size()));
    key += v;
  }
  void operator()(const char*, const Epilogue& v) {
    (*this)("", v.has);
    if (v.has) {
      (*this)("", static_cast<int64_t>(v.op));
      (*this)("", v.alpha);
      (*this)("", v.beta);
    }
  }
  void operator()(const char*, const RegionStep& v) {
    (*this)("", static_cast<int64_t>(v.op));
    (*this)("", v.dtype);
    put(v.args.data(), sizeof v.args);
    key += static_cast<char>(v.attrs.index());
    std::visit([&](const auto& a) { a.reflect(a, *this); }, v.attrs);
  }
  template <class T>
  void operator()(const char*, const std::vector<T>& v) {
    (*this)("", static_cast<int64_t>(v.size()));
    for (const T& x : v) (*this)("", x);
  }
};

std::string key_of(const Attrs& a) {
  std::string key(1, static_cast<char>(a.index()));
  std::visit([&](const auto& s) { s.reflect(s, KeyWriter{key}); }, a);
  return key;
}

std::string double_text(double v) {
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, end};
}

std::string epilogue_text(const Epilogue& e) {
  if (!e.has) return "none";
  std::string s(name(e.op));
  if (e.alpha != 0 || e.beta != 0) s += "(" + double_text(e.alpha) + "," + double_text(e.beta) + ")";
  return s;
}

// Numbers of the attributes of a step as "name=number", lists as "name=number number".
struct StepFieldReader {
  std::string& out;
  void add(const char* n, const std::string& v) { out += (out.empty() ? "" : ",") + std::string(n) + "=" + v; }
  void operator()(const char* n, int64_t v) { add(n, std::to_string(v)); }
  void operator()(const char* n, double v) { add(n, double_text(v)); }
  void operator()(const char* n, const std::vector<int64_t>& v) {
    std::string list;
    for (int64_t x : v) list += (list.empty() ? "" : " ") + std::to_string(x);
    if (!v.empty()) add(n, list);
  }
  template <class T>
  void operator()(const char*, const T&) {}  // of Reduce: its name tells the kind, and dims are kept
};

std::string step_fields_text(const RegionStep& s) {
  if (has_trait(s.op, kElementwise))
    return s.alpha() == 0 && s.beta() == 0 ? "" : double_text(s.alpha()) + "," + double_text(s.beta());
  std::string out;
  std::visit([&](const auto& a) { a.reflect(a, StepFieldReader{out}); }, s.attrs);
  return out;
}

std::string step_text(const RegionStep& step) {
  std::string s(name(step.op));
  if (step.op == OpKind::Reduce) s += "_" + std::string(enum_text(step.as<ReduceAttrs>().op));
  s += "(";
  bool first = true;
  for (uint16_t a : step.args) {
    if (a == RegionStep::kNone) break;
    if (!first) s += ',';
    first = false;
    s += (a & RegionStep::kStep ? 's' : 'i') + std::to_string(a & ~RegionStep::kStep);
  }
  if (const std::string fields = step_fields_text(step); !fields.empty()) s += ";" + fields;
  return s + "):" + std::string(name(step.dtype));
}

bool parse_double(std::string_view s, double* out) {
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
  return error == std::errc{} && end == s.data() + s.size();
}

bool parse_pair(std::string_view s, double* a, double* b) {
  const size_t comma = s.find(',');
  return comma != s.npos && parse_double(s.substr(0, comma), a) && parse_double(s.substr(comma + 1), b);
}

bool parse_epilogue(std::string_view s, Epilogue* e) {
  if (s == "none") {
    *e = {};
    return true;
  }
  const size_t open = s.find('(');
  const auto op = op_from_name(s.substr(0, open));
  if (!op || !has_trait(*op, kActivation)) return false;
  *e = {true, *op, 0, 0};
  return open == s.npos || (s.ends_with(')') && parse_pair(s.substr(open + 1, s.size() - open - 2), &e->alpha, &e->beta));
}

bool is_softmax(OpKind op) { return op == OpKind::Softmax || op == OpKind::LogSoftmax; }

// An elementwise op, a norm, an integer matmul or convolution, or a reduction, written as reduce_sum.
bool parse_step_op(std::string_view s, RegionStep* step) {
  constexpr std::string_view kReduces = "reduce_";
  if (const auto op = op_from_name(s)) {
    step->op = *op;
    if (!is_softmax(*op)) step->attrs = step_attrs(default_attrs(*op));  // no axis: see QAttention
    return has_trait(*op, kElementwise | kNormTrait) || *op == OpKind::QMatMul || *op == OpKind::QConv;
  }
  const auto names = enum_names(ReduceOp());
  const auto at = s.starts_with(kReduces) ? std::ranges::find(names, s.substr(kReduces.size())) : names.end();
  if (at == names.end()) return false;
  step->op = OpKind::Reduce;
  step->attrs = ReduceAttrs{static_cast<ReduceOp>(at - names.begin()), {}, true};
  return true;
}

struct StepFieldSetter {
  std::string_view wanted, text;
  bool good = false;
  void operator()(const char* n, int64_t& v) {
    if (wanted == n) good = parse_number(text, &v);
  }
  void operator()(const char* n, double& v) {
    if (wanted == n) good = parse_double(text, &v);
  }
  void operator()(const char* n, std::vector<int64_t>& v) {
    if (wanted != n) return;
    good = true;
    v.clear();
    for (std::string_view x : split(text, ' ')) good = good && parse_number(x, &v.emplace_back());
  }
  template <class T>
  void operator()(const char*, T&) {}
};

// A pair is that of an elementwise op or, before version 3 of the formats, epsilon and groups of a norm.
bool parse_step_fields(std::string_view s, RegionStep* step) {
  if (s.find('=') == s.npos) {
    double a = 0, b = 0;
    if (!parse_pair(s, &a, &b)) return false;
    if (auto* norm = std::get_if<NormAttrs>(&step->attrs)) norm->eps = a;
    else if (auto* groups = std::get_if<GroupNormAttrs>(&step->attrs)) *groups = {b >= 1 && b <= 1 << 20 ? int64_t(b) : 0, a};
    else if (std::holds_alternative<ClampAttrs>(step->attrs)) step->attrs = ClampAttrs{a, b};
    else step->attrs = AlphaBetaAttrs{a, b};
    return true;
  }
  if (is_softmax(step->op)) step->attrs = AxisAttrs{};
  for (std::string_view field : split(s, ',')) {
    const size_t equals = field.find('=');
    if (equals == field.npos) return false;
    StepFieldSetter setter{field.substr(0, equals), field.substr(equals + 1)};
    std::visit([&](auto& a) { a.reflect(a, setter); }, step->attrs);
    if (!setter.good) return false;
  }
  return true;
}

bool parse_step(std::string_view s, RegionStep* step) {
  *step = {};
  const size_t open = s.find('('), close = s.rfind("):");
  if (open == s.npos || close == s.npos || close < open) return false;
  const auto dtype = dtype_from_name(s.substr(close + 2));
  if (!dtype || !parse_step_op(s.substr(0, open), step)) return false;
  step->dtype = *dtype;
  s = s.substr(open + 1, close - open - 1);
  const size_t semi = std::min(s.find(';'), s.size());
  if (semi < s.size() && !parse_step_fields(s.substr(semi + 1), step)) return false;
  if (semi == s.size() && step->op == OpKind::Clamp) step->attrs = ClampAttrs{0, 0};
  s = s.substr(0, semi);
  for (uint16_t& a : step->args) {
    if (s.empty()) break;
    const size_t comma = std::min(s.find(','), s.size());
    unsigned v = 0;
    auto [end, error] = std::from_chars(s.data() + 1, s.data() + comma, v);
    if (error != std::errc{} || end != s.data() + comma || v >= RegionStep::kNone || (s[0] != 'i' && s[0] != 's')) return false;
    a = static_cast<uint16_t>(v | (s[0] == 's' ? RegionStep::kStep : 0));
    s = s.substr(std::min(comma + 1, s.size()));
  }
  return s.empty();
}

struct FieldReader {
  const DimTable& dims;
  AttrFields& out;
  void add(const char* n, AttrValue v) { out.emplace_back(n, std::move(v)); }
  void operator()(const char* n, bool v) { add(n, v); }
  void operator()(const char* n, int64_t v) { add(n, v); }
  void operator()(const char* n, double v) { add(n, v); }
  void operator()(const char*, DataId) {}
  void operator()(const char* n, DType v) { add(n, std::string(name(v))); }
  template <Enum E>
  void operator()(const char* n, E v) {
    add(n, std::string(enum_text(v)));
  }
  void operator()(const char* n, Dim v) {
    if (auto c = dims.constant_value(v)) add(n, *c);
    else add(n, dims.text(v));
  }
  void operator()(const char* n, const std::string& v) { add(n, v); }
  void operator()(const char* n, const Epilogue& v) { add(n, epilogue_text(v)); }
  void operator()(const char* n, const std::vector<int64_t>& v) { add(n, v); }
  void operator()(const char* n, const std::vector<double>& v) { add(n, v); }
  void operator()(const char* n, const std::vector<std::string>& v) { add(n, v); }
  void operator()(const char* n, const std::vector<Dim>& v) {
    std::vector<int64_t> ints;
    std::vector<std::string> texts;
    for (Dim d : v) {
      if (auto c = dims.constant_value(d)) ints.push_back(*c);
      texts.push_back(dims.text(d));
    }
    if (ints.size() == v.size()) add(n, std::move(ints));
    else add(n, std::move(texts));
  }
  void operator()(const char* n, const std::vector<RegionStep>& v) {
    std::vector<std::string> texts;
    for (const RegionStep& s : v) texts.push_back(step_text(s));
    add(n, std::move(texts));
  }
};

struct FieldSetter {
  std::string_view wanted;
  const AttrValue& value;
  DimTable& dims;
  bool found = false, good = false;

  template <class T>
  void operator()(const char* n, T& field) {
    if (found || wanted != n) return;
    found = true;
    good = set(field);
  }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  bool empty_list() const {
    return (as<std::vector<int64_t>>() && as<std::vector<int64_t>>()->empty()) ||
           (as<std::vector<std::string>>() && as<std::vector<std::string>>()->empty()) ||
           (as<std::vector<double>>() && as<std::vector<double>>()->empty());
  }
  bool set(bool& f) {
    if (auto* v = as<bool>()) {
      f = *v;
      return true;
    }
    if (auto* v = as<int64_t>(); v && (*v == 0 || *v == 1)) {
      f = *v != 0;
      return true;
    }
    return false;
  }
  bool set(int64_t& f) { return as<int64_t>() ? (f = *as<int64_t>(), true) : false; }
  bool set(double& f) {
    if (auto* v = as<double>()) {
      f = *v;
      return true;
    }
    if (auto* v = as<int64_t>()) {
      f = static_cast<double>(*v);
      return true;
    }
    if (auto* v = as<std::string>()) return parse_double(*v, &f);  // "inf", "-inf", "nan"
    return false;
  }
  bool set(std::string& f) { return as<std::string>() ? (f = *as<std::string>(), true) : false; }
  bool set(DataId&) { return false; }
  bool set(DType& f) {
    const auto* v = as<std::string>();
    const auto t = v ? dtype_from_name(*v) : std::nullopt;
    return t ? (f = *t, true) : false;
  }
  template <Enum E>
  bool set(E& f) {
    const auto* v = as<std::string>();
    if (!v) return false;
    const auto names = enum_names(f);
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == *v) {
        f = static_cast<E>(i);
        return true;
      }
    return false;
  }
  bool set(Dim& f) {
    if (auto* v = as<int64_t>()) {
      f = dims.constant(*v);
      return true;
    }
    if (auto* v = as<std::string>()) {
      if (auto d = dims.parse(*v)) {
        f = *d;
        return true;
      }
    }
    return false;
  }
  bool set(Epilogue& f) { return as<std::string>() && parse_epilogue(*as<std::string>(), &f); }
  template <class T>
  bool set_list(std::vector<T>& f) {
    if (empty_list()) {
      f.clear();
      return true;
    }
    if (auto* v = as<std::vector<T>>()) {
      f = *v;
      return true;
    }
    return false;
  }
  bool set(std::vector<int64_t>& f) { return set_list(f); }
  bool set(std::vector<std::string>& f) { return set_list(f); }
  bool set(std::vector<double>& f) {
    if (auto* v = as<std::vector<int64_t>>()) {
      f.assign(v->begin(), v->end());
      return true;
    }
    if (auto* v = as<std::vector<std::string>>()) {
      f.assign(v->size(), 0);
      for (size_t i = 0; i < v->size(); ++i)
        if (!parse_double((*v)[i], &f[i])) return false;
      return true;
    }
    return set_list(f);
  }
  bool set(std::vector<Dim>& f) {
    f.clear();
    if (auto* v = as<std::vector<int64_t>>()) {
      for (int64_t x : *v) f.push_back(dims.constant(x));
      return true;
    }
    if (auto* v = as<std::vector<std::string>>()) {
      for (const std::string& s : *v) {
        auto d = dims.parse(s);
        if (!d) return false;
        f.push_back(*d);
      }
      return true;
    }
    return empty_list();
  }
  bool set(std::vector<RegionStep>& f) {
    if (empty_list()) {
      f.clear();
      return true;
    }
    const auto* v = as<std::vector<std::string>>();
    if (!v) return false;
    const std::vector<RegionStep> before = std::move(f);
    f.assign(v->size(), {});
    for (size_t i = 0; i < v->size(); ++i)
      if (!parse_step((*v)[i], &f[i])) return false;
    if (!before.empty() && !f.empty() && f[0].op == before[0].op) f[0].attrs = before[0].attrs;  // see set_fusion_field
    return true;
  }
};

// Attributes of fused nodes that stood beside the steps before version 3 of the formats: the axis of norms, the axes of
// reductions, those of the convolution (before the steps), and whether the operand of the last norm is the second result.
bool set_fusion_field(FusionAttrs& a, std::string_view name, const AttrValue& value, DimTable& dims) {
  if (name == "axis" && std::holds_alternative<int64_t>(value)) {
    for (RegionStep& s : a.steps) {
      if (auto* norm = std::get_if<NormAttrs>(&s.attrs)) norm->axis = std::get<int64_t>(value);
      if (is_softmax(s.op)) s.attrs = AxisAttrs{std::get<int64_t>(value)};
    }
    return true;
  }
  if (name == "axes" && std::holds_alternative<std::vector<int64_t>>(value)) {
    for (RegionStep& s : a.steps)
      if (auto* reduce = std::get_if<ReduceAttrs>(&s.attrs)) reduce->axes = std::get<std::vector<int64_t>>(value);
    return true;
  }
  if (name == "keep" && std::holds_alternative<bool>(value)) {
    const size_t norm = last_norm_step(a.steps);
    if (!std::get<bool>(value)) return true;
    if (norm == a.steps.size() || !(a.steps[norm].args[0] & RegionStep::kStep)) return false;
    a.also.insert(a.also.begin(), a.steps[norm].args[0] & ~RegionStep::kStep);
    return true;
  }
  ConvAttrs conv;
  if (!a.steps.empty()) {
    if (!std::holds_alternative<ConvAttrs>(a.steps[0].attrs)) return false;
    conv = a.steps[0].as<ConvAttrs>();
  }
  FieldSetter setter{name, value, dims};
  conv.reflect(conv, setter);
  if (!setter.good) return false;
  if (a.steps.empty()) a.steps.push_back({OpKind::QConv, DType::I32});
  a.steps[0].attrs = std::move(conv);
  return true;
}

// Made when it is asked for: a graph has few kinds of nodes.
template <class A>
const Attrs& default_of() {
  static const Attrs attrs = A{};
  return attrs;
}

}  // namespace

std::vector<int64_t> inverse_permutation(std::span<const int64_t> perm) {
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

Attrs::Attrs() = default;
Attrs::Attrs(const Attrs&) = default;
Attrs::Attrs(Attrs&&) noexcept = default;
Attrs& Attrs::operator=(const Attrs&) = default;
Attrs& Attrs::operator=(Attrs&&) noexcept = default;
Attrs::~Attrs() = default;

double RegionStep::alpha() const {
  if (const auto* clamp = std::get_if<ClampAttrs>(&attrs)) return clamp->min;
  const auto* pair = std::get_if<AlphaBetaAttrs>(&attrs);
  return pair ? pair->alpha : 0;
}
double RegionStep::beta() const {
  if (const auto* clamp = std::get_if<ClampAttrs>(&attrs)) return clamp->max;
  const auto* pair = std::get_if<AlphaBetaAttrs>(&attrs);
  return pair ? pair->beta : 0;
}

StepAttrs step_attrs(const Attrs& a) {
  return std::visit(
      [](const auto& s) -> StepAttrs {
        if constexpr (is_alternative<std::decay_t<decltype(s)>, StepAttrs>) return s;
        else return NoAttrs{};
      },
      static_cast<const AttrVariant&>(a));
}

bool is_norm(const RegionStep& s) {
  return s.op == OpKind::LayerNorm || s.op == OpKind::RmsNorm || s.op == OpKind::GroupNorm || s.op == OpKind::Softmax ||
         s.op == OpKind::LogSoftmax;
}
size_t last_norm_step(std::span<const RegionStep> steps) {
  for (size_t i = steps.size(); i-- > 0;)
    if (is_norm(steps[i])) return i;
  return steps.size();
}

AttrId AttrTable::intern(Attrs a) {
  auto [it, made] = index_.try_emplace(key_of(a), static_cast<uint32_t>(rows_.size()));
  if (made) rows_.push_back(std::move(a));
  return AttrId(it->second);
}

const Attrs& default_attrs(OpKind op) {
  using Default = const Attrs& (*)();
  static constexpr Default kDefaults[] = {
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) \
  &default_of<attrs>,
#include "ir/ops.def"
#undef OP
  };
  return kDefaults[static_cast<size_t>(op)]();
}

AttrFields attr_fields(const Attrs& a, const DimTable& dims, bool with_defaults, OpKind op) {
  AttrFields all;
  std::visit([&](const auto& s) { s.reflect(s, FieldReader{dims, all}); }, a);
  if (with_defaults) return all;
  AttrFields defaults, out;
  std::visit([&](const auto& s) { s.reflect(s, FieldReader{dims, defaults}); }, default_attrs(op));
  for (size_t i = 0; i < all.size(); ++i)
    if (i >= defaults.size() || all[i] != defaults[i]) out.push_back(std::move(all[i]));
  return out;
}

bool set_attr_field(Attrs& a, std::string_view name, const AttrValue& value, DimTable& dims, std::string* message) {
  auto* const fusion = std::get_if<FusionAttrs>(&a);
  const std::vector<int64_t> kept = fusion && name == "also" ? fusion->also : std::vector<int64_t>();
  FieldSetter setter{name, value, dims};
  std::visit([&](auto& s) { s.reflect(s, setter); }, a);
  if (auto* concat = std::get_if<ConcatRegionAttrs>(&a); concat && name == "axis")  // before version 3 of the formats
    for (RegionStep& step : concat->steps)
      if (auto* reduce = std::get_if<ReduceAttrs>(&step.attrs); reduce && reduce->axes.empty()) reduce->axes = {concat->axis};
  if (fusion) fusion->also.insert(fusion->also.begin(), kept.begin(), kept.end());
  if (setter.good) return true;
  if (fusion && !setter.found && set_fusion_field(*fusion, name, value, dims)) return true;
  *message = (setter.found ? "bad value of attribute \"" : "unknown attribute \"") + std::string(name) + "\"";
  return false;
}

}  // namespace rlxc
