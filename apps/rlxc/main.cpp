// The command line: flags to options, diagnostics to the terminal, exit codes. Everything else is in lib/driver.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "driver/commands.h"
#include "driver/options.h"
#include "driver/reproducer.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace {

using namespace rlxc;

constexpr char kExamples[] = R"(Examples:
  rlxc compile model.onnx --target metal --precision automixed -o out/
  rlxc compile model.onnx --target cpu --target cuda --emit lir,plan,fusion
  rlxc compile model.onnx --emit fusion -o - | less
  rlxc run model.onnx --data test_data_set_0
  rlxc check model.onnx --target all
  rlxc inspect model.onnx --after-each
  rlxc list passes

Exit codes: 0 ok, 1 a finding, 2 usage, 3 input unreadable, 4 input invalid, 5 unsupported, 6 output not writable,
7 resource limit, 70 internal error.)";

// NAME=SIZE pairs of flags, NAME=LOW..HIGH, and INPUT=OUTPUT.
struct Sizes {
  std::vector<std::string> bind, bound, range, state;
};

void add_model_flags(CLI::App* app, Options& o, Sizes& sizes) {
  app->add_option("model", o.input, "an ONNX model, a JSON graph, or IR text")->required()->type_name("MODEL");
  app->add_option("--bind", sizes.bind, "sizes of symbolic dimensions, as batch=1,seq=128")
      ->type_name("NAME=SIZE")
      ->delimiter(',');
  app->add_option("--range", sizes.range, "ranges of symbolic dimensions, as seq=1..2048: memory is planned once for all in them")
      ->type_name("NAME=LOW..HIGH")
      ->delimiter(',');
  app->add_option("--bound", sizes.bound, "how large sizes that only a run tells can get, where that is not known")
      ->type_name("NAME=SIZE")
      ->delimiter(',');
  app->add_option("--state", sizes.state, "inputs and outputs that are one buffer, which a run updates, as cache=new_cache")
      ->type_name("INPUT=OUTPUT")
      ->delimiter(',');
  app->add_option("--max-nodes", o.max_nodes, "refuse larger models")->capture_default_str();
}

void add_max_packed(CLI::App* app, Options& o) {
  app->add_option(
         "--max-packed", o.max_packed,
         "bytes that may be made of weights when they are loaded: copies in the order in which kernels read them are kept "
         "where they gain most, the other weights are read where they lie; fails if it is not enough")
      ->type_name("BYTES");
}

void add_pass_flags(CLI::App* app, Options& o, std::vector<std::string>& disabled) {
  app->add_option(
         "--precision", o.precision,
         "f32, f16, automixed, automixed-conservative, automixed-bf16, fp8-e4m3, fp8-e5m2, mxfp8-e4m3, mxfp8-e5m2 or custom:FILE")
      ->capture_default_str();
  app->add_option("--weights", o.weights, "store constant weights of products in fewer bits: int8, int4, fp8-e4m3 or fp8-e5m2")
      ->type_name("TYPE[:TERMS OF A SCALE]");
  app->add_option("--calibration", o.calibration, "record that says where to quantise, and with which scales")->type_name("FILE");
  app->add_option("--hir-policy", o.hir_policy, "how blocks of a HIR graph are lowered")
      ->check(CLI::IsMember({"fusable", "direct"}))
      ->capture_default_str();
  app->add_option("--kernel-dispatch", o.kernel_dispatch, "prefer native kernels, or decompose what has a decomposition")
      ->check(CLI::IsMember({"native", "common"}))
      ->capture_default_str();
  app->add_option("--supported-ops", o.supported_ops,
                  "operations that may be left, one a line or as a JSON list: the others are rewritten, or are an error")
      ->type_name("FILE");
  app->add_option("--passes", o.passes, "run these passes instead of the target's pipeline")
      ->type_name("PASS,...")
      ->delimiter(',');
  app->add_option("--disable-pass", disabled, "skip a pass (repeatable)")->type_name("PASS")->delimiter(',');
  app->add_option("--stop-after", o.stop_after, "stop after a pass, or after the stage hir or mir")->type_name("PASS");
  app->add_option("--bisect-limit", o.bisect_limit, "make only the first N of the rewrites that can be left out")->type_name("N");
  app->add_flag("--verify", o.verify, "verify the graph after every pass that changed it, and the memory plan");
  app->add_flag("--verify-each", o.verify_each, "evaluate before and after every pass on random inputs and compare");
  app->add_flag("--time-passes", o.time_passes, "print what each pass did and how long it took");
  app->add_flag("--fast-math", o.fast_math, "allow rewrites that are not exact in IEEE arithmetic");
  app->add_option("--max-arena", o.max_arena,
                  "bytes that activations may take: cheap values are computed again where that helps; fails if it is not enough")
      ->type_name("BYTES");
  add_max_packed(app, o);
  app->add_option("--fuse-attn-threshold", o.fuse_attn_threshold,
                  "attention blocks and layers of at most ROWS (batch times tokens) are one launch, and no others (default: "
                  "where the cost model says that it is faster)")
      ->type_name("ROWS");
  app->add_option("--max-binding", o.max_binding,
                  "wgpu: bytes that devices bind at a time (default: what all do); what is larger is bound in pieces")
      ->type_name("BYTES")
      ->check(CLI::Range(uint64_t{4096}, uint64_t{1} << 40));
  app->add_flag("!--no-reorder", o.reorder, "run nodes in the given order, even if another one takes less memory");
  app->add_option("--unroll", o.unroll_max_nodes, "write loops of known trip count out where that takes at most N nodes")
      ->type_name("N");
  app->add_flag("--lint", o.lint, "warn of computations that give infinities or not-a-number");
  app->add_option("--promote-param", o.promoted_params, "make a parameter an input (repeatable)")->type_name("NAME");
  app->add_option("--specialise-param", o.specialised_params, "make a parameter a constant, which folding may use (repeatable)")
      ->type_name("NAME");
  app->add_flag("!--no-in-place", o.in_place, "never let a result overwrite an operand");
}

// NAME=SIZE pairs into the bindings. False with a message on malformed ones.
bool parse_bindings(const std::string& flag, const std::vector<std::string>& pairs, DimBindings& out) {
  for (const std::string& p : pairs) {
    const size_t eq = p.rfind('=');
    int64_t size = 0;
    const bool number = eq != p.npos && eq > 0 && CLI::detail::lexical_cast(p.substr(eq + 1), size);
    if (!number || size < 0 || size > Dim::kMax) {
      std::cerr << "rlxc: error[RLX0110]: " << flag << " takes NAME=SIZE with a size >= 0, got \"" << p << "\"\n";
      return false;
    }
    out[p.substr(0, eq)] = size;
  }
  return true;
}

bool parse_ranges(const std::vector<std::string>& ranges, SymbolRanges& out) {
  for (const std::string& r : ranges) {
    const size_t eq = r.rfind('='), dots = r.find("..", eq == r.npos ? 0 : eq);
    int64_t low = 0, high = 0;
    const bool good = eq != r.npos && eq > 0 && dots != r.npos &&
                      CLI::detail::lexical_cast(r.substr(eq + 1, dots - eq - 1), low) &&
                      CLI::detail::lexical_cast(r.substr(dots + 2), high) && low >= 0 && low <= high && high <= Dim::kMax;
    if (!good) {
      std::cerr << "rlxc: error[RLX0110]: --range takes NAME=LOW..HIGH with 0 <= LOW <= HIGH, got \"" << r << "\"\n";
      return false;
    }
    out[r.substr(0, eq)] = {Dim(low), Dim(high)};
  }
  return true;
}

bool parse_states(const std::vector<std::string>& pairs, Options& o) {
  for (const std::string& p : pairs) {
    const size_t eq = p.find('=');
    if (eq == p.npos || eq == 0 || eq + 1 == p.size()) {
      std::cerr << "rlxc: error[RLX0110]: --state takes INPUT=OUTPUT, got \"" << p << "\"\n";
      return false;
    }
    o.states.emplace_back(p.substr(0, eq), p.substr(eq + 1));
  }
  return true;
}

bool parse_emit(const std::vector<std::string>& names, std::set<Emit>& out) {
  for (const std::string& n : names) {
    if (n == "svg") {
      out.insert({Emit::Graph, Emit::Arena});
      continue;
    }
    const auto* it = std::find(std::begin(kEmitNames), std::end(kEmitNames), n);
    if (it == std::end(kEmitNames)) {
      std::cerr << "rlxc: error[RLX0110]: --emit does not know \"" << n << "\"\n";
      if (auto close = closest(n, kEmitNames)) std::cerr << "  help: did you mean " << *close << "?\n";
      return false;
    }
    out.insert(static_cast<Emit>(it - std::begin(kEmitNames)));
  }
  return true;
}

int usage_error(const CLI::App& app, const CLI::ParseError& e, const std::vector<std::string>& arguments) {
  if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
  std::cerr << "rlxc: error[RLX0110]: " << e.what() << "\n";
  std::vector<std::string> owned;
  for (const CLI::App* sub : app.get_subcommands({})) owned.push_back(sub->get_name());
  if (!arguments.empty() && app.get_subcommands().empty()) {
    const std::vector<std::string_view> names(owned.begin(), owned.end());
    if (auto close = closest(arguments[0], names)) std::cerr << "  help: did you mean \"rlxc " << *close << "\"?\n";
  }
  const auto subs = app.get_subcommands();
  std::cerr << "  help: see rlxc " << (subs.empty() ? "" : subs[0]->get_name() + " ") << "--help\n";
  return static_cast<int>(ExitCode::Usage);
}

}  // namespace

int main(int argc, char** argv) {
  report_crashes(argc, argv);
  clean_up_on_signals();
  Options o;
  apply_environment(o, [](const char* name) -> const char* { return std::getenv(name); });
  RunRequest run;
  ProfileRequest profile;
  CalibrateRequest calibration;
  Sizes sizes;
  std::vector<std::string> emit, disabled, fail_on;
  std::string engine = "kernels", topic, name, target, stage = "lir", csv, before, after;
  uint64_t capacity = 0, effort = 1;
  bool dump = false, after_each = false, json = false, matrix = false;
  Terminal terminal{isatty(STDOUT_FILENO) != 0, isatty(STDERR_FILENO) != 0};

  CLI::App app{
      "rlxc compiles machine-learning models: ONNX or a JSON graph in, LIR, memory plan, fusion report, pictures and kernel "
      "source out.",
      "rlxc"};
  app.set_version_flag("--version", std::string("rlxc ") + std::string(version()));
  app.footer(kExamples);
  app.require_subcommand(1);

  CLI::App* compile =
      app.add_subcommand("compile", "compile a model for one or more targets and write everything the compiler knows about it");
  add_model_flags(compile, o, sizes);
  compile->add_flag("--allow-missing-weights", o.allow_missing_weights,
                    "compile without the files of the weights; their tensors are known by shape only");
  add_pass_flags(compile, o, disabled);
  compile->add_option("--target,-t", o.targets, "cpu, metal, mlx, wgpu, cuda, rocm, tpu, or all (repeatable)")
      ->delimiter(',')
      ->type_name("TARGET");
  compile->add_option("--output,-o", o.output, "folder to write to, or - for standard output with one --emit")
      ->type_name("DIR")
      ->capture_default_str();
  compile
      ->add_option("--emit", emit,
                   "artefacts to write: lir,plan,fusion,dispatch,precision,quant,graph,arena (svg: both),kernels (default: all)")
      ->delimiter(',')
      ->type_name("LIST");
  compile->add_flag("--dump", dump, "write the text of every stage and of every pass that changed something to DIR/dump/");
  compile->add_option("--align", o.alignment, "alignment of arena slots in bytes (default: that of the target)");
  compile
      ->add_option(
          "--element-bytes", o.element_bytes,
          "least bytes of an element of what is no weight, in the plan: 4 for runtimes that keep all values as 32-bit words")
      ->check(CLI::IsMember({1, 2, 4, 8}));
  compile->add_flag("--quiet,-q", o.quiet, "print nothing but errors");
  compile->add_flag("--verbose,-v", o.verbose, "say what is done, step by step, with times");
  compile->footer("Example: rlxc compile model.onnx --target metal --precision automixed --bind batch=1,seq=128 -o out/");

  CLI::App* specialize =
      app.add_subcommand("specialize", "plan a compiled module (lir.json) anew for bound sizes or ranges of them");
  add_model_flags(specialize, o, sizes);
  specialize->add_option("--target,-t", target, "default: that of the file")->type_name("TARGET");
  specialize->add_option("--output,-o", o.output, "folder to write to, or - for standard output with one --emit")
      ->type_name("DIR")
      ->capture_default_str();
  specialize->add_option("--emit", emit, "artefacts to write (default: lir,plan,arena)")->delimiter(',')->type_name("LIST");
  specialize->add_option("--align", o.alignment, "alignment of arena slots in bytes (default: that of the target)");
  add_max_packed(specialize, o);
  specialize->add_flag("!--no-reorder", o.reorder, "run nodes in the order of the file");
  specialize->add_flag("--verify", o.verify, "verify the memory plan");
  specialize->add_flag("--quiet,-q", o.quiet, "print nothing but errors");
  specialize->footer("Example: rlxc specialize out/lir.json --bind batch=1,seq=128 -o out-128/");

  CLI::App* run_app = app.add_subcommand("run", "execute a model on test data and compare with the expected outputs");
  add_model_flags(run_app, o, sizes);
  add_pass_flags(run_app, o, disabled);
  run_app->add_option("--data", run.data, "folder with input_i.pb and output_i.pb, or with several test_data_set_*")
      ->type_name("DIR");
  bool random_inputs = false;
  std::vector<std::string> run_sizes;
  run_app->add_flag("--random", random_inputs, "random inputs instead of data; the reference evaluator says what to expect");
  run_app
      ->add_option("--size", run_sizes,
                   "with --random: sizes of symbolic dimensions, as batch=2,seq=7 (repeatable: one package runs all)")
      ->type_name("NAME=SIZE,...");
  run_app
      ->add_option("--engine", engine,
                   "the reference evaluator, generated kernels, or those kernels interpreted with checks (slow)")
      ->check(CLI::IsMember({"reference", "interpreter", "kernels"}))
      ->capture_default_str();
  run_app
      ->add_option("--target,-t", run.target,
                   "cpu; or cuda, rocm, metal (emulated on this machine), wgpu (Dawn in Node), mlx (python3)")
      ->capture_default_str();
  run_app->add_flag("--sanitize", run.sanitize,
                    "cpu: build the kernels with AddressSanitizer; each may touch only the buffers of its node in the arena");
  run_app
      ->add_option("--max-operations", run.max_operations,
                   "refuse models for which the reference evaluator needs more operations on elements (about 1e9 take a second)")
      ->type_name("N")
      ->capture_default_str();
  run_app->add_option("--rtol", run.rtol, "relative tolerance")->capture_default_str();
  run_app->add_option("--atol", run.atol, "absolute tolerance")->capture_default_str();
  run_app->add_option("--min-cosine", run.min_cosine, "judge float outputs by cosine similarity instead of the tolerances")
      ->type_name("C");
  run_app->footer(
      "Examples:\n  rlxc run model.onnx --data test_data_set_0 --rtol 1e-3 --atol 1e-4\n"
      "  rlxc run model.onnx --random --sanitize --max-operations 1000000000000");

  CLI::App* profile_app = app.add_subcommand("profile", "run a model on this machine's processor and print where the time goes");
  add_model_flags(profile_app, o, sizes);
  add_pass_flags(profile_app, o, disabled);
  profile_app->add_option("--data", profile.data, "a folder of inputs, as of rlxc run (default: random inputs)")
      ->type_name("DIR");
  profile_app->add_option("--threads", profile.threads, "threads to run on")->check(CLI::Range(1, 1024))->capture_default_str();
  profile_app->add_option("--repeat", profile.repeat, "how often to run")->check(CLI::Range(1, 1000000))->capture_default_str();
  profile_app->add_option("--top", profile.top, "print so many nodes, those that take longest")->capture_default_str();
  profile_app->add_flag("--json", profile.json, "as JSON, all nodes in the order in which they run");
  profile_app->footer("Example: rlxc profile model.onnx --bind batch=1,seq=128 --threads 2");

  CLI::App* calibrate =
      app.add_subcommand("calibrate", "evaluate a model on sample data and write the record of scales for --calibration");
  add_model_flags(calibrate, o, sizes);
  calibrate->add_option("--data", calibration.data, "folders of samples, as of rlxc run")->type_name("DIR");
  calibrate->add_option("--random", calibration.random, "so many samples with random inputs")->type_name("N");
  calibrate->add_option("--output,-o", o.output, "file to write, or - for standard output")->required()->type_name("FILE");
  calibrate
      ->add_option("--method", calibration.method, "range of an activation: all values, all but the outermost, or least error")
      ->check(CLI::IsMember({"minmax", "percentile", "entropy", "mse"}))
      ->capture_default_str();
  calibrate->add_option("--percentile", calibration.percentile, "of method percentile: how much of the values stays inside")
      ->capture_default_str();
  calibrate->footer(
      "Example: rlxc calibrate model.onnx --data samples/ -o record.json && rlxc compile model.onnx --calibration record.json -o "
      "out/");

  CLI::App* check = app.add_subcommand("check", "list everything in a model that a target cannot run");
  add_model_flags(check, o, sizes);
  check->add_option("--target,-t", o.targets, "targets, or all")->delimiter(',');
  check->add_flag("--json", json, "the findings as JSON");
  check->footer("Example: rlxc check model.onnx --target all");

  CLI::App* inspect = app.add_subcommand("inspect", "print what a stage made of a model");
  add_model_flags(inspect, o, sizes);
  add_pass_flags(inspect, o, disabled);
  inspect->add_option("--target,-t", o.targets, "target whose pipeline runs");
  inspect->add_option("--stage", stage, "hir (as read), mir (before the passes), lir (after them)")
      ->check(CLI::IsMember({"hir", "mir", "lir"}))
      ->capture_default_str();
  inspect->add_flag("--after-each", after_each, "print the graph after every pass that changed it");
  inspect->add_flag("--json", json, "print a JSON graph, which rlxc compile reads");

  CLI::App* plan = app.add_subcommand("plan", "place buffers of a CSV file (id, lower, upper, size) in one arena");
  plan->add_option("buffers", csv, "CSV file")->required()->type_name("CSV");
  plan->add_option("--capacity", capacity, "bytes that the arena may take; 0: as few as possible");
  plan->add_option("--effort", effort, "work of the search where the lower bound is hard to meet, in units of some ten seconds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();

  CLI::App* bisect = app.add_subcommand("bisect", "find the rewrite that makes a command fail");
  add_model_flags(bisect, o, sizes);
  add_pass_flags(bisect, o, disabled);
  bisect->add_option("--target,-t", o.targets, "target whose pipeline runs");
  bisect->add_option("--check", name, "shell command that exits with 0 when all is well; it runs with RLX_BISECT_LIMIT set")
      ->required()
      ->type_name("CMD");
  bisect->footer("Example: rlxc bisect model.onnx --check 'rlxc run model.onnx --data test_data_set_0'");

  CLI::App* diff = app.add_subcommand("diff", "compare the reports of two compiles");
  diff->add_option("before", before, "output folder of a compile")->required()->type_name("DIR");
  diff->add_option("after", after, "output folder of another")->required()->type_name("DIR");
  diff->add_option("--fail-on", fail_on,
                   "exit with 1 only if this holds, as plan.arena>+2% or dispatch.unsupported>0 (repeatable)")
      ->type_name("EXPR");
  diff->add_flag("--json", json, "as JSON");
  diff->footer("Example: rlxc diff old/ new/ --fail-on 'fusion.launches>+0' --fail-on 'plan.arena>+2%'");

  CLI::App* list = app.add_subcommand("list", "list targets, passes, ops, onnx, env, schemas or codes");
  list->add_option("topic", topic, "what to list")
      ->required()
      ->check(CLI::IsMember({"targets", "passes", "ops", "onnx", "env", "schemas", "codes"}));
  list->add_flag("--json", json, "as JSON");
  list->add_flag("--matrix", matrix, "ops: what exists for each (evaluation, kernels per target)");

  CLI::App* schema = app.add_subcommand("schema", "print the JSON Schema of an artefact");
  schema->add_option("name", name, "as listed by rlxc list schemas")->required();
  CLI::App* explain_app = app.add_subcommand("explain", "explain a diagnostic code");
  explain_app->add_option("code", name, "RLX0214")->required();
  CLI::App* completion = app.add_subcommand("completion", "print a completion script");
  completion->add_option("shell", name, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));

  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e, arguments);
  }
  if (!parse_bindings("--bind", sizes.bind, o.bind) || !parse_bindings("--bound", sizes.bound, o.bounds) ||
      !parse_ranges(sizes.range, o.ranges) || !parse_states(sizes.state, o) || !parse_emit(emit, o.emit))
    return static_cast<int>(ExitCode::Usage);
  for (const std::string& s : run_sizes) {
    const auto pairs = split(s, ',');
    if (!parse_bindings("--size", {pairs.begin(), pairs.end()}, run.sizes.emplace_back()))
      return static_cast<int>(ExitCode::Usage);
  }
  if (*run_app && run.data.empty() != random_inputs) {
    std::cerr << "rlxc: error[RLX0110]: run takes either --data or --random\n";
    return static_cast<int>(ExitCode::Usage);
  }
  o.disabled_passes.insert(disabled.begin(), disabled.end());
  if (dump) o.dump = o.output + "/dump/";
  run.engine = engine == "reference" ? Engine::Reference : engine == "interpreter" ? Engine::Interpreter : Engine::Kernels;
  run.cosine = run_app->count("--min-cosine") > 0;

  if (o.quiet) terminal.warnings = 0;
  if (o.verbose) terminal.warnings = Diagnostics::kMaxKept;
  ExitCode code = ExitCode::Ok;
  if (*compile) code = compile_command(o, terminal);
  else if (*specialize)
    o.targets = target.empty() ? std::vector<std::string>{} : std::vector{target}, code = specialize_command(o, terminal);
  else if (*run_app) o.need_weights = true, code = run_command(o, run, terminal);
  else if (*profile_app) o.need_weights = true, code = profile_command(o, profile, terminal);
  else if (*calibrate) o.need_weights = true, code = calibrate_command(o, calibration, terminal);
  else if (*check) code = check_command(o, json, terminal);
  else if (*inspect) code = inspect_command(o, stage, after_each, json, terminal);
  else if (*plan) code = plan_command(csv, capacity, effort, terminal);
  else if (*bisect) code = bisect_command(o, name, terminal);
  else if (*diff) code = diff_command(before, after, fail_on, json, terminal);
  else if (*list) code = list_command(topic, json, matrix);
  else if (*schema) code = schema_command(name, terminal);
  else if (*explain_app) code = explain_command(name, terminal);
  else if (*completion) {
    std::vector<std::string> commands;
    for (const CLI::App* sub : app.get_subcommands({})) {
      std::string line = sub->get_name();
      for (const CLI::Option* option : sub->get_options())
        for (const std::string& flag : option->get_lnames()) line += " --" + flag;
      commands.push_back(line);
    }
    code = completion_command(name, commands);
  }
  std::cout.flush();
  if (!std::cout && code == ExitCode::Ok) {
    std::cerr << "rlxc: error[RLX0106]: cannot write to standard output\n";
    code = ExitCode::Unwritable;
  }
  return static_cast<int>(code);
}
