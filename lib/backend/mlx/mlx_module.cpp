#include "backend/mlx/mlx_module.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <map>

#include "backend/graph_package.h"
#include "codegen/control_flow_dims.h"
#include "codegen/equal_sizes.h"
#include "ir/dim_postfix.h"
#include "ir/graphs.h"
#include "passes/match.h"
#include "support/number.h"
#include "support/text.h"

namespace rlxc::mlx {
namespace {

constexpr int64_t kGroups[] = {128, 64, 32};  // of mx.quantized_matmul, in its mode "affine"
constexpr int64_t kMostSteps = 64;            // of a Scan in a compiled function, which has its body once per step

std::string python_number(double v) {
  if (std::isnan(v)) return "math.nan";
  if (std::isinf(v)) return v > 0 ? "math.inf" : "-math.inf";
  return shortest(v);
}

// Kinds whose names are taken in Python get a trailing underscore.
std::string function(OpKind op) {
  constexpr std::string_view kTaken[] = {"and", "or", "not", "abs", "max", "min", "pow", "round", "range", "slice"};
  std::string s(name(op));
  for (std::string_view t : kTaken)
    if (s == t) return s + "_";
  return s;
}

std::bitset<kOpCount> functions() {
  std::bitset<kOpCount> kinds;
#define MLX_FUNCTION(kind) kinds.set(static_cast<size_t>(OpKind::kind));
#include "backend/mlx/functions.def"
#undef MLX_FUNCTION
  return kinds;
}

bool has_function(OpKind op) {
  static const std::bitset<kOpCount> kinds = functions();
  return kinds.test(static_cast<size_t>(op));
}

constexpr DType kTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::I16, DType::I32,
                            DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool,
                            DType::C64, DType::I4,  DType::U4,   DType::I2,  DType::U2};

// Types of inputs and weights that from_bytes of rlxc_mlx_model.py widens.
constexpr DType kRead[] = {DType::F64, DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1};

// Kinds that read the elements of an operand on the host, beside control flow.
constexpr OpKind kReading[] = {OpKind::NonZero, OpKind::Unique, OpKind::NonMaxSuppression, OpKind::Iota, OpKind::ReshapeTo};

std::string parameters_of(OpKind op, double alpha, double beta) {
  if (std::holds_alternative<ClampAttrs>(default_attrs(op)))
    return "min=" + python_number(alpha) + ", max=" + python_number(beta);
  if (std::holds_alternative<AlphaBetaAttrs>(default_attrs(op)))
    return "alpha=" + python_number(alpha) + ", beta=" + python_number(beta);
  return "";
}

// Attributes as keyword arguments. Those that have the default of every function of the host are left out.
class Keywords {
 public:
  explicit Keywords(const DimTable& dims) : dims_(dims) {}

  template <class T>
  void operator()(std::string_view key, const T& value) {
    const std::string s = text(value);
    if (!s.empty() && !is_default(key, s)) out_ += ", " + std::string(key) + "=" + s;
  }
  std::string take() { return std::move(out_); }

 private:
  static bool is_default(std::string_view key, std::string_view value) {
    constexpr std::pair<std::string_view, std::string_view> kDefaults[] = {
        {"scalar", "False"},  {"saturate", "True"},      {"act", "None"},          {"window", "0"},
        {"softcap", "0"},     {"k_transposed", "False"}, {"finite_mask", "False"}, {"gate_first", "False"},
        {"scale", "0"},       {"num_heads", "0"},        {"num_kv_heads", "0"},    {"head_dim", "0"},
        {"n_rot", "0"},       {"batch_dims", "0"},       {"layout", "\"bhsd\""},   {"out_layout", "\"bhsd\""},
        {"mask", "\"none\""}, {"style", "\"neox\""},     {"output_padding", "[]"}};
    return std::ranges::any_of(kDefaults, [&](const auto& d) { return d.first == key && d.second == value; });
  }

  std::string text(bool v) const { return v ? "True" : "False"; }
  std::string text(int64_t v) const { return std::to_string(v); }
  std::string text(double v) const { return python_number(v); }
  std::string text(DType v) const { return dtype_text(v); }
  std::string text(const std::string& v) const { return ForeignText(v).python_string(); }
  std::string text(Dim v) const { return dim_python(dims_, v, "n"); }
  std::string text(DataId) const { return ""; }
  std::string text(const std::vector<RegionStep>&) const { return ""; }
  std::string text(const Epilogue& v) const {
    if (!v.has) return "None";
    const std::string parameters = parameters_of(v.op, v.alpha, v.beta);
    return "(ops." + function(v.op) + ", dict(" + parameters + "))";
  }
  template <class E>
  requires std::is_enum_v<E> std::string text(E v)
  const { return ForeignText(enum_names(v)[static_cast<size_t>(v)]).python_string(); }
  template <class T>
  std::string text(const std::vector<T>& v) const {
    std::string s = "[";
    for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + text(v[i]);
    return s + "]";
  }

  const DimTable& dims_;
  std::string out_;
};

class Writer {
 public:
  Writer(const codegen::Package& p, Diagnostics& d) : p_(p), m_(*p.lir->module), d_(d), extents_(*p.lir) {}

  ModuleText run() {
    size_t weight = 0;
    std::string graphs;
    for (GraphId g : graphs_in_use(m_)) out_.traceable = out_.traceable && traceable(m_.graph(g));
    for (size_t i = 0; i < m_.graph_count(); ++i) graphs += graph(m_.graph(GraphId(i)), &weight);
    std::string results;
    for (const std::string& s : slots_) results += "        " + s + ",\n";
    out_.functions =
        regions_ +
        "\n\ndef prepare(raw):\n    \"\"\"What the graphs read as w: weights, and what depends on weights alone.\"\"\"\n" +
        prepare_ + "    return [" + (results.empty() ? "]" : "\n" + results + "    ]") + "\n" + graphs;
    return std::move(out_);
  }

 private:
  // Whether Python text depends on sizes of a run.
  static bool reads_sizes(std::string_view text) { return text.find("n[") != text.npos || text.find("size(n,") != text.npos; }
  static std::string local(ValueId v) { return v.valid() ? "v" + std::to_string(v.raw) : "None"; }

  // Whether nodes read data on the host, or repeat their bodies often.
  static bool traceable(const Graph& g) {
    for (NodeId n : g.nodes()) {
      const OpKind op = g.op(n);
      if (op == OpKind::Scan) {
        const Dim steps = g.dims(g.operand(n, static_cast<size_t>(g.attrs<ScanAttrs>(n).states)))[0];
        if (!steps.is_static() || steps.size() > kMostSteps) return false;
      } else if (has_trait(op, kBody) || std::ranges::count(kReading, op) > 0 ||
                 (op == OpKind::Trilu && g.operand(n, 1).valid())) {
        return false;
      }
    }
    return true;
  }

  std::string graph(const Graph& g, size_t* weight) {
    fixed_.assign(g.value_capacity(), "");
    prefix_ = g.id() == m_.main().id() ? "" : "g" + std::to_string(g.id().raw) + "_";
    std::string head = "def graph_" + std::to_string(g.id().raw) + "(n, w", body;
    for (NodeId n : g.inputs()) head += ", " + local(g.result(n));
    const std::vector<bool> unused = unused_nodes(g);
    for (NodeId n : g.nodes()) {
      if (unused[n.raw]) continue;
      if (is_weight(g.op(n))) fixed_[g.result(n).raw] = "raw[" + std::to_string((*weight)++) + "]";
      if (!fits(g, n) || has_trait(g.op(n), kLeaf | kTerminator)) continue;
      const std::string label = "  # " + g.label(n).line() + "\n";
      if (is_fixed(g, n)) {
        preparing_ = true;
        const std::string line = "    " + node(g, n, prefix_) + label;
        preparing_ = false;
        if (!reads_sizes(line)) {
          prepare_ += line;
          for (size_t r = 0; r < g.result_count(n); ++r) fixed_[g.result(n, r).raw] = prefix_ + local(g.result(n, r));
          continue;
        }
      }
      body += "    " + node(g, n, "") + label;
      for (const auto& [symbol, size] : bound_symbols(g, n)) body += "    n[" + symbol + "] = " + size + "\n";
    }
    body += "    return (";
    for (ValueId v : g.outputs()) body += operand(v) + ", ";
    return "\n\n" + head + "):\n" + body + ")\n";
  }

  // Nodes that only make indices of writes of consecutive rows, which become slices.
  std::vector<bool> unused_nodes(const Graph& g) const {
    std::map<uint32_t, size_t> dropped;  // uses, by value
    std::vector<bool> unused(g.node_capacity());
    std::vector<NodeId> work;
    const auto drop = [&](ValueId v) {
      const NodeId d = g.def(v);
      if (++dropped[v.raw] == g.use_count(v) && g.result_count(d) == 1 && !has_trait(g.op(d), kLeaf)) work.push_back(d);
    };
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::ScatterElements && consecutive_rows(*p_.lir, g, n)) drop(g.operand(n, 1));
    for (size_t i = 0; i < work.size(); ++i) {
      unused[work[i].raw] = true;
      for (ValueId v : g.operands(work[i]))
        if (v.valid()) drop(v);
    }
    return unused;
  }

  // Whether all operands are known when the model is loaded.
  bool is_fixed(const Graph& g, NodeId n) const {
    if (has_trait(g.op(n), kBody) || std::ranges::count(kReading, g.op(n)) > 0) return false;
    return std::ranges::all_of(g.operands(n), [&](ValueId v) { return !v.valid() || !fixed_[v.raw].empty(); });
  }

  // Operands. What is fixed is an element of w in a graph, and a variable in prepare().
  std::string operand(ValueId v) { return v.valid() && !fixed_[v.raw].empty() ? slot(fixed_[v.raw]) : local(v); }
  std::string slot(const std::string& text) {
    if (preparing_) return text;
    const auto [at, is_new] = known_slots_.try_emplace(text, slots_.size());
    if (is_new) slots_.push_back(text);
    return "w[" + std::to_string(at->second) + "]";
  }
  // A call of the host that rearranges operands: by prepare() if they are fixed.
  std::string arranged(std::string_view called, const std::vector<ValueId>& values, const std::string& keywords = "") {
    const bool fixed = std::ranges::all_of(values, [&](ValueId v) { return !v.valid() || !fixed_[v.raw].empty(); });
    std::string arguments;
    for (ValueId v : values) {
      const std::string text = !v.valid() ? "None" : fixed ? fixed_[v.raw] : operand(v);
      arguments += (arguments.empty() ? "" : ", ") + text;
    }
    const std::string all = "ops." + std::string(called) + "(" + arguments + keywords + ")";
    return fixed ? slot(all) : all;
  }

  bool holds(const Type& t) const { return t.kind == TypeKind::Tensor && std::ranges::count(kTypes, t.dtype) > 0; }

  bool fits(const Graph& g, NodeId n) {
    std::string reason;
    const bool leaf = has_trait(g.op(n), kLeaf), last = has_trait(g.op(n), kTerminator);
    const OpKind op = g.op(n);
    if (op == OpKind::ElementwiseRegion) {
      for (const RegionStep& s : g.attrs<FusionAttrs>(n).steps)
        if (!has_function(s.op)) reason = "no " + std::string(kind_name(s.op)) + " on MLX";
    } else if (!leaf && !last && !has_form(op)) {
      reason = "no " + std::string(kind_name(op)) + " on MLX";
    }
    const auto check = [&](const Type& t, bool read) {
      if (!holds(t) && !(read && t.kind == TypeKind::Tensor && std::ranges::count(kRead, t.dtype)))
        reason = "MLX has no values of type " + text(t, m_.dims);
    };
    for (size_t r = 0; r < g.result_count(n); ++r) check(g.type(g.result(n, r)), leaf);
    if (last)
      for (ValueId v : g.operands(n)) check(g.type(v), false);
    if (!reason.empty())
      d_.error(Code::UnsupportedOnTarget, "the mlx target: " + reason,
               "node " + g.label(n).quoted() + " (" + std::string(kind_name(op)) + ")");
    return reason.empty();
  }

  // A line that computes the results, whose names begin with `prefix`.
  std::string node(const Graph& g, NodeId n, const std::string& prefix) {
    std::string results;
    const bool control = has_trait(g.op(n), kBody);
    for (size_t r = 0; r < g.result_count(n); ++r) results += (r ? ", " : "") + prefix + local(g.result(n, r));
    if (control && g.result_count(n) == 1) results += ",";
    if (!control) return results + " = " + value(g, n);
    std::string arguments;
    for (ValueId v : g.operands(n)) arguments += (arguments.empty() ? "" : ", ") + operand(v);
    return results + " = " + control_call(g, n, arguments);
  }

  // The call that computes a node.
  std::string value(const Graph& g, NodeId n) {
    const OpKind op = g.op(n);
    std::vector<std::string> arguments(g.operands(n).size());  // empty: the operand as it is
    const auto rearrange = [&](size_t i, std::string_view called, const std::string& keywords = "") {
      arguments[i] = arranged(called, {g.operand(n, i)}, keywords);
    };
    const auto given = [&](size_t i) { return g.operand(n, i).valid(); };
    std::string called = function(op);
    Keywords keywords(m_.dims);
    const auto reflect = [&](const auto& a) { std::decay_t<decltype(a)>::reflect(a, keywords); };
    bool all_attributes = true;
    switch (op) {
      case OpKind::ElementwiseRegion: called = region(g, n), all_attributes = false; break;
      case OpKind::MatMul: {
        const auto& a = g.attrs<MatMulAttrs>(n);
        if (a.trans_a) rearrange(0, "swapped");
        if (a.trans_b) rearrange(1, "swapped");
        all_attributes = false;
        break;
      }
      case OpKind::FusedMatMulBiasAct: {
        const auto& a = g.attrs<FusedMatMulAttrs>(n);
        if (a.trans_a) rearrange(0, "swapped");
        if (a.trans_b) rearrange(1, "swapped");
        all_attributes = false;
        keywords("act", a.act);
        break;
      }
      case OpKind::FusedMatMulSwiGLU: {
        const auto& a = g.attrs<GatedMatMulAttrs>(n);
        if (a.trans_b) rearrange(1, "swapped");
        all_attributes = false;
        keywords("gate_first", a.gate_first);
        keywords("act", a.act);
        break;
      }
      case OpKind::DequantMatMul: return dequant_matmul(g, n);
      case OpKind::QMatMul:
        arguments[1] =
            arranged("centred", given(3) ? std::vector{g.operand(n, 1), g.operand(n, 3)} : std::vector{g.operand(n, 1)});
        arguments.resize(std::min<size_t>(arguments.size(), 3));
        break;
      case OpKind::Conv:
      case OpKind::FusedConvBiasAct: rearrange(1, "channels_last"); break;
      case OpKind::ConvTranspose:
        rearrange(1, "transposed_kernel", ", groups=" + std::to_string(g.attrs<ConvAttrs>(n).groups));
        break;
      case OpKind::QConv: {
        std::vector<ValueId> w = {g.operand(n, 1)};
        if (given(3)) w.push_back(g.operand(n, 3));
        arguments[1] = arranged("conv_codes", w);
        arguments.resize(std::min<size_t>(arguments.size(), 3));
        break;
      }
      case OpKind::LayerNorm:
      case OpKind::RmsNorm: flatten(g, n, 1, rearrange); break;
      case OpKind::FusedResidualLN:
      case OpKind::FusedResidualRmsNorm: flatten(g, n, 3, rearrange); break;
      case OpKind::GroupNorm:
        for (size_t i : {1, 2})
          if (given(i)) rearrange(i, "per_channel", ", rank=" + std::to_string(g.rank(g.operand(n, 0)) - 1));
        break;
      case OpKind::Rope: {
        const bool by_head = g.attrs<RopeAttrs>(n).layout == AttentionLayout::BHSD;
        for (size_t i : {1, 2})
          if (const int rank = g.rank(g.operand(n, i)); by_head ? rank == 3 : rank > 1)
            rearrange(i, "heads_table", by_head ? ", axis=1" : ", axis=-2");
        if (given(3) && by_head && g.rank(g.operand(n, 3)) == 2) rearrange(3, "heads_table", ", axis=1");
        break;
      }
      case OpKind::Attention:
        if (given(3) && g.attrs<AttentionAttrs>(n).mask != MaskKind::Bias && g.dtype(g.operand(n, 3)) != DType::Bool)
          rearrange(3, "keep");
        if (given(3) && g.attrs<AttentionAttrs>(n).mask == MaskKind::Bias &&
            g.dtype(g.operand(n, 3)) != g.dtype(g.operand(n, 0)) && g.attrs<AttentionAttrs>(n).softcap == 0)
          rearrange(3, "cast", ", to=" + dtype_text(g.dtype(g.operand(n, 0))));
        break;
      case OpKind::ScatterElements:
        if (const auto start = consecutive_rows(*p_.lir, g, n))
          return "ops.put_slice(" + operand(g.operand(n, 0)) + ", " + operand(g.operand(n, 2)) + ", " + operand(*start) +
                 ", axis=" + std::to_string(g.attrs<ScatterAttrs>(n).axis) + ")";
        break;
      case OpKind::GatherNd:
        if (!fixed_[g.operand(n, 1).raw].empty() && g.attrs<BatchDimsAttrs>(n).batch_dims == 0) {
          Keywords sizes(m_.dims);
          const auto depth = static_cast<size_t>(g.dims(g.operand(n, 1)).back().size());
          const auto all = g.dims(g.operand(n, 0));
          sizes("dims", std::vector<Dim>(all.begin(), all.begin() + static_cast<ptrdiff_t>(depth)));
          const std::string dims = sizes.take();
          if (reads_sizes(dims)) break;
          return "ops.gather_rows(" + operand(g.operand(n, 0)) + ", " + arranged("linear_index", {g.operand(n, 1)}, dims) +
                 ", depth=" + std::to_string(depth) + ")";
        }
        break;
      case OpKind::Range:
        if (match::is_scalar(g, g.operand(n, 0), 0) && match::is_scalar(g, g.operand(n, 1), 1)) {
          Keywords size(m_.dims);
          size("dims", g.attrs<DimsAttrs>(n).dims);
          return "ops.positions(" + size.take().substr(2) + ", to=" + dtype_text(g.dtype(g.result(n))) + ")";
        }
        break;
      default: break;
    }
    if (all_attributes) std::visit(reflect, m_.attrs[g.attr_id(n)]);
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].empty()) arguments[i] = operand(g.operand(n, i));
    while (!arguments.empty() && arguments.back() == "None") arguments.pop_back();
    std::string all = joined(arguments) + keywords.take();
    if (arguments.empty() && all.starts_with(", ")) all.erase(0, 2);
    return (op == OpKind::ElementwiseRegion ? "" : "ops.") + called + "(" + all + ")";
  }

  static std::string joined(const std::vector<std::string>& all) {
    std::string s;
    for (const std::string& a : all) s += (s.empty() ? "" : ", ") + a;
    return s;
  }

  // Factors and terms of norms over several axes become vectors.
  template <class F>
  static void flatten(const Graph& g, NodeId n, size_t first, const F& rearrange) {
    for (size_t i : {first, first + 1})
      if (g.operand(n, i).valid() && g.rank(g.operand(n, i)) != 1) rearrange(i, "flat");
  }

  // The group of mx.quantized_matmul that is exact for a weight; or why there is none.
  static std::pair<int64_t, std::string> group_of(const Graph& g, NodeId n) {
    const auto& a = g.attrs<DequantMatMulAttrs>(n);
    const Dim terms = g.dims(g.operand(n, 1))[a.trans_b];
    if (!is_integer(g.dtype(g.operand(n, 1)))) return {0, "its codes are floats"};
    const int64_t scales = g.dims(g.operand(n, 2))[a.trans_b].is_static() ? g.dims(g.operand(n, 2))[a.trans_b].size() : 0;
    if (!terms.is_static() || scales == 0) return {0, "its size is unknown"};
    for (int64_t size : kGroups) {
      const int64_t block = a.block == 0 || scales == 1 ? terms.size() : a.block;
      if (block % size == 0 && terms.size() % block == 0) return {size, ""};
    }
    return {0, "MLX has groups of 32, 64 and 128, which do not divide blocks of " +
                   std::to_string(a.block == 0 ? terms.size() : a.block)};
  }

  std::string dequant_matmul(const Graph& g, NodeId n) {
    const auto& a = g.attrs<DequantMatMulAttrs>(n);
    const auto has = [&](size_t i) { return g.operand(n, i).valid(); };
    std::vector<ValueId> w = {g.operand(n, 1), g.operand(n, 2)};
    if (has(3)) w.push_back(g.operand(n, 3));
    const auto in = [&](size_t i) { return operand(g.operand(n, i)); };
    const bool fixed = std::ranges::all_of(w, [&](ValueId v) { return !fixed_[v.raw].empty(); });
    const auto [group, reason] = group_of(g, n);
    const std::string transposed = a.trans_b ? ", trans_b=True" : "", to = ", to=" + dtype_text(g.dtype(g.operand(n, 0)));
    const bool packs = fixed && group != 0;
    const std::string weight =
        packs ? arranged("quantized", w, transposed + ", group=" + std::to_string(group) + to)
              : arranged("dequantized", w, transposed + (a.block ? ", block=" + std::to_string(a.block) : "") + to);
    if (packs) ++out_.packed;
    else out_.dense.emplace_back(g.label(n), fixed ? reason : "its codes are computed by each run");
    const std::string x = a.int8_x ? "ops.rounded_rows(" + in(0) + ", " + std::to_string(a.block) + ")" : in(0);
    std::string product = std::string(packs ? "ops.dequant_matmul(" : "ops.fused_matmul_bias_act(") + x + ", " + weight;
    if (has(4) || has(5)) product += ", " + (has(4) ? in(4) : "None");
    if (has(5)) product += ", " + in(5);
    Keywords keywords(m_.dims);
    if (!a.gated) {
      keywords("act", a.act);
      return product + keywords.take() + ")";
    }
    keywords("gate_first", a.gate_first);
    keywords("act", a.act);
    return "ops.fused_swiglu(" + product + ")" + keywords.take() + ")";
  }

  // Returns the data-dependent dims that the node defines: symbol, and its value after the node.
  std::map<std::string, std::string> bound_symbols(const Graph& g, NodeId n) const {
    std::map<std::string, std::string> sizes;
    for (uint32_t i = 0; const auto extent = extents_.of_node(g, n, i); ++i)
      for (size_t r = 0; r < g.result_count(n); ++r)
        for (size_t axis = 0; axis < g.dims(g.result(n, r)).size(); ++axis)
          if (symbol_name(m_.dims, g.dims(g.result(n, r))[axis]) == p_.lir->extents[*extent].symbol)
            sizes.try_emplace(p_.lir->extents[*extent].symbol.python_string(),
                              local(g.result(n, r)) + ".shape[" + std::to_string(axis) + "]");
    return sizes;
  }

  // Returns the arguments of a loop or scan: carried extents, and the rows of stacked results.
  std::string iterated(const Graph& g, NodeId n) const {
    codegen::Command s;
    s.kind = g.op(n) == OpKind::Loop ? codegen::Command::Kind::Loop : codegen::Command::Kind::Scan;
    s.graph = g.id();
    s.node = n;
    extents_.tell(&s);
    const auto name = [&](uint32_t e) { return p_.lir->extents[e].symbol.python_string(); };
    std::string carried, rows;
    for (const codegen::ControlFlowDim& e : s.extents)
      carried += "(" + name(e.extent) + ", " + dim_python(m_.dims, e.size[0], "n") +
                 ", lambda: " + dim_python(m_.dims, e.size[1], "n") + "), ";
    const Graph& body = m_.graph(g.bodies(n)[0]);
    for (size_t k = 0; k < s.stacked.size(); ++k) {
      const ValueId row = body.outputs()[body.outputs().size() - s.stacked.size() + k];
      rows += "(lambda: [";
      for (Dim d : body.dims(row)) rows += dim_python(m_.dims, d, "n") + ", ";
      rows += "], " + dtype_text(body.dtype(row)) + ", [";
      for (uint32_t e : s.stacked[k].changing) rows += name(e) + ", ";
      rows += "]), ";
    }
    const std::string stacked = ", n=n, stacked=[" + rows + "]";
    return s.kind == codegen::Command::Kind::Loop ? stacked + ", extents=[" + carried + "]" : stacked;
  }

  std::string control_call(const Graph& g, NodeId n, const std::string& arguments) {
    const auto body = [&](size_t i) { return "lambda *a: graph_" + std::to_string(g.bodies(n)[i].raw) + "(n, w, *a)"; };
    if (g.op(n) == OpKind::If) {
      const size_t comma = arguments.find(", ");
      const std::string rest = comma == arguments.npos ? "" : arguments.substr(comma);
      Keywords equal(m_.dims);
      const auto& a = g.attrs<IfAttrs>(n);
      equal("then_equal", given_pairs(p_, a.then_equal));
      equal("else_equal", given_pairs(p_, a.else_equal));
      return "ops.branch(" + arguments.substr(0, comma) + ", " + body(0) + ", " + body(1) + rest + equal.take() + ")";
    }
    if (g.op(n) == OpKind::Loop)
      return "ops.loop(" + arguments + ", body=" + body(0) + ", carries=" + std::to_string(g.attrs<LoopAttrs>(n).carries) +
             iterated(g, n) + ")";
    Keywords keywords(m_.dims);
    const auto& a = g.attrs<ScanAttrs>(n);
    keywords("states", a.states);
    keywords("scan_inputs", a.scan_inputs);
    keywords("input_reverse", a.input_reverse);
    keywords("output_reverse", a.output_reverse);
    return "ops.scan(" + arguments + ", body=" + body(0) + keywords.take() + iterated(g, n) + ")";
  }

  // Returns a function of the steps. Equal regions share one. Where the graph as a whole can't be compiled, MLX compiles each.
  std::string region(const Graph& g, NodeId n) {
    std::string body, head;
    const auto& steps = g.attrs<FusionAttrs>(n).steps;
    for (size_t i = 0; i < g.operands(n).size(); ++i) head += (i ? ", i" : "i") + std::to_string(i);
    for (size_t s = 0; s < steps.size(); ++s) {
      std::string arguments;
      for (uint16_t a : steps[s].args)
        if (a != RegionStep::kNone)
          arguments += (arguments.empty() ? "" : ", ") + std::string(a & RegionStep::kStep ? "s" : "i") +
                       std::to_string(a & ~RegionStep::kStep);
      const std::string parameters = steps[s].op == OpKind::Cast ? "to=" + dtype_text(steps[s].dtype)
                                                                 : parameters_of(steps[s].op, steps[s].alpha(), steps[s].beta());
      const std::string call =
          "ops." + function(steps[s].op) + "(" + arguments + (parameters.empty() ? "" : ", " + parameters) + ")\n";
      body += s + 1 < steps.size() ? "    s" + std::to_string(s) + " = " + call : "    return " + call;
    }
    const std::string key = head + ":" + body;
    for (size_t i = 0; i < known_.size(); ++i)
      if (known_[i] == key) return "region_" + std::to_string(i);
    known_.push_back(key);
    const std::string called = "region_" + std::to_string(known_.size() - 1);
    regions_ += std::string("\n\n") + (out_.traceable ? "" : "@ops.compiled\n") + "def " + called + "(" + head + "):\n" + body;
    return called;
  }

  const codegen::Package& p_;
  const Module& m_;
  Diagnostics& d_;
  const codegen::ControlFlowDims extents_;
  ModuleText out_;
  std::vector<std::string> fixed_;  // by value of the graph: its expression in prepare(), or ""
  std::string prefix_;              // of the graph's variables in prepare()
  bool preparing_ = false;          // the text is for prepare()
  std::vector<std::string> slots_;  // elements of w
  std::map<std::string, size_t> known_slots_;
  std::vector<std::string> known_;
  std::string regions_, prepare_;
};

}  // namespace

bool has_form(OpKind op) { return has_trait(op, kBody) || op == OpKind::ElementwiseRegion || has_function(op); }

std::span<const DType> value_types() { return kTypes; }

std::string dtype_text(DType t) {
  switch (t) {
    case DType::F32: return "mx.float32";
    case DType::F16: return "mx.float16";
    case DType::BF16: return "mx.bfloat16";
    case DType::I8: return "mx.int8";
    case DType::I16: return "mx.int16";
    case DType::I32: return "mx.int32";
    case DType::I64: return "mx.int64";
    case DType::U8: return "mx.uint8";
    case DType::U16: return "mx.uint16";
    case DType::U32: return "mx.uint32";
    case DType::U64: return "mx.uint64";
    case DType::Bool: return "mx.bool_";
    case DType::C64: return "mx.complex64";
    case DType::I4: return "ops.I4";
    case DType::U4: return "ops.U4";
    case DType::I2: return "ops.I2";
    case DType::U2: return "ops.U2";
    default: return "None";  // not a type of values
  }
}

ModuleText module_text(const codegen::Package& p, Diagnostics& d) { return Writer(p, d).run(); }

}  // namespace rlxc::mlx
