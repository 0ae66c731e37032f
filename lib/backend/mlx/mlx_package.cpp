// The package of the mlx target: a Python module with a class for the model, and the operations on mlx.core that it calls.
#include <map>

#include "backend/backend.h"
#include "backend/graph_package.h"
#include "backend/host_files.h"
#include "backend/mlx/mlx_module.h"
#include "backend/package_text.h"
#include "backend/registry.h"
#include "ir/bind_dims.h"
#include "ir/dim_postfix.h"

namespace rlxc {
namespace {

// Files of the host. They define a function for each kind of functions.def.
bool is_part(const HostFile& h) { return h.name.starts_with("rlxc_mlx") || h.name == "rlxc_weights.py"; }

std::string port_size(const Module& m, Dim d) {
  if (d.is_static()) return std::to_string(d.size());
  if (const auto symbol = symbol_name(m.dims, d)) return ForeignText(*symbol).python_string();
  std::string symbols;
  for (const std::string& s : m.dims.symbols_of(d)) symbols += ForeignText(s).python_string() + ", ";
  return "ops.Formula((" + symbols + "), lambda n: " + dim_python(m.dims, d, "n") + ")";
}

// A tuple of ports. Inputs that hold indices have a function of the sizes that gives the largest one.
std::string ports(const codegen::Package& p, const std::vector<codegen::Port>& list) {
  const Module& m = *p.lir->module;
  std::string s = "(\n";
  for (size_t i = 0; i < list.size(); ++i) {
    const Graph& g = m.graph(list[i].graph);
    s += "        ops.Port(" + list[i].name.python_string() + ", " + ForeignText(name(g.dtype(list[i].value))).python_string() +
         ", (";
    const auto dims = g.dims(list[i].value);
    for (size_t k = 0; k < dims.size(); ++k) s += (k ? ", " : "") + port_size(m, dims[k]);
    s += dims.size() == 1 ? ",)" : ")";
    for (const IndexInput& x : p.lir->index_inputs)
      if (&list == &p.inputs && x.input == i) s += ", lambda n: " + dim_python(m.dims, x.largest, "n");
    s += "),\n";
  }
  return s + "    )\n";
}

// A function of the named sizes, if the model has any.
std::string named_sizes(const codegen::Package& p) {
  Module& m = *p.lir->module;
  if (m.dims.named_sizes() == 0) return {};
  std::vector<Dim> used = dims_of(m);
  for (const IndexInput& x : p.lir->index_inputs) used.push_back(x.largest);
  const std::vector<size_t> named = m.dims.named_sizes_of(used);
  if (named.empty()) return {};
  std::string s = "\n\n# Named sizes: those that each is computed from, and a function of the symbols and these.\nSIZES = {\n";
  for (size_t i : named) {
    const Dim d = m.dims.named_size(i);
    std::string parts;
    for (const std::string& item : definition_postfix(m.dims, d))
      if (item[0] == '#') parts += item.substr(1) + ", ";
    s += "    " + name_number(m.dims, d) + ": ((" + parts + "), lambda n, s: " + definition_python(m.dims, d, "n", "s") + "),\n";
  }
  return s +
         "}\n\n\ndef size(n, number):\n    known, needed = {}, [number]\n    while needed:\n        parts, value = "
         "SIZES[needed[-1]]\n"
         "        missing = [k for k in parts if k not in known]\n        if missing:\n            needed += missing\n"
         "        else:\n            known[needed.pop()] = value(n, known)\n    return known[number]\n";
}

std::string model_class(const codegen::Package& p, bool traceable) {
  std::string states;
  for (const State& s : p.lir->states)
    states += (states.empty() ? "" : ", ") + std::string("(") + std::to_string(s.input) + ", " + std::to_string(s.output) + ")";
  std::string s = "\n\nclass Model(ops.Model):\n    inputs = " + ports(p, p.inputs) + "    outputs = " + ports(p, p.outputs);
  if (!states.empty()) s += "    states = (" + states + (p.lir->states.size() == 1 ? ",)\n" : ")\n");
  if (!traceable) s += "    traceable = False\n";
  return s + "    prepare = staticmethod(prepare)\n    step = staticmethod(graph_" +
         std::to_string(p.lir->module->main().id().raw) + ")\n";
}

std::string readme(const codegen::Package& p, const mlx::ModuleText& text) {
  std::string s = "# " + p.name +
                  "\n\nA model compiled by rlxc for MLX.\n\n| file | content |\n|---|---|\n"
                  "| `model.py` | the graph, a line for each node; `prepare` computes what depends on weights alone |\n"
                  "| `rlxc_*.py` | operations on mlx.core, their weights, and the class of models |\n"
                  "| `model.json` | inputs, outputs, and where the weights are |\n\n```python\nfrom model import Model\n\n"
                  "model = Model(\"WEIGHTS\")  # the folder with the weights\n";
  std::string inputs;
  for (size_t i = 0; i < p.inputs.size(); ++i) inputs += (i ? ", x" : "x") + std::to_string(i);
  s += "outputs = model(" + inputs + ")   # mx.array each, lazy\n```\n\n";
  s += text.traceable ? "The step is compiled by `mx.compile` when sizes come a second time. `Model(folder, compiled=False)` "
                        "runs it op by op.\n\n"
                      : "Sizes or branches depend on data, so `mx.compile` takes only the elementwise parts.\n\n";
  if (!p.lir->states.empty())
    s += "`model.start(...)` returns empty states, `model.advance(states, NAME=x, ...)` runs a step that replaces them; MLX "
         "reuses "
         "the memory of the old ones. For a decoder, `model.stream(prompt)` yields tokens:\n\n```python\n"
         "for token in model.stream([1, 2, 3], most=100):\n    print(token)\n```\n\n";
  if (text.packed) s += std::to_string(text.packed) + " quantized weights are packed for `mx.quantized_matmul`.\n\n";
  if (!text.dense.empty()) {
    s += "Quantized weights that are dequantized when the model is loaded:\n\n| node | reason |\n|---|---|\n";
    for (const auto& [node, reason] : text.dense) s += "| " + node.markdown() + " | " + reason + " |\n";
    s += "\n";
  }
  return s + "`python3 model.py WEIGHTS [SIZE=VALUE...] INPUT...` runs it on raw files and writes output_<i>.bin.\n\n" +
         tensor_table(p) + "\n" + checked_ranges(p, "it raises ValueError") + "\n";
}

class MlxBackend : public Backend {
 public:
  using Backend::Backend;
  std::optional<std::vector<TextFile>> write(const codegen::Package&, const CpuPackageOptions&, Diagnostics&) const override;
};

// Writes model.py, rlxc_mlx*.py, model.json, README.md.
std::optional<std::vector<TextFile>> MlxBackend::write(const codegen::Package& p, const CpuPackageOptions& options,
                                                       Diagnostics& d) const {
  const mlx::ModuleText text = mlx::module_text(p, d);
  if (!d.ok()) return std::nullopt;
  std::string model =
      "\"\"\"" + p.name +
      ": a model compiled by rlxc for MLX. Lines name the nodes that they compute.\"\"\"\nimport math\nimport sys\n\n"
      "try:\n    import rlxc_mlx as ops\nexcept ImportError as error:\n    if __name__ != "
      "\"__main__\":\n        raise\n    sys.exit(str(error))\nimport mlx.core as mx\n";
  model += named_sizes(p) + text.functions + model_class(p, text.traceable) +
           "\n\nif __name__ == \"__main__\":\n    ops.main(Model, sys.argv[1:])\n";
  std::vector<TextFile> files = {{"model.py", std::move(model)}, {"model.json", model_json(p, info.name, options)}};
  for (const HostFile& h : host_files())
    if (is_part(h)) files.push_back({std::string(h.name), std::string(h.text)});
  files.push_back({"README.md", readme(p, text)});
  return files;
}

}  // namespace

static const TargetInfo kMlx = {.name = "mlx",
                                .emits = "Python module on mlx.core",
                                .extension = "py",
                                .supports = mlx::has_form,
                                .dtypes = mlx::value_types(),
                                .machine = {500, 200, 4000, 64, 200e3},
                                .claims = 2,
                                .host_run = {.how = HostRun::How::Script, .interpreter = "python3", .script = "model.py"}};

const Backend& mlx_backend() {
  static const MlxBackend backend(kMlx);
  return backend;
}

}  // namespace rlxc
