// The module rlxc._native: the classes of session.h for Python. python/rlxc/_native.pyi has its types, and python/rlxc/_api.py
// what users call.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "backend/target_traits.h"
#include "commands/commands.h"
#include "report/snapshot.h"
#include "session.h"
#include "support/schemas.h"
#include "support/text.h"
#include "values.h"

namespace py = pybind11;

namespace rlxc::python {
namespace {

using Released = py::call_guard<py::gil_scoped_release>;

std::string_view severity_name(Severity s) {
  return s == Severity::Error ? "error" : s == Severity::Warning ? "warning" : "note";
}

// severity, code, place, message, help
py::list items_of(const Diagnostics& d) {
  py::list out;
  for (const Diagnostic& item : d.items())
    out.append(py::make_tuple(severity_name(item.severity), code_text(item.code), text_of(item.where), text_of(item.message),
                              text_of(item.help)));
  return out;
}

// Raises rlxc.Error for a Failure.
void raise(const Failure& failure) {
  const Diagnostics& d = failure.diagnostics;
  const auto first = std::ranges::find(d.items(), Severity::Error, &Diagnostic::severity);
  const std::string code = first == d.items().end() ? "" : code_text(first->code);
  std::string text = d.text();
  while (text.ends_with('\n')) text.pop_back();
  try {
    const py::object type = py::module_::import("rlxc._errors").attr("Error");
    const py::object error = type(text_of(text), code, static_cast<int>(d.exit()), items_of(d));
    PyErr_SetObject(type.ptr(), error.ptr());
  } catch (py::error_already_set& e) {
    e.restore();
  }
}

// name, kind, element type, dims: numbers, and expressions of symbols as text
py::list described(const std::vector<Port>& ports) {
  constexpr const char* kKinds[] = {"tensor", "sequence", "optional", "map"};
  py::list out;
  for (const Port& p : ports) {
    py::list dims;
    for (size_t i = 0; i < p.dims.size(); ++i)
      dims.append(p.kind.dims[i].is_static() ? py::object(py::int_(p.kind.dims[i].size())) : py::object(text_of(p.dims[i])));
    out.append(
        py::make_tuple(text_of(p.name), kKinds[static_cast<size_t>(p.kind.kind)], name(p.kind.dtype), dims, text_of(p.type)));
  }
  return out;
}

// In the order of the ports. `given` has a value, by its name, for each.
Arguments arguments_of(const std::vector<Port>& ports, const py::dict& given) {
  Arguments out;
  for (const Port& p : ports) {
    const py::str key = text_of(p.name);
    if (!given.contains(key)) {
      Diagnostics d;
      d.error(Code::UnknownName, "this input is missing", "input " + quote(p.name), "it is " + p.type);
      throw Failure{std::move(d)};
    }
    out.add(given[key], p.kind, p.name);
  }
  if (given.size() == ports.size()) return out;
  std::vector<std::string_view> names;
  for (const Port& p : ports) names.push_back(p.name);
  Diagnostics d;
  for (const auto& item : given) {
    const std::string name = bytes_of(py::str(item.first));
    if (std::ranges::count(names, std::string_view(name)) > 0) continue;
    const auto close = closest(name, names);
    d.error(Code::UnknownName, "there is no input " + quote(name), {},
            close ? "did you mean " + quote(*close) + "?" : "the inputs are " + join(names, ", "));
  }
  throw Failure{std::move(d)};
}

// By name. Of outputs with equal names the last one counts.
py::dict named(const std::vector<Port>& ports, std::vector<eval::HostValue> values, bool is_own) {
  py::dict out;
  for (size_t i = 0; i < values.size(); ++i)
    out[text_of(i < ports.size() ? ports[i].name : "output_" + std::to_string(i))] = to_python(std::move(values[i]), is_own);
  return out;
}

Engine engine_named(const std::string& name) {
  if (name == "reference") return Engine::Reference;
  if (name == "interpreter") return Engine::Interpreter;
  if (name == "kernels") return Engine::Kernels;
  Diagnostics d;
  d.error(Code::BadFlag, "there is no engine " + quote(name), {}, "one of kernels, interpreter, reference");
  throw Failure{std::move(d)};
}

py::dict run(CompiledModule& m, const py::dict& inputs, const std::string& engine) {
  const Engine chosen = engine_named(engine);
  Arguments arguments = arguments_of(m.inputs, inputs);
  std::vector<eval::HostValue> results;
  {
    const py::gil_scoped_release released;
    results = m.run(std::move(arguments.values), chosen);
  }
  // The evaluator may hand on the memory of inputs and weights.
  return named(m.outputs, std::move(results), chosen != Engine::Reference);
}

// output, pass, max abs, max rel, cosine, norm error, message
py::list check(CompiledModule& m, const SourceModel& model, const py::dict& inputs, const std::string& engine,
               std::optional<double> rtol, std::optional<double> atol) {
  const Engine chosen = engine_named(engine);
  const Arguments arguments = arguments_of(m.inputs, inputs);
  std::vector<Comparison> found;
  {
    const py::gil_scoped_release released;
    found = m.check(model, arguments.values, chosen, rtol, atol);
  }
  py::list out;
  for (const Comparison& c : found)
    out.append(py::make_tuple(text_of(c.output), c.pass, c.max_abs, c.max_rel, c.cosine, c.norm_error, text_of(c.message)));
  return out;
}

py::dict evaluate(const SourceModel& m, const py::dict& inputs) {
  const Arguments arguments = arguments_of(m.inputs(), inputs);
  std::vector<eval::HostValue> results;
  {
    const py::gil_scoped_release released;
    results = m.evaluate(arguments.values);
  }
  return named(m.outputs(), std::move(results), false);
}

py::dict random_inputs(const SourceModel& m, uint64_t seed, const DimBindings& sizes) {
  std::vector<eval::HostValue> values;
  {
    const py::gil_scoped_release released;
    values = m.random_inputs(seed, sizes);
  }
  return named(m.inputs(), std::move(values), false);
}

py::dict first_states(const CompiledModule& m) {
  py::dict out;
  for (auto& [i, value] : m.first_states()) out[text_of(m.inputs[i].name)] = to_python(value, false);
  return out;
}

std::shared_ptr<Source> source_of_bytes(const py::buffer& data) {
  const py::buffer_info info = data.request();
  if (info.ndim > 1 || (info.ndim == 1 && info.strides[0] != info.itemsize))
    throw py::buffer_error("bytes in one row are needed");
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(info.ptr), static_cast<size_t>(info.size * info.itemsize));
  const py::gil_scoped_release released;
  return Source::of_bytes(bytes);
}

// Where kernels would read the array: for tests of copies.
size_t address_of(const py::object& array, const std::string& dtype) {
  Arguments arguments;
  arguments.add(array, tensor_type(dtype_from_name(dtype).value_or(DType::F32), {}), "array");
  return reinterpret_cast<size_t>(arguments.values[0].tensor.bytes.data());
}

std::string explained(const std::string& text) {
  Code code{};
  return code_from_text(text, &code) ? std::string(explain(code)) : "";
}

using Files = std::vector<std::tuple<std::string, std::string, std::string>>;

std::vector<ReportFile> report_files(const Files& files) {
  std::vector<ReportFile> out;
  for (const auto& [name, prefix, text] : files) out.push_back({name, prefix, text});
  return out;
}

py::tuple difference(const Files& before, const Files& after, const std::vector<std::string>& fail_on) {
  Difference found;
  {
    const py::gil_scoped_release released;
    found = diff(report_files(before), report_files(after), fail_on);
  }
  return py::make_tuple(found.json, found.text, found.finding);
}

void define(py::module_& m) {
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const Failure& failure) {
      raise(failure);
    }
  });
  define_values(m);
  py::class_<Source, std::shared_ptr<Source>>(m, "Source").def(py::init<std::string>()).def_static("of_bytes", source_of_bytes);
  py::class_<SourceModel>(m, "Model")
      .def(py::init<std::shared_ptr<Source>, std::string, OptionWords>(), Released())
      .def_property_readonly("name", [](const SourceModel& x) { return ForeignText(x.name()).line(); })
      .def_property_readonly("format", &SourceModel::format)
      .def_property_readonly("sha256", &SourceModel::hash)
      .def_property_readonly("symbols", &SourceModel::symbols)
      .def_property_readonly("inputs", [](const SourceModel& x) { return described(x.inputs()); })
      .def_property_readonly("outputs", [](const SourceModel& x) { return described(x.outputs()); })
      .def_property_readonly("diagnostics", [](const SourceModel& x) { return items_of(x.diagnostics()); })
      .def("with_options", &SourceModel::with, Released())
      .def("compile", &SourceModel::compile, Released())
      .def("evaluate", evaluate)
      .def("random_inputs", random_inputs)
      .def("save",
           [](const SourceModel& x, const std::string& path, const OptionWords& words) {
             Diagnostics d;
             {
               const py::gil_scoped_release released;
               d = x.save(path, words);
             }
             return items_of(d);
           })
      .def("calibrate", [](const SourceModel& x, const std::vector<std::string>& data, const OptionWords& words) {
        std::pair<std::string, Diagnostics> record;
        {
          const py::gil_scoped_release released;
          record = x.calibrate(data, words);
        }
        return py::make_tuple(record.first, items_of(record.second));
      });
  py::class_<CompiledModule>(m, "Module")
      .def_property_readonly("target", [](const CompiledModule& x) { return x.compiled.target; })
      .def_property_readonly("name", [](const CompiledModule& x) { return x.compiled.lir.module->name.line(); })
      .def_property_readonly("symbols", [](const CompiledModule& x) { return x.symbols; })
      .def_property_readonly("inputs", [](const CompiledModule& x) { return described(x.inputs); })
      .def_property_readonly("outputs", [](const CompiledModule& x) { return described(x.outputs); })
      .def_property_readonly("diagnostics", [](const CompiledModule& x) { return items_of(x.diagnostics); })
      .def("build",
           [](CompiledModule& x, const std::string& engine, const std::string& compiler, const std::vector<std::string>& flags,
              bool threads) {
             const Engine chosen = engine_named(engine);
             const py::gil_scoped_release released;
             x.build(chosen, {compiler, flags, threads});
           })
      .def("run", run)
      .def("check", check)
      .def("first_states", first_states)
      .def("reports", &CompiledModule::reports, Released())
      .def("page", &CompiledModule::page, Released())
      .def("save", [](CompiledModule& x, const std::string& folder, const std::vector<std::string>& emit) {
        Diagnostics d;
        {
          const py::gil_scoped_release released;
          d = x.save(folder, emit);
        }
        return items_of(d);
      });
  m.def("diff", difference);
  m.def("explain", explained);
  m.def("version", [] { return std::string(version()); });
  m.def("build_description", build_description);
  m.def("targets", [] { return std::vector<std::string>(target_names().begin(), target_names().end()); });
  m.def("artefacts_with_facts", [] {
    const auto names = report::artefacts_with_facts();
    return std::vector<std::string>(names.begin(), names.end());
  });
  m.def("address_of", address_of);
}

}  // namespace
}  // namespace rlxc::python

PYBIND11_MODULE(_native, m) { rlxc::python::define(m); }
