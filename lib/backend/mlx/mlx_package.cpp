// The Python module of the mlx target: one function per graph, with one call of rlxc_mlx.py per node.
#include <algorithm>
#include <bitset>
#include <cmath>
#include <map>
#include <set>

#include "backend/backend.h"
#include "backend/graph_package.h"
#include "backend/host_files.h"
#include "backend/registry.h"
#include "codegen/control_flow_dims.h"
#include "codegen/equal_sizes.h"
#include "ir/dim_postfix.h"
#include "support/number.h"
#include "support/text.h"

namespace rlxc {
namespace {

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

// Files of the host. They define a function for each kind of functions.def.
bool is_part(const HostFile& h) { return h.name.starts_with("rlxc_mlx"); }

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

// Control flow and elementwise regions become functions of the module.
bool has_form(OpKind op) { return has_trait(op, kBody) || op == OpKind::ElementwiseRegion || has_function(op); }

constexpr DType kTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::I16, DType::I32,
                            DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool,
                            DType::C64, DType::I4,  DType::U4,   DType::I2,  DType::U2};

// Types of inputs and weights that from_bytes of rlxc_mlx.py widens.
constexpr DType kRead[] = {DType::F64, DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1};

std::string parameters_of(OpKind op, double alpha, double beta) {
  if (std::holds_alternative<ClampAttrs>(default_attrs(op)))
    return "min=" + python_number(alpha) + ", max=" + python_number(beta);
  if (std::holds_alternative<AlphaBetaAttrs>(default_attrs(op)))
    return "alpha=" + python_number(alpha) + ", beta=" + python_number(beta);
  return "";
}

// Attributes as keyword arguments.
class Keywords {
 public:
  explicit Keywords(const DimTable& dims) : dims_(dims) {}

  template <class T>
  void operator()(std::string_view key, const T& value) {
    const std::string s = text(value);
    if (!s.empty()) out_ += ", " + std::string(key) + "=" + s;
  }
  std::string take() { return std::move(out_); }

 private:
  std::string text(bool v) const { return v ? "True" : "False"; }
  std::string text(int64_t v) const { return std::to_string(v); }
  std::string text(double v) const { return python_number(v); }
  std::string text(DType v) const { return ForeignText(rlxc::name(v)).python_string(); }
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

class MlxModule {
 public:
  MlxModule(const codegen::Package& p, Diagnostics& d) : p_(p), m_(*p.lir->module), d_(d), extents_(*p.lir) {}

  std::string run() {
    size_t weight = 0;
    std::string graphs;
    for (size_t i = 0; i < m_.graph_count(); ++i) graphs += graph(m_.graph(GraphId(i)), &weight);
    return regions_ + graphs;
  }

 private:
  static std::string local(ValueId v) { return v.valid() ? "v" + std::to_string(v.raw) : "None"; }

  std::string graph(const Graph& g, size_t* weight) {
    names_.assign(g.value_capacity(), "");
    std::string head = "def graph_" + std::to_string(g.id().raw) + "(n, w", body;
    for (NodeId n : g.inputs()) head += ", " + local(g.result(n));
    for (NodeId n : g.nodes()) {
      for (size_t r = 0; r < g.result_count(n); ++r) names_[g.result(n, r).raw] = local(g.result(n, r));
      if (is_weight(g.op(n))) names_[g.result(n).raw] = "w[" + std::to_string((*weight)++) + "]";
      if (!fits(g, n) || has_trait(g.op(n), kLeaf | kTerminator)) continue;
      body += "    " + node(g, n) + "  # " + g.label(n).line() + "\n";
      for (const auto& [symbol, size] : bound_symbols(g, n)) body += "    n[" + symbol + "] = " + size + "\n";
    }
    body += "    return (";
    for (ValueId v : g.outputs()) body += names_[v.raw] + ", ";
    return "\n\n" + head + "):\n" + body + ")\n";
  }

  bool holds(const Type& t) const { return t.kind == TypeKind::Tensor && std::ranges::count(kTypes, t.dtype) > 0; }

  bool fits(const Graph& g, NodeId n) {
    std::string reason;
    const bool leaf = has_trait(g.op(n), kLeaf), last = has_trait(g.op(n), kTerminator);
    const OpKind op = g.op(n);
    if (op == OpKind::ElementwiseRegion) {
      for (const RegionStep& s : g.attrs<RegionAttrs>(n).steps)
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

  std::string node(const Graph& g, NodeId n) {
    std::string results, arguments;
    const bool control = has_trait(g.op(n), kBody);
    for (size_t r = 0; r < g.result_count(n); ++r) results += (r ? ", " : "") + local(g.result(n, r));
    if (control && g.result_count(n) == 1) results += ",";
    for (ValueId v : g.operands(n))
      arguments += (arguments.empty() ? "" : ", ") + (v.valid() ? names_[v.raw] : std::string("None"));
    if (control) return results + " = " + control_call(g, n, arguments);
    if (g.op(n) == OpKind::ElementwiseRegion) return results + " = " + region(g, n) + "(" + arguments + ")";
    Keywords keywords(m_.dims);
    std::visit([&](const auto& a) { std::decay_t<decltype(a)>::reflect(a, keywords); }, m_.attrs[g.attr_id(n)]);
    std::string all = arguments + keywords.take();
    if (arguments.empty() && all.starts_with(", ")) all.erase(0, 2);
    return results + " = ops." + function(g.op(n)) + "(" + all + ")";
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
      rows += "], ops.DTYPES[" + ForeignText(rlxc::name(body.dtype(row))).python_string() + "], [";
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

  // Returns a function that MLX compiles to one kernel. Equal regions share one.
  std::string region(const Graph& g, NodeId n) {
    std::string body, head;
    const auto& steps = g.attrs<RegionAttrs>(n).steps;
    for (size_t i = 0; i < g.operands(n).size(); ++i) head += (i ? ", i" : "i") + std::to_string(i);
    for (size_t s = 0; s < steps.size(); ++s) {
      std::string arguments;
      for (uint16_t a : steps[s].args)
        if (a != RegionStep::kNone)
          arguments += (arguments.empty() ? "" : ", ") + std::string(a & RegionStep::kStep ? "s" : "i") +
                       std::to_string(a & ~RegionStep::kStep);
      const std::string parameters = steps[s].op == OpKind::Cast ? "to=" + ForeignText(name(steps[s].dtype)).python_string()
                                                                 : parameters_of(steps[s].op, steps[s].alpha, steps[s].beta);
      body += "    s" + std::to_string(s) + " = ops." + function(steps[s].op) + "(" + arguments +
              (parameters.empty() ? "" : ", " + parameters) + ")\n";
    }
    body += "    return s" + std::to_string(steps.size() - 1) + "\n";
    const std::string key = head + ":" + body;
    for (size_t i = 0; i < known_.size(); ++i)
      if (known_[i] == key) return "region_" + std::to_string(i);
    known_.push_back(key);
    const std::string called = "region_" + std::to_string(known_.size() - 1);
    regions_ += "\n\n@ops.compiled\ndef " + called + "(" + head + "):\n" + body;
    return called;
  }

  const codegen::Package& p_;
  const Module& m_;
  Diagnostics& d_;
  const codegen::ControlFlowDims extents_;
  std::vector<std::string> names_, known_;
  std::string regions_;
};

constexpr std::string_view kTail = R"(

def run(inputs, weights):
    """Outputs, a list of mx.array, for inputs in order; weights from ops.load_weights."""
    return list(graph_0(ops.sizes_of(inputs, INPUTS, FORMULAS), weights, *inputs))


def main(arguments):
    """WEIGHTS [SIZE=VALUE...] INPUT...: raw files in, output_<i>.bin and a line with its sizes out. WEIGHTS is the folder with the weights."""
    here = os.path.dirname(os.path.abspath(__file__))
    sizes = {a.rsplit("=", 1)[0]: int(a.rsplit("=", 1)[1]) for a in arguments[1:] if "=" in a}
    files = [a for a in arguments[1:] if "=" not in a]
    inputs = []
    for path, port in zip(files, INPUTS):
        with open(path, "rb") as f:
            inputs.append(ops.from_bytes(f.read(), port["dtype"], ops.shape_of(port, sizes, FORMULAS)))
    outputs = run(inputs, ops.load_weights(here, arguments[0]))
    for i, (y, port) in enumerate(zip(outputs, OUTPUTS)):
        with open(f"output_{i}.bin", "wb") as f:
            f.write(ops.to_bytes(y, port["dtype"]))
        print(f"output_{i}.bin [{','.join(map(str, y.shape))}]")


if __name__ == "__main__":
    main(sys.argv[1:])
)";

std::string ports(const Module& m, const std::vector<codegen::Port>& list) {
  std::string s = "[\n";
  for (const codegen::Port& port : list) {
    const Graph& g = m.graph(port.graph);
    s += "    {\"name\": " + port.name.python_string() +
         ", \"dtype\": " + ForeignText(name(g.dtype(port.value))).python_string() + ", \"shape\": [";
    for (Dim d : g.dims(port.value)) {
      const std::string size =
          d.is_static() ? std::to_string(d.size()) : ForeignText(symbol_name(m.dims, d).value_or(m.dims.text(d))).python_string();
      s += (s.back() == '[' ? "" : ", ") + size;
    }
    s += "]},\n";
  }
  return s + "]\n";
}

// Returns the input sizes that are neither numbers nor symbols.
std::string formulas(const Module& m, const std::vector<codegen::Port>& inputs) {
  std::map<std::string, std::string> lines;
  for (const codegen::Port& port : inputs)
    for (Dim d : m.graph(port.graph).dims(port.value)) {
      if (d.is_static() || symbol_name(m.dims, d)) continue;
      std::string symbols;
      for (const std::string& s : m.dims.symbols_of(d)) symbols += ForeignText(s).python_string() + ", ";
      lines[m.dims.text(d)] = "((" + symbols + "), lambda n: " + dim_python(m.dims, d, "n") + ")";
    }
  std::string s = "{";
  for (const auto& [text, line] : lines) s += (s.size() > 1 ? ", " : "") + ForeignText(text).python_string() + ": " + line;
  return s + "}\n";
}

class MlxBackend : public Backend {
 public:
  using Backend::Backend;
  std::optional<std::vector<TextFile>> write(const codegen::Package&, const CpuPackageOptions&, Diagnostics&) const override;
};

// Writes model.py, rlxc_mlx*.py, model.json, README.md.
std::optional<std::vector<TextFile>> MlxBackend::write(const codegen::Package& p, const CpuPackageOptions& options,
                                                       Diagnostics& d) const {
  const std::string graphs = MlxModule(p, d).run();
  if (!d.ok()) return std::nullopt;
  const Module& m = *p.lir->module;
  std::string model = "\"\"\"" + p.name +
                      ": a model compiled by rlxc for MLX. Lines name the nodes that they compute.\"\"\"\nimport math\nimport "
                      "os\nimport sys\n\ntry:\n    import rlxc_mlx as ops\nexcept ImportError as error:\n    if __name__ != "
                      "\"__main__\":\n        raise\n    sys.exit(str(error))\n\n";
  model += "INPUTS = " + ports(m, p.inputs) + "FORMULAS = " + formulas(m, p.inputs) + "OUTPUTS = " + ports(m, p.outputs) +
           graphs + std::string(kTail);
  std::vector<TextFile> files = {{"model.py", std::move(model)}, {"model.json", model_json(p, info.name, options)}};
  for (const HostFile& h : host_files())
    if (is_part(h)) files.push_back({std::string(h.name), std::string(h.text)});
  files.push_back({"README.md", "# " + p.name +
                                    "\n\nA model compiled by rlxc for MLX.\n\n| file | content |\n|---|---|\n| `model.py` | the "
                                    "graph, a line for each node; regions are functions that "
                                    "MLX compiles |\n| `rlxc_mlx*.py` | the operations on mlx.core |\n| `model.json` | inputs, "
                                    "outputs, and where the weights are |\n\n"
                                    "`python3 model.py WEIGHTS [SIZE=VALUE...] INPUT...` runs it on raw files and writes "
                                    "output_<i>.bin. WEIGHTS is the folder with the weights.\n"});
  return files;
}

}  // namespace

static constexpr TargetInfo kMlx = {.name = "mlx",
                                    .emits = "Python module on mlx.core",
                                    .extension = "py",
                                    .supports = has_form,
                                    .dtypes = kTypes,
                                    .machine = {500, 200, 4000, 64, 200e3},
                                    .claims = 2,
                                    .host_run = {.how = HostRun::How::Script, .interpreter = "python3", .script = "model.py"}};

const Backend& mlx_backend() {
  static const MlxBackend backend(kMlx);
  return backend;
}

}  // namespace rlxc
