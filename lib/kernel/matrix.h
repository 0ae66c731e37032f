// Matrix units: instructions by which the lanes of a warp multiply small matrices, d = a * b + c. Each lane passes some elements
// of every matrix as a vector. The layout is data: builders and the interpreter handle any unit (compare the linear layouts of
// Triton, arXiv 2505.23819).
#pragma once
#include <array>
#include <cstdint>

#include "support/dtype.h"

namespace rlxc::kernel {

struct Step {
  int8_t row = 0, column = 0;
};
constexpr Step rows(int n) { return {static_cast<int8_t>(n), 0}; }
constexpr Step columns(int n) { return {0, static_cast<int8_t>(n)}; }

// Element e of lane l's vector is the matrix element at the sum of the steps of the bits set in l and in e.
struct FragmentLayout {
  std::array<Step, 7> lane;
  std::array<Step, 7> element;
  int element_bits;

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

// Sums of integers are exact modulo 2^bits of the accumulator. A unit of tiles reads a and the transposed b from shared memory:
// rows of k elements, 128 bytes, whose 16-byte chunks are permuted (tile_chunk), from a multiple of 1024 bytes on.
struct MatrixUnit {
  int m, n, k;  // a is m x k, b is k x n, c and d are m x n
  int warp;     // its number of lanes
  DType operand, accumulator;
  FragmentLayout a, b, c;  // of tiles: a and b have none
  bool tiles = false;
};
// Returns where a chunk of a row lies in it.
template <class T>
constexpr T tile_chunk(T row, T chunk) {
  return chunk ^ row % T(8);
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
