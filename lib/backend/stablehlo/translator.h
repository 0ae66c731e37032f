// The state and helpers shared by the translations of nodes.
#pragma once
#include <cmath>
#include <functional>
#include <numeric>

#include "backend/stablehlo/builder.h"
#include "codegen/lowerings.h"
#include "kernel/builder.h"
#include "support/diagnostics.h"

namespace rlxc::stablehlo {

using Ints = std::vector<int64_t>;

// Translates a module. Bodies of control flow capture nothing: each graph has its own values.
class ModuleTranslator {
 public:
  ModuleTranslator(const LirModule&, std::span<const DType> dtypes, HloBuilder, Diagnostics&);

  const std::vector<Hlo>& weights() const { return weights_; }  // weight_nodes of all graphs, in order
  HloBuilder& builder() { return b_; }
  // Emits the nodes of a graph on these inputs. Returns its outputs, without names after an error.
  std::vector<Hlo> run(const Graph&, const std::vector<Hlo>& inputs);

 private:
  friend class NodeTranslator;
  bool fits(const Graph&, NodeId, std::string* reason);

  const LirModule& lir_;
  const Module& m_;
  std::span<const DType> dtypes_;
  Diagnostics& d_;
  HloBuilder b_;
  std::vector<Hlo> weights_;
  std::vector<std::vector<size_t>> weight_of_;  // [graph][node]
  std::vector<Hlo> value_;                      // of the current graph
};

class NodeTranslator {
 public:
  NodeTranslator(ModuleTranslator& module, const Graph& g, NodeId n, std::string* reason)
      : t_(module), m_(module.m_), g_(g), b_(module.b_), n_(n), reason_(*reason) {}

 protected:
  const LirModule& lir() const { return t_.lir_; }
  const Hlo& value(ValueId v) const { return t_.value_[v.raw]; }
  const Hlo& in(size_t i) const { return value(g_.operand(n_, i)); }
  bool has(size_t i) const { return g_.operand(n_, i).valid(); }
  size_t operand_count() const { return g_.operands(n_).size(); }
  Ints result_dims(size_t r = 0) const { return sizes(g_.dims(g_.result(n_, r))); }
  DType result_dtype(size_t r = 0) const { return g_.dtype(g_.result(n_, r)); }
  // The type in which to compute a result: f32 if it is a 16-bit float that is only read as f32, else its own.
  DType exact_dtype(size_t r = 0) const;
  template <class A>
  const A& attrs() const {
    return g_.attrs<A>(n_);
  }
  bool set(Hlo v, size_t r = 0) {
    t_.value_[g_.result(n_, r).raw] = std::move(v);
    return true;
  }
  bool fail(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  static Ints sizes(std::span<const Dim> dims) {
    Ints out;
    for (Dim d : dims) out.push_back(d.is_static() ? d.size() : 0);
    return out;
  }
  static DType wide(DType t) { return kernel::compute_dtype(t); }
  static int64_t volume(const Ints& dims) { return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()); }
  static int64_t volume(const Hlo& v) { return volume(v.dims); }
  static Ints range(int64_t from, int64_t to) {
    Ints out(static_cast<size_t>(std::max<int64_t>(to - from, 0)));
    std::iota(out.begin(), out.end(), from);
    return out;
  }

  Hlo bin(std::string_view o, const Hlo& a, const Hlo& b) {
    const bool longer = a.dims.size() >= b.dims.size();
    const Ints& other = longer ? b.dims : a.dims;
    Ints dims = longer ? a.dims : b.dims;
    for (size_t i = 1; i <= other.size(); ++i)
      if (int64_t& n = dims[dims.size() - i]; n == 1) n = other[other.size() - i];
    return b_.op(o, {b_.broadcast(a, dims), b_.broadcast(b, dims)}, a.dtype, dims);
  }
  Hlo bin(std::string_view o, const Hlo& a, double v) { return bin(o, a, b_.constant(a.dtype, v, a.dims)); }
  Hlo one(std::string_view o, const Hlo& a) { return b_.same(o, {a}); }
  Hlo reversed(const Hlo& v, const Ints& axes) {
    return b_.op("reverse", {v}, v.dtype, v.dims, "dimensions = " + HloBuilder::ints(axes));
  }
  Hlo concatenated(const std::vector<Hlo>& parts, int64_t axis) {
    Ints dims = parts[0].dims;
    for (size_t i = 1; i < parts.size(); ++i) dims[static_cast<size_t>(axis)] += parts[i].dims[static_cast<size_t>(axis)];
    return b_.op("concatenate", parts, parts[0].dtype, std::move(dims), "dimension = " + std::to_string(axis) + " : i64");
  }
  // Adds n to negative indices.
  Hlo wrapped(const Hlo& index, int64_t n) {
    const Hlo negative = b_.compare("LT", index, b_.constant_int(index.dtype, 0, index.dims));
    return b_.op("select", {negative, bin("add", index, b_.constant_int(index.dtype, n, index.dims)), index}, index.dtype,
                 index.dims);
  }
  // Gathers along an axis. Indices must be in range.
  Hlo taken(const Hlo& x, const Hlo& index, size_t axis);
  Hlo sum(const Hlo& v, const Ints& axes, bool keep = true) { return b_.reduce("add", v, b_.constant(v.dtype, 0), axes, keep); }
  Hlo lowest(DType);
  Hlo highest(DType);

  ModuleTranslator& t_;
  const Module& m_;
  const Graph& g_;
  HloBuilder& b_;
  NodeId n_;

 private:
  std::string& reason_;
};

// The translation of one op kind. Returns false and sets the reason if attributes or types are unsupported.
struct Translation {
  OpKind op;
  bool (*translate)(ModuleTranslator&, const Graph&, NodeId, std::string* reason);
};
// Makes a row of a member function of a family (a class derived from NodeTranslator).
template <class Family, bool (Family::*function)()>
bool call(ModuleTranslator& module, const Graph& g, NodeId n, std::string* reason) {
  return (Family(module, g, n, reason).*function)();
}

std::span<const Translation> elementwise_translations();
std::span<const Translation> movement_translations();
std::span<const Translation> index_translations();
std::span<const Translation> linear_translations();
std::span<const Translation> reduce_translations();
std::span<const Translation> control_translations();
std::span<const Translation> collective_translations();
bool translate_elementwise(ModuleTranslator&, const Graph&, NodeId, std::string* reason);

}  // namespace rlxc::stablehlo
