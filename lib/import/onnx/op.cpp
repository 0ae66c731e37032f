#include "import/onnx/op.h"

#include <algorithm>
#include <cmath>

#include "support/text.h"

namespace rlxc::onnx_import {

namespace {

std::optional<std::vector<int64_t>> integers_of(const TensorData* t) {
  if (!t || t->dtype == DType::String || is_complex(t->dtype) || t->dims.size() > 1 || t->elements() > 4096) return std::nullopt;
  std::vector<int64_t> out;
  for (int64_t k = 0; k < t->elements(); ++k) {
    if (is_float(t->dtype)) {
      const double v = element_as_double(*t, k);
      if (v != std::trunc(v) || !(std::fabs(v) < 1e15)) return std::nullopt;
      out.push_back(static_cast<int64_t>(v));
    } else {
      out.push_back(element_as_int(*t, k));
    }
  }
  return out;
}

}  // namespace

bool Op::fail(Code c, std::string message, std::string help) {
  errors_.error(c, std::move(message), {}, std::move(help));
  return false;
}

const AttributeView* Op::attribute(std::string_view name, AttrType t) {
  const AttributeView* a = node().attribute(name);
  if (!a || a->type == t) return a;
  fail(Code::BadAttribute, "attribute " + quote(name) + " has the wrong type");
  return nullptr;
}

int64_t Op::i(std::string_view name, int64_t fallback) {
  const AttributeView* a = attribute(name, AttrType::Int);
  return a ? a->i : fallback;
}

double Op::f(std::string_view name, double fallback) {
  const AttributeView* a = attribute(name, AttrType::Float);
  return static_cast<double>(a ? a->f : static_cast<float>(fallback));  // as if the default were written out
}

std::string_view Op::s(std::string_view name, std::string_view fallback) {
  const AttributeView* a = attribute(name, AttrType::String);
  return a ? a->s : fallback;
}

std::vector<int64_t> Op::ints(std::string_view name) {
  const AttributeView* a = attribute(name, AttrType::Ints);
  return a ? a->ints() : std::vector<int64_t>();
}

std::vector<double> Op::floats(std::string_view name) {
  const AttributeView* a = attribute(name, AttrType::Floats);
  std::vector<double> out;
  if (a)
    for (float v : a->floats()) out.push_back(static_cast<double>(v));
  return out;
}

std::vector<std::string> Op::strings(std::string_view name) {
  const AttributeView* a = attribute(name, AttrType::Strings);
  std::vector<std::string> out;
  if (a)
    for (std::string_view s : a->strings()) out.emplace_back(s);
  return out;
}

std::optional<TensorData> Op::tensor_attribute(std::string_view name) {
  const AttributeView* a = attribute(name, AttrType::Tensor);
  auto data = a ? im.load(a->message, "attribute " + quote(name), nullptr) : std::nullopt;
  if (a && !data) give_up();
  return data;
}

ValueId Op::string_vector(std::vector<std::string> values) {
  TensorData d;
  d.dtype = DType::String;
  d.dims = {static_cast<int64_t>(values.size())};
  d.strings = std::move(values);
  return im.materialise(im.constant(std::move(d)));
}

std::optional<Bytes> Op::body(std::string_view name) {
  const AttributeView* a = attribute(name, AttrType::Graph);
  if (a) return a->message;
  if (!failed()) fail(Code::BadAttribute, "attribute " + quote(name) + " is missing");
  return std::nullopt;
}

bool Op::choose(std::string_view name, std::string_view value, std::span<const std::string_view> names, size_t* out) {
  const auto at = std::ranges::find(names, value);
  if (at == names.end())
    return fail(Code::BadAttribute, std::string(name) + " is " + quote(value) + ", must be " + join(names, ", "));
  *out = static_cast<size_t>(at - names.begin());
  return true;
}

std::optional<int64_t> Op::axis(int64_t value, int rank_of) {
  if (value >= -rank_of && value < rank_of) return value < 0 ? value + rank_of : value;
  fail(Code::BadAttribute, "axis " + std::to_string(value) + " is out of range for rank " + std::to_string(rank_of));
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Op::axes(std::vector<int64_t> values, int rank_of) {
  std::vector<bool> seen(static_cast<size_t>(rank_of));
  for (int64_t& v : values) {
    const auto a = axis(v, rank_of);
    if (!a) return std::nullopt;
    if (seen[static_cast<size_t>(*a)]) {
      fail(Code::BadAttribute, "axis " + std::to_string(v) + " is listed twice");
      return std::nullopt;
    }
    seen[static_cast<size_t>(*a)] = true;
    v = *a;
  }
  return values;
}

std::optional<std::vector<Dim>> Op::known_dims(size_t i) {
  const Known* k = known(i);
  if (!k || is_float(k->dtype) || k->shape.size() > 1) return std::nullopt;
  std::vector<Dim> out;
  for (const Num& n : k->v) out.push_back(n.num);
  return out;
}

std::optional<std::vector<int64_t>> Op::known_ints(size_t i) {
  const auto d = known_dims(i);
  if (!d) return integers_of(tensor(i));  // longer lists than the importer tracks
  std::vector<int64_t> out;
  for (Dim x : *d) {
    const auto v = dims().constant_value(x);
    if (!v) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

std::optional<std::vector<double>> Op::known_reals(size_t i) {
  const Known* k = known(i);
  if (!k) return std::nullopt;
  std::vector<double> out;
  for (const Num& n : k->v) {
    const auto v = dims().constant_value(n.num);
    if (!n.is_real && !v) return std::nullopt;
    out.push_back(n.is_real ? n.real : static_cast<double>(*v) / static_cast<double>(n.den));
  }
  return out;
}

const TensorData* Op::given(size_t i) { return has(i) ? im.given(ref(i)) : nullptr; }

std::optional<std::vector<Dim>> Op::find_dims(size_t i) {
  if (auto d = known_dims(i)) return d;
  const auto values = integers_of(given(i));
  if (!values) return std::nullopt;
  std::vector<Dim> out;
  for (int64_t v : *values) out.push_back(dims().constant(v));
  return out;
}

std::optional<std::vector<Dim>> Op::need_dims(size_t i, std::string_view what) {
  auto d = find_dims(i);
  if (!d) fail(Code::UnsupportedAttribute, "the value of the " + std::string(what) + " is only known at run time", kValueHelp);
  return d;
}

std::optional<int64_t> Op::length(size_t i, std::optional<int64_t> wanted) {
  auto n = rank(i) == 1             ? dims().constant_value(sizes(i)[0])
           : has(i) && rank(i) == 0 ? std::optional<int64_t>(1)  // exporters omit the only axis
                                    : std::nullopt;
  if (!n && wanted && *wanted >= 0 && rank(i) == 1 && dims().need_equal(sizes(i)[0], Dim(*wanted))) n = wanted;
  if (n && *n <= 64 && is_integer(dtype(i))) return n;
  fail(Code::UnsupportedAttribute, "input " + std::to_string(i) + " must be a vector of integers of known length, is " + show(i));
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Op::find_ints(size_t i) {
  auto d = known_ints(i);
  return d ? d : integers_of(given(i));
}

std::optional<std::vector<int64_t>> Op::need_ints(size_t i, std::string_view what) {
  if (auto d = find_ints(i)) return d;
  fail(Code::UnsupportedAttribute, "the " + std::string(what) + " must be constant", kValueHelp);
  return std::nullopt;
}

std::optional<Known> Op::find_known(size_t i) {
  if (const Known* k = known(i)) return *k;
  const TensorData* t = given(i);
  return t ? known_from(*t, dims()) : std::nullopt;
}

std::optional<std::vector<double>> Op::need_reals(size_t i, std::string_view what) {
  if (auto d = known_reals(i)) return d;
  const TensorData* found = tensor(i);
  if (const TensorData* t = found ? found : given(i); t &&
                                                      (is_float(t->dtype) || is_integer(t->dtype) || t->dtype == DType::Bool) &&
                                                      t->dims.size() <= 1 && t->elements() <= 4096) {
    std::vector<double> out;
    for (int64_t k = 0; k < t->elements(); ++k) out.push_back(element_as_double(*t, k));
    return out;
  }
  fail(Code::UnsupportedAttribute, "the " + std::string(what) + " must be constant", kValueHelp);
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Op::ints_or_input(std::string_view name, size_t i) {
  if (has(i)) return need_ints(i, name);
  if (has_attr(name)) return ints(name);
  return std::nullopt;
}

}  // namespace rlxc::onnx_import
