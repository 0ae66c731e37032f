#include "driver/artefacts.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "backend/backend.h"
#include "backend/c/cpu.h"
#include "backend/dispatch.h"
#include "backend/kernel_folder.h"
#include "backend/target_traits.h"
#include "driver/annotated_module.h"
#include "driver/load.h"
#include "driver/onnx_out.h"
#include "driver/pipeline.h"
#include "driver/prepack.h"
#include "driver/training_report.h"
#include "driver/transform_stage.h"
#include "driver/undivided_model.h"
#include "import/gguf/metadata.h"
#include "ir/graphs.h"
#include "ir/mesh.h"
#include "options/configuration.h"
#include "report/arena_svg.h"
#include "report/graph_svg.h"
#include "report/lir_json.h"
#include "report/manifest.h"
#include "report/mesh_svg.h"
#include "report/plan_json.h"
#include "report/precision.h"
#include "report/sharding.h"
#include "support/json_form.h"
#include "support/json_reader.h"
#include "support/output_file.h"
#include "support/output_folder.h"
#include "support/parallel.h"
#include "support/progress.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

// Writes files to a folder that is renamed to `shown` later; to standard output if `to` is empty.
class FileWriter {
 public:
  FileWriter(std::string to, std::string shown, Diagnostics& d) : to_(std::move(to)), shown_(std::move(shown)), diagnostics_(d) {}

  // `name` is the path within the folder.
  template <class Body>
  void file(const std::string& name, Body body) {
    auto f = to_.empty() ? OutputFile::create("-", diagnostics_, shown_)
                         : OutputFile::create_in_temporary(to_ + "/" + name, diagnostics_, shown_ + "/" + name);
    if (!f) return;
    body(*f);
    if (f->commit()) written_.push_back({name, f->sha256_hex(), f->size()});
  }
  template <class Body>
  void json(const std::string& name, Body body) {
    file(name, [&](OutputFile& f) {
      JsonWriter w(f);
      body(w);
      w.flush();
    });
  }

  Diagnostics& diagnostics() { return diagnostics_; }
  const std::vector<report::ManifestFile>& written() const { return written_; }

 private:
  std::string to_, shown_;
  Diagnostics& diagnostics_;
  std::vector<report::ManifestFile> written_;
};

// The artefacts of a compile, each written by a task of its own.
class ArtefactWriter {
 public:
  using Task = std::function<void(FileWriter&)>;

  ArtefactWriter(const CompileOptions& o, std::string to, std::string shown)
      : options_(o), to_(std::move(to)), shown_(std::move(shown)) {}

  bool wants(Emit e) const { return options_.emit.empty() || options_.emit.contains(e); }
  bool to_stdout() const { return to_.empty(); }

  // Tasks that only read the module run in parallel. Tasks that add sizes or graphs to it run alone.
  enum class Access : uint8_t { Read, Write };

  // Standard output gets one form of a report.
  template <class Body>
  void json(const std::string& name, Body body, Access access = Access::Read) {
    if (to_stdout() && options_.text) return;
    add([=](FileWriter& w) { w.json(name, body); }, access);
  }

  template <class Body>
  void text(const std::string& name, Body body, Access access = Access::Read) {
    if (to_stdout() && !options_.text) return;
    file(name, body, access);
  }
  // `body` returns the contents.
  template <class Body>
  void file(const std::string& name, Body body, Access access = Access::Read) {
    add([=](FileWriter& w) { w.file(name, [&](OutputFile& f) { f.write(body()); }); }, access);
  }
  void add(Task t, Access access) {
    (access == Access::Read ? readers_ : writers_).push_back(tasks_.size());
    tasks_.push_back(std::move(t));
  }

  // Runs the tasks, those that read in parallel if that pays, and returns the files in the order of the tasks.
  std::vector<report::ManifestFile> write(bool in_parallel, Diagnostics& d) {
    std::vector<Diagnostics> found(tasks_.size());
    std::vector<std::vector<report::ManifestFile>> files(tasks_.size());
    const auto run = [&](size_t i) {
      FileWriter w(to_, shown_, found[i]);
      tasks_[i](w);
      files[i] = w.written();
    };
    if (in_parallel) run_in_parallel(readers_.size(), [&](size_t i) { run(readers_[i]); });
    else std::ranges::for_each(readers_, run);
    std::ranges::for_each(writers_, run);
    std::vector<report::ManifestFile> all;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      d.add(found[i]);
      all.insert(all.end(), files[i].begin(), files[i].end());
    }
    return all;
  }

 private:
  const CompileOptions& options_;
  std::string to_, shown_;
  std::vector<Task> tasks_;
  std::vector<size_t> readers_, writers_;  // indices of tasks
};

// Returns the options that affect the output, with the alignment and max_binding of the plan.
std::string resolved_options(const CompileOptions& o, const LirModule& lir) {
  CommandLine line;
  static_cast<CompileOptions&>(line) = o;
  line.alignment = lir.alignment;
  line.max_binding = lir.max_binding;
  return manifest_options(line);
}

report::ReportContext context_of(const Compiled& c, const InputIdentity& input) {
  return {input.name, input.sha256, input.sampled, c.target, std::string(version())};
}

std::vector<report::DispatchNode> dispatch_of(const Compiled& c) {
  std::vector<report::DispatchNode> nodes = dispatched_nodes(c.lir, *find_target(c.target));
  nodes.insert(nodes.end(), c.rewritten.begin(), c.rewritten.end());
  return nodes;
}

// Kinds with a decomposition that models bring and no pass forms.
constexpr OpKind kOfModels[] = {OpKind::BatchNormInference, OpKind::FakeQuantize};

report::FusionReport fusion_of(const Compiled& c) {
  const bool fuses = std::ranges::any_of(pipeline(c.target, {}), [](const PipelinePart& p) { return p.name == "fuse"; });
  std::vector<OpKind> no_kernel;
  for (size_t k = 0; k < kOpCount; ++k)
    if (const auto op = static_cast<OpKind>(k);
        has_trait(op, kFused) && !std::ranges::count(kOfModels, op) && !(fuses && find_target(c.target)->native.test(k)))
      no_kernel.push_back(op);
  return {c.before, c.after, c.decisions, c.lir, std::move(no_kernel)};
}

// The package, and that of the program which evaluates a model in training. Errors of the first go to `found`.
void write_kernels(const Compiled& c, const Compiled* forward, const CompileOptions& o, const MakeFile& make_file,
                   Diagnostics& found, Diagnostics& d) {
  CpuPackageOptions options{.embed_weights = o.embed_weights, .tpu_precision = o.tpu_precision};
  std::optional<TrainingProgram> training;
  if (forward) options.training = &training.emplace(training_program(c, codegen::package_name(*forward->lir.module)));
  write_kernel_folder(c.lir, c.target, options, c.lowerings.get(), make_file, found);
  if (!forward || !found.ok()) return;
  make_file(checkpoint_file(codegen::package_name(*c.lir.module)), [&](OutputFile& f) {
    if (!write_checkpoint(*training, [&](std::span<const std::byte> bytes) { return f.write(bytes); }) && f.ok())
      d.error(Code::MissingWeights, "the model carries no data for a parameter to train");
  });
  options.training = nullptr;
  const auto beside = [&](const std::string& name, const auto& body) { make_file("forward/" + name, body); };
  write_kernel_folder(forward->lir, c.target, options, forward->lowerings.get(), beside, d);
}

// Beside the module of a device, the module of the whole model with annotations, in sdy/.
void write_annotated(const Compiled& c, const CompileOptions& o, const MakeFile& make_file, Diagnostics& d) {
  const auto model = annotated_model(o, c.target, d);
  if (!model) return;
  const CpuPackageOptions options{.embed_weights = o.embed_weights, .tpu_precision = o.tpu_precision, .prepare_weights = false};
  const std::string text = stablehlo::translate(model->compiled.lir, codegen::package_name(*model->compiled.lir.module),
                                                find_backend(c.target)->info.dtypes, options, d, &model->annotations)
                               .module;
  if (!d.ok()) return;
  const auto beside = [&](const std::string& name, const auto& body) {
    if (name == "model.mlir") make_file("sdy/" + name, [&](OutputFile& f) { f.write(text); });
    else make_file("sdy/" + name, body);
  };
  write_kernel_folder(model->compiled.lir, c.target, options, nullptr, beside, d);
}

// The module that was compiled; of a divided one, the whole module as it was read, annotated.
void write_onnx_file(const Compiled& c, const CompileOptions& o, const std::string& path, FileWriter& to) {
  Diagnostics& d = to.diagnostics();
  Module* m = c.lir.module.get();
  std::optional<LoadedModel> whole;
  if (mesh_of(*m)) {
    Diagnostics inner;  // the compile of the divided model reports its warnings
    whole = load_model(o, inner);
    const bool good = whole && annotate_shardings(*whole, o, c.target, inner);
    for (const Diagnostic& item : inner.items())
      if (item.severity == Severity::Error) d.add(item);
    if (!good) return;
    m = whole->module.get();
  }
  const auto model = onnx_model(*m, path, Fused::Functions, o, d);
  if (!model) return;
  to.file("model.onnx", [&](OutputFile& f) { f.write(model->bytes); });
  if (!model->data_name.empty()) to.file(model->data_name, [&](OutputFile& f) { write_external_data(*model, f); });
}

// kernels/TARGET. If the kernels were not requested by name, nodes without kernels do not keep the other artefacts from being
// written: their errors go to `missing`.
void write_kernels_folder(const Compiled& c, const Compiled* forward, const InputIdentity& input, const CompileOptions& o,
                          const std::string& staging, FileWriter& to, Diagnostics& missing) {
  Diagnostics& d = to.diagnostics();
  const std::string kernels = "kernels/" + c.target;
  std::error_code ignored;  // writing the first file reports it
  fs::create_directories(staging + "/" + kernels + (forward ? "/forward" : ""), ignored);
  Diagnostics found;
  const auto make_file = [&](const std::string& name, const auto& body) { to.file(kernels + "/" + name, body); };
  write_kernels(c, forward, o, make_file, found, d);
  if (found.ok() && mesh_of(*c.lir.module) && find_backend(c.target)->info.annotations) {
    fs::create_directories(staging + "/" + kernels + "/sdy", ignored);
    write_annotated(c, o, make_file, d);
  }
  if (o.prepack && found.ok() && find_backend(c.target)->info.language == target::cpu) {
    note_stage("prepack");
    const std::string name = codegen::package_name(*c.lir.module);
    if (forward || mesh_of(*c.lir.module))
      d.error(Code::BadFlag, "--prepack: programs that train or run on several devices do not read packed weights");
    else if (const auto packed = prepack(staging + "/" + kernels, name, fs::path(o.input).parent_path().string(), d))
      to.file(kernels + "/" + name + ".packed", [&](OutputFile& f) { f.write(packed->bytes()); });
  }
  if (input.gguf && found.ok())
    to.json(kernels + "/metadata.json", [&](JsonWriter& j) {
      j.begin_object();
      report::write_header(j, "metadata", context_of(c, input));
      j.key("metadata");
      gguf_import::write_metadata(*input.gguf, j);
      j.end_object().finish();
    });
  for (Diagnostic item : found.items()) {
    if (o.emit.empty() && item.code == Code::MissingWeights) item.severity = Severity::Warning;  // of --allow-missing-weights
    (o.emit.empty() && item.code == Code::UnsupportedOnTarget ? missing : d).add(std::move(item));
  }
  if (found.ok()) return;
  fs::remove_all(staging + "/" + kernels, ignored);
  if (!d.ok()) return;
  const std::string what = kernels + " is not written",
                    help = "the other artefacts are complete; --emit lir,plan,fusion asks for them alone";
  if (missing.ok()) d.warning(Code::MissingWeights, what, {}, help);
  else missing.error(Code::UnsupportedOnTarget, what, {}, help);
}

}  // namespace

std::optional<FusionFiles> kept_fusion(const CompileOptions& o) {
  if (o.stop_after != "hir" || fs::path(o.input).filename() != "lir.json") return std::nullopt;  // the passes ran before
  const auto read = [&](const char* name) {
    std::ifstream file(fs::path(o.input).replace_filename(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  // The model and the target that a file is about, as it has them.
  const auto about = [](const std::string& text) {
    JsonReader r(text);
    std::string_view input, target;
    std::string both;
    if (r.peek() == JsonReader::Kind::Object && r.begin_object())
      for (std::string_view key; r.next_key(&key);) {
        const bool wanted = key == "input" || key == "target";
        std::string_view raw;
        if (!wanted) r.skip();
        else if (r.raw(&raw)) both += raw;
      }
    return r.ok() ? both : std::string();
  };
  FusionFiles files{read("fusion.json"), read("fusion.txt")};
  const std::string model = about(files.json);
  if (model.empty() || model != about(read("lir.json")) || version_fault(files.json)) return std::nullopt;
  return files;
}

std::string fusion_text(const Compiled& c, const InputIdentity& input) {
  std::string s;
  report::write_fusion_text(fusion_of(c), &s, context_of(c, input));
  return s;
}

std::string dispatch_text(const Compiled& c, const InputIdentity& input) {
  std::string s;
  report::write_dispatch_text(*c.lir.module, dispatch_of(c), &s, context_of(c, input));
  return s;
}

std::vector<std::pair<std::string, std::string>> json_artefacts(const Compiled& c, const InputIdentity& input,
                                                                const CompileOptions& o) {
  const report::ReportContext context = context_of(c, input);
  const report::PrecisionReport precision{c.options.precision, c.precision,
                                          c.options.calibration ? &*c.options.calibration : nullptr, *c.lir.module};
  std::vector<std::pair<std::string, std::string>> out;
  const auto add = [&](const char* name, auto write) {
    JsonWriter w(out.emplace_back(name, std::string()).second);
    write(w);
    w.flush();
  };
  add("lir.json", [&](JsonWriter& w) { report::write_lir(c.lir, w, context); });
  add("plan.json", [&](JsonWriter& w) { report::write_plan(c.lir, w, context); });
  add("fusion.json", [&](JsonWriter& w) { report::write_fusion(fusion_of(c), w, context); });
  if (auto kept = kept_fusion(o)) out.back().second = std::move(kept->json);
  add("dispatch.json", [&](JsonWriter& w) { report::write_dispatch(*c.lir.module, dispatch_of(c), w, context); });
  add("precision.json", [&](JsonWriter& w) { report::write_precision(precision, w, context); });
  add("quant.json", [&](JsonWriter& w) { report::write_quant(precision, w, context); });
  add("manifest.json", [&](JsonWriter& w) {
    report::write_manifest({c.lir.fingerprint.hex(), {}, resolved_options(o, c.lir)}, w, context);
  });
  return out;
}

bool has_text_form(Emit e) {
  return e == Emit::Plan || e == Emit::Fusion || e == Emit::Dispatch || e == Emit::Transform || e == Emit::Sharding;
}

bool write_artefacts(const Compiled& c, const Compiled* forward, const InputIdentity& input, const CompileOptions& o,
                     const Destination& to, Diagnostics& d) {
  std::optional<OutputFolder> own;
  const std::string& folder = to.folder;
  if (folder != "-" && to.staging.empty() && !(own = OutputFolder::create(folder, d))) return false;
  const report::ReportContext context = context_of(c, input);
  const std::string staging = own ? own->staging() : to.staging;
  const bool out = !staging.empty();
  Diagnostics missing;
  ArtefactWriter w(o, staging, folder);
  constexpr auto kWrite = ArtefactWriter::Access::Write;
  if (w.wants(Emit::Lir)) w.json("lir.json", [&](JsonWriter& j) { report::write_lir(c.lir, j, context); });
  if (w.wants(Emit::Plan)) {
    // Sums of sizes without symbols are no expressions of the module.
    const auto access = c.lir.module->dims.symbol_names().empty() ? ArtefactWriter::Access::Read : kWrite;
    const auto plan_text = [&] {
      std::string s;
      report::write_plan_text(c.lir, &s, context);
      return s;
    };
    w.json(
        "plan.json", [&](JsonWriter& j) { report::write_plan(c.lir, j, context); }, access);
    w.text("plan.txt", plan_text, access);
  }
  const std::optional<FusionFiles> kept = kept_fusion(o);
  if (w.wants(Emit::Fusion) && kept) {
    w.text("fusion.json", [&] { return kept->json; });
    w.text("fusion.txt", [&] { return kept->text; });
  } else if (w.wants(Emit::Fusion)) {
    w.json("fusion.json", [&](JsonWriter& j) { report::write_fusion(fusion_of(c), j, context); });
    w.text("fusion.txt", [&] { return fusion_text(c, input); });
  }
  if (w.wants(Emit::Dispatch)) {
    w.json("dispatch.json", [&](JsonWriter& j) { report::write_dispatch(*c.lir.module, dispatch_of(c), j, context); });
    w.text("dispatch.txt", [&] { return dispatch_text(c, input); });
  }
  const report::PrecisionReport precision{c.options.precision, c.precision,
                                          c.options.calibration ? &*c.options.calibration : nullptr, *c.lir.module};
  if (w.wants(Emit::Precision)) w.json("precision.json", [&](JsonWriter& j) { report::write_precision(precision, j, context); });
  if (w.wants(Emit::Quant)) w.json("quant.json", [&](JsonWriter& j) { report::write_quant(precision, j, context); });
  if (w.wants(Emit::Transform) && (!c.transforms.steps.empty() || o.emit.contains(Emit::Transform))) {
    w.json("transform.json", [&](JsonWriter& j) { write_ledger(c.transforms, j, context); });
    w.text("transform.txt", [&] { return ledger_text(c.transforms); });
  }
  if (w.wants(Emit::Training) && forward)
    w.json(
        "training.json", [&](JsonWriter& j) { write_training(c, forward->lir, j, context); }, kWrite);
  if (mesh_of(*c.lir.module) && w.wants(Emit::Sharding)) {
    const Machine& machine = find_target(c.target)->machine;
    const Link link{o.link_bandwidth};
    w.json("sharding.json", [&, link](JsonWriter& j) { report::write_sharding(c.lir, machine, link, j, context); });
    w.text("sharding.txt", [&, link] { return report::sharding_text(c.lir, machine, link); });
    if (out) w.file("mesh.svg", [&, link] { return report::mesh_svg(c.lir, machine, link); });
  }
  if (o.emit.contains(Emit::Report))
    w.file(
        "report.html", [&] { return report_page(c, input, o); }, kWrite);
  if (w.wants(Emit::Graph)) w.file("graph.svg", [&] { return report::graph_svg(c.lir); });
  if (w.wants(Emit::Arena)) w.file("arena.svg", [&] { return report::arena_svg(c.lir); });
  if (w.wants(Emit::Kernels) && !w.to_stdout())
    w.add([&](FileWriter& files) { write_kernels_folder(c, forward, input, o, staging, files, missing); }, kWrite);
  if (o.emit.contains(Emit::Onnx))
    w.add([&](FileWriter& files) { write_onnx_file(c, o, out ? folder + "/model.onnx" : "-", files); }, kWrite);
  constexpr size_t kFewNodes = 300;  // their files are written before another thread has begun
  const std::vector<report::ManifestFile> files = w.write(live_nodes(*c.lir.module) >= kFewNodes, d);
  if (!out && files.empty() && d.ok())
    d.error(Code::BadFlag, "this compile has nothing to write for --emit", {},
            "transform needs a transform, for example --grad; training needs --train; sharding needs --mesh");
  if (out && d.ok()) {
    const report::Manifest manifest{c.lir.fingerprint.hex(), files, resolved_options(o, c.lir)};
    FileWriter(staging, folder, d).json("manifest.json", [&](JsonWriter& j) { report::write_manifest(manifest, j, context); });
  }
  if (!d.ok() || (own && !own->commit(d))) return false;
  for (const std::string& package : own ? own->kept() : std::set<std::string>())
    d.warning(Code::BadFlag, package + " of an earlier compile stays", quote(folder),
              "give another folder with -o, or remove it");
  d.add(missing);
  return true;
}

report::PageMachines page_machines() {
  report::PageMachines out;
  for (const Backend* b : backends()) out.emplace_back(b->info.name, b->info.machine);
  return out;
}

std::string report_page(const Compiled& c, const InputIdentity& input, const CompileOptions& o) {
  report::PageCompile page{ForeignText(input.name).line() + " for " + c.target, json_artefacts(c, input, o), c.pass_diffs};
  return report::html_report({page}, page_machines(), version());
}

}  // namespace rlxc
