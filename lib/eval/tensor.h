// Tensor access for evaluators: results own their memory; elements are read as numbers (double for floats, Int or UInt for
// integers and bools, Complex), or as opaque cells when they are only moved.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "eval/eval.h"
#include "ops/scalar.h"

namespace rlxc::eval {

using ops::Complex, ops::Int, ops::UInt;

struct Cell16 {
  uint64_t a = 0, b = 0;
};

// The bytes of a tensor created by `allocate`.
inline std::byte* writable(TensorData& t) { return const_cast<std::byte*>(t.bytes.data()); }

inline bool is_scalar(const TensorData& t) { return t.splat || t.elements() == 1; }

// Reads elements first, first+1, ... (one repeated element if `splat`) as numbers. V must match the type: double for all but
// complex types (64-bit integers round), Int and UInt for integers and bools, Complex for complex types.
template <class V>
void load(const TensorData&, int64_t first, int64_t count, V* out);
// The inverse, rounded once: floats to nearest even; integers truncate and saturate from double, and wrap from Int and UInt.
template <class V>
void store(TensorData&, int64_t first, int64_t count, const V* values, bool saturate = true);
// Reads all elements.
template <class V>
std::vector<V> load_all(const TensorData& t) {
  std::vector<V> out(static_cast<size_t>(t.elements()));
  load(t, 0, t.elements(), out.data());
  return out;
}
// A tensor that refers to these numbers without a copy.
template <class V>
TensorData tensor_view(const std::vector<V>& numbers, std::vector<int64_t> dims) {
  TensorData t;
  t.dtype = std::is_same_v<V, double> ? DType::F64 : DType::I64;
  t.dims = std::move(dims);
  t.bytes = std::as_bytes(std::span(numbers));
  return t;
}
inline int64_t load_int(const TensorData& t, int64_t i = 0) { return element_as_int(t, i); }

// All elements as cells of T (uint8_t .. uint64_t, Cell16, std::string). Sub-byte elements are unpacked to one byte each.
template <class T>
class Cells {
 public:
  explicit Cells(const TensorData&);
  const T* data() const { return data_; }
  const T& operator[](int64_t i) const { return data_[i]; }

 private:
  const T* data_ = nullptr;
  std::vector<T> own_;
};

// Cells to write. `finish` packs them and returns the tensor.
template <class T>
class CellWriter {
 public:
  explicit CellWriter(TensorData);
  T* data() { return data_; }
  TensorData finish();

 private:
  TensorData tensor_;
  T* data_ = nullptr;
  std::vector<uint8_t> unpacked_;
};

// Calls f(T()) with the cell type of an element type.
template <class F>
bool with_cells(DType t, F&& f) {
  switch (bits(t)) {
    case 0: return f(std::string());
    case 2:
    case 4:
    case 8: return f(uint8_t{});
    case 16: return f(uint16_t{});
    case 32: return f(uint32_t{});
    case 64: return f(uint64_t{});
    default: return f(Cell16{});
  }
}

// Calls f(V()) with the number type of an element type. Returns false for strings.
template <class F>
bool with_numbers(DType t, F&& f) {
  if (is_float(t)) return f(double{});
  if (t == DType::U64) return f(UInt());
  if (is_integer(t) || t == DType::Bool) return f(Int());
  if (is_complex(t)) return f(Complex());
  return false;
}

std::vector<int64_t> strides_of(std::span<const int64_t> dims);  // row-major, in elements
int64_t product(std::span<const int64_t> dims);                  // saturates
std::string show(DType, std::span<const int64_t> dims);          // "f32[2,3]"

}  // namespace rlxc::eval
