#include "session.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>

#include "backend/backend.h"
#include "backend/registry.h"
#include "commands/built_model.h"
#include "commands/calibrate.h"
#include "commands/part.h"
#include "commands/tolerances.h"
#include "driver/check_options.h"
#include "driver/limits.h"
#include "driver/load.h"
#include "driver/training_stage.h"
#include "eval/random.h"
#include "eval/value.h"
#include "import/gguf/import.h"
#include "ir/mesh.h"
#include "options/option_text.h"
#include "report/diff.h"
#include "runtime/package_call.h"
#include "runtime/run_package.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc::python {
namespace {

// Calls f(diagnostics) and returns what its result points to. Throws Failure if that is nothing, or if f throws.
template <class F>
auto guarded(const std::string& file, F f) {
  Diagnostics d(file);
  try {
    if (auto result = f(d); result && d.ok()) return result;
  } catch (const std::bad_alloc&) {
    d.error(Code::TooLarge, "there is not enough memory");
  } catch (const std::exception& e) {
    d.error(Code::Internal, e.what());
  }
  if (d.ok()) d.error(Code::Internal, "no result, and no reason");
  throw Failure{std::move(d)};
}

std::string with_underscores(std::string_view key) {
  std::string out(key);
  std::ranges::replace(out, '-', '_');
  return out;
}

// Options that commands have and a library has not, and what does the same.
struct Elsewhere {
  std::string_view key, help;
};
constexpr Elsewhere kElsewhere[] = {{"target", "compile takes the target as its second argument"},
                                    {"output", "save takes the folder or file"},
                                    {"emit", "save(folder, emit=[...]) takes it"},
                                    {"max-time", "a time limit ends the process, which is not ours"},
                                    {"config", "pass the options by their names"},
                                    {"save-config", ""},
                                    {"print-config", ""},
                                    {"text", "report and html give the reports"},
                                    {"dump", ""},
                                    {"timing", ""},
                                    {"time-passes", ""},
                                    {"depfile", ""},
                                    {"cache", ""},
                                    {"assert", "diff(a, b, fail_on=[...]), or look at report()"},
                                    {"quiet", "nothing is printed; warnings are Python's"},
                                    {"verbose", "nothing is printed; warnings are Python's"},
                                    {"data", "calibrate takes a loader"},
                                    {"check", ""},
                                    {"config-file", ""}};

struct NamedOption {
  const Option* option = nullptr;
  bool inverted = false;  // named by a flag that says false
};

// By its key or by its flag.
NamedOption option_named(const std::string& key, uint32_t commands) {
  const std::string flag = "--" + key;
  for (const Option& o : kOptions) {
    if (!(o.commands & commands) || o.flag.empty() || o.required) continue;
    if (o.key == key) return {&o, false};
    if (long_name(o) == flag) return {&o, o.flag.starts_with('!')};
  }
  return {};
}

void unknown_option(const std::string& key, uint32_t commands, Diagnostics& d) {
  std::vector<std::string_view> known;
  for (const Option& o : kOptions)
    if ((o.commands & commands) && !o.flag.empty() && !o.required)
      known.push_back(o.key.empty() ? long_name(o).substr(2) : o.key);
  const auto close = closest(key, known);
  d.error(Code::BadFlag, "there is no option " + quote(with_underscores(key)), {},
          close ? "did you mean " + with_underscores(*close) + "?" : "docs/options.md has the options");
}

void set_words(CommandLine& line, uint32_t commands, std::string key, std::vector<std::string> words, Diagnostics& d) {
  std::ranges::replace(key, '_', '-');
  if (const auto at = std::ranges::find(kElsewhere, std::string_view(key), &Elsewhere::key); at != std::end(kElsewhere)) {
    d.error(Code::BadFlag, quote(with_underscores(key)) + " is for the command line", {}, std::string(at->help));
    return;
  }
  const auto [option, inverted] = option_named(key, commands);
  if (!option) return unknown_option(key, commands, d);
  const Option& o = *option;
  if (!o.step.empty()) {  // a word of --transform
    if (is_flag(o) && words == std::vector<std::string>{"true"}) words = {""};
    for (const std::string& word : words) line.transforms.push_back(std::string(o.step) + (word.empty() ? "" : " ") + word);
    return;
  }
  if (inverted)
    for (std::string& word : words) word = word == "true" ? "false" : word == "false" ? "true" : word;
  if (!is_list(o) && words.size() != 1) {
    d.error(Code::BadFlag, with_underscores(key) + " takes one value, got " + std::to_string(words.size()));
    return;
  }
  if (o.key != "transform") begin_words(line, o);
  if (o.comma_separated && !words.empty()) words = {join(words, ",")};
  for (const std::string& word : words)
    if (const std::string error = set_option(line, o, word); !error.empty())
      d.error(Code::BadFlag, with_underscores(key) + " " + error);
}

// Whether a model that was read with other options has to be read again with this one.
bool is_read_at_load(std::string key) {
  std::ranges::replace(key, '_', '-');
  const Option* o = option_named(key, kCompile).option;
  return !o || o->group == Group::Model || o->group == Group::Transforms || o->group == Group::Training || o->key == "name";
}

Port port_of(const Module& m, const Type& t, std::string name) {
  Port p{std::move(name), text(t, m.dims), t, {}};
  for (Dim d : t.dims) p.dims.push_back(m.dims.text(d));
  return p;
}

std::vector<Port> input_ports(const Module& m) {
  std::vector<Port> ports;
  const Graph& g = m.main();
  for (NodeId n : g.inputs()) {
    const std::string_view name = m.bytes(g.value_name(g.result(n)));
    const std::string number = "input_" + std::to_string(ports.size());
    ports.push_back(port_of(m, g.type(g.result(n)), name.empty() ? number : std::string(name)));
  }
  return ports;
}

std::vector<Port> output_ports(const Module& m) {
  std::vector<Port> ports;
  const Graph& g = m.main();
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const std::string_view name = m.bytes(g.output_name(i));
    ports.push_back(port_of(m, g.type(g.outputs()[i]), name.empty() ? "output_" + std::to_string(i) : std::string(name)));
  }
  return ports;
}

// Kernels read strings as bytes: the ports are as in the model where they have other types than in the compiled module.
std::vector<Port> as_in_model(std::vector<Port> compiled, const std::vector<Port>& model) {
  for (Port& p : compiled) {
    const auto same = std::ranges::find(model, p.name, &Port::name);
    if (same != model.end() && (same->kind.dtype == DType::String || same->kind.kind != TypeKind::Tensor)) p = *same;
  }
  return compiled;
}

std::vector<std::string> symbols_of(const Module& m) { return {m.dims.symbol_names().begin(), m.dims.symbol_names().end()}; }

// A name of a file, never standard output.
std::string file_path(const std::string& path) { return path == "-" ? "./-" : path; }

}  // namespace

std::shared_ptr<Source> Source::of_bytes(std::span<const std::byte> bytes) {
  return guarded("", [&](Diagnostics& d) -> std::shared_ptr<Source> {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    auto folder = std::make_unique<TemporaryFolder>(parent.string(), "rlxc-");
    auto source = std::make_shared<Source>(folder->path() + "/graph");
    std::ofstream out(source->path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (error || folder->path().empty() || !out) {
      d.error(Code::NotWritable, "cannot write the model to a temporary folder", {}, "TMPDIR names another folder");
      return nullptr;
    }
    source->folder_ = std::move(folder);
    source->owner_ = getpid();
    return source;
  });
}

Source::~Source() {
  if (folder_ && owner_ != getpid()) folder_->release();
}

SourceModel::SourceModel(std::shared_ptr<Source> source, std::string shown, OptionWords words)
    : source_(std::move(source)), shown_(std::move(shown)), words_(std::move(words)) {
  guarded(shown_, [&](Diagnostics& d) {
    line_ = line_with({}, kCompile, d);
    auto model = d.ok() ? load_model(line_, d) : std::nullopt;
    if (!model) return false;
    loaded_ = std::move(*model);
    inputs_ = input_ports(*loaded_.module);
    outputs_ = output_ports(*loaded_.module);
    symbols_ = symbols_of(*loaded_.module);
    diagnostics_ = d;
    return true;
  });
}

CommandLine SourceModel::line_with(const OptionWords& more, uint32_t commands, Diagnostics& d) const {
  CommandLine line;
  line.input = source_->path();
  for (const auto& [key, words] : words_) set_words(line, kCompile, key, words, d);
  for (const auto& [key, words] : more) set_words(line, commands, key, words, d);
  return line;
}

std::string SourceModel::name() const { return loaded_.module->name.bytes(); }
std::string SourceModel::format() const { return loaded_.format; }

std::unique_ptr<SourceModel> SourceModel::with(const OptionWords& more) const {
  OptionWords words = words_;
  words.insert(words.end(), more.begin(), more.end());
  return std::make_unique<SourceModel>(source_, shown_, std::move(words));
}

std::unique_ptr<CompiledModule> SourceModel::compile(const std::string& target, const OptionWords& words) const {
  return guarded(shown_, [&](Diagnostics& d) -> std::unique_ptr<CompiledModule> {
    auto out = std::make_unique<CompiledModule>();
    out->line = line_with(words, kCompile, d);
    CommandLine& line = out->line;
    line.targets = {target};
    check_targets(line.targets, d);
    if (!d.ok()) return nullptr;
    check_options(line, line.targets, d);
    if (line.prepack && target != "cpu") d.error(Code::BadFlag, "prepack needs the target cpu");
    if (!d.ok()) return nullptr;
    line.embed_weights |= source_->in_memory();  // there is no file to read them from
    const bool again = line.train || !line.transforms.empty() ||
                       std::ranges::any_of(words, [](const auto& option) { return is_read_at_load(option.first); });
    std::optional<LoadedModel> model;
    if (again) {
      model = load_model(line, d);
    } else {
      const std::lock_guard lock(mutex_);
      model = loaded_.copy();
    }
    if (!model) return nullptr;
    const std::vector<Port> ins = input_ports(*model->module), outs = output_ports(*model->module);
    out->symbols = symbols_of(*model->module);
    out->identity = {std::filesystem::path(line.input).filename().string(), model->content_hash, model->hash_sampled,
                     model->gguf};
    out->tolerance = tolerance_of(line, {}, *model->module);
    auto forms = lower_interface(*model->module, target, line, d);
    if (!forms) return nullptr;
    out->forms = std::move(*forms);
    auto compiled = rlxc::compile(std::move(*model), target, line, {}, d);
    if (!compiled) return nullptr;
    out->compiled = std::move(*compiled);
    out->inputs = as_in_model(input_ports(*out->compiled.lir.module), ins);
    out->outputs = as_in_model(output_ports(*out->compiled.lir.module), outs);
    out->source = source_;
    out->shown = shown_;
    out->diagnostics = d;
    return out;
  });
}

std::vector<eval::HostValue> SourceModel::evaluate(const std::vector<eval::HostValue>& inputs) const {
  return *guarded(shown_, [&](Diagnostics& d) -> std::optional<std::vector<eval::HostValue>> {
    const std::lock_guard lock(mutex_);
    Module& m = *loaded_.module;
    if (loaded_.gguf && !check_index_inputs(m, gguf_import::index_inputs(m, *loaded_.gguf), inputs, d)) return std::nullopt;
    return eval::evaluate(m, inputs, d, evaluation_limits(line_));
  });
}

std::vector<eval::HostValue> SourceModel::random_inputs(uint64_t seed, const DimBindings& sizes) const {
  return *guarded(shown_, [&](Diagnostics& d) -> std::optional<std::vector<eval::HostValue>> {
    const std::lock_guard lock(mutex_);
    const Module& m = *loaded_.module;
    for (const auto& [symbol, size] : sizes) knows_symbol(m, symbol, "random_inputs", d);
    eval::Options limits = evaluation_limits(line_);
    limits.bindings = sizes;
    if (!d.ok() || !eval::random_inputs_fit(m, limits, d)) return std::nullopt;
    return rlxc::random_inputs(m, loaded_.training, sizes, seed);
  });
}

Diagnostics SourceModel::save(const std::string& path, const OptionWords& words) const {
  return *guarded(shown_, [&](Diagnostics& d) -> std::optional<Diagnostics> {
    CommandLine line = line_with(words, kCompile, d);
    if (!d.ok()) return std::nullopt;
    line.output = file_path(path);
    const std::lock_guard lock(mutex_);
    LoadedModel model = loaded_.copy();
    if (source_->in_memory() || !path.ends_with(".onnx")) own_weights(*model.module);
    if (!write_module(*model.module, line, model, d)) return std::nullopt;
    return d;
  });
}

std::pair<std::string, Diagnostics> SourceModel::calibrate(const std::vector<std::string>& data, const OptionWords& words) const {
  return *guarded(shown_, [&](Diagnostics& d) -> std::optional<std::pair<std::string, Diagnostics>> {
    CommandLine line = line_with(words, kCalibrate, d);
    if (!d.ok()) return std::nullopt;
    line.CalibrateRequest::data = data;
    line.need_weights = true;
    const auto record = rlxc::calibrate(line, line, d);
    if (!record) return std::nullopt;
    return std::pair(calibration_json(*record), d);
  });
}

KernelRunner* CompiledModule::runner(Engine engine, const BuildOptions* wanted, Diagnostics& d) {
  const auto at = built_.find(engine);
  if (at != built_.end() && (!wanted || *wanted == at->second.options)) return at->second.runner.get();
  const BuildOptions options = wanted ? *wanted : BuildOptions();
  std::unique_ptr<KernelRunner> made;
  const bool native = find_backend(compiled.target)->info.host_run.how == HostRun::How::Native;
  if (engine == Engine::Kernels && native && !mesh_of(*compiled.lir.module)) {
    const RunOptions run{
        .compiler = options.compiler, .flags = options.flags, .threads = options.threads, .max_operations = line.max_operations};
    made = make_kernel_runner(compiled.lir, d, run, compiled.lowerings.get());
  } else {
    RunRequest request;
    request.engine = engine;
    request.target = compiled.target;
    made = make_runner(compiled.lir, line, request, compiled.lowerings.get(), d);
  }
  if (!made) return nullptr;
  Built& built = built_[engine];
  built = {options, std::move(made)};
  return built.runner.get();
}

void CompiledModule::build(Engine engine, const BuildOptions& options) {
  guarded(shown, [&](Diagnostics& d) {
    const std::lock_guard lock(mutex_);
    return engine == Engine::Reference || runner(engine, &options, d) != nullptr;
  });
}

std::vector<eval::HostValue> CompiledModule::run(std::vector<eval::HostValue> values, Engine engine) {
  return *guarded(shown, [&](Diagnostics& d) -> std::optional<std::vector<eval::HostValue>> {
    const std::lock_guard lock(mutex_);
    DataSet set{.name = "inputs", .inputs = std::move(values), .expected = {}};
    if (!strings_to_bytes(set, forms.text_inputs, d)) return std::nullopt;
    const Module& m = *compiled.lir.module;
    std::optional<std::vector<eval::HostValue>> results;
    if (engine == Engine::Reference) {
      if (!check_index_inputs(m, compiled.lir.index_inputs, set.inputs, d)) return std::nullopt;
      results = eval::evaluate(m, set.inputs, d, evaluation_limits(line));
    } else if (KernelRunner* const kernels = runner(engine, nullptr, d)) {
      results = kernels->run(set.inputs, d);
    }
    if (results) results = host_results(forms, std::move(*results));
    return results;
  });
}

std::vector<Comparison> CompiledModule::check(const SourceModel& model, const std::vector<eval::HostValue>& values, Engine engine,
                                              std::optional<double> rtol, std::optional<double> atol) {
  const std::vector<eval::HostValue> expected = model.evaluate(values), actual = run(values, engine);
  return *guarded(shown, [&](Diagnostics& d) -> std::optional<std::vector<Comparison>> {
    if (actual.size() != expected.size()) {
      d.error(Code::BadArity, "the module has other outputs than the model");
      return std::nullopt;
    }
    eval::Tolerance limits = tolerance;
    if (rtol || atol) {
      RunRequest request;
      request.rtol = rtol, request.atol = atol;
      limits = tolerance_of(line, request, *compiled.lir.module);
    }
    std::vector<Comparison> out;
    for (size_t i = 0; i < actual.size(); ++i) {
      const eval::Judgement j = eval::judge(actual[i], expected[i], for_type(limits, expected[i].tensor.dtype));
      out.push_back({outputs[i].name, j.message, j.pass, j.max_abs, j.max_rel, j.cosine, j.norm_error});
    }
    return out;
  });
}

std::vector<std::pair<size_t, eval::HostValue>> CompiledModule::first_states() const {
  std::vector<std::pair<size_t, eval::HostValue>> out;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const TensorData* first = first_contents(compiled.training, i)) out.emplace_back(i, eval::host_value(*first));
  return out;
}

std::vector<std::pair<std::string, std::string>> CompiledModule::reports() {
  using Files = std::vector<std::pair<std::string, std::string>>;
  return *guarded(shown, [&](Diagnostics&) -> std::optional<Files> {
    const std::lock_guard lock(mutex_);
    return json_artefacts(compiled, identity, line);
  });
}

std::string CompiledModule::page() {
  return *guarded(shown, [&](Diagnostics&) -> std::optional<std::string> {
    const std::lock_guard lock(mutex_);
    return report_page(compiled, identity, line);
  });
}

Diagnostics CompiledModule::save(const std::string& folder, const std::vector<std::string>& emit) {
  return *guarded(shown, [&](Diagnostics& d) -> std::optional<Diagnostics> {
    const std::lock_guard lock(mutex_);
    CommandLine own = line;
    own.output = file_path(folder);
    for (const std::string& word : emit)
      if (const std::string error = set_option(own, *find_option("emit"), word); !error.empty())
        d.error(Code::BadFlag, "emit " + error);
    if (own.element_bytes > 1 && (own.emit.empty() || own.emit.contains(Emit::Kernels)))
      d.error(Code::BadFlag, "element_bytes plans for kernels of others: ours keep elements at their own width", {},
              "choose artefacts, for example emit=[\"plan\", \"lir\"]");
    if (!d.ok()) return std::nullopt;
    std::optional<Compiled> forward;
    if (own.train && !(forward = compile_forward(compiled, compiled.target, own, d))) return std::nullopt;
    if (!write_artefacts(compiled, forward ? &*forward : nullptr, identity, own, {own.output, ""}, d)) return std::nullopt;
    return d;
  });
}

Difference diff(const std::vector<ReportFile>& before, const std::vector<ReportFile>& after,
                const std::vector<std::string>& fail_on) {
  return *guarded("", [&](Diagnostics& d) -> std::optional<Difference> {
    std::string message;
    std::vector<report::Condition> conditions;
    for (const std::string& text : fail_on) {
      if (const auto c = report::parse_condition(text, &message)) conditions.push_back(*c);
      else d.error(Code::BadFlag, "fail_on: " + message);
    }
    const auto facts = [&](const std::vector<ReportFile>& files) {
      report::Snapshot out;
      for (const ReportFile& f : files)
        if (!report::read_facts(f.name, f.text, f.prefix, &out, &message)) d.error(Code::BadJson, f.name + ": " + message);
      return out;
    };
    const report::Snapshot a = facts(before), b = facts(after);
    report::Diff found;
    if (d.ok() && !report::compare(a, b, conditions, &found, &message)) d.error(Code::BadFlag, "fail_on: " + message);
    if (!d.ok()) return std::nullopt;
    Difference out;
    JsonWriter w(out.json);
    report::write_diff(found, w, std::string(version()));
    w.flush();
    out.text = report::diff_text(found);
    out.finding = found.finding();
    return out;
  });
}

}  // namespace rlxc::python
