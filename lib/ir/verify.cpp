#include "ir/verify.h"

#include <unordered_set>

#include "ir/infer.h"
#include "support/checked.h"

namespace rlxc {
namespace {

class Verifier {
 public:
  Verifier(const Module& m, Diagnostics& d) : module_(m), diagnostics_(d) {}

  void run() {
    // Bodies first: they determine the types of control-flow nodes.
    std::vector<int> owners(module_.graph_count(), 0);
    for (size_t g = 0; g < module_.graph_count(); ++g) structure(module_.graph(GraphId(g)), owners);
    for (size_t g = 1; g < owners.size(); ++g)
      if (owners[g] > 1)
        diagnostics_.error(Code::BadGraph, "sub-graph @" + module_.graph(GraphId(g)).name().line() + " belongs to several nodes");
    if (!diagnostics_.ok()) return;
    for (size_t g = 0; g < module_.graph_count(); ++g) types(module_.graph(GraphId(g)));
  }

  void sizes() {
    for (size_t i = 0; i < module_.graph_count(); ++i) {
      const Graph& g = module_.graph(GraphId(i));
      for (NodeId n : g.nodes())
        for (size_t r = 0; r < g.result_count(n); ++r) check_size(g, n, g.type(g.result(n, r)));
    }
  }

 private:
  std::string where(const Graph& g, NodeId n) const {
    return (g.id().raw ? "graph @" + g.name().line() + ": " : std::string()) + "node " + g.label(n).quoted() + " (" +
           std::string(name(g.op(n))) + ")";
  }

  void structure(const Graph& g, std::vector<int>& owners) {
    std::vector<bool> defined(g.value_capacity());
    std::unordered_set<uint32_t> leaf_names;
    size_t inputs = 0;
    auto check_operands = [&](NodeId n) {
      for (ValueId v : g.operands(n)) {
        if (!v.valid()) continue;
        if (v.raw >= g.value_capacity() || !g.alive(g.def(v)))
          diagnostics_.error(Code::BadGraph, "reads a value that does not exist", where(g, n));
        else if (!defined[v.raw])
          diagnostics_.error(Code::BadGraph, "reads %" + std::to_string(v.raw) + " before it is computed", where(g, n));
      }
    };
    for (NodeId n : g.nodes()) {
      const OpKind op = g.op(n);
      check_operands(n);
      if (has_trait(op, kTerminator)) diagnostics_.error(Code::BadGraph, "a terminator in the middle", where(g, n));
      inputs += op == OpKind::Input;
      if (op == OpKind::Input || op == OpKind::Param) {
        const Symbol s = g.value_name(g.result(n));
        if (s.valid() && !leaf_names.insert(s.raw).second)
          diagnostics_.error(Code::DuplicateName, "two inputs or parameters have this name", where(g, n));
      }
      for (GraphId b : g.bodies(n)) {
        if (b.raw == 0 || b.raw >= owners.size())
          diagnostics_.error(Code::BadGraph, "refers to a sub-graph that does not exist", where(g, n));
        else ++owners[b.raw];
      }
      for (size_t r = 0; r < g.result_count(n); ++r) defined[g.result(n, r).raw] = true;
    }
    check_operands(g.terminator());
    for (ValueId v : g.outputs())
      if (!v.valid()) diagnostics_.error(Code::BadGraph, "an output of graph @" + g.name().line() + " is absent");
    if (inputs != g.inputs().size())
      diagnostics_.error(Code::BadGraph, "the list of inputs of graph @" + g.name().line() + " does not match its nodes");
  }

  void types(const Graph& g) {
    Module& m = g.module();
    for (NodeId n : g.nodes()) {
      const OpKind op = g.op(n);
      for (size_t r = 0; r < g.result_count(n); ++r) check_size(g, n, g.type(g.result(n, r)));
      if (op == OpKind::Input || op == OpKind::Param) {
        check_leaf(g, n);
        continue;
      }
      std::vector<const Type*> in;
      for (ValueId v : g.operands(n)) in.push_back(v.valid() ? &g.type(v) : nullptr);
      while (!in.empty() && !in.back()) in.pop_back();
      std::string message;
      const auto inferred = infer(m, op, m.attrs[g.attr_id(n)], in, g.bodies(n).copy(), &message);
      if (!inferred) {
        diagnostics_.error(Code::BadShape, message, where(g, n));
        continue;
      }
      if (inferred->size() != g.result_count(n)) {
        diagnostics_.error(
            Code::BadArity,
            "has " + std::to_string(g.result_count(n)) + " results, its rule gives " + std::to_string(inferred->size()),
            where(g, n));
        continue;
      }
      for (size_t r = 0; r < inferred->size(); ++r)
        if (!compatible((*inferred)[r], g.type(g.result(n, r))))
          diagnostics_.error(Code::BadShape,
                             "declared " + text(g.type(g.result(n, r)), m.dims) + ", inferred " + text((*inferred)[r], m.dims),
                             where(g, n));
    }
  }

  // Dims must not be provably different; a rule may introduce fresh symbols (trip counts).
  bool compatible(const Type& inferred, const Type& declared) {
    if (inferred.kind != declared.kind || inferred.dtype != declared.dtype) return false;
    if (!inferred.ranked || !declared.ranked) return true;
    if (inferred.rank() != declared.rank()) return false;
    for (size_t i = 0; i < inferred.dims.size(); ++i)
      if (dims().known_ne(inferred.dims[i], declared.dims[i])) return false;
    return true;
  }

  void check_leaf(const Graph& g, NodeId n) {
    if (g.op(n) != OpKind::Param) return;
    const DataId id = g.attrs<DataAttrs>(n).data;
    if (!id.valid()) return;
    const TensorData& d = module_.data[id];
    const Type& t = g.type(g.result(n));
    if (d.dtype != t.dtype || t.dims != std::vector<Dim>(d.dims.begin(), d.dims.end()))
      diagnostics_.error(Code::BadTensor, "the data is not of the declared type " + text(t, module_.dims), where(g, n));
  }

  void check_size(const Graph& g, NodeId n, const Type& t) {
    if (t.rank() > kMaxRank)
      diagnostics_.error(Code::TooLarge, "rank " + std::to_string(t.rank()) + " is more than " + std::to_string(kMaxRank),
                         where(g, n));
    known_sizes_.clear();
    for (Dim d : t.dims)
      if (d.is_static()) known_sizes_.push_back(d.size());
    const auto elements = checked_product(known_sizes_);
    const DType sized = t.dtype == DType::String ? DType::U8 : t.dtype;  // a string takes at least a byte
    const auto bytes = elements ? byte_size(sized, static_cast<uint64_t>(*elements)) : std::nullopt;
    if (!bytes || *bytes > kMaxTensorBytes)
      diagnostics_.error(Code::TooLarge, "the tensor " + text(t, module_.dims) + " takes more than 2^47 bytes", where(g, n));
  }

  DimTable& dims() { return const_cast<Module&>(module_).dims; }

  const Module& module_;
  Diagnostics& diagnostics_;
  std::vector<int64_t> known_sizes_;
};

}  // namespace

bool verify(const Module& m, Diagnostics& d) {
  const size_t before = d.errors();
  Verifier(m, d).run();
  return d.errors() == before;
}

bool verify_sizes(const Module& m, Diagnostics& d) {
  const size_t before = d.errors();
  Verifier(m, d).sizes();
  return d.errors() == before;
}

}  // namespace rlxc
