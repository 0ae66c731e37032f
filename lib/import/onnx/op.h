// The interface of an ONNX operator's handler: operands, attributes, results, errors.
#pragma once
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "import/onnx/importer.h"

namespace rlxc::onnx_import {

class Op;
inline constexpr const char* kValueHelp =
    "--value INPUT=NUMBERS compiles for these contents of an input; rlxc run --data does it by itself";
using Handler = void (*)(Op&);
using Fold = bool (*)(Op&);  // sets known results if the operands' contents allow it; returns whether it did

// Accepted operand kinds: tensors except strings, all tensors, or also sequences, optionals and maps.
enum class AcceptedKinds : uint8_t { Numbers, Tensors, Any };

// A row of ops.def. `kind`, `names` and `defaults` are parameters of the handlers of regular operators.
struct OpRow {
  std::string_view domain, name;
  int min_in, max_in;  // -1: any number
  Handler handler;
  Fold fold = nullptr;
  OpKind kind = OpKind::Input;
  std::string_view alpha_name = {}, beta_name = {};
  double alpha = 0, beta = 0;
  AcceptedKinds takes = AcceptedKinds::Numbers;
  uint32_t optional = 0;          // bit i: input i may be absent although it is one of the first min_in
  std::string_view refusal = {};  // why the operator is not supported; it has no handler then
};
const OpRow* find_row(std::string_view domain, std::string_view name);

class Op {
 public:
  Op(Importer& importer, const NodeWork& work, const OpRow& op_row, int64_t version)
      : im(importer),
        b(importer.frame().builder),
        row(op_row),
        opset(version),
        work_(work),
        results_(work.outputs.size()),
        errors_(importer.pending()) {}

  Importer& im;
  Builder& b;
  const OpRow& row;
  const int64_t opset;  // of the operator's domain

  const NodeView& node() const { return work_.view; }
  // The same node seen from a body, where its operands are captured values.
  NodeWork work_inside() const {
    NodeWork w = work_;
    for (ValId& v : w.inputs)
      if (v.valid()) v = im.visible(v);
    return w;
  }
  DimTable& dims() { return im.dims(); }
  Graph& graph() { return b.graph(); }

  // Operands.
  size_t inputs() const { return work_.inputs.size(); }
  size_t outputs() const { return work_.outputs.size(); }
  bool has(size_t i) const { return i < work_.inputs.size() && work_.inputs[i].valid(); }
  std::optional<Type> declared(size_t out) { return wants(out) ? im.declared(work_.outputs[out]) : std::nullopt; }
  bool wants(size_t out) const { return out < work_.outputs.size() && work_.outputs[out].valid(); }
  ValId ref(size_t i) const { return has(i) ? work_.inputs[i] : ValId(); }
  ValueId in(size_t i) { return has(i) ? im.materialise(work_.inputs[i]) : ValueId(); }
  const Type& type(size_t i) const { return has(i) ? im.type(work_.inputs[i]) : kAbsent; }
  const std::vector<Dim>& sizes(size_t i) const { return type(i).dims; }
  DType dtype(size_t i) const { return type(i).dtype; }
  int rank(size_t i) const { return type(i).rank(); }
  const Known* known(size_t i) { return has(i) ? im.known(work_.inputs[i]) : nullptr; }
  const TensorData* tensor(size_t i) { return has(i) ? im.tensor(work_.inputs[i]) : nullptr; }
  const TensorData* given(size_t i);  // promised contents, for shapes that depend on them
  // Known contents as sizes, integers or reals. The need_ forms report an error if the contents are unknown.
  std::optional<std::vector<Dim>> known_dims(size_t i);
  std::optional<std::vector<int64_t>> known_ints(size_t i);
  std::optional<std::vector<double>> known_reals(size_t i);
  std::optional<std::vector<Dim>> need_dims(size_t i, std::string_view what);
  std::optional<std::vector<int64_t>> need_ints(size_t i, std::string_view what);
  std::optional<std::vector<Dim>> find_dims(size_t i);
  std::optional<std::vector<int64_t>> find_ints(size_t i);
  // Returns the length of a vector of integers, which must be constant. If only the run tells it, it has to be `wanted`.
  std::optional<int64_t> length(size_t i, std::optional<int64_t> wanted = {});
  std::optional<int64_t> declared_rank(size_t out) {
    const auto t = declared(out);
    return t && t->ranked ? std::optional<int64_t>(t->rank()) : std::nullopt;
  }
  std::optional<Known> find_known(size_t i);  // known or promised contents
  std::optional<std::vector<double>> need_reals(size_t i, std::string_view what);

  // Attributes. One of the wrong type is an error.
  bool has_attr(std::string_view name) const { return node().attribute(name) != nullptr; }
  int64_t i(std::string_view name, int64_t fallback);
  double f(std::string_view name, double fallback);
  std::string_view s(std::string_view name, std::string_view fallback);
  std::vector<int64_t> ints(std::string_view name);
  std::vector<double> floats(std::string_view name);
  std::vector<std::string> strings(std::string_view name);
  std::optional<Bytes> body(std::string_view name);  // a graph
  std::optional<TensorData> tensor_attribute(std::string_view name);
  // Sets *out to the enumerator of that name. An unknown name is an error.
  template <class E>
  bool choose(std::string_view attribute_name, std::string_view value, E* out) {
    size_t at = 0;
    if (!choose(attribute_name, value, enum_names(E{}), &at)) return false;
    *out = static_cast<E>(at);
    return true;
  }
  bool choose(std::string_view attribute_name, std::string_view value, std::span<const std::string_view> names, size_t* out);
  // Normalizes negative axes and checks the range.
  std::optional<int64_t> axis(int64_t value, int rank_of);
  std::optional<std::vector<int64_t>> axes(std::vector<int64_t> values, int rank_of);
  // A list that moved from an attribute to operand `i`. Returns nullopt if neither is present. An unknown operand is an error.
  std::optional<std::vector<int64_t>> ints_or_input(std::string_view name, size_t i);
  // Whether there is an operand of integers whose contents are known at run time only.
  bool is_of_run(size_t i) { return has(i) && is_integer(dtype(i)) && rank(i) <= 1 && !find_ints(i); }

  ValueId string_vector(std::vector<std::string>);  // a constant

  // Results.
  void set(size_t out, ValueId v) {
    if (v.valid() && out < results_.size()) results_[out] = im.value(v);
  }
  void set_ref(size_t out, ValId v) {
    if (out < results_.size()) results_[out] = v;
  }
  bool set_known(size_t out, Known k) {
    set_ref(out, im.known_value(std::move(k)));
    return true;
  }
  std::span<const ValId> results() const { return results_; }

  // Reports an error with the node's name. Returns false, for `return op.fail(...)`.
  bool fail(Code, std::string message, std::string help = {});
  bool unsupported(std::string message) { return fail(Code::UnsupportedAttribute, std::move(message)); }
  void give_up() { gave_up_ = true; }  // the error was reported elsewhere, for example in a body
  bool failed() const { return gave_up_ || !errors_.ok(); }
  std::string show(size_t i) const { return has(i) ? text(type(i), im.module().dims) : "absent"; }

 private:
  const AttributeView* attribute(std::string_view name, AttrType);

  static inline const Type kAbsent;
  const NodeWork& work_;
  std::vector<ValId> results_;
  Diagnostics& errors_;
  bool gave_up_ = false;
};

}  // namespace rlxc::onnx_import
