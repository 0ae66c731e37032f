// C-like languages. One printer (render.cpp) walks a kernel; a target overrides the syntax that differs. The defaults are common
// to C, C++, CUDA, HIP and MSL.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/language.h"
#include "kernel/math.h"

namespace rlxc::target {

using kernel::ExprNode;
using kernel::ExprOp;
using kernel::Kernel;
using kernel::Type;

// Types and functions that the kernels of one source file need, each once, in order of definition.
class Helpers {
 public:
  // Returns true on the first call for a name: the caller then adds its text, after that of its dependencies.
  bool needs(const std::string& name) { return names_.insert(name).second; }
  bool has(const std::string& name) const { return names_.count(name) > 0; }
  void add(std::string text) { texts_.push_back(std::move(text)); }
  std::string text() const;

 private:
  std::set<std::string> names_;
  std::vector<std::string> texts_;
};

// "f32", "f32x16", "boolx4": the suffix of helper functions and vector types.
std::string suffix(Type);
// Returns `text` with every $key replaced.
std::string expand(std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values);

class CLike {
 public:
  virtual ~CLike() = default;

  virtual std::string_view prelude() const { return ""; }  // opens every source file
  virtual std::string type(Type, Helpers&) const = 0;      // of a value
  virtual std::string element(DType, Helpers&) const = 0;  // in memory
  virtual std::string literal(const ExprNode&) const;      // of a scalar constant

  // Whether the operator is printed infix; other operators are calls of function().
  virtual bool infix(ExprOp, Type operand) const;
  virtual bool scalar_operand(ExprOp, Type) const { return false; }  // vector + constant needs no broadcast
  virtual std::string function(ExprOp, Type operand, Helpers&) const = 0;
  // The function of an operator of moves_lanes() and its payload.
  virtual std::string move_lanes(ExprOp op, Type t, int /*group*/, Helpers& h) const { return function(op, t, h); }
  virtual std::string cast(Type to, Type from, const std::string& value, Helpers&) const = 0;
  // A cast to `middle` and then to `to`, as one; empty if there is no shorter form.
  virtual std::string cast_through(Type /*to*/, Type /*middle*/, Type /*from*/, const std::string& /*value*/, Helpers&) const {
    return {};
  }
  // The function of a cast of round_even(value) as one; empty if there is none.
  virtual std::string rounding_cast(Type /*to*/, Type /*from*/, Helpers&) const { return {}; }
  virtual bool fuses_products() const { return false; }   // has a function for Product, because compilers fuse Mul and Add
  virtual bool splits_divisors() const { return false; }  // has functions for Divisor, DivisorRest and Quotient; else divides
  virtual std::string bitcast(Type to, Type from, const std::string& value, Helpers&) const = 0;
  virtual std::string select(Type, Type condition, const std::string& c, const std::string& a, const std::string& b,
                             Helpers&) const;
  // The function of a and b for select(a < b, b, a); empty if there is none.
  virtual std::string larger(Type, Helpers&) const { return {}; }
  virtual std::string load_if(const std::string& load, const std::string& condition, const std::string& otherwise,
                              Helpers&) const;
  virtual std::string broadcast(Type, const std::string& scalar, Helpers&) const = 0;
  virtual std::string ramp(Type, const std::string& base, int64_t stride, Helpers&) const = 0;
  virtual std::string lane(const std::string& vector, int n) const = 0;
  virtual std::string shuffle_xor(Type, const std::string& value, int64_t mask, Helpers&) const;
  virtual std::string warp_reduce(Type, const kernel::WarpReduction&, const std::string& value, Helpers&) const { return value; }
  virtual std::string matrix_multiply(const kernel::MatrixUnit&, Helpers&) const { return ""; }  // a function of a, b and c

  virtual std::string dot(Type /*a*/, Type /*b*/, Type /*c*/, Helpers&) const { return ""; }              // likewise
  virtual std::string dot_of_small(Type a, Type b, Type c, Helpers& h) const { return dot(a, b, c, h); }  // elements of a < 128
  virtual std::string dot_instructions(int /*vector_bytes*/, Helpers&) const { return "1"; }
  virtual bool dots_words() const { return false; }  // whether its a and b are i32 words

  // Loads and stores of `buffer[index]`. A vector covers consecutive elements, or with `gather` one element per index lane.
  virtual std::string load(Type, const kernel::Buffer&, const std::string& index, bool gather, Helpers&) const = 0;
  // Loads elements index, index + stride, ..., one per lane.
  virtual std::string strided_load(Type t, const kernel::Buffer& b, const std::string& index, int64_t stride, Helpers& h) const {
    return load(t, b, ramp({DType::I64, t.lanes}, index, stride, h), true, h);
  }
  // Loads a vector of consecutive elements as an i32 word; empty: the vector is loaded and cast.
  virtual std::string load_word(const kernel::Buffer&, const std::string& /*index*/, Helpers&) const { return {}; }
  virtual std::string store(Type, const kernel::Buffer&, const std::string& index, const std::string& value, Helpers&) const = 0;
  // A store to a streamed buffer, and what ends a kernel or task with such stores; empty: none.
  virtual std::string stream(Type t, const kernel::Buffer& b, const std::string& index, const std::string& value,
                             Helpers& h) const {
    return store(t, b, index, value, h);
  }
  virtual std::string end_streams(Helpers&) const { return {}; }
  // A deferred store of the vector from[index], or of zeros where the condition is false; empty if the language has none.
  virtual std::string store_later(Type, const kernel::Buffer& /*to*/, const std::string& /*to_index*/,
                                  const kernel::Buffer& /*from*/, const std::string& /*index*/, const std::string& /*condition*/,
                                  Helpers&) const {
    return {};
  }
  virtual std::string await(int /*pending*/, Helpers&) const { return {}; }
  virtual std::string settle(const kernel::Buffer& /*sums*/, Helpers&) const { return {}; }
  virtual std::string prefetch(const kernel::Buffer&, const std::string& /*index*/, kernel::Cache) const { return ""; }
  virtual std::string atomic_add(Type, const kernel::Buffer&, const std::string& index, const std::string& value, Helpers&) const;

  // For sources (StmtKind::Source), in languages where an argument is no array: functions that read and write elements.
  virtual void declare_accessors(const Kernel&, Helpers&) const {}

  // A value that compilers keep in a register while it is used.
  virtual std::string hold(Type, const std::string& value, Helpers&) const { return value; }

  // Declarations. open() prints from the function's head to its opening brace and the launch indices.
  virtual std::string declare(Type, const std::string& name, const std::string& value, Helpers&) const;
  virtual std::string parameter(const std::string& name, Type t, Helpers& h) const { return type(t, h) + " " + name; }
  virtual std::string loop_head(const std::string& variable, Type, const std::string& extent, Helpers&) const;
  virtual std::string open(const Kernel&, const kernel::Launch&, Helpers&) const = 0;
  virtual std::string launch_index(kernel::LoopKind, int /*axis*/) const { return "0"; }  // index of the workgroup or thread
  virtual std::string close(const Kernel&) const { return "}\n"; }
  virtual std::string_view shared_qualifier() const { return ""; }
  virtual std::string shared(const kernel::Buffer&, int64_t extent, Helpers&) const;  // declaration, at the top of the kernel
  // Declares memory that all shared buffers of a kernel are placed in, at multiples of 16 bytes; empty if they are arrays. And a
  // buffer in it.
  virtual std::string shared_pool(uint64_t /*bytes*/, Helpers&) const { return {}; }
  virtual std::string in_shared_pool(const kernel::Buffer&, uint64_t /*offset*/, Helpers&) const { return {}; }
  // Declares an array; if the extent is 1, a variable, with its first value if known.
  virtual std::string registers(const kernel::Buffer&, int64_t extent, const std::string& value, Helpers&) const;
  virtual std::string_view barrier(bool /*global*/) const { return ""; }
  virtual std::string_view unroll() const { return ""; }
  virtual bool threads() const { return false; }  // Parallel loops call rlxc_parallel_for
};

// Adds a function with the body of kernel/math.h and returns its name. `head` is "$R $F($P) {" with the language's qualifiers.
std::string defined_function(const CLike&, ExprOp, Type, std::string_view head, Helpers&, kernel::Periods = kernel::Periods::All);

}  // namespace rlxc::target
