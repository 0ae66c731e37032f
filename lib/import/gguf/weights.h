// Weights of a GGUF file as operands: parameters whose bytes stay in the mapped file, and the nodes that decode them.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "import/compose/packed.h"
#include "import/gguf/file.h"
#include "ir/builder.h"

namespace rlxc::gguf_import {

// Shapes that do not fit are errors of the tensor. After an error, results are invalid.
class Weights {
 public:
  Weights(Builder& b, const File& f, std::string file_name, Diagnostics& d)
      : b_(b), file_(f), file_name_(std::move(file_name)), diagnostics_(d) {}

  bool has(const std::string& name) const { return file_.tensors().contains(name); }
  // The size of an axis of a tensor, counted from the innermost. 0 if there is no such axis.
  int64_t size(const std::string& name, size_t axis) const;

  ValueId vector(const std::string& name, int64_t size);  // f32 [size]
  // The contents of a small vector of f32; empty if it is absent.
  std::vector<double> numbers(const std::string& name, int64_t size);
  // x [..., in] times `NAME.weight` [out, in], plus `NAME.bias` if there is one.
  ValueId product(ValueId x, const std::string& name, int64_t in, int64_t out);
  // The rows `at` of a matrix [any, width], as f32.
  ValueId rows(const std::string& name, ValueId at, int64_t width);

  // Reports a tensor that nothing asked for: it may change what the model computes.
  bool all_used();

 private:
  // Null, with an error, if the tensor is absent or has another shape. A negative size: any.
  const Tensor* find(const std::string& name, const std::vector<int64_t>& dims);
  ValueId parameter(const Tensor&);
  ValueId as_real(const Tensor&);
  compose::BlockParts parts(const Tensor&);

  Builder& b_;
  const File& file_;
  std::string file_name_;  // of the sources of the parameters
  Diagnostics& diagnostics_;
  std::set<std::string> used_;
  std::map<std::string, ValueId> parameters_;
  std::map<std::string, compose::BlockParts> parts_;
};

}  // namespace rlxc::gguf_import
