// CUDA, HIP and MSL: C++ with a launch geometry. They differ in a table row and a few overrides.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

class GpuCxx : public CLike {
 public:
  std::string type(Type, Helpers&) const override;
  std::string element(DType t, Helpers& h) const override { return type(t, h); }
  std::string function(ExprOp, Type operand, Helpers&) const override;
  std::string literal(const ExprNode&) const override;
  std::string cast(Type to, Type from, const std::string& value, Helpers&) const override;
  std::string select(Type, Type condition, const std::string& c, const std::string& a, const std::string& b,
                     Helpers&) const override;
  std::string broadcast(Type t, const std::string& scalar, Helpers& h) const override { return type(t, h) + "(" + scalar + ")"; }
  std::string ramp(Type, const std::string& base, int64_t stride, Helpers&) const override;
  std::string lane(const std::string& vector, int n) const override { return vector + "[" + std::to_string(n) + "]"; }
  std::string load(Type, const kernel::Buffer&, const std::string& index, bool gather, Helpers&) const override;
  std::string store(Type, const kernel::Buffer&, const std::string& index, const std::string& value, Helpers&) const override;

  std::string dot(Type a, Type b, Type c, Helpers&) const override;  // without an instruction
  bool dots_words() const override { return true; }
  std::string registers(const kernel::Buffer&, int64_t extent, const std::string& value, Helpers&) const override;

 protected:
  virtual std::string_view function_qualifiers() const = 0;  // of helper functions
  virtual std::string scalar(DType) const = 0;               // type names
  virtual std::string vector(Type, Helpers&) const = 0;
  virtual std::string library(ExprOp, DType) const = 0;  // the language's function on scalars, or empty
  virtual std::string pointer(const kernel::Buffer&, const std::string& to) const = 0;  // type of a pointer into the buffer
  virtual bool vector_functions() const { return false; }                               // the library's functions accept vectors
};

}  // namespace rlxc::target
