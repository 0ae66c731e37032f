// `rlxc compile`: compiles for each target and writes artefacts, dumps and a short summary.
#include <chrono>
#include <deque>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "backend/kernel_folder.h"
#include "backend/target_traits.h"
#include "commands/calibrate.h"
#include "commands/commands.h"
#include "commands/log.h"
#include "commands/profile.h"
#include "commands/progress_line.h"
#include "commands/run.h"
#include "commands/timing.h"
#include "driver/artefacts.h"
#include "driver/check_options.h"
#include "driver/compile_cache.h"
#include "driver/load.h"
#include "driver/reproducer.h"
#include "ir/text.h"
#include "report/diff.h"
#include "report/plan_json.h"
#include "support/json_reader.h"
#include "support/line_diff.h"
#include "support/mapped_file.h"
#include "support/number.h"
#include "support/output_file.h"
#include "support/output_folder.h"
#include "support/parallel.h"
#include "support/progress.h"
#include "support/schemas.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

// Writes the stages as numbered text files of a folder, skipping unchanged ones, or collects their text for one file.
class Dump {
 public:
  Dump(std::string where, Diagnostics& d) : where_(std::move(where)), diagnostics_(d), folder_(where_.ends_with('/')) {}

  void stage(std::string_view name, bool changed, const Module& m) {
    if (where_.empty() || (!changed && name != "import" && name != "lir")) return;
    std::string text = print(m, {.full_data = false, .origins = true});
    if (folder_) {
      std::string number = std::to_string(count_++);
      number.insert(0, 3 - std::min<size_t>(3, number.size()), '0');
      make_folder(where_);
      const std::string file = number + "-" + std::string(name) + ".txt";
      write_file(where_ + file, text, diagnostics_);
      if (count_ > 1)
        write_file(where_ + file.substr(0, file.size() - 3) + "diff", unified_diff(last_, text, last_file_, file), diagnostics_);
      last_ = std::move(text);
      last_file_ = file;
    } else {
      all_ += "// after " + std::string(name) + "\n" + text;
    }
  }
  std::string collected() { return std::move(all_); }  // empty if there is a folder

 private:
  void make_folder(const std::string& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) diagnostics_.error(Code::NotWritable, "cannot make the folder \"" + path + "\": " + error.message());
  }

  std::string where_;
  Diagnostics& diagnostics_;
  bool folder_;
  int count_ = 0;
  std::string all_, last_, last_file_;
};

void print_times(const Compiled& c, std::ostream& out) {
  out << "time of " << c.target << "\n";
  std::vector<const PassRecord*> slowest;
  double total = 0;
  for (const PassRecord& p : c.passes.passes) total += p.seconds;
  for (const PassRecord& p : c.passes.passes) {
    if (p.skipped) continue;
    out << std::fixed << std::setprecision(3) << std::setw(10) << p.seconds * 1e3 << " ms " << std::setw(5)
        << std::setprecision(1) << (total > 0 ? 100 * p.seconds / total : 0) << " %  " << p.name
        << (p.result.changed ? "" : " (unchanged)") << ", " << p.nodes << " nodes\n";
  }
  for (const auto& [stage, seconds] : c.seconds)
    out << std::fixed << std::setprecision(3) << std::setw(10) << seconds * 1e3 << " ms          " << stage << " in all\n";
  const size_t lowerings = c.lowerings ? c.lowerings->lowerings() : 0;
  if (lowerings == 0) return;  // kernels were not requested, or this is a graph target
  const size_t nodes = codegen::count_lowered_nodes(c.lir);
  out << std::setw(10) << lowerings << " lowerings of " << nodes << " distinct nodes, " << std::setprecision(2)
      << static_cast<double>(lowerings) / static_cast<double>(std::max<size_t>(nodes, 1)) << " each\n";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Bytes; of a symbolic model at both ends of its ranges: "1.3 KiB (batch=1, seq=1) to 5.1 MiB (batch=1, seq=128)".
std::string arena_text(const LirModule& lir) {
  const Dim arena = lir.plans[0].arena_size;
  if (arena.is_static()) return human_bytes(static_cast<uint64_t>(arena.size()));
  std::string out;
  for (const DimBindings& sizes : report::corner_sizes(lir)) {
    const auto bytes = lir.module->dims.evaluate(arena, sizes);
    std::string at;
    for (const auto& [name, size] : sizes) at += (at.empty() ? "" : ", ") + ForeignText(name).line() + "=" + std::to_string(size);
    out += (out.empty() ? "" : " to ") + (bytes ? human_bytes(static_cast<uint64_t>(*bytes)) : std::string("unknown")) + " (" +
           at + ")";
  }
  return out;
}

void print_summary(const Compiled& c, const std::string& where, std::ostream& out) {
  int64_t formed = 0, declined = 0;
  for (const Decision& d : c.decisions) (d.fused ? formed : declined)++;
  const auto count = [](int64_t n, const std::string& what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : what.ends_with("ch") ? "es" : "s");
  };
  out << c.target << ": " << count(c.before.nodes, "node") << ", " << count(c.before.launches, "launch") << " -> "
      << count(c.after.nodes, "node") << ", " << count(c.after.launches, "launch") << "; " << count(formed, "fusion")
      << " formed, " << declined << " declined; arena " << arena_text(c.lir) << " -> " << where << "\n";
}

// Collects what each pass changed, for report.html.
class DiffLog {
 public:
  explicit DiffLog(bool on) : on_(on) {}

  void stage(std::string_view name, bool changed, const Module& m) {
    if (!on_ || (!changed && !last_.empty())) return;
    std::string text = print(m, {.full_data = false, .origins = false});
    if (!last_.empty()) diffs_.emplace_back(name, unified_diff(last_, text, "before", "after"));
    last_ = std::move(text);
  }
  std::vector<std::pair<std::string, std::string>> take() { return std::move(diffs_); }

 private:
  bool on_;
  std::string last_;
  std::vector<std::pair<std::string, std::string>> diffs_;
};

// The conditions of --assert. Errors: those that cannot be read, and those on facts that no compile has.
std::vector<report::Condition> assertions(const CompileOptions& o, Diagnostics& d) {
  std::vector<report::Condition> conditions;
  std::string message;
  for (const std::string& text : o.asserted) {
    const auto condition = report::parse_condition(text, &message);
    if (condition && report::check_assertion(*condition, &message)) conditions.push_back(*condition);
    else d.error(Code::BadFlag, "--assert " + (condition ? quote(text) + ": " : "") + message);
  }
  return conditions;
}

// Returns whether all conditions hold.
bool assertions_hold(const Compiled& c, const InputIdentity& input, const CompileOptions& o,
                     const std::vector<report::Condition>& conditions, std::ostream& out, Diagnostics& d) {
  if (conditions.empty()) return true;
  report::Snapshot facts;
  std::string message;
  for (const auto& [name, text] : json_artefacts(c, input, o)) {
    if (name == "manifest.json") continue;
    report::read_facts(name, text, "", &facts, &message);
  }
  std::vector<std::string> failed;
  const bool read = report::assert_facts(facts, conditions, &failed, &message);
  if (!read) d.error(Code::BadFlag, "--assert: " + message);
  for (const std::string& text : failed) out << c.target << ": FAIL " << ForeignText(text).line() << "\n";
  return failed.empty() && read;
}

// The folder of a target among several, which is removed if the compile fails.
class TargetFolder {
 public:
  explicit TargetFolder(const std::string& path) : path_(path) {
    std::error_code error;  // writing the first file reports it
    if (!path_.empty()) fs::create_directory(path_, error);
  }
  ~TargetFolder() {
    if (!path_.empty() && !done_) remove_path(path_);
  }
  TargetFolder(const TargetFolder&) = delete;
  TargetFolder& operator=(const TargetFolder&) = delete;
  void keep() { done_ = true; }

 private:
  const std::string& path_;
  bool done_ = false;
};

// The compile for one of the targets. Several run at the same time.
struct TargetCompile {
  const CompileOptions& options;
  const std::string& target;
  Destination to;
  std::string dump_path;
  const std::vector<report::Condition>& conditions;
  Log& log;
  bool is_last = true;  // the process is about to end

  Diagnostics diagnostics{options.input};
  std::ostringstream text = {};  // for standard error
  std::string dumped = {};       // the stages, for one file
  std::optional<TimedCompile> timed = {};
  bool asserted = true;

  void run(LoadedModel, double load_seconds);
};

void TargetCompile::run(LoadedModel model, double load_seconds) {
  const CompileOptions& o = options;
  Diagnostics& d = diagnostics;
  const bool to_stdout = o.output == "-";
  const std::string& folder = to.folder;
  TargetFolder made(to.staging);
  std::optional<CompileCache> cache;
  if (!o.cache.empty() && !to_stdout && o.dump.empty() && !(cache = CompileCache::open(o, *model.module, target, d))) return;
  if (cache && cache->fetch(folder, to.staging, d)) {
    made.keep();
    if (!o.quiet) text << target << ": from the cache -> " << folder << "\n";
    return;
  }
  const InputIdentity input{fs::path(o.input).filename().string(), model.content_hash, model.hash_sampled, model.gguf};
  DiffLog diffs(o.emit.contains(Emit::Report));
  Dump dump(dump_path, d);
  int64_t runs = -1;  // the first stage is the import
  std::string last;
  const auto sink = [&](std::string_view stage, bool changed, const Module& m) {
    ++runs;
    last = stage;
    log.stage(target, stage, changed, m);
    dump.stage(stage, changed, m);
    diffs.stage(stage, changed, m);
  };
  auto compiled = compile(std::move(model), target, o, sink, d);
  if (!compiled) return write_reproducer(o, target, runs, last, to_stdout ? "." : o.output, d);
  dumped = dump.collected();
  std::optional<Compiled> forward;
  if (o.train && !(forward = compile_forward(*compiled, target, o, d))) return;
  compiled->pass_diffs = diffs.take();
  note_stage("write");
  log.message("writing " + folder);
  const auto write_start = std::chrono::steady_clock::now();
  if (!write_artefacts(*compiled, forward ? &*forward : nullptr, input, o, to, d)) return;
  made.keep();
  if (cache && d.ok()) cache->store(to.staging.empty() ? folder : to.staging, d);
  if (!o.timing.empty()) {
    timed = {target, compiled->seconds, compiled->passes.passes};
    timed->stages.insert(timed->stages.begin(), {"load", load_seconds});
    timed->stages.emplace_back("write", seconds_since(write_start));
  }
  asserted = assertions_hold(*compiled, input, o, conditions, text, d);
  if (o.print_fusion) text << fusion_text(*compiled, input);
  if (o.print_dispatch) text << dispatch_text(*compiled, input);
  if (o.time_passes) print_times(*compiled, text);
  if (!o.quiet && !to_stdout) print_summary(*compiled, folder, text);
  // Leaks the module on purpose: freeing a million nodes takes time.
  if (is_last) {
    [[maybe_unused]] static Compiled* kept;
    kept = new Compiled(std::move(*compiled));
  }
}

}  // namespace

ExitCode compile_command(const CompileOptions& o, Terminal t) {
  Diagnostics d(o.input);
  std::vector<std::string> targets;
  for (const std::string& name : o.targets) {
    if (name == "all") targets.assign(target_names().begin(), target_names().end());
    else if (std::find(targets.begin(), targets.end(), name) == targets.end()) targets.push_back(name);
  }
  const bool to_stdout = o.output == "-";
  if (to_stdout && (o.emit.size() != 1 || targets.size() != 1 || o.emit.contains(Emit::Kernels))) {
    d.error(Code::BadFlag, "-o - needs one target and one --emit that is a single file", {}, "for example --emit fusion -o -");
    return print_diagnostics(d, t);
  }
  if (o.text && !(to_stdout && has_text_form(*o.emit.begin()))) {
    d.error(Code::BadFlag, "--text needs -o - and one of --emit plan, fusion, dispatch, transform or sharding", {},
            "a folder gets both forms");
    return print_diagnostics(d, t);
  }
  if (o.element_bytes > 1 && (o.emit.empty() || o.emit.contains(Emit::Kernels))) {
    d.error(Code::BadFlag, "--element-bytes plans for kernels of others: ours keep elements at their own width", {},
            "choose artefacts with --emit, for example --emit plan,lir");
    return print_diagnostics(d, t);
  }
  if (o.prepack && (std::ranges::count(targets, "cpu") == 0 || (!o.emit.empty() && !o.emit.contains(Emit::Kernels)))) {
    d.error(Code::BadFlag, "--prepack needs --target cpu and its kernels");
    return print_diagnostics(d, t);
  }
  if (!o.timing.empty() && to_stdout) {
    d.error(Code::BadFlag, "--timing and -o - both write to standard output", {}, "give a folder with -o");
    return print_diagnostics(d, t);
  }
  check_targets(targets, d);
  const std::vector<report::Condition> conditions = assertions(o, d);
  if (!d.ok()) return print_diagnostics(d, t);
  check_options(o, targets, d);
  Log log(o.verbose);
  log.message("reading " + o.input);
  const auto load_start = std::chrono::steady_clock::now();
  auto model = load_model(o, d);
  if (!model) return print_diagnostics(d, t);
  const double load_seconds = seconds_since(load_start);
  const std::vector<std::string> files = files_read(o, *model->module);
  std::deque<TargetCompile> compiles;
  const bool several = targets.size() > 1;
  std::optional<OutputFolder> all;  // of several targets, replaced as a unit
  if (several && !(all = OutputFolder::create(o.output, d))) return print_diagnostics(d, t);
  for (const std::string& target : targets)
    compiles.push_back(
        {.options = o,
         .target = target,
         .to = several ? Destination{o.output + "/" + target, all->staging() + "/" + target} : Destination{o.output, ""},
         .dump_path = several && o.dump.ends_with('/') ? o.dump + target + "/" : o.dump,
         .conditions = conditions,
         .log = log,
         .is_last = &target == &targets.back()});
  run_in_parallel(compiles.size(),
                  [&](size_t i) { compiles[i].run(several ? model->copy() : std::move(*model), i == 0 ? load_seconds : 0); });
  clear_progress_line();
  // The targets that failed keep what their folders have.
  std::error_code nothing_written;
  if (all && !fs::is_empty(all->staging(), nothing_written)) all->commit(d);
  std::vector<TimedCompile> timed;
  std::vector<std::string> outputs;
  std::string dumped;
  bool asserted = true;
  for (TargetCompile& c : compiles) {
    std::cerr << c.text.view();
    d.add(c.diagnostics);
    if (c.timed) timed.push_back(std::move(*c.timed));
    outputs.push_back(c.to.folder + "/manifest.json");
    dumped += c.dumped;
    asserted &= c.asserted;
  }
  if (!d.ok()) return print_diagnostics(d, t);
  if (!dumped.empty()) write_file(o.dump, dumped, d);
  if (!o.depfile.empty() && !to_stdout) write_depfile(o.depfile, outputs, files, d);
  if (!timed.empty()) std::cout << (o.timing == "trace" ? timing_trace(timed) : timing_json(timed));
  const ExitCode code = print_diagnostics(d, t);
  return code == ExitCode::Ok && !asserted ? ExitCode::Finding : code;
}

ExitCode specialize_command(CompileOptions o, Terminal t) {
  Diagnostics d(o.input);
  const auto file = open_model_file(o.input, d);
  if (!file) return print_diagnostics(d, t);
  JsonReader r({reinterpret_cast<const char*>(file->data()), static_cast<size_t>(file->size())});
  std::string format, target = "cpu";
  r.begin_object();
  for (std::string_view key; r.next_key(&key) && key != "graphs";)
    key == "format" ? r.string(&format) : key == "target" ? r.string(&target) : r.skip();
  if (format != "rlxc-lir") {
    d.error(Code::NotAModel, "specialize needs a lir.json that `rlxc compile` wrote");
    return print_diagnostics(d, t);
  }
  if (o.targets.empty()) o.targets = {target};
  o.stop_after = "hir";  // the passes have run already
  if (o.emit.empty()) {
    o.emit = {Emit::Lir, Emit::Plan, Emit::Arena};
    if (kept_fusion(o)) o.emit.insert(Emit::Fusion);
  }
  o.plan_only = o.allow_missing_weights = !o.emit.contains(Emit::Kernels);
  return compile_command(o, t);
}

ExitCode run_command(const CompileOptions& o, const RunRequest& run, const ResultForm& form, Terminal t) {
  Diagnostics d(o.input);
  RunReport report;
  std::ostream nothing(nullptr);
  const ExitCode code = run_model(o, run, form.as_json ? nothing : std::cout, d, &report);
  if (form.as_json && d.ok()) std::cout << run_json(report, version());
  if (!form.junit.empty() && d.ok()) write_file(form.junit, report::junit_xml("rlxc run", run_cases(report)), d);
  const ExitCode reported = print_diagnostics(d, t);
  return d.ok() ? code : reported;
}

ExitCode profile_command(const CompileOptions& o, const ProfileRequest& request, Terminal t) {
  Diagnostics d(o.input);
  if (const auto profile = profile_model(o, request, d)) {
    clear_progress_line();
    std::cout << (request.json ? profile_json(*profile) : profile_text(*profile, request));
    if (!request.trace.empty()) write_file(request.trace, profile_trace(*profile), d);
  }
  return print_diagnostics(d, t);
}

ExitCode calibrate_command(const CompileOptions& o, const CalibrateRequest& request, Terminal t) {
  Diagnostics d(o.input);
  if (const auto record = calibrate(o, request, d); record && write_file(o.output, calibration_json(*record), d) && !o.quiet) {
    clear_progress_line();
    std::cerr << calibration_text(*record) << "ranges of " << record->record.entries.size() << " tensors, " << record->samples
              << (record->samples == 1 ? " sample -> " : " samples -> ") << ForeignText(o.output).line() << "\n";
  }
  return print_diagnostics(d, t);
}

}  // namespace rlxc
