#include "backend/gpu/web_model.h"

#include "backend/c/c_like.h"
#include "backend/host_files.h"
#include "backend/package_text.h"

namespace rlxc {
namespace {

using codegen::Package;
using codegen::Port;

DType dtype_of(const Package& p, const Port& port) { return p.lir->module->graph(port.graph).dtype(port.value); }

std::string array_type(DType t) {
  switch (t) {
    case DType::F32: return "Float32Array";
    case DType::F64: return "Float64Array";
    case DType::I8: return "Int8Array";
    case DType::I16: return "Int16Array";
    case DType::I32: return "Int32Array";
    case DType::I64: return "BigInt64Array";
    case DType::U16:
    case DType::F16:
    case DType::BF16: return "Uint16Array";
    case DType::U32: return "Uint32Array";
    case DType::U64: return "BigUint64Array";
    default: return "Uint8Array";
  }
}

// Returns a JavaScript string literal, whose escapes equal Python's.
std::string quoted(const ForeignText& text) { return text.python_string(); }

std::string members(const Package& p, const std::vector<Port>& ports, const std::string& or_null) {
  std::string s;
  for (const Port& port : ports)
    s += "  // " + ForeignText(port_type(p, port)).line() + "\n  " + quoted(port.name) + ": " + array_type(dtype_of(p, port)) +
         or_null + ";\n";
  return s;
}

}  // namespace

std::vector<TextFile> web_model(const Package& p) {
  const std::string file = p.name + "_model";
  std::string sizes;
  for (const ForeignText& s : p.symbols) sizes += "  " + quoted(s) + ": number;\n";
  const std::string or_null = p.lir->states.empty() ? "" : " | null";
  std::string types = "// Types of " + file + ".js.\nimport type { Gpu, Port } from './rlxc.mjs';\n\nexport interface Sizes {\n" +
                      sizes + "}\n\nexport interface Inputs {\n" + members(p, p.inputs, or_null) +
                      "}\n\nexport interface Outputs {\n" + members(p, p.outputs, or_null) + "}\n\n";
  types +=
      "export class Model {\n  /** base: URL of the folder with launch.json; weights: that with the weights. */\n  static "
      "load(options?: { "
      "gpu?: Gpu; base?: URL | string; weights?: URL | string }): Promise<Model>;\n  readonly inputs: Port[];\n  readonly "
      "outputs: "
      "Port[];\n  readonly sizes: string[];\n  setSizes(sizes: Sizes): void;\n  run(inputs: Inputs): Promise<Outputs>;\n  "
      "outputShape(name: "
      "keyof Outputs): number[];\n}\n";
  std::vector<TextFile> files;
  for (const HostFile& h : host_files())
    if (h.name == "web_model.js.in") files.push_back({file + ".js", target::expand(h.text, {{"N", p.name}, {"{", "${"}})});
  files.push_back({file + ".d.ts", std::move(types)});
  files.push_back(
      {"package.json",
       "{\n  \"name\": \"" + p.name +
           "-model\",\n  \"version\": \"1.0.0\",\n  \"type\": \"module\",\n  \"exports\": {\n    \".\": {\"types\": \"./" + file +
           ".d.ts\", \"default\": \"./" + file + ".js\"},\n    \"./*\": \"./*\"\n  }\n}\n"});
  return files;
}

std::string web_example(const Package& p) {
  const std::vector<int64_t> sizes = example_sizes(p);
  const DimBindings bindings = bindings_of(p, sizes);
  std::string s =
      "```js\nimport { Model } from './" + p.name +
      "_model.js';\n\nconst model = await Model.load();  // in Node: load({ gpu: create([]) }) of the package webgpu\n";
  if (!sizes.empty()) {
    s += "model.setSizes({ ";
    for (size_t i = 0; i < sizes.size(); ++i) s += (i ? ", " : "") + quoted(p.symbols[i]) + ": " + std::to_string(sizes[i]);
    s += " });\n";
  }
  s += "const outputs = await model.run({\n";
  for (const Port& port : p.inputs) {
    std::string shape = port_type(p, port, bindings), count;
    shape = shape.substr(shape.find('[') + 1);
    shape.pop_back();
    for (char c : shape) count += c == ',' ? std::string(" * ") : std::string(1, c);
    s += "  " + quoted(port.name) + ": new " + array_type(dtype_of(p, port)) + "(" + (count.empty() ? "1" : count) + "),\n";
  }
  s += "});\n";
  if (!p.outputs.empty())
    s += "const y = outputs[" + quoted(p.outputs[0].name) + "], shape = model.outputShape(" + quoted(p.outputs[0].name) + ");\n";
  return s + "```\n";
}

}  // namespace rlxc
