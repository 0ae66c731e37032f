#include "driver/artefacts.h"

#include <algorithm>
#include <filesystem>

#include "backend/dispatch.h"
#include "backend/kernel_folder.h"
#include "backend/target_traits.h"
#include "driver/commands.h"
#include "driver/pipeline.h"
#include "driver/transform_stage.h"
#include "options/configuration.h"
#include "report/arena_svg.h"
#include "report/graph_svg.h"
#include "report/lir_json.h"
#include "report/manifest.h"
#include "report/plan_json.h"
#include "report/precision.h"
#include "support/output_file.h"
#include "support/output_folder.h"
#include "support/text.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

class ArtefactWriter {
 public:
  // Writes to the folder `to`, which is renamed to `shown` later; to standard output if `to` is empty.
  ArtefactWriter(const CompileOptions& o, std::string to, std::string shown, Diagnostics& d)
      : options_(o), to_(std::move(to)), shown_(std::move(shown)), diagnostics_(d) {}

  bool wants(Emit e) const { return options_.emit.empty() || options_.emit.contains(e); }
  bool to_stdout() const { return to_.empty(); }

  template <class Body>
  void json(const std::string& name, Body body) {
    file(name, [&](OutputFile& f) {
      JsonWriter w(f);
      body(w);
      w.flush();
    });
  }

  const std::vector<report::ManifestFile>& written() const { return written_; }

  // `name` is the path within the folder.
  template <class Body>
  void file(const std::string& name, Body body) {
    auto f = OutputFile::create(to_stdout() ? "-" : to_ + "/" + name, diagnostics_, shown_ + (to_stdout() ? "" : "/" + name));
    if (!f) return;
    body(*f);
    if (f->commit()) written_.push_back({name, f->sha256_hex(), f->size()});
  }

 private:
  const CompileOptions& options_;
  std::string to_, shown_;
  Diagnostics& diagnostics_;
  std::vector<report::ManifestFile> written_;
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

report::FusionReport fusion_of(const Compiled& c) {
  const bool fuses = std::ranges::any_of(pipeline(c.target, {}), [](const PipelinePart& p) { return p.name == "fuse"; });
  std::vector<OpKind> no_kernel;
  for (size_t k = 0; k < kOpCount; ++k)
    if (const auto op = static_cast<OpKind>(k);
        has_trait(op, kFused) && op != OpKind::BatchNormInference && !(fuses && find_target(c.target)->native.test(k)))
      no_kernel.push_back(op);
  return {c.before, c.after, c.decisions, *c.lir.module, std::move(no_kernel)};
}

}  // namespace

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

bool write_artefacts(const Compiled& c, const InputIdentity& input, const CompileOptions& o, const std::string& folder,
                     Diagnostics& d) {
  std::optional<OutputFolder> out;
  if (folder != "-" && !(out = OutputFolder::create(folder, d))) return false;
  const report::ReportContext context = context_of(c, input);
  ArtefactWriter w(o, out ? out->staging() : "", folder, d);
  const auto text = [&](const std::string& name, const auto& body) {
    if (!w.to_stdout()) w.file(name, [&](OutputFile& f) { f.write(body()); });
  };
  if (w.wants(Emit::Lir)) w.json("lir.json", [&](JsonWriter& j) { report::write_lir(c.lir, j, context); });
  if (w.wants(Emit::Plan)) w.json("plan.json", [&](JsonWriter& j) { report::write_plan(c.lir, j, context); });
  if (w.wants(Emit::Fusion)) {
    w.json("fusion.json", [&](JsonWriter& j) { report::write_fusion(fusion_of(c), j, context); });
    text("fusion.txt", [&] { return fusion_text(c, input); });
  }
  if (w.wants(Emit::Dispatch)) {
    w.json("dispatch.json", [&](JsonWriter& j) { report::write_dispatch(*c.lir.module, dispatch_of(c), j, context); });
    text("dispatch.txt", [&] { return dispatch_text(c, input); });
  }
  const report::PrecisionReport precision{c.options.precision, c.precision,
                                          c.options.calibration ? &*c.options.calibration : nullptr, *c.lir.module};
  if (w.wants(Emit::Precision)) w.json("precision.json", [&](JsonWriter& j) { report::write_precision(precision, j, context); });
  if (w.wants(Emit::Quant)) w.json("quant.json", [&](JsonWriter& j) { report::write_quant(precision, j, context); });
  if (w.wants(Emit::Transform) && (!c.transforms.steps.empty() || o.emit.contains(Emit::Transform))) {
    w.json("transform.json", [&](JsonWriter& j) { write_ledger(c.transforms, j, context); });
    text("transform.txt", [&] { return ledger_text(c.transforms); });
  }
  if (w.wants(Emit::Graph)) w.file("graph.svg", [&](OutputFile& f) { f.write(report::graph_svg(c.lir)); });
  if (w.wants(Emit::Arena)) w.file("arena.svg", [&](OutputFile& f) { f.write(report::arena_svg(c.lir)); });
  if (w.wants(Emit::Kernels) && !w.to_stdout()) {
    // Missing kernels are warnings, unless the kernels were requested by name.
    const std::string kernels = "kernels/" + c.target;
    std::error_code ignored;  // writing the first file reports it
    fs::create_directory(out->staging() + "/kernels", ignored);
    fs::create_directory(out->staging() + "/" + kernels, ignored);
    Diagnostics found;
    write_kernel_folder(
        c.lir, c.target, {.embed_weights = o.embed_weights}, c.lowerings.get(),
        [&](const std::string& name, const auto& body) { w.file(kernels + "/" + name, body); }, found);
    for (Diagnostic item : found.items()) {
      const bool tolerable = item.code == Code::UnsupportedOnTarget || item.code == Code::MissingWeights;
      if (o.emit.empty() && tolerable) item.severity = Severity::Warning;
      d.add(std::move(item));
    }
    if (!found.ok()) {
      fs::remove(out->staging() + "/" + kernels, ignored);
      if (d.ok())
        d.warning(Code::UnsupportedOnTarget, kernels + " is not written", {},
                  "the other artefacts are complete; --emit kernels makes this an error");
    }
  }
  if (!w.to_stdout() && d.ok()) {
    const report::Manifest manifest{c.lir.fingerprint.hex(), w.written(), resolved_options(o, c.lir)};
    w.json("manifest.json", [&](JsonWriter& j) { report::write_manifest(manifest, j, context); });
  }
  return d.ok() && (!out || out->commit(d));
}

}  // namespace rlxc
