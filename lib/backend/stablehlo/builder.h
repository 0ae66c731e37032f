// Builds StableHLO text in MLIR's generic form, one operation at a time. Every shape is static.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/data.h"
#include "kernel/expr.h"
#include "support/foreign_text.h"

namespace rlxc::stablehlo {

struct Hlo {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
};

inline bool is_low_float(DType t) { return t == DType::F16 || t == DType::BF16; }

// Writes two functions: that of a run, and one that prepares weights. An operation whose operands are weights goes to the second,
// unless its result is larger than they are; a runner calls that function once.
class HloBuilder {
 public:
  // `precision`: of products of f32 on matrix units, as in #stablehlo<precision HIGHEST>.
  explicit HloBuilder(std::string precision = "HIGHEST", bool prepares = false)
      : precision_(std::move(precision)), prepares_(prepares) {}

  static std::string type(DType, const std::vector<int64_t>& dims);
  static std::string type(const Hlo& v) { return type(v.dtype, v.dims); }
  static std::string ints(const std::vector<int64_t>&);  // array<i64: 1, 2>
  static std::string list(const std::vector<int64_t>&);  // [1, 2]
  static std::string pairs(const std::vector<int64_t>& low,
                           const std::vector<int64_t>& high);  // dense<[[1, 2], [0, 0]]> : tensor<2x2xi64>

  // "stablehlo.<op>"(operands) ({regions}) {attributes} : types
  Hlo op(std::string_view op, const std::vector<Hlo>& operands, DType, std::vector<int64_t> dims,
         const std::string& attributes = "", const std::string& regions = "");
  std::vector<Hlo> ops(std::string_view op, const std::vector<Hlo>& operands, const std::vector<Hlo>& results,
                       const std::string& attributes = "", const std::string& regions = "");
  // Returns the text of a region: the operations that `body` emits on block arguments of these types, and a return of its
  // results. kNextRegion separates the regions of an operation.
  template <class Body>
  std::string region(std::vector<Hlo> arguments, Body body) {
    const std::string outside = open_region(arguments);
    return close_region(outside, body(arguments));
  }
  static constexpr std::string_view kNextRegion = "}, {";
  Hlo same(std::string_view o, const std::vector<Hlo>& operands) { return op(o, operands, operands[0].dtype, operands[0].dims); }

  Hlo constant(DType, double value, std::vector<int64_t> dims = {});
  Hlo constant_int(DType, int64_t value, std::vector<int64_t> dims = {});
  Hlo dense(DType, std::vector<int64_t> dims, const std::string& literal);
  Hlo literal(const TensorData&);                      // of a real type that has a decimal form
  Hlo dense_ints(const std::vector<int64_t>& values);  // an i64 vector
  Hlo broadcast(const Hlo&, const std::vector<int64_t>& dims, const std::vector<int64_t>& axes);
  Hlo broadcast(const Hlo&, const std::vector<int64_t>& dims);  // NumPy's rule
  Hlo reshape(const Hlo&, std::vector<int64_t> dims);
  Hlo transpose(const Hlo&, const std::vector<int64_t>& perm);
  Hlo slice(const Hlo&, size_t axis, int64_t start, int64_t limit, int64_t step = 1);
  Hlo convert(const Hlo&, DType);
  Hlo compare(std::string_view direction, const Hlo&, const Hlo&);
  Hlo iota(DType, std::vector<int64_t> dims, size_t axis);
  Hlo pad(const Hlo&, const Hlo& fill, const std::vector<int64_t>& low, const std::vector<int64_t>& high);
  Hlo reduce(std::string_view combine, const Hlo&, const Hlo& start, const std::vector<int64_t>& axes, bool keep);
  Hlo window(std::string_view combine, const Hlo&, const Hlo& start, const std::string& attributes, std::vector<int64_t> dims);
  // Accumulates half floats in f32.
  Hlo dot(const Hlo& a, const Hlo& b, const std::vector<int64_t>& batch_a, const std::vector<int64_t>& batch_b,
          const std::vector<int64_t>& contract_a, const std::vector<int64_t>& contract_b, std::vector<int64_t> dims,
          DType result);
  // ", precision_config = [...]" of a product of this type; empty where units multiply it in one pass.
  std::string precision_config(DType) const;

  // Emits an expression of the kernel language with these parameters, all of one shape.
  Hlo expression(const kernel::Kernel&, kernel::ExprId, const std::vector<Hlo>& parameters, const std::vector<int64_t>& dims);

  void comment(const ForeignText& name, std::string_view kind);
  std::string take() { return std::move(text_); }
  std::string take_preparation() { return std::move(prepared_text_); }

  bool prepares() const { return prepares_; }
  void add_weight(const Hlo& v) { stored_.insert(v.name); }
  // Notes that the function of a run returns a value.
  void use(const Hlo& v) {
    if (stored_.contains(v.name)) used_.insert(v.name);
  }
  bool is_stored(const Hlo& v) const { return prepares_ && stored_.contains(v.name); }  // a weight, or prepared from weights
  bool is_used(const Hlo& v) const { return used_.contains(v.name); }                   // by the function of a run
  bool prepares_from(const Hlo& v) const { return read_.contains(v.name); }             // by the function that prepares weights
  const std::vector<Hlo>& prepared() const { return prepared_; }                        // its values

 private:
  bool is_preparation(std::string_view op, const std::vector<Hlo>& operands, const Hlo& result) const;
  Hlo prepare(std::string_view op, const std::vector<Hlo>& operands, const Hlo& result, const std::string& attributes);
  Hlo function(kernel::ExprOp, const std::vector<Hlo>& operands);
  std::string combiner(std::string_view combine, DType);
  std::string open_region(std::vector<Hlo>& arguments);  // names the arguments; returns the text emitted before
  std::string close_region(std::string outside, const std::vector<Hlo>& results);
  std::string precision_;
  bool prepares_;
  std::string text_, prepared_text_, indent_ = "    ";
  uint64_t next_ = 0;
  std::set<std::string, std::less<>> stored_, used_, read_;  // weights and values made of them
  std::vector<Hlo> prepared_;
  std::map<std::string, Hlo, std::less<>> known_;              // prepared values, by their operation
  std::map<std::string, std::string, std::less<>> constants_;  // scalars and splats, by name: the line of text
};

}  // namespace rlxc::stablehlo
