// Matrix units: instructions by which the lanes of a warp multiply small matrices, d = a * b + c. Each lane passes some elements
// of every matrix as a vector. A CPU thread is a warp of one lane. The layout is data: builders and the interpreter handle any
// unit (compare the linear layouts of Triton, arXiv 2505.23819).
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "support/dtype.h"

namespace rlxc::kernel {

struct Step {
  int8_t row = 0, column = 0;
  bool operator==(const Step&) const = default;
};
constexpr Step rows(int n) { return {static_cast<int8_t>(n), 0}; }
constexpr Step columns(int n) { return {0, static_cast<int8_t>(n)}; }

// Element e of lane l's vector is the matrix element at the sum of the steps of the bits set in l and in e.
struct FragmentLayout {
  std::array<Step, 7> lane = {};
  std::array<Step, 7> element = {};
  int element_bits = 0;

  bool operator==(const FragmentLayout&) const = default;
  constexpr int elements() const { return 1 << element_bits; }
  constexpr Step of_lane(int l) const { return sum(lane, l); }
  constexpr Step of_element(int e) const { return sum(element, e); }
  constexpr Step at(int l, int e) const { return add(of_lane(l), of_element(e)); }

 private:
  static constexpr Step add(Step a, Step b) {
    return {static_cast<int8_t>(a.row + b.row), static_cast<int8_t>(a.column + b.column)};
  }
  template <size_t n>
  static constexpr Step sum(const std::array<Step, n>& steps, int bits) {
    Step s;
    for (size_t i = 0; i < n; ++i)
      if (bits >> i & 1) s = add(s, steps[i]);
    return s;
  }
};

// Where a unit reads an operand: from registers of its lanes, or from a tile in shared memory. Rows of a tile run along k or
// across it.
enum class Source : uint8_t { Lanes, AlongK, AcrossK };

// Sums of integers are exact modulo 2^bits of the accumulator. Of floats, they are rounded in any order.
struct MatrixUnit {
  int m, n, k;  // a is m x k, b is k x n, c and d are m x n
  int warp;     // its number of lanes
  DType operand, accumulator;
  FragmentLayout a, b, c;                                 // of operands in lanes
  Source a_from = Source::Lanes, b_from = Source::Lanes;  // tiles of 8-bit elements are arrays of i32 words
  std::optional<DType> right = {};                        // type of b; absent: operand
  bool later = false;  // may go on after matrix_multiply, until the sums are settled (kernel/language.h)

  DType of_b() const { return right.value_or(operand); }
  bool reads_tiles() const { return b_from != Source::Lanes; }
};

// A tile in shared memory begins at a multiple of 1024 bytes. It consists of planes: kTileBytes of each of its rows, whose
// 16-byte chunks are permuted. Returns the place of an element, where `elements` fit in kTileBytes.
inline constexpr int kTileBytes = 128;
template <class T>
constexpr T tile_place(T row, T column, int64_t rows, int64_t elements) {
  const int64_t chunk = elements / 8;
  return (column / elements * rows + row) * elements + (column % elements / chunk ^ row % int64_t{8}) * chunk + column % chunk;
}

// Dot units: instructions that add products of narrow elements: d[i] = c[i] + sum of a[group * i + j] * b[group * i + j] over
// j < group. Sums of integers are exact modulo 2^bits of the accumulator; saturating instructions have no row. Sums of floats are
// rounded in any order, and denormal operands may count as zero.
struct DotUnit {
  int lanes, group;  // of the accumulator; elements of a and b for each lane
  DType a, b, accumulator;
  bool operator==(const DotUnit&) const = default;
};

}  // namespace rlxc::kernel
