#include "support/random_graph.h"

#include <algorithm>
#include <random>

#include "ir/builder.h"

namespace rlxc::testing {
namespace {

class Generator {
 public:
  Generator(Module& m, const RandomGraphOptions& o) : module_(m), options_(o), random_(o.seed * 7919 + 17) {}

  void run() {
    Builder b(module_.main());
    const Dim batch = options_.symbolic ? module_.dims.symbol("batch") : Dim(2);
    std::vector<ValueId> pool{b.input("x0", tensor_type(DType::F32, {batch, 4})),
                              b.input("x1", tensor_type(DType::F32, {2, 3, 4})),
                              b.input("n0", tensor_type(DType::I64, {3, 4})),
                              b.input("p0", tensor_type(DType::Bool, {1})),
                              weight(b, "w0", {4, 4}),
                              weight(b, "w1", {4}),
                              weight(b, "w2", {3, 1}),
                              b.scalar(DType::F32, 1),
                              b.scalar(DType::F32, 0)};
    fill(b, pool, options_.nodes, 0);
    // Values without users, and some with users, become outputs.
    Graph& g = module_.main();
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < pool.size(); ++i)
      if ((g.use_count(pool[i]) == 0 && !has_trait(g.op(g.def(pool[i])), kLeaf)) || (i > 9 && below(8) == 0))
        outputs.push_back(pool[i]);
    if (outputs.empty()) outputs.push_back(pool.back());
    for (size_t i = 0; i < outputs.size(); ++i) g.add_output(outputs[i], module_.symbol("y" + std::to_string(i)));
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  double real() { return static_cast<double>(static_cast<int64_t>(below(2001)) - 1000) / 700.0; }

  ValueId weight(Builder& b, std::string_view name, std::vector<int64_t> dims) {
    return b.param(name, tensor_type(DType::F32, {dims.begin(), dims.end()}), module_.data.add(random_data(dims)));
  }
  TensorData random_data(std::vector<int64_t> dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(real()));
    return make_data(DType::F32, std::move(dims), values);
  }

  ValueId choose(const Graph& g, const std::vector<ValueId>& pool, DType t) {
    for (int i = 0; i < 40; ++i)
      // Prefers recent values, which makes graphs deep.
      if (const ValueId v = below(2) ? pick(pool) : pool[pool.size() - 1 - below(std::min<size_t>(pool.size(), 6))];
          g.dtype(v) == t)
        return v;
    return {};
  }

  // Returns a value that provably broadcasts with x, without assuming equal sizes.
  ValueId partner(const Graph& g, const std::vector<ValueId>& pool, ValueId x, DType t) {
    for (int i = 0; i < 10; ++i) {
      const ValueId y = choose(g, pool, t);
      if (!y.valid()) return {};
      bool fits = true;
      const auto a = g.dims(x), b = g.dims(y);
      for (size_t k = 1; k <= std::min(a.size(), b.size()); ++k) {
        const Dim p = a[a.size() - k], q = b[b.size() - k];
        fits = fits && (p == q || p == Dim(1) || q == Dim(1));
      }
      if (fits) return y;
    }
    return {};
  }

  void fill(Builder& b, std::vector<ValueId>& pool, int count, int depth) {
    for (int made = 0, tries = 0; made < count && tries < 20 * count; ++tries) {
      const ValueId v = step(b, pool, depth);
      if (!v.valid()) continue;
      int64_t elements = 1;
      for (Dim d : b.graph().dims(v)) elements *= d.is_static() ? d.size() : 4;
      if (elements > 2000 || b.graph().rank(v) > 5) {
        b.graph().erase(b.graph().def(v));
        continue;
      }
      pool.push_back(v);
      ++made;
    }
  }

  // The draws of a step are statements of their own: compilers evaluate arguments in different orders.
  ValueId joined(Builder& b, const std::vector<ValueId>& pool, const std::vector<OpKind>& ops, ValueId x) {
    const ValueId y = partner(b.graph(), pool, x, DType::F32);
    const OpKind op = pick(ops);
    return y.valid() ? b.create(op, {x, y}) : ValueId();
  }

  ValueId step(Builder& b, std::vector<ValueId>& pool, int depth) {
    Graph& g = b.graph();
    static const std::vector<OpKind> unary{OpKind::Relu, OpKind::Tanh, OpKind::Sigmoid, OpKind::Neg,
                                           OpKind::Abs,  OpKind::Gelu, OpKind::Silu,    OpKind::Erf,
                                           OpKind::Sin,  OpKind::Neg,  OpKind::Tanh,    OpKind::Softplus};
    static const std::vector<OpKind> binary{OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::Add,
                                            OpKind::Mul, OpKind::Max, OpKind::Min};
    static const std::vector<OpKind> compare{OpKind::Lt, OpKind::Le, OpKind::Gt, OpKind::Ge};
    static const std::vector<OpKind> integer{OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::Max, OpKind::Min};
    const ValueId x = choose(g, pool, DType::F32);
    if (!x.valid()) return {};
    const int rank = g.rank(x);
    const int64_t axis = rank ? static_cast<int64_t>(below(static_cast<uint64_t>(rank))) : 0;
    const Dim size = rank ? g.dims(x)[static_cast<size_t>(axis)] : Dim(1);
    switch (below(24)) {
      case 0:
      case 1:
      case 2: return b.unary(pick(unary), x);
      case 3:
      case 4:
      case 5: return joined(b, pool, binary, x);
      case 6: {
        const ValueId y = b.scalar(DType::F32, pick(std::vector<double>{0, 1, 2, 0.5, -1, 3}));
        return b.create(pick(binary), {x, y});
      }
      case 7: return joined(b, pool, compare, x);
      case 8: {
        const ValueId c = partner(g, pool, x, DType::Bool);
        return c.valid() ? b.create(OpKind::Where, {c, x, b.scalar(DType::F32, real())}) : ValueId();
      }
      case 9: {
        const ValueId n = choose(g, pool, DType::I64);
        if (!n.valid()) return {};
        if (below(2)) return b.cast(n, DType::F32);
        const ValueId y = b.scalar(DType::I64, static_cast<double>(below(4)));
        return b.create(pick(integer), {n, y});
      }
      case 10: {
        const ValueId p = choose(g, pool, DType::Bool);
        return p.valid() ? b.cast(p, below(2) ? DType::F32 : DType::I64) : ValueId();
      }
      case 11: {  // merge two axes, or insert one of size 1
        std::vector<Dim> d(g.dims(x).begin(), g.dims(x).end());
        if (rank >= 2 && below(2)) {
          const size_t at = below(static_cast<uint64_t>(rank) - 1);
          d[at] = module_.dims.mul(d[at], d[at + 1]);
          d.erase(d.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        } else {
          d.insert(d.begin() + static_cast<std::ptrdiff_t>(below(static_cast<uint64_t>(rank) + 1)), Dim(1));
        }
        return b.create(OpKind::Reshape, {x}, DimsAttrs{d, false});
      }
      case 12:
      case 13: {
        std::vector<int64_t> perm(static_cast<size_t>(rank));
        for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
        for (size_t i = perm.size(); i > 1; --i) std::swap(perm[i - 1], perm[below(i)]);
        return b.create(OpKind::Transpose, {x}, PermAttrs{perm});
      }
      case 14: {
        if (!rank || !size.is_static()) return {};
        const int64_t start = static_cast<int64_t>(below(static_cast<uint64_t>(size.size())));
        return b.narrow(x, axis, start, 1 + static_cast<int64_t>(below(static_cast<uint64_t>(size.size() - start))));
      }
      case 15: {
        const ValueId y = choose(g, pool, DType::F32);
        bool fits = g.rank(y) == rank;
        for (int i = 0; fits && i < rank; ++i)
          fits = i == axis || g.dims(x)[static_cast<size_t>(i)] == g.dims(y)[static_cast<size_t>(i)];
        const std::vector<ValueId> parts{x, fits ? y : x};
        return rank ? b.concat(parts, axis) : ValueId();
      }
      case 16: {
        std::vector<Dim> d(g.dims(x).begin(), g.dims(x).end());
        for (Dim& k : d)
          if (k == Dim(1) && below(2)) k = Dim(3);
        if (below(3) == 0) d.insert(d.begin(), Dim(2));
        return b.create(OpKind::Expand, {x}, DimsAttrs{d, false});
      }
      case 17: {
        if (!rank || !size.is_static()) return {};
        std::vector<int64_t> index;
        for (int i = 0; i < 3; ++i) index.push_back(static_cast<int64_t>(below(static_cast<uint64_t>(size.size()))));
        return b.create(OpKind::Gather, {x, b.ints(index)}, AxisAttrs{axis});
      }
      case 18: {
        if (!rank) return {};
        const bool keep = below(2) == 0;
        return b.reduce(pick(std::vector<ReduceOp>{ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max}), x, {axis}, keep);
      }
      case 19:
      case 20: {
        if (rank < 2 || !g.dims(x).back().is_static()) return {};
        const int64_t k = g.dims(x).back().size();
        if (k > 16) return {};
        const std::vector<int64_t> shape = below(2) ? std::vector<int64_t>{k, 4} : std::vector<int64_t>{4, k};
        const bool transposed = shape[0] != k || (k == 4 && below(2));
        return b.matmul(x, b.constant(random_data(shape)), false, transposed);
      }
      case 21: return rank ? b.create(OpKind::Softmax, {x}, AxisAttrs{axis}) : ValueId();
      case 22: return rank ? b.create(OpKind::LayerNorm, {x}, NormAttrs{axis, 1e-3}) : ValueId();
      default: return options_.control_flow && depth < 2 ? make_if(b, pool, depth) : ValueId();
    }
  }

  ValueId make_if(Builder& b, const std::vector<ValueId>& pool, int depth) {
    Graph& g = b.graph();
    ValueId condition;
    for (ValueId v : pool)
      if (g.dtype(v) == DType::Bool && num_elements(g.type(v)) == 1) condition = v;
    if (!condition.valid() || below(4) == 0) condition = b.scalar(DType::Bool, static_cast<double>(below(2)));
    std::vector<ValueId> operands{condition};
    for (int i = 0; i < 3; ++i) operands.push_back(choose(g, pool, i == 2 ? DType::Bool : DType::F32));
    if (std::ranges::any_of(operands, [](ValueId v) { return !v.valid(); })) return {};
    std::vector<GraphId> bodies;
    for (const char* name : {"then", "else"}) {
      const GraphId id = module_.make_graph(name + std::to_string(module_.graph_count()));
      Builder inner(module_.graph(id));
      std::vector<ValueId> local;
      for (size_t i = 1; i < operands.size(); ++i) local.push_back(inner.input("c" + std::to_string(i), g.type(operands[i])));
      fill(inner, local, 6, depth + 1);
      std::vector<int64_t> axes;
      const ValueId x = choose(inner.graph(), local, DType::F32);
      for (int i = 0; i < inner.graph().rank(x); ++i) axes.push_back(i);
      const ValueId total = inner.reduce(ReduceOp::Mean, x, axes, false);
      inner.graph().add_output(inner.add(local[0], total), {});
      bodies.push_back(id);
    }
    const NodeId n = b.create_node(OpKind::If, operands, IfAttrs{}, bodies);
    return n.valid() ? g.result(n) : ValueId();
  }

  Module& module_;
  const RandomGraphOptions& options_;
  std::mt19937_64 random_;
};

}  // namespace

std::unique_ptr<Module> random_graph(const RandomGraphOptions& options) {
  auto m = std::make_unique<Module>("random");
  Generator(*m, options).run();
  return m;
}

}  // namespace rlxc::testing
