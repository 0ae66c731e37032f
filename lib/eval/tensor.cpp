#include "eval/tensor.h"

#include <algorithm>

#include "support/checked.h"
#include "support/half.h"
#include "support/saturate.h"

namespace rlxc::eval {
namespace {

template <class T, class V, class F>
void convert_in(const TensorData& t, int64_t first, int64_t count, V* out, F f) {
  const std::byte* p = t.bytes.data() + first * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    T v;
    std::memcpy(&v, p + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    out[i] = static_cast<V>(f(v));
  }
}

template <class T, class V, class F>
void convert_out(TensorData& t, int64_t first, int64_t count, const V* values, F f) {
  std::byte* p = writable(t) + first * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    const T v = f(values[i]);
    std::memcpy(p + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
  }
}

// Sub-byte elements.
struct Packed {
  int width, a_byte, mask;
  explicit Packed(DType t) : width(bits(t)), a_byte(8 / width), mask((1 << width) - 1) {}

  int get(const TensorData& t, int64_t i) const {
    return std::to_integer<int>(t.bytes[static_cast<size_t>(i / a_byte)]) >> i % a_byte * width & mask;
  }
  void put(TensorData& t, int64_t i, uint32_t v) const {
    std::byte& b = writable(t)[i / a_byte];
    const auto shift = static_cast<int>(i % a_byte * width);
    b = (b & ~std::byte(mask << shift)) | std::byte((v & static_cast<uint32_t>(mask)) << shift);
  }
};
bool is_packed(DType t) { return t != DType::String && bits(t) < 8; }

// Converts V to an integer T by the rules of `store`.
template <class T, class V>
T to_integer(V v) {
  if constexpr (std::is_same_v<V, double>) return saturating_cast<T>(v);
  else if constexpr (std::is_same_v<V, Complex>) return to_integer<T>(v.real());
  else return static_cast<T>(v.v);
}

template <class V>
double to_double(V v) {
  if constexpr (std::is_same_v<V, double>) return v;
  else if constexpr (std::is_same_v<V, Complex>) return v.real();
  else return static_cast<double>(v.v);
}

template <class V>
float to_float(V v) {
  if constexpr (std::is_same_v<V, Int> || std::is_same_v<V, UInt>) return static_cast<float>(v.v);
  else return static_cast<float>(to_double(v));
}

template <class V>
bool to_bool(V v) {
  if constexpr (std::is_same_v<V, double> || std::is_same_v<V, Complex>) return v != 0.0;
  else return v.v != 0;
}

}  // namespace

std::shared_ptr<void> MemoryMeter::hold(const std::shared_ptr<MemoryMeter>& meter, uint64_t bytes) {
  if (!meter->has_room(bytes)) return nullptr;
  meter->live_ += bytes;
  return {meter.get(), [meter, bytes](MemoryMeter*) { meter->live_ -= bytes; }};
}

std::optional<TensorData> MemoryMeter::allocate(const std::shared_ptr<MemoryMeter>& meter, DType t, std::vector<int64_t> dims) {
  const auto n = checked_product(dims);
  if (!n) return std::nullopt;
  const auto bytes =
      t == DType::String ? checked_mul(static_cast<uint64_t>(*n), sizeof(std::string)) : byte_size(t, static_cast<uint64_t>(*n));
  if (!bytes || !meter->has_room(*bytes)) return std::nullopt;
  TensorData d;
  d.dtype = t;
  d.dims = std::move(dims);
  if (t == DType::String) {
    d.strings.resize(static_cast<size_t>(*n));
    return d;
  }
  meter->live_ += *bytes;
  struct Buffer {
    std::shared_ptr<MemoryMeter> meter;
    std::unique_ptr<uint64_t[]> words;
    uint64_t bytes;
    Buffer(std::shared_ptr<MemoryMeter> m, uint64_t n) : meter(std::move(m)), words(new uint64_t[n / 8 + 1]), bytes(n) {}
    ~Buffer() { meter->live_ -= bytes; }
  };
  auto buffer = std::make_shared<Buffer>(meter, *bytes);
  d.bytes = {reinterpret_cast<const std::byte*>(buffer->words.get()), static_cast<size_t>(*bytes)};
  if (is_packed(t) && *bytes > 0) writable(d)[*bytes - 1] = std::byte{0};
  d.owner = std::move(buffer);
  return d;
}

template <class V>
void load(const TensorData& t, int64_t first, int64_t count, V* out) {
  if (count <= 0) return;
  if (t.splat && count > 1) {
    load(t, 0, 1, out);
    std::fill(out + 1, out + count, out[0]);
    return;
  }
  if (t.splat) first = 0;
  auto same = [](auto v) { return v; };
  if constexpr (std::is_same_v<V, Complex>) {
    if (t.dtype == DType::C64) return convert_in<std::complex<float>>(t, first, count, out, same);
    if (t.dtype == DType::C128) return convert_in<std::complex<double>>(t, first, count, out, same);
    std::vector<double> real(static_cast<size_t>(count));
    load(t, first, count, real.data());
    std::copy(real.begin(), real.end(), out);
  } else {
    switch (t.dtype) {
      case DType::I8: return convert_in<int8_t>(t, first, count, out, same);
      case DType::I16: return convert_in<int16_t>(t, first, count, out, same);
      case DType::I32: return convert_in<int32_t>(t, first, count, out, same);
      case DType::I64: return convert_in<int64_t>(t, first, count, out, same);
      case DType::U8: return convert_in<uint8_t>(t, first, count, out, same);
      case DType::U16: return convert_in<uint16_t>(t, first, count, out, same);
      case DType::U32: return convert_in<uint32_t>(t, first, count, out, same);
      case DType::U64: return convert_in<uint64_t>(t, first, count, out, same);
      case DType::Bool: return convert_in<uint8_t>(t, first, count, out, [](uint8_t v) { return v != 0; });
      case DType::U2:
      case DType::I2:
      case DType::U4:
      case DType::I4: {
        const Packed packed(t.dtype);
        const int sign = is_signed(t.dtype) ? 1 << (packed.width - 1) : 0;
        for (int64_t i = 0; i < count; ++i) out[i] = static_cast<V>((packed.get(t, first + i) ^ sign) - sign);
        return;
      }
      default: break;
    }
    if constexpr (std::is_same_v<V, double>) {
      switch (t.dtype) {
        case DType::F32: return convert_in<float>(t, first, count, out, same);
        case DType::F64: return convert_in<double>(t, first, count, out, same);
        case DType::F16: return convert_in<uint16_t>(t, first, count, out, f16_to_float);
        case DType::BF16: return convert_in<uint16_t>(t, first, count, out, bf16_to_float);
        case DType::F4E2M1:
          for (int64_t i = 0; i < count; ++i)
            out[i] = decode_float(t.dtype, static_cast<uint32_t>(Packed(t.dtype).get(t, first + i)));
          return;
        case DType::C64:
          return convert_in<std::complex<float>>(t, first, count, out, [](std::complex<float> v) { return v.real(); });
        case DType::C128:
          return convert_in<std::complex<double>>(t, first, count, out, [](std::complex<double> v) { return v.real(); });
        default: {
          const float* table = decode_table(t.dtype);
          return convert_in<uint8_t>(t, first, count, out, [table](uint8_t v) { return table[v]; });
        }
      }
    } else {
      std::vector<double> wide(static_cast<size_t>(count));
      load(t, first, count, wide.data());
      for (int64_t i = 0; i < count; ++i) out[i] = ops::lit(V(), wide[static_cast<size_t>(i)]);
    }
  }
}

template <class V>
void store(TensorData& t, int64_t first, int64_t count, const V* values, bool saturate) {
  if (count <= 0) return;
  switch (t.dtype) {
    case DType::F32: return convert_out<float>(t, first, count, values, to_float<V>);
    case DType::F64: return convert_out<double>(t, first, count, values, to_double<V>);
    case DType::F16: return convert_out<uint16_t>(t, first, count, values, [](V v) { return double_to_f16(to_double(v)); });
    case DType::BF16: return convert_out<uint16_t>(t, first, count, values, [](V v) { return double_to_bf16(to_double(v)); });
    case DType::I8: return convert_out<int8_t>(t, first, count, values, to_integer<int8_t, V>);
    case DType::I16: return convert_out<int16_t>(t, first, count, values, to_integer<int16_t, V>);
    case DType::I32: return convert_out<int32_t>(t, first, count, values, to_integer<int32_t, V>);
    case DType::I64: return convert_out<int64_t>(t, first, count, values, to_integer<int64_t, V>);
    case DType::U8: return convert_out<uint8_t>(t, first, count, values, to_integer<uint8_t, V>);
    case DType::U16: return convert_out<uint16_t>(t, first, count, values, to_integer<uint16_t, V>);
    case DType::U32: return convert_out<uint32_t>(t, first, count, values, to_integer<uint32_t, V>);
    case DType::U64: return convert_out<uint64_t>(t, first, count, values, to_integer<uint64_t, V>);
    case DType::Bool: return convert_out<uint8_t>(t, first, count, values, [](V v) { return static_cast<uint8_t>(to_bool(v)); });
    case DType::C64:
    case DType::C128: {
      auto complex = [](V v) {
        if constexpr (std::is_same_v<V, Complex>) return v;
        else return Complex(to_double(v));
      };
      if (t.dtype == DType::C128) return convert_out<Complex>(t, first, count, values, complex);
      return convert_out<std::complex<float>>(t, first, count, values, [&](V v) { return std::complex<float>(complex(v)); });
    }
    case DType::I2:
    case DType::U2:
    case DType::I4:
    case DType::U4: {
      const Packed packed(t.dtype);
      const double low = is_signed(t.dtype) ? -(1 << (packed.width - 1)) : 0;
      for (int64_t i = 0; i < count; ++i) {
        int64_t v;
        if constexpr (std::is_same_v<V, double>) v = to_integer<int64_t>(std::clamp<double>(values[i], low, low + packed.mask));
        else v = to_integer<int64_t>(values[i]);
        packed.put(t, first + i, static_cast<uint32_t>(v));
      }
      return;
    }
    case DType::F4E2M1:
      for (int64_t i = 0; i < count; ++i) Packed(t.dtype).put(t, first + i, encode_float(t.dtype, to_double(values[i])));
      return;
    case DType::String: return;
    default: {
      const Saturate s = saturate ? Saturate::Yes : Saturate::No;
      return convert_out<uint8_t>(t, first, count, values,
                                  [&](V v) { return static_cast<uint8_t>(encode_float(t.dtype, to_double(v), s)); });
    }
  }
}

#define RLXC_INSTANTIATE(V)                                    \
  template void load(const TensorData&, int64_t, int64_t, V*); \
  template void store(TensorData&, int64_t, int64_t, const V*, bool);
RLXC_INSTANTIATE(double)
RLXC_INSTANTIATE(Int)
RLXC_INSTANTIATE(UInt)
RLXC_INSTANTIATE(Complex)
#undef RLXC_INSTANTIATE

template <class T>
Cells<T>::Cells(const TensorData& t) {
  const auto n = static_cast<size_t>(t.elements());
  if constexpr (std::is_same_v<T, std::string>) {
    if (!t.splat) {
      data_ = t.strings.data();
      return;
    }
    own_.assign(n, t.strings.empty() ? std::string() : t.strings[0]);
  } else if (is_packed(t.dtype)) {
    const Packed packed(t.dtype);
    own_.resize(n);
    for (size_t i = 0; i < n; ++i) own_[i] = T{static_cast<uint8_t>(packed.get(t, t.splat ? 0 : static_cast<int64_t>(i)))};
  } else if (t.splat) {
    T v{};
    if (n > 0) std::memcpy(&v, t.bytes.data(), sizeof v);
    own_.assign(n, v);
  } else if (reinterpret_cast<uintptr_t>(t.bytes.data()) % alignof(T) == 0) {
    data_ = reinterpret_cast<const T*>(t.bytes.data());
    return;
  } else {
    own_.resize(n);
    std::memcpy(own_.data(), t.bytes.data(), n * sizeof(T));
  }
  data_ = own_.data();
}

template <class T>
CellWriter<T>::CellWriter(TensorData t) : tensor_(std::move(t)) {
  if constexpr (std::is_same_v<T, std::string>) {
    data_ = tensor_.strings.data();
  } else {
    data_ = reinterpret_cast<T*>(writable(tensor_));
    if constexpr (sizeof(T) == 1) {
      if (!is_packed(tensor_.dtype)) return;
      unpacked_.resize(static_cast<size_t>(tensor_.elements()));
      data_ = unpacked_.data();
    }
  }
}

template <class T>
TensorData CellWriter<T>::finish() {
  for (size_t i = 0; i < unpacked_.size(); ++i) Packed(tensor_.dtype).put(tensor_, static_cast<int64_t>(i), unpacked_[i]);
  return std::move(tensor_);
}

#define RLXC_INSTANTIATE(T) \
  template class Cells<T>;  \
  template class CellWriter<T>;
RLXC_INSTANTIATE(uint8_t)
RLXC_INSTANTIATE(uint16_t)
RLXC_INSTANTIATE(uint32_t)
RLXC_INSTANTIATE(uint64_t)
RLXC_INSTANTIATE(Cell16)
RLXC_INSTANTIATE(std::string)
#undef RLXC_INSTANTIATE

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

std::vector<int64_t> strides_of(std::span<const int64_t> dims) {
  std::vector<int64_t> s(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) s[i - 1] = checked_mul(s[i], dims[i]).value_or(kLargest);
  return s;
}

int64_t product(std::span<const int64_t> dims) { return checked_product(dims).value_or(kLargest); }

std::string show(DType t, std::span<const int64_t> dims) {
  std::string s(name(t));
  s += '[';
  for (size_t i = 0; i < dims.size(); ++i) s += (i ? "," : "") + std::to_string(dims[i]);
  return s + ']';
}

}  // namespace rlxc::eval
