#include "passes/simplify/constant_folding.h"

#include <algorithm>

#include "eval/eval.h"
#include "passes/graphs.h"

namespace rlxc {
namespace {

constexpr uint64_t kOperandsPerResult = 16;        // bytes of operands that may be read, per byte of fold_max_bytes
constexpr uint64_t kMaxSteps = uint64_t{1} << 24;  // element operations of one node

class Folder {
 public:
  Folder(Graph& g, const PassContext& context) : graph_(g), module_(g.module()), context_(context), options_(context.options) {}

  int64_t run() {
    int64_t folded = 0;
    for (NodeId n : graph_.nodes()) folded += candidate(n) && context_.rewrite([&] { return fold(n); });
    return folded;
  }

 private:
  const TensorData& data(ValueId v) const { return module_.data[graph_.attrs<DataAttrs>(graph_.def(v)).data]; }

  bool candidate(NodeId n) const {
    const OpKind op = graph_.op(n);
    if (has_trait(op, kLeaf | kTerminator | kBody | kSequenceOp | kImpure | kHir) || !eval::has_evaluator(op)) return false;
    // Weights that are stored in 8 bits stay so.
    if (op == OpKind::Dequantize && bits(graph_.dtype(graph_.operand(n, 0))) <= 8) return false;
    uint64_t read = 0;
    for (ValueId v : graph_.operands(n)) {
      if (!v.valid()) continue;
      if (graph_.op(graph_.def(v)) != OpKind::Constant) return false;
      read += data(v).bytes.size();
    }
    if (read > kOperandsPerResult * options_.fold_max_bytes) return false;
    if (op == OpKind::Expand && data(graph_.operand(n, 0)).elements() == 1)
      return byte_size(graph_.type(graph_.result(n))).has_value();
    uint64_t written = 0;
    for (size_t r = 0; r < graph_.result_count(n); ++r) {
      const Type& t = graph_.type(graph_.result(n, r));
      const auto bytes = t.kind == TypeKind::Tensor ? byte_size(t) : std::nullopt;
      if (!bytes || t.dtype == DType::String) return false;
      written += *bytes;
    }
    return written <= options_.fold_max_bytes;
  }

  bool fold(NodeId n) {
    if (graph_.op(n) == OpKind::Expand && data(graph_.operand(n, 0)).elements() == 1) return repeat(n);
    std::vector<eval::HostValue> values(graph_.operands(n).size()), results;
    std::vector<const eval::HostValue*> operands;
    for (size_t i = 0; i < values.size(); ++i) {
      const ValueId v = graph_.operand(n, i);
      if (v.valid()) values[i].tensor = data(v);
      operands.push_back(v.valid() ? &values[i] : nullptr);
    }
    eval::Options options;
    options.max_steps = kMaxSteps;
    options.max_bytes = (kOperandsPerResult + 4) * options_.fold_max_bytes + (1 << 16);
    std::string message;
    if (!eval::evaluate_node(module_, graph_, n, operands, &results, &message, options)) return false;  // left to run time
    if (results.size() != graph_.result_count(n)) return false;
    for (size_t r = 0; r < results.size(); ++r) {
      const Type& t = graph_.type(graph_.result(n, r));
      if (results[r].tensor.dtype != t.dtype ||
          !std::ranges::equal(results[r].tensor.dims, t.dims, [](int64_t a, Dim b) { return b == a; }))
        return false;
    }
    for (size_t r = 0; r < results.size(); ++r) put(n, r, compact(std::move(results[r].tensor)));
    erase(n);
    return true;
  }

  bool repeat(NodeId n) {
    const TensorData& one = data(graph_.operand(n, 0));
    std::vector<int64_t> dims;
    for (Dim d : graph_.dims(graph_.result(n))) dims.push_back(d.size());
    if (bits(one.dtype) < 8) return false;
    put(n, 0, make_splat(one.dtype, dims, one.bytes.first(static_cast<size_t>(bits(one.dtype)) / 8)));
    erase(n);
    return true;
  }

  static TensorData compact(TensorData d) {
    const auto element = static_cast<size_t>(bits(d.dtype)) / 8;
    return !d.splat && element > 0 && d.bytes.size() > element && is_uniform(d)
               ? make_splat(d.dtype, d.dims, d.bytes.first(element))
               : d;
  }

  void put(NodeId n, size_t r, TensorData d) {
    const TypeId type = graph_.type_id(graph_.result(n, r));
    const AttrId attrs = module_.attrs.intern(DataAttrs{module_.data.add(std::move(d))});
    const NodeId c = graph_.make_node(OpKind::Constant, {}, attrs, {&type, 1}, {}, n);
    graph_.set_node_name(c, graph_.node_name(n));
    graph_.set_origin(c, graph_.origin(n));
    graph_.replace_all_uses(graph_.result(n, r), graph_.result(c));
  }

  void erase(NodeId n) {
    const std::vector<ValueId> operands(graph_.operands(n).begin(), graph_.operands(n).end());
    graph_.erase(n);
    for (ValueId v : operands)
      if (v.valid() && graph_.use_count(v) == 0 && graph_.alive(graph_.def(v))) graph_.erase(graph_.def(v));
  }

  Graph& graph_;
  Module& module_;
  const PassContext& context_;
  const PassOptions& options_;
};

}  // namespace

PassResult constant_folding(Module& m, PassContext& context) {
  int64_t folded = 0;
  for (GraphId id : graphs_in_use(m)) folded += Folder(m.graph(id), context).run();
  return {folded > 0, {{"nodes_folded", folded}}};
}

}  // namespace rlxc
