// Nodes to test on every target: each op kind on sizes that are error-prone (none, one, primes, many, broadcast, transposed).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "eval/value.h"
#include "ir/builder.h"
#include "support/random.h"

namespace rlxc::matrix {

// Creates a node's operands: graph inputs with random contents, reproducible by seed.
class Operands {
 public:
  Operands(Module& m, DType t, std::string prefix, uint64_t seed)
      : b(m.main()), dtype(t), prefix_(std::move(prefix)), random_(seed) {}

  Builder b;
  DType dtype;
  std::vector<eval::HostValue> contents;  // of the created inputs

  ValueId in(std::vector<int64_t> dims) { return in(std::move(dims), dtype, low_, high_); }
  ValueId in(std::vector<int64_t> dims, DType, double low, double high);
  ValueId positive(std::vector<int64_t> dims) { return in(std::move(dims), dtype, 0.5, 3); }
  ValueId index(std::vector<int64_t> dims, int64_t n) {
    return in(std::move(dims), DType::I64, static_cast<double>(-n), static_cast<double>(n - 1));
  }
  // A rank-2 value with a transposed layout.
  ValueId turned(int64_t rows, int64_t columns) { return b.transpose(in({columns, rows}), {1, 0}); }
  ValueId op(OpKind kind, std::vector<ValueId> operands, Attrs attrs) { return b.create(kind, operands, std::move(attrs)); }
  ValueId op(OpKind kind, std::vector<ValueId> operands) { return op(kind, std::move(operands), default_attrs(kind)); }
  void range(double low, double high) { low_ = low, high_ = high; }

 private:
  std::string prefix_;
  test::Random random_;
  double low_ = -2, high_ = 2;
};

struct Sample {
  OpKind op;
  std::string what;                        // sizes and attributes
  int64_t terms;                           // length of the longest sum; tolerances grow with its square root
  std::function<ValueId(Operands&)> make;  // returns the node's first result; invalid if the dtype is illegal
};

std::vector<Sample> elementwise_samples();
std::vector<Sample> movement_samples();
std::vector<Sample> reduction_samples();
std::vector<Sample> contraction_samples();
std::vector<Sample> extent_samples();

}  // namespace rlxc::matrix
