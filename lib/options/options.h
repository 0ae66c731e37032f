// Every option of the tool, in one place: the fields first, then the table that says for each its flag, environment variable,
// configuration key, validity and help. The command line, the environment, configuration files, the manifest, the JSON Schema of
// the configuration and docs/options.md are made from the table (option_text.h). The initialiser of a field is its default.
// To add an option, add a field and a row here, and use the field.
#pragma once
#include <string_view>

#include "options/field.h"

namespace rlxc {

// What passes read.
struct PassOptions {
  FusionPolicy fusion = FusionPolicy::Fusable;
  uint64_t fold_max_bytes = 1 << 16;  // of a folded constant
  // Element operations of all constant folding, and of one evaluation; of kernels, what iterations of loops count for.
  uint64_t max_operations = uint64_t{1} << 33;
  std::optional<uint64_t> fuse_attn_threshold;  // rows up to which an attention block is one launch; absent: a cost decision
  bool fast_math = false;                       // rewrites that are not exact in IEEE arithmetic
  uint64_t unroll_max_nodes = 0;                // loops of known trip count are unrolled up to so many nodes; 0: never
  std::vector<std::string> promoted_params;     // Params that become Inputs
  std::vector<std::string> specialised_params;  // Params whose bytes become Constants

  // Resolved from CompileOptions (pass_options of driver/compile.h): names that are parsed, files that are read.
  PrecisionPolicy precision = PrecisionPolicy::F32;
  PrecisionClassMap custom_precision;
  std::optional<CalibrationRecord> calibration;
  std::optional<CastConfig> weight_cast, operand_cast;  // of matmuls: constant weights, other operands
  std::optional<bool> int8_activations;                 // of matmuls with quantized weights; absent: as the model says
  std::optional<uint64_t> max_packed;                   // PlanOptions::max_packed
};

// What the memory planner reads.
struct PlanOptions {
  uint64_t alignment = 0;     // of every slot, a power of two; 0: that of the target, or 64
  bool in_place = true;       // results overwrite operands that die
  bool reorder = true;        // another order of the nodes, where its arena is smaller
  uint64_t max_binding = 0;   // bytes that a device binds at a time: no slot crosses a multiple of that. 0: that of the target
  int64_t element_bytes = 1;  // least bytes of an element, but of weights: 4 where a runtime keeps all else in 32-bit words
  uint64_t max_arena = 0;     // bytes; above it, cheap values are rematerialised. 0: no limit
  SymbolRanges ranges = {};   // of symbols, constants: sizes are planned at the most they can be
  std::optional<uint64_t> max_packed = {};  // bytes of the packed region; above it, weights are read where they lie
  bool verify = false;                      // run the independent validator
  DimBindings bounds = {};                  // of data-dependent dims, where they cannot be derived
};

// What a compile is asked to do. Flags, environment and configuration are resolved into this once; nothing below the driver reads
// the environment.
struct CompileOptions : PassOptions, PlanOptions {
  std::string input;
  std::vector<std::string> targets{"cpu"};
  std::string output = "out";  // a folder, or "-" for standard output with a single artefact
  std::set<Emit> emit;         // empty: all
  DimBindings bind;
  std::vector<std::pair<std::string, std::string>> assume;  // symbols that are equal to another one, or to a number
  std::vector<std::pair<std::string, std::string>> states;  // an input and an output that are one buffer
  bool allow_missing_weights = false;  // they never are; without either flag, only when none of the model's files is there

  std::string precision_name = "f32";  // a policy, or custom:FILE
  std::string weights;                 // TYPE or TYPE:GROUP SIZE of the constant weights of matmuls; empty: as they are
  std::string activations = "model";   // of matmuls with quantized weights: int8, float, or as the model says
  std::string calibration_file;
  KernelDispatch kernel_dispatch = KernelDispatch::Native;
  std::string supported_ops;  // file of the operations that may be left; empty: those of the target

  std::vector<std::string> passes;  // replaces the pipeline of the target; empty: that pipeline
  std::set<std::string, std::less<>> disabled_passes;
  std::string stop_after;     // a pass, or the stages hir, mir
  int64_t bisect_limit = -1;  // make only so many rewrites of those that can be left out; -1: all

  std::string dump;          // folder (or a file, if it does not end in '/') of the text of every stage; empty: none
  bool verify_each = false;  // evaluate before and after every pass on random inputs
  bool time_passes = false;
  bool print_fusion = false, print_dispatch = false;
  bool quiet = false, verbose = false;
  bool lint = false;
  std::string package_name;    // of the module, and of files and symbols of the package; empty: that of the graph
  bool hardened = false;       // indices that inputs give are checked
  bool embed_weights = false;  // the package needs no weights file of the model
  uint64_t max_nodes = 10'000'000;
  std::optional<uint64_t> max_memory;  // bytes of the process; absent: no limit, and 8 GiB for the tensors of an evaluation
  std::optional<uint64_t> max_time;    // seconds of the process; absent: no limit

  // Set by commands, not by options.
  std::string input_data;     // folder of test data: contents of inputs that decide shapes (then the program is for these)
  bool need_weights = false;  // a weights file that is missing is an error, always (running a model)
  bool plan_only = false;     // the contents of weights are not needed
  std::string stop_before;    // a part of the pipeline ("quantise"): it and the later ones do not run
  int64_t most_runs = -1;     // stop after so many passes of any kind; -1: all
};

struct RunRequest {
  std::string data;                // folder; empty: random inputs, and the reference evaluator says what to expect,
  bool random = false;             // asked for in so many words
  std::vector<DimBindings> sizes;  // with random inputs: sizes of symbols, one run each
  Engine engine = Engine::Kernels;
  std::string target = "cpu";  // whose pipeline and kernels; other than cpu, packages run without their device
  bool sanitize = false;       // cpu: build with AddressSanitizer and guards between the buffers of the arena
  double rtol = 1e-3, atol = 1e-5;
  std::optional<double> min_cosine;  // judge by cosine similarity instead of the tolerances
};

struct ProfileRequest {
  std::string data;  // folder of inputs; empty: random ones
  int64_t threads = 1, repeat = 10;
  uint64_t top = 20;  // nodes to print
  bool json = false;
};

struct CalibrateRequest {
  std::vector<std::string> data;  // folders as of `rlxc run`; only inputs are read
  uint64_t random = 0;            // further samples, whose inputs are random: floats uniform in -3 .. 3, integers in 0 .. 3
  std::string method = "minmax";  // of activations: minmax, percentile, entropy, mse
  double percentile = 99.99;
};

struct CommandLine : CompileOptions, RunRequest, ProfileRequest, CalibrateRequest {
  std::string config, save_config;  // files
  bool print_config = false;
  bool dump_to_output = false;
  std::string own_target;  // of specialize; empty: that of the file
  std::string stage = "lir";
  bool after_each = false, as_json = false, matrix = false, markdown = false;
  std::string csv, check, before, after, topic, name;
  uint64_t capacity = 0;
  int64_t effort = 1;
  std::vector<std::string> fail_on;
};

enum Subcommand : uint32_t {
  kCompile = 1,
  kSpecialize = 2,
  kRun = 4,
  kProfile = 8,
  kCalibrate = 16,
  kCheck = 32,
  kInspect = 64,
  kPlan = 128,
  kBisect = 256,
  kDiff = 512,
  kList = 1024,
  kSchema = 2048,
  kExplain = 4096,
  kCompletion = 8192,
  kModelCommands = kCompile | kSpecialize | kRun | kProfile | kCalibrate | kCheck | kInspect | kBisect,
  kPassCommands = kCompile | kRun | kProfile | kInspect | kBisect,
};

struct CommandInfo {
  Subcommand command;
  std::string_view name, help, example;
};
inline constexpr CommandInfo kCommands[] = {
    {kCompile, "compile", "compile a model for one or more targets and write everything the compiler knows about it",
     "Example: rlxc compile model.onnx --target metal --precision automixed --bind batch=1,seq=128 -o out/"},
    {kSpecialize, "specialize", "plan a compiled module (lir.json) anew for bound sizes or ranges of them",
     "Example: rlxc specialize out/lir.json --bind batch=1,seq=128 -o out-128/"},
    {kRun, "run", "execute a model on test data and compare with the expected outputs",
     "Examples:\n  rlxc run model.onnx --data test_data_set_0 --rtol 1e-3 --atol 1e-4\n"
     "  rlxc run model.onnx --random --sanitize --max-operations 1000000000000"},
    {kProfile, "profile", "run a model on this machine's processor and print where the time goes",
     "Example: rlxc profile model.onnx --bind batch=1,seq=128 --threads 2"},
    {kCalibrate, "calibrate", "evaluate a model on sample data and write the record of scales for --calibration",
     "Example: rlxc calibrate model.onnx --data samples/ -o record.json && rlxc compile model.onnx --calibration record.json -o "
     "out/"},
    {kCheck, "check", "list everything in a model that a target cannot run", "Example: rlxc check model.onnx --target all"},
    {kInspect, "inspect", "print what a stage made of a model", ""},
    {kPlan, "plan", "place buffers of a CSV file (id, lower, upper, size) in one arena", ""},
    {kBisect, "bisect", "find the rewrite that makes a command fail",
     "Example: rlxc bisect model.onnx --check 'rlxc run model.onnx --data test_data_set_0'"},
    {kDiff, "diff", "compare the reports of two compiles",
     "Example: rlxc diff old/ new/ --fail-on 'fusion.launches>+0' --fail-on 'plan.arena>+2%'"},
    {kList, "list", "list targets, passes, ops, onnx, options, env, schemas or codes", ""},
    {kSchema, "schema", "print the JSON Schema of an artefact", ""},
    {kExplain, "explain", "explain a diagnostic code", ""},
    {kCompletion, "completion", "print a completion script", ""},
};

enum class Group : uint8_t { Model, Precision, Passes, Memory, Checks, Output, Run };
inline constexpr std::string_view kGroupNames[] = {"Model", "Precision", "Passes", "Memory", "Checks", "Output", "Command"};

struct Option {
  std::string_view key{};   // of configuration files and the manifest; empty: in neither
  std::string_view flag{};  // "--target,-t", "!--no-reorder" (false when given), "model" (a position); empty: none
  OptionField field;
  Group group = Group::Run;
  uint32_t commands = 0;   // that have the flag
  std::string_view env{};  // environment variable
  // Names, separated by '|', of which the value (or each item of a list) is one; of an enumeration in the order of its members.
  // Behind '=' are other spellings. "custom:FILE" stands for all that begin with "custom:".
  std::string_view choices{};
  double low = 0, high = 1e19;   // of a number
  bool power_of_two = false;     // or 0
  std::string_view value{};      // what help calls the value
  bool comma_separated = false;  // a list: one word may hold several items
  bool required = false;         // for the commands
  bool in_manifest = false;      // the option changes what a compile writes
  bool is_path = false;          // the manifest has the last component only
  std::string_view help;
};

inline constexpr std::string_view kEmitChoices = "lir|plan|fusion|dispatch|precision|quant|graph|arena|kernels";

// Help of one command is in this order.
// clang-format off
inline constexpr Option kOptions[] = {
    {.flag = "model", .field = &CompileOptions::input, .group = Group::Model, .commands = kModelCommands, .value = "MODEL",
     .required = true, .help = "an ONNX model, a JSON graph, or IR text"},
    {.key = "bind", .flag = "--bind", .field = &CompileOptions::bind, .group = Group::Model, .commands = kModelCommands,
     .value = "NAME=SIZE", .comma_separated = true, .in_manifest = true,
     .help = "sizes of symbolic dimensions, as batch=1,seq=128"},
    {.key = "assume", .flag = "--assume", .field = &CompileOptions::assume, .group = Group::Model, .commands = kModelCommands,
     .value = "NAME=NAME", .comma_separated = true, .in_manifest = true,
     .help = "symbolic dimensions that are equal where the model leaves it open, as batch=images; each run checks it"},
    {.key = "range", .flag = "--range", .field = &PlanOptions::ranges, .group = Group::Model, .commands = kModelCommands,
     .value = "NAME=LOW..HIGH", .comma_separated = true, .in_manifest = true,
     .help = "ranges of symbolic dimensions, as seq=1..2048: memory is planned once for all in them"},
    {.key = "bound", .flag = "--bound", .field = &PlanOptions::bounds, .group = Group::Model, .commands = kModelCommands,
     .value = "NAME=SIZE", .comma_separated = true, .in_manifest = true,
     .help = "upper bounds of data-dependent dimensions, where they are not known"},
    {.key = "state", .flag = "--state", .field = &CompileOptions::states, .group = Group::Model, .commands = kModelCommands,
     .value = "INPUT=OUTPUT", .comma_separated = true, .in_manifest = true,
     .help = "inputs and outputs that are one buffer, which a run updates, as cache=new_cache"},
    {.key = "max-nodes", .flag = "--max-nodes", .field = &CompileOptions::max_nodes, .group = Group::Model,
     .commands = kModelCommands, .help = "refuse larger models"},
    {.key = "max-operations", .flag = "--max-operations", .field = &PassOptions::max_operations, .group = Group::Model,
     .commands = kModelCommands, .value = "N",
     .help = "stop constant folding, an evaluation, or loops of kernels that need more operations on elements (about 1e9 take a "
             "second)"},
    {.key = "max-memory", .flag = "--max-memory", .field = &CompileOptions::max_memory, .group = Group::Model,
     .commands = kModelCommands, .value = "BYTES",
     .help = "stop when the process needs more memory (default: no limit, and 8 GiB for the tensors of an evaluation)"},
    {.key = "max-time", .flag = "--max-time", .field = &CompileOptions::max_time, .group = Group::Model,
     .commands = kModelCommands, .low = 1, .value = "SECONDS", .help = "stop after so many seconds (default: no limit)"},
    {.key = "allow-missing-weights", .flag = "--allow-missing-weights", .field = &CompileOptions::allow_missing_weights,
     .group = Group::Model, .commands = kCompile,
     .help = "compile without the files of the weights; their tensors are known by shape only"},

    {.key = "precision", .flag = "--precision", .field = &CompileOptions::precision_name, .group = Group::Precision,
     .commands = kPassCommands,
     .choices = "f32|f16|automixed|automixed-conservative|automixed-bf16|fp8-e4m3|fp8-e5m2|mxfp8-e4m3|mxfp8-e5m2|custom:FILE",
     .in_manifest = true, .is_path = true, .help = "element types of the computation"},
    {.key = "weights", .flag = "--weights", .field = &CompileOptions::weights, .group = Group::Precision,
     .commands = kPassCommands, .value = "TYPE[:GROUP SIZE]", .in_manifest = true,
     .help = "store constant weights of matmuls in fewer bits: int8, int4, fp8-e4m3 or fp8-e5m2"},
    {.key = "activations", .flag = "--activations", .field = &CompileOptions::activations, .group = Group::Precision,
     .commands = kPassCommands, .choices = "model|int8|float", .in_manifest = true,
     .help = "what matmuls with quantized weights multiply: rows rounded to 8 bits, as they are, or as the model says"},
    {.key = "calibration", .flag = "--calibration", .field = &CompileOptions::calibration_file, .group = Group::Precision,
     .commands = kPassCommands, .value = "FILE", .in_manifest = true, .is_path = true,
     .help = "record that says where to quantise, and with which scales"},

    {.key = "hir-policy", .flag = "--hir-policy", .field = &PassOptions::fusion, .group = Group::Passes,
     .commands = kPassCommands, .choices = "fusable|direct", .in_manifest = true,
     .help = "how blocks of a HIR graph are lowered"},
    {.key = "kernel-dispatch", .flag = "--kernel-dispatch", .field = &CompileOptions::kernel_dispatch, .group = Group::Passes,
     .commands = kPassCommands, .env = "RLX_KERNEL_DISPATCH",
     .choices = "native=force_native=ForceNative|common=force_common=ForceCommon", .in_manifest = true,
     .help = "prefer native kernels, or decompose what has a decomposition"},
    {.key = "supported-ops", .flag = "--supported-ops", .field = &CompileOptions::supported_ops, .group = Group::Passes,
     .commands = kPassCommands, .value = "FILE", .in_manifest = true, .is_path = true,
     .help = "operations that may be left, one a line or as a JSON list: the others are rewritten, or are an error"},
    {.key = "passes", .flag = "--passes", .field = &CompileOptions::passes, .group = Group::Passes, .commands = kPassCommands,
     .value = "PASS,...", .comma_separated = true, .in_manifest = true,
     .help = "run these passes instead of the target's pipeline"},
    {.key = "disable-pass", .flag = "--disable-pass", .field = &CompileOptions::disabled_passes, .group = Group::Passes,
     .commands = kPassCommands, .value = "PASS", .comma_separated = true, .in_manifest = true,
     .help = "skip a pass (repeatable)"},
    {.key = "stop-after", .flag = "--stop-after", .field = &CompileOptions::stop_after, .group = Group::Passes,
     .commands = kPassCommands, .value = "PASS", .in_manifest = true, .help = "stop after a pass, or after the stage hir or mir"},
    {.key = "bisect-limit", .flag = "--bisect-limit", .field = &CompileOptions::bisect_limit, .group = Group::Passes,
     .commands = kPassCommands, .env = "RLX_BISECT_LIMIT", .low = -9e18, .value = "N", .in_manifest = true,
     .help = "make only the first N of the rewrites that can be left out (set by rlxc bisect for its check)"},
    {.key = "fast-math", .flag = "--fast-math", .field = &PassOptions::fast_math, .group = Group::Passes,
     .commands = kPassCommands, .in_manifest = true, .help = "allow rewrites that are not exact in IEEE arithmetic"},
    {.key = "fuse-attn-threshold", .flag = "--fuse-attn-threshold", .field = &PassOptions::fuse_attn_threshold,
     .group = Group::Passes, .commands = kPassCommands, .env = "RLX_FUSE_ATTN_THRESHOLD", .value = "ROWS", .in_manifest = true,
     .help = "attention blocks and layers of at most ROWS (batch times tokens) are one launch, and no others (default: where "
             "the cost model says that it is faster)"},
    {.key = "unroll", .flag = "--unroll", .field = &PassOptions::unroll_max_nodes, .group = Group::Passes,
     .commands = kPassCommands, .value = "N", .in_manifest = true,
     .help = "unroll loops of known trip count where that takes at most N nodes"},
    {.key = "promote-param", .flag = "--promote-param", .field = &PassOptions::promoted_params, .group = Group::Passes,
     .commands = kPassCommands, .value = "NAME", .in_manifest = true, .help = "make a parameter an input (repeatable)"},
    {.key = "specialise-param", .flag = "--specialise-param", .field = &PassOptions::specialised_params, .group = Group::Passes,
     .commands = kPassCommands, .value = "NAME", .in_manifest = true,
     .help = "make a parameter a constant, which folding may use (repeatable)"},
    {.key = "fold-max-bytes", .field = &PassOptions::fold_max_bytes, .group = Group::Passes, .in_manifest = true,
     .help = "largest constant that folding makes, in bytes"},

    {.key = "align", .flag = "--align", .field = &PlanOptions::alignment, .group = Group::Memory,
     .commands = kCompile | kSpecialize, .env = "RLX_ARENA_ALIGN", .power_of_two = true, .value = "BYTES", .in_manifest = true,
     .help = "alignment of arena slots in bytes (0: that of the target)"},
    {.key = "max-arena", .flag = "--max-arena", .field = &PlanOptions::max_arena, .group = Group::Memory,
     .commands = kPassCommands, .value = "BYTES", .in_manifest = true,
     .help = "bytes that activations may take: cheap values are rematerialised where that helps; fails if it is not enough"},
    {.key = "max-packed", .flag = "--max-packed", .field = &PlanOptions::max_packed, .group = Group::Memory,
     .commands = kPassCommands | kSpecialize, .value = "BYTES", .in_manifest = true,
     .help = "bytes that may be made of weights when they are loaded: copies in the order in which kernels read them are kept "
             "where they gain most, the other weights are read where they lie; fails if it is not enough"},
    {.key = "max-binding", .flag = "--max-binding", .field = &PlanOptions::max_binding, .group = Group::Memory,
     .commands = kPassCommands, .low = 4096, .high = 1099511627776, .value = "BYTES", .in_manifest = true,
     .help = "wgpu: bytes that devices bind at a time (default: what all do); what is larger is bound in pieces"},
    {.key = "reorder", .flag = "!--no-reorder", .field = &PlanOptions::reorder, .group = Group::Memory,
     .commands = kPassCommands | kSpecialize, .in_manifest = true,
     .help = "run nodes in the given order, even if another one takes less memory"},
    {.key = "in-place", .flag = "!--no-in-place", .field = &PlanOptions::in_place, .group = Group::Memory,
     .commands = kPassCommands, .in_manifest = true, .help = "never let a result overwrite an operand"},
    {.key = "element-bytes", .flag = "--element-bytes", .field = &PlanOptions::element_bytes, .group = Group::Memory,
     .commands = kCompile, .choices = "1|2|4|8", .in_manifest = true,
     .help = "least bytes of an element of what is no weight, in the plan: 4 for runtimes that keep all values as 32-bit words"},

    {.key = "verify", .flag = "--verify", .field = &PlanOptions::verify, .group = Group::Checks,
     .commands = kPassCommands | kSpecialize, .env = "RLX_PLAN_VERIFY",
     .help = "verify the graph after every pass that changed it, and the memory plan"},
    {.key = "verify-each", .flag = "--verify-each", .field = &CompileOptions::verify_each, .group = Group::Checks,
     .commands = kPassCommands, .help = "evaluate before and after every pass on random inputs and compare"},
    {.key = "lint", .flag = "--lint", .field = &CompileOptions::lint, .group = Group::Checks, .commands = kPassCommands,
     .env = "RLX_LINT_NUMERICS", .in_manifest = true, .help = "warn of computations that give infinities or not-a-number"},

    {.key = "target", .flag = "--target,-t", .field = &CompileOptions::targets, .group = Group::Output,
     .commands = kCompile | kCheck | kInspect | kBisect, .value = "TARGET", .comma_separated = true,
     .help = "cpu, metal, mlx, wgpu, cuda, rocm or tpu; compile and check: also several (repeatable), or all"},
    {.flag = "--target,-t", .field = &CommandLine::own_target, .group = Group::Output, .commands = kSpecialize, .value = "TARGET",
     .help = "default: that of the file"},
    {.key = "output", .flag = "--output,-o", .field = &CompileOptions::output, .group = Group::Output,
     .commands = kCompile | kSpecialize, .value = "DIR", .help = "folder to write to, or - for standard output with one --emit"},
    {.flag = "--output,-o", .field = &CompileOptions::output, .group = Group::Output, .commands = kCalibrate, .value = "FILE",
     .required = true, .help = "file to write, or - for standard output"},
    {.key = "emit", .flag = "--emit", .field = &CompileOptions::emit, .group = Group::Output, .commands = kCompile | kSpecialize,
     .choices = kEmitChoices, .value = "LIST", .comma_separated = true, .in_manifest = true,
     .help = "artefacts to write; svg: graph and arena (default: all; specialize: lir,plan,arena)"},
    {.key = "name", .flag = "--name", .field = &CompileOptions::package_name, .group = Group::Output,
     .commands = kCompile | kSpecialize, .value = "NAME", .in_manifest = true,
     .help = "prefix of the files and symbols of the package (default: the name of the graph, or of the file where exporters name "
             "all graphs alike)"},
    {.key = "hardened", .flag = "--hardened", .field = &CompileOptions::hardened, .group = Group::Output,
     .commands = kCompile | kSpecialize | kRun | kCheck, .in_manifest = true,
     .help = "indices that the inputs give (of Gather, Scatter) and that are out of range make a run fail, instead of being "
             "clamped"},
    {.key = "embed-weights", .flag = "--embed-weights", .field = &CompileOptions::embed_weights, .group = Group::Output,
     .commands = kCompile | kSpecialize, .in_manifest = true,
     .help = "put the weights of the model's own files into the package; cpu: into its library, which then needs no file"},
    {.key = "dump", .field = &CompileOptions::dump, .group = Group::Output, .env = "RLX_IR_DUMP", .value = "PATH",
     .help = "write the text of every stage: into a folder when PATH ends in '/', else into that file"},
    {.flag = "--dump", .field = &CommandLine::dump_to_output, .group = Group::Output, .commands = kCompile,
     .help = "write the text of every stage and of every pass that changed something to DIR/dump/"},
    {.key = "time-passes", .flag = "--time-passes", .field = &CompileOptions::time_passes, .group = Group::Output,
     .commands = kPassCommands, .env = "RLX_PHASE_TIMING", .help = "print what each pass did and how long it took"},
    {.key = "print-fusion", .field = &CompileOptions::print_fusion, .group = Group::Output, .env = "RLX_FUSION_REPORT",
     .help = "print the fusion report"},
    {.key = "print-dispatch", .field = &CompileOptions::print_dispatch, .group = Group::Output, .env = "RLX_DISPATCH_REPORT",
     .help = "print the dispatch report"},
    {.key = "quiet", .flag = "--quiet,-q", .field = &CompileOptions::quiet, .group = Group::Output,
     .commands = kCompile | kSpecialize, .help = "print nothing but errors"},
    {.key = "verbose", .flag = "--verbose,-v", .field = &CompileOptions::verbose, .group = Group::Output, .commands = kCompile,
     .help = "say what is done, step by step, with times"},
    {.flag = "--config", .field = &CommandLine::config, .group = Group::Output, .commands = kModelCommands, .value = "FILE",
     .help = "read options from a JSON file; a flag wins over it, and it wins over the environment"},
    {.flag = "--save-config", .field = &CommandLine::save_config, .group = Group::Output, .commands = kModelCommands,
     .value = "FILE", .help = "write the options of this call to a file for --config"},
    {.flag = "--print-config", .field = &CommandLine::print_config, .group = Group::Output, .commands = kModelCommands,
     .help = "print the options of this call as --save-config writes them, and stop"},

    {.flag = "--data", .field = &RunRequest::data, .commands = kRun, .value = "DIR",
     .help = "folder with input_i.pb and output_i.pb, or with several test_data_set_*"},
    {.flag = "--random", .field = &RunRequest::random, .commands = kRun,
     .help = "random inputs instead of data; the reference evaluator says what to expect"},
    {.flag = "--size", .field = &RunRequest::sizes, .commands = kRun, .value = "NAME=SIZE,...",
     .help = "with --random: sizes of symbolic dimensions, as batch=2,seq=7 (repeatable: one package runs all)"},
    {.flag = "--engine", .field = &RunRequest::engine, .commands = kRun, .choices = "reference|interpreter|kernels",
     .help = "the reference evaluator, generated kernels, or those kernels interpreted with checks (slow)"},
    {.flag = "--target,-t", .field = &RunRequest::target, .commands = kRun, .value = "TARGET",
     .help = "cpu; or cuda, rocm, metal (emulated on this machine), wgpu (Dawn in Node), mlx (python3)"},
    {.flag = "--sanitize", .field = &RunRequest::sanitize, .commands = kRun,
     .help = "cpu: build the kernels with AddressSanitizer; each may touch only the buffers of its node in the arena"},
    {.flag = "--rtol", .field = &RunRequest::rtol, .commands = kRun, .help = "relative tolerance"},
    {.flag = "--atol", .field = &RunRequest::atol, .commands = kRun, .help = "absolute tolerance"},
    {.flag = "--min-cosine", .field = &RunRequest::min_cosine, .commands = kRun, .low = -1, .value = "C",
     .help = "judge float outputs by cosine similarity instead of the tolerances"},
    {.flag = "--data", .field = &ProfileRequest::data, .commands = kProfile, .value = "DIR",
     .help = "a folder of inputs, as of rlxc run (default: random inputs)"},
    {.flag = "--threads", .field = &ProfileRequest::threads, .commands = kProfile, .low = 1, .high = 1024,
     .help = "threads to run on"},
    {.flag = "--repeat", .field = &ProfileRequest::repeat, .commands = kProfile, .low = 1, .high = 1000000,
     .help = "how often to run"},
    {.flag = "--top", .field = &ProfileRequest::top, .commands = kProfile,
     .help = "print so many nodes, those that take longest"},
    {.flag = "--json", .field = &ProfileRequest::json, .commands = kProfile,
     .help = "as JSON, all nodes in the order in which they run"},
    {.flag = "--data", .field = &CalibrateRequest::data, .commands = kCalibrate, .value = "DIR",
     .help = "folders of samples, as of rlxc run"},
    {.flag = "--random", .field = &CalibrateRequest::random, .commands = kCalibrate, .value = "N",
     .help = "so many samples with random inputs"},
    {.flag = "--method", .field = &CalibrateRequest::method, .commands = kCalibrate, .choices = "minmax|percentile|entropy|mse",
     .help = "range of an activation: all values, all but the outermost, or least error"},
    {.flag = "--percentile", .field = &CalibrateRequest::percentile, .commands = kCalibrate, .low = 50, .high = 100,
     .help = "of method percentile: how much of the values stays inside"},
    {.flag = "--stage", .field = &CommandLine::stage, .commands = kInspect, .choices = "hir|mir|lir",
     .help = "hir (as read), mir (before the passes), lir (after them)"},
    {.flag = "--after-each", .field = &CommandLine::after_each, .commands = kInspect,
     .help = "print the graph after every pass that changed it"},
    {.flag = "--check", .field = &CommandLine::check, .commands = kBisect, .value = "CMD", .required = true,
     .help = "shell command that exits with 0 when all is well; it runs with RLX_BISECT_LIMIT set"},
    {.flag = "buffers", .field = &CommandLine::csv, .commands = kPlan, .value = "CSV", .required = true, .help = "CSV file"},
    {.flag = "--capacity", .field = &CommandLine::capacity, .commands = kPlan, .value = "BYTES",
     .help = "bytes that the arena may take; 0: as few as possible"},
    {.flag = "--effort", .field = &CommandLine::effort, .commands = kPlan, .low = 1, .high = 1000,
     .help = "work of the search where the lower bound is hard to meet, in units of some ten seconds"},
    {.flag = "before", .field = &CommandLine::before, .commands = kDiff, .value = "DIR", .required = true,
     .help = "output folder of a compile"},
    {.flag = "after", .field = &CommandLine::after, .commands = kDiff, .value = "DIR", .required = true,
     .help = "output folder of another"},
    {.flag = "--fail-on", .field = &CommandLine::fail_on, .commands = kDiff, .value = "EXPR",
     .help = "exit with 1 only if this holds, as plan.arena>+2% or dispatch.unsupported>0 (repeatable)"},
    {.flag = "topic", .field = &CommandLine::topic, .commands = kList,
     .choices = "targets|passes|ops|onnx|options|env|schemas|codes", .required = true, .help = "what to list"},
    {.flag = "--matrix", .field = &CommandLine::matrix, .commands = kList,
     .help = "ops: what exists for each (evaluation, kernels per target)"},
    {.flag = "--markdown", .field = &CommandLine::markdown, .commands = kList, .help = "options: as docs/options.md"},
    {.flag = "--json", .field = &CommandLine::as_json, .commands = kCheck | kInspect | kDiff | kList,
     .help = "print JSON; inspect: the graph in the form that rlxc compile reads"},
    {.flag = "name", .field = &CommandLine::name, .commands = kSchema, .required = true,
     .help = "as listed by rlxc list schemas"},
    {.flag = "code", .field = &CommandLine::name, .commands = kExplain, .required = true, .help = "RLX0214"},
    {.flag = "shell", .field = &CommandLine::name, .commands = kCompletion, .choices = "bash|zsh|fish", .required = true,
     .help = "bash, zsh or fish"},
};
// clang-format on

// Environment variables beside those of kOptions: flags of the environment that stand for an option with a value.
struct EnvAlias {
  std::string_view name, key, value, help;
};
inline constexpr EnvAlias kEnvAliases[] = {
    {"RLX_VERBOSE", "print-dispatch", "true", "print the dispatch report"},
    {"RLX_DISABLE_MATMUL_BIAS_FUSION", "disable-pass", "fuse_matmul_bias_act", "skip fuse_matmul_bias_act"},
    {"RLX_DISABLE_RESIDUAL_LN_FUSION", "disable-pass", "fuse_residual_ln,fuse_residual_rms_norm",
     "skip fuse_residual_ln and fuse_residual_rms_norm"},
    {"RLX_DISABLE_CONV_BIAS_ACT_FUSION", "disable-pass", "fuse_conv_bias_act", "skip fuse_conv_bias_act"},
    {"RLX_NO_SHARED_INPUT_MATMUL", "disable-pass", "fuse_shared_input_matmul", "skip fuse_shared_input_matmul"},
    {"RLX_DISABLE_CSE", "disable-pass", "common_subexpression_elimination", "skip common_subexpression_elimination"},
    {"RLX_DISABLE_SCCP", "disable-pass", "sccp", "skip sccp"},
};

}  // namespace rlxc
