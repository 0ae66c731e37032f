// Evaluates nodes with constant operands by the reference evaluator. Parameters are not constants: nodes that depend on weights
// run at load time. Skips results above options.fold_max_bytes, except splats, and nodes with much larger operands. A
// data-dependent dim that becomes known (of an image file, of a NonZero) replaces its symbol everywhere. Linear in nodes and
// evaluation work.
#include <algorithm>
#include <set>

#include "eval/eval.h"
#include "ir/bind_dims.h"
#include "ir/dim_postfix.h"
#include "ir/graphs.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

constexpr uint64_t kWorkingPerByte = 32;     // what an evaluation takes for a byte of operands and results, of 4 bits an element
constexpr uint64_t kOperandsPerResult = 16;  // limit on bytes of operands per byte of fold_max_bytes
constexpr uint64_t kMaxSteps = uint64_t{1} << 24;  // element operations of one node

// Data-dependent dims that folding has determined. Only symbols defined by one node: a symbol of several nodes (copies of a
// loop's body), or in an equality, stays.
class FoundSizes {
 public:
  explicit FoundSizes(Module& m) : module_(m) {}

  // Records the symbols of the type if the sizes fit it; otherwise returns false.
  bool note(const Type& t, const std::vector<int64_t>& sizes) {
    if (t.dims.size() != sizes.size()) return false;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (t.dims[i].is_static() ? t.dims[i] == sizes[i] : is_made_once(t.dims[i])) continue;
      return false;
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      if (const auto symbol = symbol_name(module_.dims, t.dims[i])) values_[*symbol] = Dim(sizes[i]);
    return true;
  }
  void apply() const {
    if (!values_.empty()) substitute_dims(module_, values_);
  }

 private:
  bool is_made_once(Dim d) {
    if (!counted_) count();
    const auto symbol = symbol_name(module_.dims, d);
    if (!symbol) return false;
    const auto it = makers_.find(*symbol);
    return it != makers_.end() && it->second == 1;
  }
  void add_symbols(const Graph& g, ValueId v, std::set<std::string>* out) const {
    for (Dim d : g.type(v).dims) add_symbols(d, out);
  }
  void add_symbols(Dim d, std::set<std::string>* out) const {
    if (!d.is_static())
      for (std::string& s : module_.dims.symbols_of(d)) out->insert(std::move(s));
  }
  void count() {
    counted_ = true;
    for (GraphId id : graphs_in_use(module_)) {
      const Graph& g = module_.graph(id);
      for (NodeId n : g.nodes()) {
        std::set<std::string> read, made;
        for (size_t r = 0; r < g.result_count(n); ++r) add_symbols(g, g.result(n, r), &made);
        if (made.empty()) continue;
        for (ValueId v : g.operands(n))
          if (v.valid()) add_symbols(g, v, &read);
        each_dim(module_.attrs[g.attr_id(n)], [&](Dim d) { add_symbols(d, &read); });
        for (const std::string& s : made) makers_[s] += !read.contains(s);
      }
    }
    for (const auto& [a, b] : module_.dims.equalities())
      for (Dim d : {a, b})
        for (const std::string& s : module_.dims.symbols_of(d)) makers_.erase(s);
  }

  Module& module_;
  SymbolValues values_;
  bool counted_ = false;
  std::map<std::string, int, std::less<>>
      makers_;  // number of nodes that have the symbol in a result, but in no operand or attribute
};

class Folder {
 public:
  Folder(Graph& g, PassContext& context, FoundSizes& found)
      : graph_(g), module_(g.module()), context_(context), options_(context.options), found_(found) {}

  int64_t run() {
    int64_t folded = 0;
    for (NodeId n : graph_.nodes()) {
      if (!candidate(n)) continue;
      if (context_.operations > options_.max_operations) {
        too_many_operations(n);
        break;
      }
      folded += context_.rewrite([&] { return fold(n); });
    }
    return folded;
  }

 private:
  const TensorData& data(ValueId v) const { return module_.data[graph_.attrs<DataAttrs>(graph_.def(v)).data]; }

  bool candidate(NodeId n) const {
    const OpKind op = graph_.op(n);
    if (has_trait(op, kLeaf | kTerminator | kBody | kSequenceOp | kImpure | kHir) || !eval::has_evaluator(op)) return false;
    // 8-bit weights stay quantized.
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
      if (t.kind != TypeKind::Tensor || t.dtype == DType::String) return false;
      written += byte_size(t).value_or(0);
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
    options.steps = &context_.operations;
    options.max_bytes = kWorkingPerByte * ((kOperandsPerResult + 4) * options_.fold_max_bytes + (1 << 16));
    std::string message;
    if (!eval::evaluate_node(module_, graph_, n, operands, &results, &message, options)) return false;  // left to run time
    if (results.size() != graph_.result_count(n)) return false;
    uint64_t written = 0;
    for (const eval::HostValue& v : results) written += v.tensor.bytes.size();
    if (written > options_.fold_max_bytes) return false;
    for (size_t r = 0; r < results.size(); ++r) {
      const Type& t = graph_.type(graph_.result(n, r));
      if (results[r].tensor.dtype != t.dtype || !found_.note(t, results[r].tensor.dims)) return false;
    }
    for (size_t r = 0; r < results.size(); ++r) put(n, r, compact(std::move(results[r].tensor)));
    erase(n);
    return true;
  }

  void too_many_operations(NodeId n) {
    context_.diagnostics.error(
        Code::TooLarge, "constant folding needs more than " + std::to_string(options_.max_operations) + " operations on elements",
        "node " + graph_.label(n).quoted(), "--max-operations N allows more");
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
    const TypeId type = module_.types.intern(tensor_type(d.dtype, {d.dims.begin(), d.dims.end()}));
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
  PassContext& context_;
  const PassOptions& options_;
  FoundSizes& found_;
};

}  // namespace

PassResult constant_folding(Module& m, PassContext& context) {
  int64_t folded = 0;
  FoundSizes found(m);
  for (GraphId id : graphs_in_use(m)) folded += Folder(m.graph(id), context, found).run();
  found.apply();
  return {folded > 0, {{"nodes_folded", folded}}};
}

}  // namespace rlxc
