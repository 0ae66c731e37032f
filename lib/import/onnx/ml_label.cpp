// Lookup operators of ai.onnx.ml: an element is mapped to its index in a list of keys (-1 if missing), which indexes a table
// whose last entry is the default.
#include <algorithm>
#include <cmath>

#include "import/onnx/handlers.h"
#include "import/onnx/ml.h"

namespace rlxc::onnx_import {
namespace {

TensorData strings_of(std::vector<std::string> values) {
  TensorData d;
  d.dtype = DType::String;
  d.dims = {static_cast<int64_t>(values.size())};
  d.strings = std::move(values);
  return d;
}

// Reads a list of integers, floats or strings, or a tensor.
std::optional<TensorData> list(Op& op, const std::string& name) {
  if (op.has_attr(name + "_strings")) return strings_of(op.strings(name + "_strings"));
  if (op.has_attr(name + "_int64s")) {
    const auto v = op.ints(name + "_int64s");
    return make_data(DType::I64, {static_cast<int64_t>(v.size())}, v);
  }
  if (op.has_attr(name + "_floats")) {
    const auto reals = op.floats(name + "_floats");
    const std::vector<float> v(reals.begin(), reals.end());
    return make_data(DType::F32, {static_cast<int64_t>(v.size())}, v);
  }
  auto t = op.tensor_attribute(name + "_tensor");
  if (t && t->dims.size() == 1) return t;
  if (!op.failed()) op.fail(Code::BadAttribute, "the list of " + name + " is missing");
  return std::nullopt;
}

ValueId last_axis_added(Op& op, ValueId x) {
  if (!x.valid()) return {};
  std::vector<Dim> d(op.graph().dims(x).begin(), op.graph().dims(x).end());
  d.emplace_back(1);
  return op.b.reshape(x, std::move(d));
}

// Returns bool [..., keys]: whether each element of input 0 equals each key. NaN equals a NaN key.
ValueId matches(Op& op, const TensorData& keys) {
  Builder& b = op.b;
  const DType t = is_float(op.dtype(0)) ? op.dtype(0) : keys.dtype;
  const ValueId x = last_axis_added(op, b.cast(op.in(0), t)), table = b.cast(op.im.materialise(op.im.constant(keys)), t);
  ValueId same = b.create(OpKind::Eq, {x, table});
  if (is_float(keys.dtype))
    for (int64_t i = 0; i < keys.elements(); ++i)
      if (std::isnan(element_as_double(keys, i)))
        return b.create(OpKind::Or, {same, b.create(OpKind::And, {b.unary(OpKind::IsNan, x), b.unary(OpKind::IsNan, table)})});
  return same;
}

bool keys_fit(Op& op, const TensorData& keys) {
  if ((op.dtype(0) == DType::String) == (keys.dtype == DType::String) && keys.elements() > 0) return true;
  return op.fail(Code::BadType, "the keys are not of the type of " + op.show(0));
}

// Returns the i64 index of each element of input 0 among the keys.
ValueId position(Op& op, const TensorData& keys) {
  if (!keys_fit(op, keys)) return {};
  if (keys.dtype == DType::String) return op.b.create(OpKind::StringIndex, {op.in(0)}, StringIndexAttrs{keys.strings});
  std::vector<int64_t> numbers(static_cast<size_t>(keys.elements()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  const ValueId at = op.b.create(OpKind::Where, {matches(op, keys), op.b.ints(numbers), op.b.scalar(DType::I64, -1)});
  return op.b.reduce(ReduceOp::Max, at, {op.rank(0)}, false);
}

// Appends the default, which index -1 selects.
TensorData with_default(TensorData values, const std::string& text, double number) {
  if (values.dtype == DType::String) {
    values.strings.push_back(text);
    ++values.dims[0];
    return values;
  }
  std::vector<std::byte> bytes(values.bytes.begin(), values.bytes.end());
  for (std::byte x : element_bytes(values.dtype, number)) bytes.push_back(x);
  return make_data(values.dtype, {values.dims[0] + 1}, bytes);
}

void look_up(Op& op, const TensorData& keys, const TensorData& table) {
  if (keys.elements() + 1 != table.elements())
    return (void)op.fail(Code::BadAttribute, "there are " + std::to_string(keys.elements()) + " keys and " +
                                                 std::to_string(table.elements() - 1) + " values");
  const ValueId at = position(op, keys);
  op.set(0, op.b.create(OpKind::Gather, {op.im.materialise(op.im.constant(table)), at}, AxisAttrs{0}));
}

// Maps strings to integers, or integers to strings.
void between_strings_and_integers(Op& op, const TensorData& strings, const TensorData& integers) {
  if (op.dtype(0) == DType::String)
    return look_up(op, strings, with_default(integers, "", static_cast<double>(op.i("default_int64", -1))));
  look_up(op, integers, with_default(strings, std::string(op.s("default_string", "_Unused")), 0));
}

}  // namespace

void label_encoder(Op& op) {
  if (op.has_attr("classes_strings")) {  // version 1
    const auto classes = op.strings("classes_strings");
    std::vector<int64_t> numbers(classes.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
    return between_strings_and_integers(op, strings_of(classes),
                                        make_data(DType::I64, {static_cast<int64_t>(numbers.size())}, numbers));
  }
  const auto keys = list(op, "keys"), values = keys ? list(op, "values") : std::nullopt;
  if (!values) return;
  std::string text(op.s("default_string", "_Unused"));
  double number = values->dtype == DType::F32 ? op.f("default_float", -0.0) : static_cast<double>(op.i("default_int64", -1));
  if (op.has_attr("default_tensor")) {
    const auto t = op.tensor_attribute("default_tensor");
    if (!t || t->elements() != 1 || t->dtype != values->dtype)
      return (void)(op.failed() || op.fail(Code::BadAttribute, "default_tensor does not fit the values"));
    if (t->dtype == DType::String) text = t->strings[0];
    else number = element_as_double(*t, 0);
  }
  look_up(op, *keys, with_default(*values, text, number));
}

void category_mapper(Op& op) {
  const auto strings = op.strings("cats_strings");
  const auto integers = op.ints("cats_int64s");
  if (strings.size() != integers.size())
    return (void)op.fail(Code::BadAttribute, "cats_strings and cats_int64s differ in length");
  between_strings_and_integers(op, strings_of(strings), make_data(DType::I64, {static_cast<int64_t>(integers.size())}, integers));
}

// f32 [..., categories]. An element that is not a category yields zeros, even if `zeros` is 0, which asks for an error.
void one_hot_encoder(Op& op) {
  const auto categories = list(op, "cats");
  if (!categories || !keys_fit(op, *categories)) return;
  ValueId hot;
  if (categories->dtype == DType::String) {
    std::vector<int64_t> numbers(categories->strings.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
    hot = op.b.create(OpKind::Eq, {last_axis_added(op, position(op, *categories)), op.b.ints(numbers)});
  } else {
    hot = matches(op, *categories);
  }
  op.set(0, op.b.cast(hot, DType::F32));
}

}  // namespace rlxc::onnx_import
