#include "backend/c/package_readme.h"

#include <algorithm>
#include <set>

#include "backend/c/c_like.h"
#include "backend/c/cpu_training.h"
#include "backend/package_text.h"
#include "backend/weight_files.h"
#include "ir/dim_postfix.h"
#include "support/checked.h"

namespace rlxc {
namespace {

using codegen::Package;

constexpr size_t kListed = 6;  // most tensors that an example names

// Returns the C type of an element, or "" if C has none.
std::string c_type(DType t) {
  switch (t) {
    case DType::F32: return "float";
    case DType::F64: return "double";
    case DType::I8: return "int8_t";
    case DType::I16: return "int16_t";
    case DType::I32: return "int32_t";
    case DType::I64: return "int64_t";
    case DType::U16:
    case DType::F16:
    case DType::BF16: return "uint16_t";
    case DType::U32: return "uint32_t";
    case DType::U64: return "uint64_t";
    default: return "uint8_t";
  }
}

std::string numpy_type(DType t) {
  switch (t) {
    case DType::Bool: return "bool";
    case DType::F16: return "np.float16";
    case DType::F32: return "np.float32";
    case DType::F64: return "np.float64";
    case DType::C64: return "np.complex64";
    default: break;
  }
  const std::string c = c_type(t);
  return "np." + c.substr(0, c.find("_t"));
}

struct Example {
  const Package& p;
  std::vector<int64_t> sizes;
  DimBindings bindings = bindings_of(p, sizes);

  // Returns a comment line for each of the first tensors.
  std::string comments(const std::vector<codegen::Port>& ports, const std::string& array) const {
    std::string s;
    for (size_t i = 0; i < std::min(ports.size(), kListed); ++i)
      s += "  // " + array + "[" + std::to_string(i) + "]: " + ports[i].name.quoted() + " " + port_type(p, ports[i], bindings) +
           "\n";
    if (ports.size() > kListed) s += "  // and " + std::to_string(ports.size() - kListed) + " others\n";
    return s;
  }
  std::string numbers() const {
    std::string s;
    for (int64_t n : sizes) s += (s.empty() ? "" : ", ") + std::to_string(n);
    return s;
  }
  std::string names() const {
    std::string s;
    for (const ForeignText& symbol : p.symbols) s += (s.empty() ? "" : ", ") + symbol.line();
    return s;
  }
  DType dtype(const codegen::Port& port) const { return p.lir->module->graph(port.graph).dtype(port.value); }
};

constexpr std::string_view kC = R"(```c
#include <stdio.h>
#include <stdlib.h>

#include "$N.h"

int main(void) {
  int error = $U_OK;
  $N_ctx* c = $N_create($FOLDERS, &error);
$SIZES  void *inputs[$U_INPUTS + 1], *outputs[$U_OUTPUTS + 1];
$INPUTS  for (int i = 0; i < $U_INPUTS; ++i) inputs[i] = calloc(1, $N_input_bytes(c, i) + 1);
$OUTPUTS  for (int i = 0; i < $U_OUTPUTS; ++i) outputs[i] = calloc(1, $N_output_bytes(c, i) + 1);
$STATES  if (!error) error = $N_run(c, (const void* const*)inputs, $U_INPUTS, outputs, $U_OUTPUTS);
  if (error) fprintf(stderr, "%s\n", $N_strerror(error));
$FIRST  $N_destroy(c);
  for (int i = 0; i < $U_INPUTS; ++i) free(inputs[i]);
  for (int i = 0; i < $U_OUTPUTS; ++i) free(outputs[i]);
  return error;
}
```

`cc example.c -I. lib$N.a -pthread -lm` builds it.
)";

// Returns "2, 3": the inputs that are states.
std::string state_inputs(const Package& p) {
  std::string s;
  for (const State& state : p.lir->states) s += (s.empty() ? "" : ", ") + std::to_string(state.input);
  return s;
}

std::string c_example(const Example& e, const WeightFiles& located, const CpuPackageOptions& o) {
  const Package& p = e.p;
  std::string sizes, first, states = state_inputs(p);
  if (!states.empty())
    states =
        "  const int states[] = {" + states +
        "};  // inputs that are in the buffers of their outputs\n  for (size_t i = 0; i < sizeof states / sizeof *states; ++i) "
        "free(inputs[states[i]]), inputs[states[i]] = NULL;\n";
  if (!e.sizes.empty())
    sizes = "  const int64_t sizes[] = {" + e.numbers() + "};  // " + e.names() + "\n  if (!error) error = " + p.name +
            "_set_sizes(c, sizes, " + upper(p.name) + "_SIZES);\n";
  if (!p.outputs.empty())
    first = "  if (!error) {\n    const " + c_type(e.dtype(p.outputs[0])) +
            "* y = outputs[0];\n    (void)y;  // the elements, in row-major order\n  }\n";
  return target::expand(kC, {{"FOLDERS", std::string(o.embed_weights ? "NULL" : "\".\"") + ", " +
                                             (located.files.size() > 1 ? "\"MODEL_FOLDER\"" : "NULL")},
                             {"SIZES", sizes},
                             {"INPUTS", e.comments(p.inputs, "inputs")},
                             {"OUTPUTS", e.comments(p.outputs, "outputs")},
                             {"STATES", states},
                             {"FIRST", first},
                             {"N", p.name},
                             {"U", upper(p.name)}});
}

std::string cpp_example(const Example& e) {
  const std::string &n = e.p.name, u = upper(n);
  std::string s = "```cpp\n#include \"" + n + ".hpp\"\n\n" + n + "_model model(\".\");\n";
  if (!e.sizes.empty()) s += "model.set_sizes(std::vector<int64_t>{" + e.numbers() + "});  // " + e.names() + "\n";
  s += "std::vector<std::vector<std::byte>> inputs;\nstd::vector<const void*> pointers;\nfor (int i = 0; i < " + u +
       "_INPUTS; ++i) inputs.emplace_back(model.input_bytes(i));\nfor (const auto& x : inputs) "
       "pointers.push_back(x.data());\n";
  const std::string states = state_inputs(e.p);
  if (states.empty()) s += "const auto outputs = model.run(pointers);  // bytes of each output\n";
  else
    s += "for (int i : {" + states +
         "}) pointers[i] = nullptr;  // states: they are in the buffers of their outputs\n"
         "std::vector<std::vector<std::byte>> outputs;\nstd::vector<void*> results;\nfor (int i = 0; i < " +
         u +
         "_OUTPUTS; ++i) outputs.emplace_back(model.output_bytes(i));\nfor (auto& y : outputs) results.push_back(y.data());\n"
         "model.run(pointers, results);\n";
  return s + "```\n\n`" + n + "_error` is thrown where the C API answers an error.\n";
}

std::string python_example(const Example& e) {
  const Package& p = e.p;
  const DimTable& dims = p.lir->module->dims;
  std::set<std::string> determined;
  std::set<size_t> states;
  for (const State& state : p.lir->states) states.insert(state.input);
  std::string arguments;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const Type& t = p.lir->module->graph(p.inputs[i].graph).type(p.inputs[i].value);
    for (Dim d : t.dims)
      if (const auto symbol = symbol_name(dims, d)) determined.insert(*symbol);
    std::string shape = port_type(p, p.inputs[i], e.bindings);
    shape = shape.substr(shape.find('[') + 1);
    shape.pop_back();
    if (t.rank() == 1) shape += ",";
    const std::string zeros = "np.zeros((" + shape + "), " + numpy_type(t.dtype) + "),";
    if (states.contains(i)) continue;
    arguments += states.empty() ? "    " + zeros + "  # " + p.inputs[i].name.line() + "\n"
                                : "    " + p.inputs[i].name.python_string() + ": " + zeros + "\n";
  }
  std::string sizes;
  for (size_t i = 0; i < p.symbols.size(); ++i)
    if (!determined.contains(p.symbols[i].bytes()))
      sizes += (sizes.empty() ? "" : ", ") + p.symbols[i].python_string() + ": " + std::to_string(e.sizes[i]);
  if (!sizes.empty()) sizes = "sizes={" + sizes + "},";
  const std::string call =
      states.empty() ? "outputs = model(\n" + arguments + (sizes.empty() ? "" : "    " + sizes + "\n") + ")  # a list of arrays\n"
                     : "states = model.start()  # zeros\noutputs = model.advance(states, " + sizes + (sizes.empty() ? "" : " ") +
                           "**{\n" + arguments + "})  # a list of the outputs that are no states\n";
  return "```python\nimport numpy as np\nfrom " + p.name + "_model import Model\n\nmodel = Model()\n" + call +
         "```\n\nIt loads `lib" + p.name + ".so`, which `make` builds.\n";
}

constexpr std::string_view kSteps = R"(## A prompt and its steps

A run of `input_ids` $SHAPE takes the tokens that follow the first `past_length` ones. A prompt is one run of all its tokens with
`past_length` 0. Each further token is a run of one token, whose `past_length` counts the tokens of all runs before. A smaller
`past_length` drops the last tokens; what is in the states behind it is not read. If the tokens have no room, the call answers
`$U_BAD_INDEX`.

A step reads the weights, $WEIGHTS bytes, and what the states hold, at most $STATES bytes. A prompt reads the weights for all its
tokens together. Memory is allocated when sizes change: between prompt and steps, not between steps.

)";

// How a decoder with a cache of fixed room is called. "" of other models.
std::string steps_section(const Example& e, const WeightFiles& located) {
  const Package& p = e.p;
  const auto named = [&](std::string_view name) {
    return std::ranges::find(p.inputs, name, [](const auto& x) { return x.name.bytes(); });
  };
  const auto tokens = named("input_ids"), end = p.inputs.end();
  if (tokens == end || named("past_length") == end || p.lir->index_inputs.empty() || p.lir->states.empty()) return "";
  const Module& m = *p.lir->module;
  uint64_t weights = 0, states = 0;
  for (const WeightFiles::Row& row : located.weights) weights += row.stored;
  for (const State& state : p.lir->states) {
    const Type& t = m.graph(p.inputs[state.input].graph).type(p.inputs[state.input].value);
    std::vector<int64_t> dims;
    for (Dim d : t.dims) dims.push_back(m.dims.evaluate(d, e.bindings).value_or(1));
    states += static_cast<uint64_t>(checked_product(dims).value_or(0)) * static_cast<uint64_t>(bits(t.dtype)) / 8;
  }
  const std::string type = port_type(p, *tokens);
  return target::expand(kSteps, {{"SHAPE", type.substr(type.find('['))},
                                 {"WEIGHTS", std::to_string(weights)},
                                 {"STATES", std::to_string(states)},
                                 {"U", upper(p.name)}});
}

constexpr std::string_view kFiles = R"(| file | content |
|---|---|
| `$N.h` | the C API: inputs, outputs, sizes, errors |
| `$N.hpp` | the same for C++17: an object and exceptions |
| `$N_model.py` | the same for Python: NumPy arrays, by ctypes |
| `$N.c` | weights, memory, the order of the kernels |
| `kernels_*.c`, `kernels.h` | the kernels; each says which nodes of the model it computes |
| `parallel.c` | the threads that share loops |
$EMBEDDED| `main.c` | a runner on raw files, and an example of the API |
| `levels.c`, `levels.h` | the choice of kernels when the program starts, of `make PORTABLE=1` |
| `Makefile` | `make` builds `run`, `lib$N.a` and `lib$N.so`, with gcc or clang, for this processor; `make PORTABLE=1` for every x86-64 processor from v2 on, with kernels for v3, v4 and those with 8-bit dot products |
| `CMakeLists.txt` | the same for CMake, as the library `$N_model` of a larger project |
| `$N.weights` | the weights |
| `$N.packed` | weights as kernels read them, after `make prepack MODEL=FOLDER` (FOLDER: weights files of the model); later runs map it |
)";

constexpr std::string_view kChecks = R"(## What is checked

Every function checks its arguments: null pointers, the number of inputs, outputs and sizes, their indices, alignment of buffers,
sizes that the model or its memory plan does not allow, the fingerprint of the weights, and use of one context by two threads at a
time. Data-dependent dims and the trip counts of loops are checked against the memory there is. `$N_strerror` names each error;
after one the context can be used again.

$RANGES$INDICES The lengths of buffers are the caller's: the library reads `$N_input_bytes` and writes `$N_output_bytes`.
)";

}  // namespace

std::string cpu_readme(const Package& p, const CpuPackageOptions& o) {
  const WeightFiles located = locate_weights(p, o);
  const Example e{p, example_sizes(p)};
  std::string s = "# " + p.name + "\n\nA model compiled to C by rlxc: " + std::to_string(p.kernels.size()) + " kernels, " +
                  std::to_string(p.weights.size()) + " weights.\n\n" + tensor_table(p) + "\n## Files\n\n";
  s += target::expand(kFiles, {{"EMBEDDED", o.embed_weights ? "| `weights.c` | makes the weights a part of the library |\n" : ""},
                               {"N", p.name}});
  s += "\n" + weights_paragraph(p, o);
  if (o.embed_weights) s += "The library needs no file when it runs.\n";
  s += "\n## Use\n\n`make`, then on raw files, one for each input, little-endian:\n\n    ./run";
  if (located.files.size() > 1) s += " -m MODEL_FOLDER";
  s += example_size_arguments(p);
  for (size_t i = 0; i < p.inputs.size(); ++i) s += " input_" + std::to_string(i) + ".bin";
  s += "\n\nwrites `output_<i>.bin` and prints the shapes. `-w FOLDER` names the folder with `" + weights_file(p) +
       "`, if it is not this one; `--threads N` and `--repeat N` measure. In C:\n\n" + c_example(e, located, o) +
       "\nIn C++:\n\n" + cpp_example(e) + "\nIn Python:\n\n" + python_example(e) + "\n";
  s += steps_section(e, located);
  s += training_readme(p.name, o.training);
  s += target::expand(
      kChecks,
      {{"RANGES", checked_ranges(p, "the call answers `" + upper(p.name) + "_BAD_INDEX`")},
       {"INDICES",
        (p.lir->index_inputs.empty() ? "Indices" : "Other indices") +
            std::string(p.lir->check_indices
                            ? " that the inputs give (of Gather, Scatter) are checked; those of Slice are clamped as ONNX says."
                            : " that the inputs give (of Gather, Scatter) are clamped into their range; `--hardened` makes them "
                              "errors.")},
       {"N", p.name}});
  s += "\nEvery public symbol begins with `" + p.name +
       "_`, so packages of several models link into one program. `rlxc compile --name NAME` chooses another name. Contexts are "
       "independent; all contexts of a model share its threads, `" +
       p.name + "_set_threads` says how many.\n";
  return s;
}

}  // namespace rlxc
