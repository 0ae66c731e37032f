#include "ir/data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/half.h"
#include "support/saturate.h"

namespace rlxc {
namespace {

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
std::vector<std::byte> store(T v) {
  std::vector<std::byte> out(sizeof v);
  std::memcpy(out.data(), &v, sizeof v);
  return out;
}

template <class T>
std::vector<std::byte> store_int(double v) {
  return store(saturating_cast<T>(v));
}

int packed_bits(const TensorData& d, int64_t i) {
  const int width = bits(d.dtype), a_byte = 8 / width;
  const auto byte = std::to_integer<int>(d.bytes[static_cast<size_t>(i / a_byte)]);
  return byte >> i % a_byte * width & ((1 << width) - 1);
}

}  // namespace

int64_t TensorData::elements() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

uint64_t TensorData::size_bytes() const { return byte_size(dtype, static_cast<uint64_t>(elements())).value_or(0); }

TensorData make_data(DType t, std::vector<int64_t> dims, std::span<const std::byte> bytes) {
  auto buffer = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  TensorData d;
  d.dtype = t;
  d.dims = std::move(dims);
  d.bytes = *buffer;
  d.owner = std::move(buffer);
  return d;
}

TensorData make_splat(DType t, std::vector<int64_t> dims, std::span<const std::byte> element) {
  // For sub-byte types, `bytes` holds one byte that repeats the element.
  std::byte filled{};
  const int width = bits(t);
  const bool narrow = width > 0 && width < 8 && !element.empty();
  for (int at = 0; narrow && at < 8; at += width) filled |= (element[0] & std::byte((1 << width) - 1)) << at;
  TensorData d = make_data(t, std::move(dims), narrow ? std::span<const std::byte>(&filled, 1) : element);
  d.splat = true;
  return d;
}

double element_as_double(const TensorData& d, int64_t index) {
  if (d.splat) index = 0;
  const std::byte* p = d.bytes.data();
  const auto i = static_cast<size_t>(index);
  switch (d.dtype) {
    case DType::F32: return load<float>(p + i * 4);
    case DType::F64: return load<double>(p + i * 8);
    case DType::F16: return f16_to_float(load<uint16_t>(p + i * 2));
    case DType::BF16: return bf16_to_float(load<uint16_t>(p + i * 2));
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0: return decode_float(d.dtype, load<uint8_t>(p + i));
    case DType::F4E2M1: return decode_float(d.dtype, static_cast<uint32_t>(packed_bits(d, index)));
    case DType::U64: return static_cast<double>(load<uint64_t>(p + i * 8));
    default: return static_cast<double>(element_as_int(d, index));
  }
}

int64_t element_as_int(const TensorData& d, int64_t index) {
  if (d.splat) index = 0;
  const std::byte* p = d.bytes.data();
  const auto i = static_cast<size_t>(index);
  switch (d.dtype) {
    case DType::I8: return load<int8_t>(p + i);
    case DType::I16: return load<int16_t>(p + i * 2);
    case DType::I32: return load<int32_t>(p + i * 4);
    case DType::I64: return load<int64_t>(p + i * 8);
    case DType::U8: return load<uint8_t>(p + i);
    case DType::U16: return load<uint16_t>(p + i * 2);
    case DType::U32: return load<uint32_t>(p + i * 4);
    case DType::U64: return static_cast<int64_t>(load<uint64_t>(p + i * 8));
    case DType::Bool: return p[i] != std::byte{0};
    case DType::U2:
    case DType::U4: return packed_bits(d, index);
    case DType::I2:
    case DType::I4: {
      const int v = packed_bits(d, index), sign = 1 << (bits(d.dtype) - 1);
      return (v ^ sign) - sign;
    }
    default: return is_float(d.dtype) ? saturating_cast<int64_t>(element_as_double(d, index)) : 0;
  }
}

std::vector<std::byte> element_bytes(DType t, double v) {
  switch (t) {
    case DType::F32: return store(static_cast<float>(v));
    case DType::F64: return store(v);
    case DType::F16: return store(double_to_f16(v));
    case DType::BF16: return store(double_to_bf16(v));
    case DType::I8: return store_int<int8_t>(v);
    case DType::I16: return store_int<int16_t>(v);
    case DType::I32: return store_int<int32_t>(v);
    case DType::I64: return store_int<int64_t>(v);
    case DType::U8: return store_int<uint8_t>(v);
    case DType::U16: return store_int<uint16_t>(v);
    case DType::U32: return store_int<uint32_t>(v);
    case DType::U64: return store_int<uint64_t>(v);
    case DType::Bool: return store(static_cast<uint8_t>(v != 0));
    default: break;
  }
  const int width = bits(t);
  if (width == 0 || width > 8) return {};
  if (is_float(t)) return store(static_cast<uint8_t>(encode_float(t, v)));
  const int values = 1 << width, low = is_signed(t) ? -values / 2 : 0;
  const double whole = std::isnan(v) ? 0 : std::clamp(std::trunc(v), double(low), double(low + values - 1));
  return store(static_cast<uint8_t>(static_cast<int>(whole) & (values - 1)));
}

bool is_uniform(const TensorData& d, uint64_t limit) {
  if (d.splat) return true;
  const int64_t n = d.elements();
  const auto element = static_cast<size_t>(bits(d.dtype) / 8);
  if (n == 0 || element == 0 || d.bytes.size() > limit) return false;
  return std::memcmp(d.bytes.data(), d.bytes.data() + element, d.bytes.size() - element) == 0;
}

}  // namespace rlxc
