#include "values.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>

#include "eval/value.h"
#include "session.h"
#include "support/text.h"

namespace py = pybind11;

namespace rlxc::python {
namespace {

using namespace pybind11::literals;

// Types by their names in NumPy, or in ml_dtypes, whose arrays hold an element of less than 8 bits in a byte.
struct NamedType {
  DType dtype;
  const char* name;
  bool in_numpy;
};
constexpr NamedType kTypes[] = {{DType::F32, "float32", true},
                                {DType::F16, "float16", true},
                                {DType::F64, "float64", true},
                                {DType::I8, "int8", true},
                                {DType::I16, "int16", true},
                                {DType::I32, "int32", true},
                                {DType::I64, "int64", true},
                                {DType::U8, "uint8", true},
                                {DType::U16, "uint16", true},
                                {DType::U32, "uint32", true},
                                {DType::U64, "uint64", true},
                                {DType::Bool, "bool", true},
                                {DType::C64, "complex64", true},
                                {DType::C128, "complex128", true},
                                {DType::BF16, "bfloat16", false},
                                {DType::F8E4M3FN, "float8_e4m3fn", false},
                                {DType::F8E4M3FNUZ, "float8_e4m3fnuz", false},
                                {DType::F8E5M2, "float8_e5m2", false},
                                {DType::F8E5M2FNUZ, "float8_e5m2fnuz", false},
                                {DType::F8E8M0, "float8_e8m0fnu", false},
                                {DType::F4E2M1, "float4_e2m1fn", false},
                                {DType::I4, "int4", false},
                                {DType::U4, "uint4", false},
                                {DType::I2, "int2", false},
                                {DType::U2, "uint2", false}};

const NamedType* named_type(DType t) {
  const auto* at = std::ranges::find(kTypes, t, &NamedType::dtype);
  return at == std::end(kTypes) ? nullptr : at;
}

[[noreturn]] void refuse(Code code, const std::string& message, const std::string& name, const std::string& help = {}) {
  Diagnostics d;
  d.error(code, message, "input " + quote(name), help);
  throw Failure{std::move(d)};
}

std::string python_name(DType t) {
  const NamedType* known = named_type(t);
  return known ? known->name : "str";
}

void check_type(DType got, DType want, const std::string& name) {
  if (got == want) return;
  refuse(Code::BadType, "expected elements of type " + python_name(want) + ", got " + python_name(got), name,
         "convert the array first: arrays are never converted by themselves");
}

std::optional<DType> type_of_numpy(const py::object& type) {
  const auto name = type.attr("name").cast<std::string>();
  for (const NamedType& each : kTypes)
    if (name == each.name) return each.dtype;
  if (name == "void16") return DType::BF16;  // as numpy.save writes it
  return std::nullopt;
}

py::module_ numpy() { return py::module_::import("numpy"); }

// The type of ml_dtypes with this name; None without that package or that type.
py::object of_ml_dtypes(const char* name) {
  try {
    return py::module_::import("ml_dtypes").attr(name);
  } catch (py::error_already_set& e) {
    if (!e.matches(PyExc_ImportError) && !e.matches(PyExc_AttributeError)) throw;
    return py::none();
  }
}

// One element per byte as packed elements, low bits first.
TensorData packed(DType t, std::vector<int64_t> dims, std::span<const std::byte> bytes) {
  const int width = bits(t), per_byte = 8 / width;
  std::vector<std::byte> out((bytes.size() + static_cast<size_t>(per_byte) - 1) / static_cast<size_t>(per_byte));
  const auto mask = static_cast<std::byte>((1 << width) - 1);
  for (size_t i = 0; i < bytes.size(); ++i)
    out[i / static_cast<size_t>(per_byte)] |= (bytes[i] & mask) << (static_cast<int>(i % static_cast<size_t>(per_byte)) * width);
  return make_data(t, std::move(dims), out);
}

// The lists of dims and strides of DLPack (dlpack.h, version 0), and the capsule's contents.
struct DlTensor {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

std::optional<DType> type_of_dlpack(const DlTensor& t) {
  struct Row {
    uint8_t code, bits;
    DType dtype;
  };
  constexpr Row kRows[] = {
      {0, 8, DType::I8},          {0, 16, DType::I16},    {0, 32, DType::I32},        {0, 64, DType::I64},
      {1, 8, DType::U8},          {1, 16, DType::U16},    {1, 32, DType::U32},        {1, 64, DType::U64},
      {2, 16, DType::F16},        {2, 32, DType::F32},    {2, 64, DType::F64},        {4, 16, DType::BF16},
      {5, 64, DType::C64},        {5, 128, DType::C128},  {6, 8, DType::Bool},        {10, 8, DType::F8E4M3FN},
      {11, 8, DType::F8E4M3FNUZ}, {12, 8, DType::F8E5M2}, {13, 8, DType::F8E5M2FNUZ}, {14, 8, DType::F8E8M0}};
  for (const Row& r : kRows)
    if (r.code == t.code && r.bits == t.bits && t.lanes == 1) return r.dtype;
  return std::nullopt;
}

bool is_contiguous(const DlTensor& t) {
  int64_t step = 1;
  for (int32_t i = t.ndim; t.strides && i-- > 0; step *= t.shape[i])
    if (t.shape[i] != 1 && t.strides[i] != step) return false;
  return true;
}

// The elements in row-major order.
std::vector<std::byte> gathered(const DlTensor& t, const std::byte* from, size_t elements, size_t width) {
  std::vector<std::byte> out(elements * width);
  std::vector<int64_t> index(static_cast<size_t>(t.ndim));
  int64_t offset = 0;
  for (size_t i = 0; i < elements; ++i) {
    std::memcpy(out.data() + i * width, from + offset * static_cast<int64_t>(width), width);
    for (size_t axis = index.size(); axis-- > 0;) {
      offset += t.strides[axis];
      if (++index[axis] < t.shape[axis]) break;
      offset -= index[axis] * t.strides[axis];
      index[axis] = 0;
    }
  }
  return out;
}

std::string utf8(py::handle text, const std::string& name) {
  if (py::isinstance<py::bytes>(text)) return text.cast<std::string>();
  if (py::isinstance<py::str>(text)) return bytes_of(text);
  refuse(Code::BadType, "expected strings, got " + std::string(py::str(text.get_type().attr("__name__"))), name);
}

// Lists and scalars have no element type: they take that of the model if it holds them.
py::object array_of_literal(py::handle object, DType want, const std::string& name) {
  const py::module_ np = numpy();
  if (want == DType::String) return np.attr("asarray")(object, "dtype"_a = "O");
  const NamedType* known = named_type(want);
  py::object dtype = known->in_numpy ? py::str(known->name) : of_ml_dtypes(known->name);
  if (dtype.is_none()) refuse(Code::BadType, "lists for elements of type " + python_name(want) + " need ml_dtypes", name);
  py::object plain = np.attr("asarray")(object);
  const std::string kind = py::str(plain.attr("dtype").attr("kind"));
  if (kind.find_first_of("biufc") == kind.npos)
    refuse(Code::BadType, "expected numbers, got " + std::string(py::str(object.get_type().attr("__name__"))), name);
  py::object out = plain.attr("astype")(dtype);
  const bool is_exact = is_float(want) || is_complex(want) || np.attr("array_equal")(out, plain).cast<bool>();
  if (!is_exact) refuse(Code::BadType, "the numbers are none of type " + python_name(want), name);
  return out;
}

py::object string_array(const TensorData& t) {
  py::list texts;
  for (const std::string& s : t.strings) texts.append(text_of(s));
  py::object out = numpy().attr("empty")(texts.size(), "dtype"_a = "O");
  for (size_t i = 0; i < texts.size(); ++i) out[py::int_(i)] = texts[i];
  return out.attr("reshape")(py::cast(t.dims));
}

// Owns the memory that an array of Python refers to.
struct Memory {
  TensorData tensor;
};

py::object array_on(TensorData t, const py::object& dtype) {
  const py::tuple dims(py::cast(t.dims));
  if (t.bytes.empty()) return numpy().attr("empty")(dims, dtype);
  return numpy().attr("ndarray")(dims, dtype, py::cast(Memory{std::move(t)}));
}

// The elements, one by one, as a type that NumPy has.
template <class T>
TensorData widened(const TensorData& t, DType to) {
  std::vector<T> numbers(static_cast<size_t>(t.elements()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(element_as_double(t, static_cast<int64_t>(i)));
  return make_data(to, t.dims, numbers);
}
TensorData widened(const TensorData& t) {
  if (is_float(t.dtype)) return widened<float>(t, DType::F32);
  return is_signed(t.dtype) ? widened<int8_t>(t, DType::I8) : widened<uint8_t>(t, DType::U8);
}

TensorData copied(const TensorData& t) {
  if (!t.splat) return make_data(t.dtype, t.dims, t.bytes);
  std::vector<std::byte> all(static_cast<size_t>(t.size_bytes()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = t.bytes[i % t.bytes.size()];
  return make_data(t.dtype, t.dims, all);
}

py::object tensor_to_python(TensorData t, bool is_own) {
  if (t.dtype == DType::String) return string_array(t);
  const NamedType& known = *named_type(t.dtype);
  const py::object dtype = known.in_numpy ? py::str(known.name) : of_ml_dtypes(known.name);
  if (dtype.is_none()) return tensor_to_python(widened(t), true);
  if (bits(t.dtype) < 8) return tensor_to_python(widened(t), true).attr("astype")(dtype);
  return array_on(is_own && !t.splat ? std::move(t) : copied(t), dtype);
}

}  // namespace

py::str text_of(std::string_view bytes) {
  PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (!text) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

std::string bytes_of(py::handle text) {
  const auto bytes = py::reinterpret_steal<py::bytes>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
  if (!bytes) throw py::error_already_set();
  return bytes;
}

void Arguments::add(py::handle object, const Type& want, const std::string& name) { values.push_back(value(object, want, name)); }

eval::HostValue Arguments::value(py::handle object, const Type& want, const std::string& name) {
  if (want.kind == TypeKind::Tensor) return tensor(object, want, name);
  if (want.kind == TypeKind::Map) {
    if (!py::isinstance<py::dict>(object)) refuse(Code::BadType, "expected a dict", name);
    const auto entries = py::reinterpret_borrow<py::dict>(object);
    py::list keys, contents;
    for (const auto& [key, content] : entries) keys.append(key), contents.append(content);
    const auto map = eval::map_of(tensor(keys, tensor_type(key_dtype(want.key), {}), name).tensor,
                                  tensor(contents, tensor_type(want.dtype, {}), name).tensor);
    if (!map) refuse(Code::BadType, "the dict is no map of this model", name);
    return *map;
  }
  eval::HostValue out{want.kind, {}, {}};
  const Type element = element_type(want);
  if (want.kind == TypeKind::Optional) {
    if (!object.is_none()) out.items.push_back(value(object, element, name));
    return out;
  }
  if (!py::isinstance<py::list>(object) && !py::isinstance<py::tuple>(object))
    refuse(Code::BadType, "expected a list of values", name);
  for (const py::handle item : py::reinterpret_borrow<py::sequence>(object)) out.items.push_back(value(item, element, name));
  return out;
}

eval::HostValue Arguments::tensor(py::handle object, const Type& want, const std::string& name) {
  if (object.is_none()) refuse(Code::BadType, "expected a tensor, got None", name);
  if (py::isinstance(object, numpy().attr("ndarray"))) return from_numpy(py::reinterpret_borrow<py::object>(object), want, name);
  if (py::hasattr(object, "__dlpack__") && !py::hasattr(object, "__array_interface__")) return from_dlpack(object, want, name);
  const bool is_literal = PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()) || PyLong_Check(object.ptr()) ||
                          PyFloat_Check(object.ptr()) || PyComplex_Check(object.ptr()) || PyUnicode_Check(object.ptr());
  if (is_literal) return from_numpy(array_of_literal(object, want.dtype, name), want, name);
  return from_numpy(numpy().attr("asarray")(object), want, name);
}

eval::HostValue Arguments::from_numpy(py::object array, const Type& want, const std::string& name) {
  const py::object type = array.attr("dtype");
  const std::string kind = type.attr("kind").cast<std::string>();
  const auto dims = array.attr("shape").cast<std::vector<int64_t>>();
  if (kind == "U" || kind == "S" || kind == "O" || kind == "T") {
    check_type(DType::String, want.dtype, name);
    std::vector<std::string> texts;
    for (const py::handle text : array.attr("ravel")().attr("tolist")()) texts.push_back(utf8(text, name));
    return eval::strings_of(dims, std::move(texts));
  }
  const auto dtype = type_of_numpy(type);
  if (!dtype)
    refuse(Code::BadType, "expected elements of type " + python_name(want.dtype) + ", got " + std::string(py::str(type)), name);
  const bool is_narrow_integer = is_integer(want.dtype) && bits(want.dtype) < 8 && is_int8(*dtype);
  if (!is_narrow_integer) check_type(*dtype, want.dtype, name);
  if (!type.attr("isnative").cast<bool>()) array = array.attr("astype")(type.attr("newbyteorder")("="));
  if (!array.attr("flags").attr("c_contiguous").cast<bool>()) array = array.attr("copy")("C");
  const auto address = py::object(array.attr("__array_interface__")["data"])[py::int_(0)].cast<uintptr_t>();
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(address), array.attr("nbytes").cast<size_t>());
  owners.push_back(array);
  if (bits(want.dtype) < 8) {
    const int64_t high = int64_t{1} << (bits(want.dtype) - (dtype_class(want.dtype) == DTypeClass::Int ? 1 : 0));
    const int64_t low = dtype_class(want.dtype) == DTypeClass::Int ? -high : 0;
    for (const std::byte b : bytes) {
      const int64_t number = *dtype == DType::I8 ? static_cast<int8_t>(b) : static_cast<int64_t>(b);
      if (is_narrow_integer && (number < low || number >= high))
        refuse(Code::BadTensor, std::to_string(number) + " is no " + python_name(want.dtype), name);
    }
    return eval::host_value(packed(want.dtype, dims, bytes));
  }
  TensorData t;
  t.dtype = want.dtype;
  t.dims = dims;
  t.bytes = bytes;
  return eval::host_value(std::move(t));
}

eval::HostValue Arguments::from_dlpack(py::handle object, const Type& want, const std::string& name) {
  const py::object device = object.attr("__dlpack_device__")();
  const int kind = device[py::int_(0)].cast<int>();
  constexpr int kHost = 1, kPinnedHost = 3;
  if (kind != kHost && kind != kPinnedHost)
    refuse(Code::BadType, "the tensor lies on another device than the processor", name, "copy it to the host first");
  py::object capsule = object.attr("__dlpack__")();
  // The capsule is not marked as used: it frees the tensor when it goes.
  const auto* t = static_cast<const DlTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!t) throw py::error_already_set();
  const auto dtype = type_of_dlpack(*t);
  if (!dtype) refuse(Code::BadType, "the tensor has a type that no model has", name);
  check_type(*dtype, want.dtype, name);
  TensorData out;
  out.dtype = *dtype;
  out.dims.assign(t->shape, t->shape + t->ndim);
  const size_t width = static_cast<size_t>(bits(*dtype)) / 8, elements = static_cast<size_t>(out.elements());
  const std::byte* from = elements > 0 ? static_cast<const std::byte*>(t->data) + t->byte_offset : nullptr;
  if (is_contiguous(*t)) out.bytes = {from, elements * width};
  else out = make_data(*dtype, std::move(out.dims), gathered(*t, from, elements, width));
  owners.push_back(std::move(capsule));
  return eval::host_value(std::move(out));
}

py::object to_python(eval::HostValue v, bool is_own) {
  if (v.kind == TypeKind::Tensor) return tensor_to_python(std::move(v.tensor), is_own);
  if (v.kind == TypeKind::Map) {
    py::dict out;
    if (v.items.size() != 2) return out;
    const py::object keys = to_python(v.items[0], false).attr("tolist")(),
                     contents = to_python(v.items[1], false).attr("tolist")();
    return py::dict(py::module_::import("builtins").attr("zip")(keys, contents));
  }
  if (v.kind == TypeKind::Optional) return v.items.empty() ? py::none() : to_python(std::move(v.items[0]), is_own);
  py::list out;
  for (eval::HostValue& item : v.items) out.append(to_python(std::move(item), is_own));
  return out;
}

void define_values(py::module_& m) {
  py::class_<Memory>(m, "Memory", py::buffer_protocol()).def_buffer([](Memory& memory) {
    auto* data = const_cast<std::byte*>(memory.tensor.bytes.data());  // of the tensor alone
    return py::buffer_info(reinterpret_cast<uint8_t*>(data), static_cast<py::ssize_t>(memory.tensor.bytes.size()));
  });
}

}  // namespace rlxc::python
