// All options of the tool: the fields, then a table of flags, environment variables, configuration keys, valid values and help.
// The command line, environment, configuration files, manifest, JSON Schema and docs/options.md are generated from the table
// (option_text.h). A field's initialiser is its default. To add an option, add a field and a row here, and use the field.
#pragma once
#include <memory>
#include <string_view>

#include "options/field.h"

namespace rlxc {

struct RuleSet;  // passes/simplify/rule_set.h

// Options read by passes.
struct PassOptions {
  FusionPolicy fusion = FusionPolicy::Fusable;
  uint64_t fold_max_bytes = 1 << 16;  // limit on the size of a folded constant
  // Limit on element operations of all constant folding, and of one evaluation; for kernels, on loop iterations.
  uint64_t max_operations = uint64_t{1} << 33;
  std::optional<uint64_t> fuse_attn_threshold;  // rows up to which an attention block is one launch; nullopt: decided by cost
  bool fast_math = false;                       // rewrites that are not exact in IEEE arithmetic
  bool winograd = false;                        // convolutions by Winograd's algorithm; fast_math allows it, too
  uint64_t unroll_max_nodes = 0;                // node limit for unrolled loops of known trip count; 0: never unroll
  std::vector<std::string> promoted_params;     // Params to turn into Inputs
  std::vector<std::string> specialised_params;  // Params with data to turn into Constants
  std::string mesh;                             // axes of devices, "data=2,model=4"; empty: one device
  std::vector<std::string> shards;              // "NAME=AXIS:DIM,...", see shard/sharding.h
  std::vector<std::string> parallel;            // strategies: tensor, data, expert, pipeline; or auto
  double link_bandwidth = 25;                   // GB/s between two devices, for predictions

  // Resolved from CompileOptions (pass_options of driver/compile.h): parsed names and loaded files.
  PrecisionPolicy precision = PrecisionPolicy::F32;
  PrecisionClassMap custom_precision;
  std::optional<CalibrationRecord> calibration;
  std::optional<CastConfig> weight_cast, operand_cast;  // for matmuls: constant weights, other operands
  std::optional<bool> int8_activations;                 // for matmuls with quantized weights; nullopt: as in the model
  std::shared_ptr<const RuleSet> user_rules;            // of --rules; null: none
  std::optional<uint64_t> max_packed;                   // PlanOptions::max_packed
  uint64_t device_memory = 0;                           // PlanOptions::device_memory
};

// Options read by the memory planner.
struct PlanOptions {
  uint64_t alignment = 0;     // of every slot, a power of two; 0: default of the target, or 64
  bool in_place = true;       // results overwrite operands that die
  bool reorder = true;        // reorder nodes if the arena gets smaller
  uint64_t max_binding = 0;   // bytes that a device can bind at once: no slot crosses a multiple. 0: default of the target
  int64_t element_bytes = 1;  // minimum bytes per element, except weights: 4 for runtimes with 32-bit words
  uint64_t max_arena = 0;     // bytes; above it, values are rematerialised. 0: no limit
  SymbolRanges ranges = {};   // constant ranges of symbols: memory is planned for the upper bounds
  std::optional<uint64_t> max_packed = {};  // bytes of the packed region; above it, weights are read unpacked
  uint64_t device_memory = 0;               // bytes of weights, packed region and arena of a device. 0: no limit
  bool verify = false;                      // run the independent validator
  DimBindings bounds = {};                  // upper bounds of data-dependent dims that cannot be derived
};

// Options of a program that trains (transform/training.h).
struct TrainingOptions {
  bool train = false;
  std::string loss;         // mse, cross-entropy, cross-entropy:AXIS, or the name of a value
  std::string loss_output;  // the output that mse and cross-entropy judge; empty: the only float one
  std::string optimizer = "sgd";
  std::optional<double> lr, momentum, beta1, beta2, epsilon, weight_decay;  // nullopt: default of the optimizer
  std::optional<double> clip_norm;                                          // largest norm of all gradients together
  bool lr_input = false;                                                    // the learning rate is an input of every step
  int64_t accumulate = 1;                                                   // steps whose gradients are averaged for one update
  std::string loss_scale = "auto";                                          // dynamic, none, or by the precision
  std::vector<std::string> frozen;                                          // parameters that stay as they are

  // Set by commands.
  bool evaluate_only = false;    // the program that evaluates a model in training, without gradients and updates
  bool whole_states = false;     // every device of a mesh has all of each state
  bool parameters_only = false;  // the model as it is, with the parameters that training knows
};

// Options of a compile. Flags, environment and configuration are resolved into this once; nothing below the driver reads the
// environment.
struct CompileOptions : PassOptions, PlanOptions, TrainingOptions {
  std::string input;
  std::vector<std::string> targets{"cpu"};
  std::string output = "out";  // a folder, or "-" to write a single artefact to standard output
  std::set<Emit> emit;         // empty: all
  bool text = false;           // the text form of the artefact on standard output
  DimBindings bind;
  std::vector<std::pair<std::string, std::string>> assume;  // symbols equal to another symbol or to a number
  std::vector<std::pair<std::string, std::string>> shapes;  // of inputs with axes without a size, as 2x3
  std::vector<std::pair<std::string, std::string>> values;  // contents of inputs that shapes depend on, as 1,2
  std::vector<std::pair<std::string, std::string>> states;  // pairs of an input and an output that share a buffer
  int64_t kv_cache = 0;                                     // tokens of the cache of a GGUF model; 0: it grows
  std::string kv_type = "f32";                              // of keys and values in that cache
  bool last_logits = false;                                 // of a GGUF model: of the last token only
  std::vector<std::string> transforms;                      // words of transform/steps.h, applied before the passes
  bool allow_missing_weights = false;  // otherwise an error, unless another of the model's weight files exists

  std::string precision_name = "f32";  // a policy, or custom:FILE
  std::string weights;                 // TYPE or TYPE:GROUP SIZE for constant weights of matmuls; empty: unchanged
  std::string activations = "model";   // for matmuls with quantized weights: int8, float, or as in the model
  std::string calibration_file;
  std::string shard_rules;  // file of rules, which come before `shards`
  KernelDispatch kernel_dispatch = KernelDispatch::Native;
  std::string cpu = "generic";  // processor for which the cpu target makes kernels (backend/c/cpu_models.h)
  std::string tuning_file;      // block sizes for kernels of the cpu target; empty: those of the processor
  std::string supported_ops;    // file that lists the allowed ops; empty: those of the target

  std::vector<std::string> passes;  // replaces the pipeline; empty: the pipeline of the target
  std::set<std::string, std::less<>> disabled_passes;
  std::string rule_file;      // rewrites for the pass user_rules; empty: none
  std::string start_from;     // a pass: those before it do not run
  std::string stop_after;     // a pass, or the stages hir, mir
  int64_t bisect_limit = -1;  // limit on optional rewrites; -1: none

  std::string config;        // file that options were read from
  std::string depfile;       // file for a rule of Make or ninja; empty: none
  std::string cache;         // folder of finished compiles; empty: none
  std::string dump;          // folder (or a file, unless it ends in '/') for the text of every stage; empty: none
  bool verify_each = false;  // compare results on random inputs before and after every pass
  bool time_passes = false;
  std::string timing;                 // json or trace: times of a compile on standard output; empty: none
  std::vector<std::string> asserted;  // conditions on the facts of a compile (report/diff.h); it fails if one does not hold
  bool print_fusion = false, print_dispatch = false;
  bool quiet = false, verbose = false;
  bool lint = false;
  std::string package_name;      // name of the module, and of files and symbols of the package; empty: that of the graph
  bool hardened = false;         // check indices read from inputs
  bool embed_weights = false;    // include all weights in the package
  bool prepack = false;          // cpu: write the weights as kernels read them, too
  int64_t opset = 21;            // of ONNX models that are written
  std::string dialect = "onnx";  // ... their operators: of the standard, or those of ONNX Runtime too
  std::string op_file;           // definitions of operations; empty: none
  uint64_t max_nodes = 10'000'000;
  std::optional<uint64_t>
      max_memory;                    // limit on process memory in bytes; nullopt: none, but 3.5 GiB for tensors of an evaluation
  std::optional<uint64_t> max_time;  // limit in seconds; nullopt: none

  // Set by commands, not by options.
  std::string input_data;     // folder of test data with inputs that determine shapes; the program is specialised to them
  bool need_weights = false;  // a missing weights file is always an error (running a model)
  bool plan_only = false;     // the contents of weights are not needed
  std::string stop_before;    // stage of the pipeline ("quantise") before which to stop
  int64_t most_runs = -1;     // limit on runs of passes; -1: none
};

struct RunRequest {
  std::string data;                // folder; empty: random inputs, compared with the reference evaluator
  bool random = false;             // random inputs were requested explicitly
  std::vector<DimBindings> sizes;  // for random inputs: bindings of symbols, one run each
  Engine engine = Engine::Kernels;
  std::string target = "cpu";        // target of pipeline and kernels; targets other than cpu are emulated
  bool sanitize = false;             // cpu: build with AddressSanitizer and guards between buffers of the arena
  bool device = false;               // cuda, rocm, metal: run on a device of this machine
  std::optional<double> rtol, atol;  // nullopt: those of the precision (commands/tolerances.h)
  std::optional<double> min_cosine;  // compare by cosine similarity instead of tolerances
  uint64_t seed = 1;                 // of random inputs, and of random weights where the model has none
  std::string save_outputs;          // a folder, or a file NAME.npz; empty: outputs are not saved
  std::string save_as = "npy";       // npy or pb, in a folder
};

struct ProfileRequest {
  std::string data;  // folder of inputs; empty: random inputs
  int64_t threads = 1, repeat = 10;
  uint64_t top = 20;  // number of printed nodes
  bool json = false;
};

struct BenchRequest {
  int64_t warm_up = 5, runs = 100;  // calls of each candidate: before the measurement, and in it
  std::string against;              // another model or output folder, or "onnxruntime"; empty: none
};

struct CalibrateRequest {
  std::vector<std::string> data;  // folders as for `rlxc run`; only inputs are read
  uint64_t random = 0;            // number of additional random samples: floats uniform in -3 .. 3, integers in 0 .. 3
  std::string method = "minmax";  // for activations: minmax, percentile, entropy, mse
  double percentile = 99.99;
  bool symmetric = false;  // ranges of activations
  double smooth = 0;       // share of the range of a norm that moves to the weights that read it; 0: none
  double accuracy = 0;     // least cosine of the outputs; layers stay float until it is reached. 0: none
  std::string check;       // a command that judges a record by its exit code; likewise
};

struct TrainRequest {
  std::vector<std::string> data, labels;                        // [INPUT=]FILE.npy, or FILE.npz
  std::vector<std::string> validation_data, validation_labels;  // as these; empty: a share of these
  double validation = 0;                                        // share of the samples
  int64_t epochs = 10, batch = 32, threads = 0, patience = 0;   // patience 0: no early stop
  uint64_t seed = 0;
  std::string checkpoint, resume, history;  // paths
};

struct CommandLine : CompileOptions, RunRequest, ProfileRequest, BenchRequest, CalibrateRequest, TrainRequest {
  std::string save_config;  // path
  bool print_config = false;
  bool dump_to_output = false;
  std::string own_target;  // for specialize; empty: the target of the file
  std::string stage = "lir";
  bool after_each = false, as_json = false, matrix = false, markdown = false;
  std::string csv, check, before, after, topic, name, ledger;
  uint64_t capacity = 0;
  int64_t effort = 1;
  std::vector<std::string> fail_on;
  std::vector<std::string> cut_inputs, cut_outputs;  // for extract: names of values
  DimBindings sizes_of_expression;                   // for eval
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
  kTransform = 16384,
  kSimplify = 32768,
  kInfo = 65536,
  kBench = 131072,
  kReduce = 262144,
  kExtract = 524288,
  kReport = 1048576,
  kEval = 2097152,
  kManual = 4194304,
  kTrain = 8388608,
  kTune = 16777216,
  kModelCommands = kCompile | kSpecialize | kRun | kProfile | kCalibrate | kCheck | kInspect | kBisect | kTransform | kSimplify |
                   kInfo | kBench | kReduce | kExtract | kTrain | kTune,
  kTransformCommands = kCompile | kRun | kProfile | kCheck | kInspect | kBisect | kTransform | kSimplify | kInfo | kBench,
  kTrainingCommands = kCompile | kRun | kProfile | kCheck | kInspect | kBisect | kTransform,  // those of --train
  kPassCommands = kCompile | kRun | kProfile | kInspect | kBisect | kBench | kTrain | kTune,
};

struct CommandInfo {
  Subcommand command;
  std::string_view name, help, example;
};
inline constexpr CommandInfo kCommands[] = {
    {kInfo, "info", "print what a model takes, gives and costs: inputs, outputs, symbols, opset, parameters, work, peak memory",
     "Example: rlxc info model.onnx"},
    {kCompile, "compile", "compile a model for one or more targets and write the package and the reports",
     "Examples:\n  rlxc compile model.onnx --target metal --precision automixed --bind batch=1,seq=128 -o out/\n"
     "  rlxc compile model.onnx --target cpu,cuda --emit lir,plan,fusion\n"
     "  rlxc compile model.onnx --emit fusion -o - | jq .summary\n"
     "  rlxc compile model.onnx --emit fusion -o - --text | less\n"
     "  rlxc compile model.onnx --assert 'plan.peak<=8MiB' --assert 'fusion.misses.attention==0'"},
    {kSpecialize, "specialize", "plan a compiled module (lir.json) again for bound sizes or ranges",
     "Example: rlxc specialize out/lir.json --bind batch=1,seq=128 -o out-128/"},
    {kRun, "run", "run a model on test data and compare with the expected outputs",
     "Examples:\n  rlxc run model.onnx --data test_data_set_0 --rtol 1e-3 --atol 1e-4\n"
     "  rlxc run model.onnx --data inputs.npz --save-outputs outputs.npz\n"
     "  rlxc run model.onnx --random --seed 7 --precision f16"},
    {kBench, "bench", "measure the latency of a model on this machine's processor, also against another one",
     "Examples:\n  rlxc bench model.onnx --bind batch=1,seq=128 --threads 2\n"
     "  rlxc bench model.onnx --against onnxruntime\n  rlxc bench new.onnx --against old.onnx"},
    {kProfile, "profile", "run a model on this machine's processor and print the time of each node",
     "Example: rlxc profile model.onnx --bind batch=1,seq=128 --threads 2"},
    {kReport, "report", "write one HTML page about a compile, or about two side by side",
     "Examples:\n  rlxc report out/ -o report.html\n  rlxc report old/ new/ -o report.html"},
    {kDiff, "diff", "compare the reports of two compiles",
     "Example: rlxc diff old/ new/ --fail-on 'fusion.launches>+0' --fail-on 'plan.arena>+2%'"},
    {kTune, "tune", "measure which block sizes make the kernels of a model fastest on this machine, for --tuning",
     "Example: rlxc tune model.onnx --cpu native -o tuning.json && rlxc compile model.onnx --cpu native --tuning tuning.json"},
    {kCheck, "check", "list everything in a model that a target cannot run", "Example: rlxc check model.onnx --target all"},
    {kInspect, "inspect", "print the graph at a stage of the compile",
     "Examples:\n  rlxc inspect model.onnx --stage mir\n  rlxc inspect model.onnx --after-each | less\n"
     "  rlxc inspect model.onnx --stage hir --json > graph.json"},
    {kTransform, "transform", "differentiate or batch a model and write the graph that comes of it",
     "Example: rlxc transform model.onnx --grad loss --wrt params -o gradients.json"},
    {kSimplify, "simplify", "write a model as ONNX without what is constant, dead or repeated in it",
     "Example: rlxc simplify model.onnx -o small.onnx"},
    {kTrain, "train", "train a model on this machine's processor and write it with its new weights",
     "Example: rlxc train model.onnx --data x.npy --labels y.npy --loss cross-entropy --optimizer adam --epochs 5 -o "
     "trained.onnx"},
    {kExtract, "extract", "write the part of a model between values",
     "Example: rlxc extract model.onnx --inputs embedding --outputs layer_norm_4 -o part.onnx"},
    {kReduce, "reduce", "find a small part of a model that still fails a check",
     "Example: rlxc reduce model.onnx --check 'rlxc run {} --random --precision f16' -o small.json"},
    {kBisect, "bisect", "find the rewrite that makes a command fail",
     "Example: rlxc bisect model.onnx --check 'rlxc run model.onnx --data test_data_set_0'"},
    {kCalibrate, "calibrate", "evaluate a model on sample data and write the record of scales for --calibration",
     "Example: rlxc calibrate model.onnx --data samples/ -o record.json && rlxc compile model.onnx --calibration record.json -o "
     "out/"},
    {kPlan, "plan", "place buffers of a CSV file (id, lower, upper, size) in one arena",
     "Example: rlxc plan buffers.csv --capacity 8MiB > placed.csv"},
    {kEval, "eval", "compute a size: an expression of a report over symbols",
     "Example: rlxc eval '64*floordiv(seq+63,64)' seq=128"},
    {kList, "list", "list targets, passes, ops, onnx, options, env, schemas, codes, reasons or patterns",
     "Examples:\n  rlxc list targets\n  rlxc list ops --matrix"},
    {kExplain, "explain", "explain a code of an error, a reason or pattern of a report, or a pass, with an example",
     "Examples:\n  rlxc explain RLX0214\n  rlxc explain multi_consumer\n  rlxc explain attention"},
    {kSchema, "schema", "print the JSON Schema of a file that is read or written", "Example: rlxc schema plan"},
    {kManual, "manual", "print the manual page (troff) of rlxc or of a command", "Example: rlxc manual compile | man -l -"},
    {kCompletion, "completion", "print a completion script for bash, zsh or fish",
     "Examples:\n  source <(rlxc completion bash)\n  rlxc completion fish > ~/.config/fish/completions/rlxc.fish"},
};

enum class Group : uint8_t { Model, Transforms, Training, Sharding, Precision, Passes, Memory, Checks, Output, Run };
inline constexpr std::string_view kGroupNames[] = {"Model",  "Transforms", "Training", "Sharding", "Precision",
                                                   "Passes", "Memory",     "Checks",   "Output",   "Command"};

struct Option {
  std::string_view key{};   // in configuration files and the manifest; empty: in neither
  std::string_view flag{};  // "--target,-t", "!--no-reorder" (sets false), "model" (positional); empty: none
  OptionField field;
  Group group = Group::Run;
  uint32_t commands = 0;   // commands that accept the flag
  std::string_view env{};  // environment variable
  // Allowed names of the value (or of each list item), separated by '|'; for an enumeration in the order of its enumerators.
  // Alternative spellings follow '='. "custom:FILE" allows all values that begin with "custom:".
  std::string_view choices{};
  double low = 0, high = 1e19;   // range of a number
  bool power_of_two = false;     // 0 is allowed too
  std::string_view value{};      // name of the value in help
  bool comma_separated = false;  // for lists: a word may contain several items
  // Each word becomes a word of --transform behind this one, in the order of the command line ("grad" of --grad LOSS).
  std::string_view step{};
  bool required = false;     // by the commands
  bool in_manifest = false;  // affects the output of a compile
  bool is_path = false;      // the manifest contains the last component only
  std::string_view help;
};

inline constexpr std::string_view kEmitChoices =
    "lir|plan|fusion|dispatch|precision|quant|graph|arena|kernels|transform|training|sharding|onnx|report";

// Help lists options in this order.
// clang-format off
inline constexpr Option kOptions[] = {
    {.flag = "model", .field = &CompileOptions::input, .group = Group::Model, .commands = kModelCommands, .value = "MODEL",
     .required = true, .help = "an ONNX model, a GGUF file, a JSON graph, or IR text"},
    {.key = "bind", .flag = "--bind", .field = &CompileOptions::bind, .group = Group::Model, .commands = kModelCommands,
     .value = "NAME=SIZE", .comma_separated = true, .in_manifest = true,
     .help = "sizes of symbolic dims, e.g. batch=1,seq=128"},
    {.key = "ops", .flag = "--ops", .field = &CompileOptions::op_file, .group = Group::Model, .commands = kModelCommands,
     .value = "FILE", .in_manifest = true, .is_path = true, .help = "definitions of operations, by which ONNX nodes of other domains are known"},
    {.key = "assume", .flag = "--assume", .field = &CompileOptions::assume, .group = Group::Model, .commands = kModelCommands,
     .value = "NAME=NAME", .comma_separated = true, .in_manifest = true,
     .help = "symbolic dims to treat as equal, e.g. batch=images; every run checks them"},
    {.key = "shape", .flag = "--shape", .field = &CompileOptions::shapes, .group = Group::Model, .commands = kModelCommands,
     .value = "INPUT=DIMS", .comma_separated = true, .in_manifest = true,
     .help = "shapes of inputs that are declared without one, or with axes without a size or name, e.g. x=2x3xseq"},
    {.key = "value", .flag = "--value", .field = &CompileOptions::values, .group = Group::Model, .commands = kModelCommands,
     .value = "INPUT=NUMBERS", .in_manifest = true,
     .help = "contents of a scalar or vector input, e.g. sizes=1,2,7; the program is for these contents only"},
    {.key = "range", .flag = "--range", .field = &PlanOptions::ranges, .group = Group::Model, .commands = kModelCommands,
     .value = "NAME=LOW..HIGH", .comma_separated = true, .in_manifest = true,
     .help = "ranges of symbolic dims, e.g. seq=1..2048; one memory plan covers the whole range"},
    {.key = "bound", .flag = "--bound", .field = &PlanOptions::bounds, .group = Group::Model, .commands = kModelCommands,
     .value = "NAME=SIZE", .comma_separated = true, .in_manifest = true,
     .help = "upper bounds of data-dependent dims that cannot be derived"},
    {.key = "state", .flag = "--state", .field = &CompileOptions::states, .group = Group::Model, .commands = kModelCommands,
     .value = "INPUT=OUTPUT", .comma_separated = true, .in_manifest = true,
     .help = "an input and an output that share one buffer, updated by every run, e.g. cache=new_cache"},
    {.key = "kv-cache", .flag = "--kv-cache", .field = &CompileOptions::kv_cache, .group = Group::Model,
     .commands = kModelCommands, .low = 1, .high = 1e6, .value = "TOKENS", .in_manifest = true,
     .help = "a cache of a GGUF model with room for so many tokens, which every run appends to in place"},
    {.key = "kv-type", .flag = "--kv-type", .field = &CompileOptions::kv_type, .group = Group::Model,
     .commands = kModelCommands, .choices = "f32|f16|bf16", .in_manifest = true,
     .help = "type of the keys and values in the cache of a GGUF model"},
    {.key = "last-logits", .flag = "--last-logits", .field = &CompileOptions::last_logits, .group = Group::Model,
     .commands = kModelCommands, .in_manifest = true,
     .help = "a GGUF model computes the logits of the last token only"},
    {.key = "max-nodes", .flag = "--max-nodes", .field = &CompileOptions::max_nodes, .group = Group::Model,
     .commands = kModelCommands, .help = "limit on the number of nodes of a model"},
    {.key = "max-operations", .flag = "--max-operations", .field = &PassOptions::max_operations, .group = Group::Model,
     .commands = kModelCommands, .value = "N",
     .help = "limit on element operations of constant folding, of an evaluation and of loops in kernels (about 1e9 take a second)"},
    {.key = "max-memory", .flag = "--max-memory", .field = &CompileOptions::max_memory, .group = Group::Model,
     .commands = kModelCommands, .value = "BYTES",
     .help = "limit on the memory of the process (default: none; 3.5 GiB for the tensors of an evaluation)"},
    {.key = "max-time", .flag = "--max-time", .field = &CompileOptions::max_time, .group = Group::Model,
     .commands = kModelCommands, .low = 1, .value = "SECONDS", .help = "limit on the run time in seconds (default: none)"},
    {.key = "allow-missing-weights", .flag = "--allow-missing-weights", .field = &CompileOptions::allow_missing_weights,
     .group = Group::Model, .commands = kCompile | kCheck | kInspect | kTransform | kExtract,
     .help = "read the model without its weight files; only the shapes of the weights are known"},

    {.key = "transform", .flag = "--transform", .field = &CompileOptions::transforms, .group = Group::Transforms,
     .commands = kTransformCommands, .value = "WORDS", .in_manifest = true,
     .help = "a transform in words, as \"grad loss\" or \"wrt params\"; the flags below are short for it"},
    {.flag = "--grad", .field = &CompileOptions::transforms, .group = Group::Transforms, .commands = kTransformCommands,
     .value = "LOSS", .step = "grad", .help = "the gradient of the sum of this output or value, as outputs grad:NAME"},
    {.flag = "--wrt", .field = &CompileOptions::transforms, .group = Group::Transforms, .commands = kTransformCommands,
     .value = "NAME,...|params|inputs", .step = "wrt", .help = "--grad: by what (default: params, or inputs where there are none)"},
    {.flag = "--order", .field = &CompileOptions::transforms, .group = Group::Transforms, .commands = kTransformCommands,
     .value = "N", .step = "order", .help = "--grad: so many times, by --along NAME"},
    {.flag = "--along", .field = &CompileOptions::transforms, .group = Group::Transforms, .commands = kTransformCommands,
     .value = "NAME", .step = "along", .help = "--grad: by this value alone"},
    {.flag = "--jvp", .field = &CompileOptions::transforms, .group = Group::Transforms, .commands = kTransformCommands,
     .value = "NAME,...", .step = "jvp",
     .help = "how outputs move when these values move by inputs tangent:NAME, as outputs tangent:OUTPUT"},
    {.flag = "--hvp", .field = &CompileOptions::transforms, .group = Group::Transforms, .commands = kTransformCommands,
     .step = "hvp", .help = "the Hessian of the --grad before it times inputs tangent:NAME, as outputs hvp:NAME"},
    {.flag = "--vmap", .field = &CompileOptions::transforms, .group = Group::Transforms, .commands = kTransformCommands,
     .value = "INPUT[:AXIS],...", .step = "vmap", .help = "many samples at once: these inputs have an axis for them, outputs in front"},
    {.flag = "--size", .field = &CompileOptions::transforms, .group = Group::Transforms, .commands = kTransformCommands & ~kRun,
     .value = "B", .step = "size", .help = "--vmap: so many samples, or the name of a symbolic dimension"},
    {.flag = "--stop-gradient", .field = &CompileOptions::transforms, .group = Group::Transforms,
     .commands = kTransformCommands, .value = "NAME,...", .step = "stop-gradient",
     .help = "values that count as constant in --grad and --jvp"},

    {.key = "train", .flag = "--train", .field = &TrainingOptions::train, .group = Group::Training, .commands = kTrainingCommands,
     .in_manifest = true, .help = "make a program that trains: each run is a step, and parameters are states that it updates"},
    {.key = "loss", .flag = "--loss", .field = &TrainingOptions::loss, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .value = "mse|cross-entropy[:AXIS]|NAME", .in_manifest = true,
     .help = "what a step makes smaller: mse to an input target:OUTPUT, cross-entropy of classes along AXIS (default 1) with an input label:OUTPUT, or a value of the model"},
    {.key = "loss-output", .flag = "--loss-output", .field = &TrainingOptions::loss_output, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .value = "OUTPUT", .in_manifest = true,
     .help = "the output that mse or cross-entropy judges (default: the only float output)"},
    {.key = "optimizer", .flag = "--optimizer", .field = &TrainingOptions::optimizer, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .choices = "sgd|momentum|nesterov|adagrad|adam|adamw|lion", .in_manifest = true,
     .help = "update rule of the parameters"},
    {.key = "lr", .flag = "--lr", .field = &TrainingOptions::lr, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .high = 1e6, .value = "RATE", .in_manifest = true,
     .help = "learning rate (default: of the optimizer)"},
    {.key = "lr-input", .flag = "--lr-input", .field = &TrainingOptions::lr_input, .group = Group::Training,
     .commands = kTrainingCommands, .in_manifest = true,
     .help = "the learning rate is an input lr of every step"},
    {.key = "momentum", .flag = "--momentum", .field = &TrainingOptions::momentum, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .high = 1, .value = "M", .in_manifest = true,
     .help = "momentum and nesterov: share of the last step that is kept"},
    {.key = "beta1", .flag = "--beta1", .field = &TrainingOptions::beta1, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .high = 1, .value = "B", .in_manifest = true,
     .help = "adam, adamw, lion: share of the mean gradient that is kept"},
    {.key = "beta2", .flag = "--beta2", .field = &TrainingOptions::beta2, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .high = 1, .value = "B", .in_manifest = true,
     .help = "adam, adamw: share of the mean square that is kept; lion: of the momentum"},
    {.key = "epsilon", .flag = "--epsilon", .field = &TrainingOptions::epsilon, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .high = 1, .value = "E", .in_manifest = true,
     .help = "adagrad, adam, adamw: added to the root of the squares"},
    {.key = "weight-decay", .flag = "--weight-decay", .field = &TrainingOptions::weight_decay, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .high = 1e6, .value = "W", .in_manifest = true,
     .help = "parameters lose this share: of adamw and lion directly, else through the gradient"},
    {.key = "clip-norm", .flag = "--clip-norm", .field = &TrainingOptions::clip_norm, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .low = 1e-12, .value = "X", .in_manifest = true,
     .help = "scale all gradients down to this norm together where theirs is larger"},
    {.key = "accumulate", .flag = "--accumulate", .field = &TrainingOptions::accumulate, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .low = 1, .high = 1e6, .value = "N", .in_manifest = true,
     .help = "average the gradients of N steps for one update"},
    {.key = "loss-scale", .flag = "--loss-scale", .field = &TrainingOptions::loss_scale, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .choices = "auto|dynamic|none", .in_manifest = true,
     .help = "gradients in f16 are those of a scaled loss, and updates with infinities are skipped (auto: in f16)"},
    {.key = "freeze", .flag = "--freeze", .field = &TrainingOptions::frozen, .group = Group::Training,
     .commands = kTrainingCommands | kTrain, .value = "NAME,...", .comma_separated = true, .in_manifest = true,
     .help = "parameters that stay as they are"},
    {.key = "mesh", .flag = "--mesh", .field = &PassOptions::mesh, .group = Group::Sharding, .commands = kPassCommands | kTransform,
     .value = "AXIS=SIZE,...", .in_manifest = true, .help = "devices that run the model together, e.g. data=2,model=4"},
    {.key = "shard", .flag = "--shard", .field = &PassOptions::shards, .group = Group::Sharding, .commands = kPassCommands | kTransform,
     .value = "NAME=AXIS:DIM,...", .in_manifest = true,
     .help = "split dim DIM of a value over a mesh axis, e.g. w1=model:0; NAME is a regular expression; NAME=whole keeps it whole"},
    {.key = "shard-rules", .flag = "--shard-rules", .field = &CompileOptions::shard_rules, .group = Group::Sharding,
     .commands = kPassCommands | kTransform, .value = "FILE", .in_manifest = true, .is_path = true,
     .help = "file of rules as for --shard (rlxc schema shard-rules); flags come after them"},
    {.key = "link-bandwidth", .flag = "--link-bandwidth", .field = &PassOptions::link_bandwidth, .group = Group::Sharding,
     .commands = kPassCommands | kTransform, .low = 1e-6, .high = 1e6, .value = "GB/S", .in_manifest = true,
     .help = "speed of the link between two devices, for predicted times"},
    {.key = "parallel", .flag = "--parallel", .field = &PassOptions::parallel, .group = Group::Sharding,
     .commands = kPassCommands | kTransform, .choices = "tensor|data|expert|pipeline|auto", .value = "LIST", .comma_separated = true, .in_manifest = true,
     .help = "shard a transformer: tensor splits heads, hidden units and vocabulary over mesh axis model; data splits the batch "
             "over mesh axis data; expert splits the experts over mesh axis expert; pipeline cuts the model into stages along mesh axis pipe; auto chooses "
             "the fastest that fits --device-memory"},

    {.key = "precision", .flag = "--precision", .field = &CompileOptions::precision_name, .group = Group::Precision,
     .commands = kPassCommands,
     .choices = "f32|f16|automixed|automixed-conservative|automixed-bf16|fp8-e4m3|fp8-e5m2|mxfp8-e4m3|mxfp8-e5m2|custom:FILE",
     .in_manifest = true, .is_path = true, .help = "element types of the computation"},
    {.key = "weights", .flag = "--weights", .field = &CompileOptions::weights, .group = Group::Precision,
     .commands = kPassCommands | kCalibrate, .value = "TYPE[:GROUP SIZE]", .in_manifest = true,
     .help = "store constant weights of matmuls in fewer bits: int8, int4, fp8-e4m3 or fp8-e5m2"},
    {.key = "activations", .flag = "--activations", .field = &CompileOptions::activations, .group = Group::Precision,
     .commands = kPassCommands, .choices = "model|int8|float", .in_manifest = true,
     .help = "activations of matmuls with quantized weights: int8 rounds each row to 8 bits, float does not"},
    {.key = "calibration", .flag = "--calibration", .field = &CompileOptions::calibration_file, .group = Group::Precision,
     .commands = kPassCommands, .value = "FILE", .in_manifest = true, .is_path = true,
     .help = "calibration record: which tensors to quantise, and with which scales"},

    {.key = "hir-policy", .flag = "--hir-policy", .field = &PassOptions::fusion, .group = Group::Passes,
     .commands = kPassCommands, .choices = "fusable|direct", .in_manifest = true,
     .help = "how HIR blocks are lowered"},
    {.key = "kernel-dispatch", .flag = "--kernel-dispatch", .field = &CompileOptions::kernel_dispatch, .group = Group::Passes,
     .commands = kPassCommands, .env = "RLX_KERNEL_DISPATCH",
     .choices = "native=force_native=ForceNative|common=force_common=ForceCommon", .in_manifest = true,
     .help = "prefer native kernels, or decompose every op that has a decomposition"},
    {.key = "cpu", .flag = "--cpu", .field = &CompileOptions::cpu, .group = Group::Passes, .commands = kPassCommands, .value = "NAME",
     .in_manifest = true,
     .help = "processor for which the cpu target makes kernels: native (this one), zen4, skylake-avx512, sapphirerapids, zen3, "
             "haswell, neoverse-n1, neoverse-v1, apple-m1, apple-m2, or generic"},
    {.key = "tuning", .flag = "--tuning", .field = &CompileOptions::tuning_file, .group = Group::Passes, .commands = kPassCommands,
     .value = "FILE", .in_manifest = true, .is_path = true,
     .help = "block sizes that `rlxc tune` measured, for kernels of the cpu target"},
    {.key = "supported-ops", .flag = "--supported-ops", .field = &CompileOptions::supported_ops, .group = Group::Passes,
     .commands = kPassCommands, .value = "FILE", .in_manifest = true, .is_path = true,
     .help = "file of allowed ops, one per line or a JSON list; other ops are decomposed, or are an error"},
    {.key = "passes", .flag = "--passes", .field = &CompileOptions::passes, .group = Group::Passes, .commands = kPassCommands,
     .value = "PASS,...", .comma_separated = true, .in_manifest = true,
     .help = "run these passes instead of the target's pipeline"},
    {.key = "disable-pass", .flag = "--disable-pass", .field = &CompileOptions::disabled_passes, .group = Group::Passes,
     .commands = kPassCommands, .value = "PASS", .comma_separated = true, .in_manifest = true,
     .help = "skip a pass (repeatable)"},
    {.key = "rules", .flag = "--rules", .field = &CompileOptions::rule_file, .group = Group::Passes, .commands = kPassCommands,
     .value = "FILE", .in_manifest = true, .is_path = true, .help = "rewrites that the pass user_rules makes"},
    {.key = "start-from", .flag = "--start-from", .field = &CompileOptions::start_from, .group = Group::Passes,
     .commands = kPassCommands, .value = "PASS", .in_manifest = true,
     .help = "leave out the passes before this one, for a dump made after them"},
    {.key = "stop-after", .flag = "--stop-after", .field = &CompileOptions::stop_after, .group = Group::Passes,
     .commands = kPassCommands, .value = "PASS", .in_manifest = true, .help = "stop after a pass, or after the stage hir or mir"},
    {.key = "bisect-limit", .flag = "--bisect-limit", .field = &CompileOptions::bisect_limit, .group = Group::Passes,
     .commands = kPassCommands, .env = "RLX_BISECT_LIMIT", .low = -9e18, .value = "N", .in_manifest = true,
     .help = "apply only the first N optional rewrites (rlxc bisect sets it for its check)"},
    {.key = "fast-math", .flag = "--fast-math", .field = &PassOptions::fast_math, .group = Group::Passes,
     .commands = kPassCommands, .in_manifest = true, .help = "allow rewrites that are not exact in IEEE arithmetic"},
    {.key = "winograd", .flag = "--winograd", .field = &PassOptions::winograd, .group = Group::Passes,
     .commands = kPassCommands, .in_manifest = true,
     .help = "compute 3x3 convolutions of f32 by Winograd's algorithm where that pays (cpu; part of --fast-math)"},
    {.key = "fuse-attn-threshold", .flag = "--fuse-attn-threshold", .field = &PassOptions::fuse_attn_threshold,
     .group = Group::Passes, .commands = kPassCommands, .env = "RLX_FUSE_ATTN_THRESHOLD", .value = "ROWS", .in_manifest = true,
     .help = "fuse attention blocks and layers of at most ROWS rows (batch times tokens) into one launch (default: where the cost "
             "model predicts a gain)"},
    {.key = "unroll", .flag = "--unroll", .field = &PassOptions::unroll_max_nodes, .group = Group::Passes,
     .commands = kPassCommands, .value = "N", .in_manifest = true,
     .help = "unroll loops of constant trip count that expand to at most N nodes"},
    {.key = "promote-param", .flag = "--promote-param", .field = &PassOptions::promoted_params, .group = Group::Passes,
     .commands = kPassCommands, .value = "NAME", .in_manifest = true, .help = "make a parameter an input (repeatable)"},
    {.key = "specialise-param", .flag = "--specialise-param", .field = &PassOptions::specialised_params, .group = Group::Passes,
     .commands = kPassCommands, .value = "NAME", .in_manifest = true,
     .help = "make a parameter a constant that can be folded (repeatable)"},
    {.key = "fold-max-bytes", .field = &PassOptions::fold_max_bytes, .group = Group::Passes, .in_manifest = true,
     .help = "largest constant that constant folding creates, in bytes"},

    {.key = "align", .flag = "--align", .field = &PlanOptions::alignment, .group = Group::Memory,
     .commands = kCompile | kSpecialize, .env = "RLX_ARENA_ALIGN", .power_of_two = true, .value = "BYTES", .in_manifest = true,
     .help = "alignment of arena slots in bytes (0: default of the target)"},
    {.key = "max-arena", .flag = "--max-arena", .field = &PlanOptions::max_arena, .group = Group::Memory,
     .commands = kPassCommands, .value = "BYTES", .in_manifest = true,
     .help = "limit on the bytes of activations; values or whole segments are computed again, or segments run on parts of their rows, to meet it, and the compile fails if it cannot be met"},
    {.key = "max-packed", .flag = "--max-packed", .field = &PlanOptions::max_packed, .group = Group::Memory,
     .commands = kPassCommands | kSpecialize, .value = "BYTES", .in_manifest = true,
     .help = "limit on the bytes of prepacked weights; the weights that gain most are prepacked, the others are read in place, and the "
             "compile fails if the load-time values alone exceed it"},
    {.key = "device-memory", .flag = "--device-memory", .field = &PlanOptions::device_memory, .group = Group::Memory,
     .commands = kPassCommands, .value = "BYTES", .in_manifest = true,
     .help = "limit on the bytes of weights, prepacked weights and activations of a device; what other bytes leave is prepacked"},
    {.key = "max-binding", .flag = "--max-binding", .field = &PlanOptions::max_binding, .group = Group::Memory,
     .commands = kPassCommands, .low = 4096, .high = 1099511627776, .value = "BYTES", .in_manifest = true,
     .help = "wgpu: largest buffer binding in bytes (default: the limit every device supports); larger buffers are bound in parts"},
    {.key = "reorder", .flag = "!--no-reorder", .field = &PlanOptions::reorder, .group = Group::Memory,
     .commands = kPassCommands | kSpecialize, .in_manifest = true,
     .help = "keep the given node order, even if another one needs less memory"},
    {.key = "in-place", .flag = "!--no-in-place", .field = &PlanOptions::in_place, .group = Group::Memory,
     .commands = kPassCommands, .in_manifest = true, .help = "never write a result over an operand"},
    {.key = "element-bytes", .flag = "--element-bytes", .field = &PlanOptions::element_bytes, .group = Group::Memory,
     .commands = kCompile, .choices = "1|2|4|8", .in_manifest = true,
     .help = "smallest element size of activations in the plan: 4 for runtimes that store every value in 32-bit words"},

    {.key = "verify", .flag = "--verify", .field = &PlanOptions::verify, .group = Group::Checks,
     .commands = kPassCommands | kSpecialize, .env = "RLX_PLAN_VERIFY",
     .help = "verify the graph after every pass that changed it, and the memory plan"},
    {.key = "verify-each", .flag = "--verify-each", .field = &CompileOptions::verify_each, .group = Group::Checks,
     .commands = kPassCommands, .help = "evaluate before and after every pass on random inputs and compare"},
    {.flag = "--assert", .field = &CompileOptions::asserted, .group = Group::Checks, .commands = kCompile | kSpecialize,
     .value = "EXPR", .help = "exit with 1 unless the condition holds, e.g. plan.peak<=8MiB, fusion.misses.attention==0 or "
     "fusion.misses.attention.multi_consumer==0 (repeatable; a fusion that would not pay, or that the target cannot run, is no miss)"},
    {.key = "lint", .flag = "--lint", .field = &CompileOptions::lint, .group = Group::Checks, .commands = kPassCommands,
     .env = "RLX_LINT_NUMERICS", .in_manifest = true, .help = "warn about computations that can produce infinities or NaN"},

    {.key = "target", .flag = "--target,-t", .field = &CompileOptions::targets, .group = Group::Output,
     .commands = kCompile | kCheck | kInspect | kBisect, .value = "TARGET", .comma_separated = true,
     .help = "cpu, metal, mlx, wgpu, cuda, rocm or tpu; compile and check also take several (repeatable), or all"},
    {.flag = "--target,-t", .field = &CommandLine::own_target, .group = Group::Output, .commands = kSpecialize, .value = "TARGET",
     .help = "default: taken from the file"},
    {.key = "output", .flag = "--output,-o", .field = &CompileOptions::output, .group = Group::Output,
     .commands = kCompile | kSpecialize, .value = "DIR", .help = "folder to write to, or - for standard output with one --emit"},
    {.flag = "--output,-o", .field = &CompileOptions::output, .group = Group::Output, .commands = kTune, .value = "FILE",
     .required = true, .help = "file for the block sizes"},
    {.flag = "--output,-o", .field = &CompileOptions::output, .group = Group::Output, .commands = kCalibrate, .value = "FILE",
     .required = true, .help = "file to write, or - for standard output"},
    {.flag = "--output,-o", .field = &CompileOptions::output, .group = Group::Output,
     .commands = kTransform | kReduce | kExtract, .value = "FILE",
     .required = true, .help = "file to write: NAME.onnx, NAME.json, or else IR text; or - for standard output"},
    {.flag = "--output,-o", .field = &CompileOptions::output, .group = Group::Output, .commands = kSimplify, .value = "FILE",
     .required = true, .help = "ONNX file to write, or - for standard output"},
    {.flag = "--output,-o", .field = &CompileOptions::output, .group = Group::Output, .commands = kTrain, .value = "FILE",
     .required = true, .help = "ONNX file to write: the model with its trained weights"},
    {.flag = "--output,-o", .field = &CompileOptions::output, .group = Group::Output, .commands = kReport, .value = "FILE",
     .required = true, .help = "HTML file to write, or - for standard output"},
    {.flag = "--ledger", .field = &CommandLine::ledger, .group = Group::Output, .commands = kTransform, .value = "FILE",
     .help = "write what the transforms did, as transform.json of a compile"},
    {.key = "emit", .flag = "--emit", .field = &CompileOptions::emit, .group = Group::Output, .commands = kCompile | kSpecialize,
     .choices = kEmitChoices, .value = "LIST", .comma_separated = true, .in_manifest = true,
     .help = "artefacts to write; svg: graph and arena; onnx: the graph after the last pass (default: all but onnx and report; specialize: lir,plan,arena)"},
    {.flag = "--text", .field = &CompileOptions::text, .group = Group::Output, .commands = kCompile | kSpecialize,
     .help = "with -o -: the text form of plan, fusion, dispatch, transform or sharding"},
    {.key = "opset", .flag = "--opset", .field = &CompileOptions::opset, .group = Group::Output,
     .commands = kCompile | kTransform | kSimplify, .low = 13, .high = 21, .in_manifest = true,
     .help = "ONNX that is written: version of the operators"},
    {.key = "dialect", .flag = "--dialect", .field = &CompileOptions::dialect, .group = Group::Output,
     .commands = kCompile | kTransform | kSimplify, .choices = "onnx|ort", .in_manifest = true,
     .help = "ONNX that is written: standard operators, fused ones as functions; or com.microsoft operators too, for ONNX Runtime"},
    {.key = "name", .flag = "--name", .field = &CompileOptions::package_name, .group = Group::Output,
     .commands = kCompile | kSpecialize, .value = "NAME", .in_manifest = true,
     .help = "prefix of the files and symbols of the package (default: the name of the graph, or of the file where exporters name "
             "all graphs alike)"},
    {.key = "hardened", .flag = "--hardened", .field = &CompileOptions::hardened, .group = Group::Output,
     .commands = kCompile | kSpecialize | kRun | kCheck, .in_manifest = true,
     .help = "a run fails if an index read from an input (Gather, Scatter) is out of range; otherwise the index is clamped"},
    {.key = "prepack", .flag = "--prepack", .field = &CompileOptions::prepack, .group = Group::Output, .commands = kCompile,
     .in_manifest = true,
     .help = "write the weights of a cpu package as kernels read them, too, so that the first run starts soon; builds the package"},
    {.key = "embed-weights", .flag = "--embed-weights", .field = &CompileOptions::embed_weights, .group = Group::Output,
     .commands = kCompile | kSpecialize | kTransform | kSimplify, .in_manifest = true,
     .help = "include all weights in the package; cpu: in the library, which then needs no weight file; ONNX: in "
             "the model, even if it is large"},
    {.key = "dump", .field = &CompileOptions::dump, .group = Group::Output, .env = "RLX_IR_DUMP", .value = "PATH",
     .help = "write the text of every stage to a file, or to a folder if PATH ends in '/'"},
    {.flag = "--dump", .field = &CommandLine::dump_to_output, .group = Group::Output, .commands = kCompile,
     .help = "write the IR text after every stage and every pass that changed it to DIR/dump/"},
    {.key = "time-passes", .flag = "--time-passes", .field = &CompileOptions::time_passes, .group = Group::Output,
     .commands = kPassCommands, .env = "RLX_PHASE_TIMING", .help = "print what each pass did and how long it took"},
    {.key = "print-fusion", .field = &CompileOptions::print_fusion, .group = Group::Output, .env = "RLX_FUSION_REPORT",
     .help = "print the fusion report"},
    {.key = "print-dispatch", .field = &CompileOptions::print_dispatch, .group = Group::Output, .env = "RLX_DISPATCH_REPORT",
     .help = "print the dispatch report"},
    {.flag = "--timing", .field = &CompileOptions::timing, .group = Group::Output, .commands = kCompile,
     .choices = "json|trace", .help = "print the times of stages and passes to standard output, as JSON or as a Chrome trace"},
    {.key = "quiet", .flag = "--quiet,-q", .field = &CompileOptions::quiet, .group = Group::Output,
     .commands = kCompile | kSpecialize | kCalibrate | kTransform | kSimplify | kReduce | kExtract | kTrain, .help = "print errors only"},
    {.key = "verbose", .flag = "--verbose,-v", .field = &CompileOptions::verbose, .group = Group::Output, .commands = kCompile,
     .help = "print every step with its time"},
    {.key = "depfile", .flag = "--depfile", .field = &CompileOptions::depfile, .group = Group::Output, .commands = kCompile,
     .value = "FILE", .help = "write the files that the output depends on, as a rule of Make and ninja"},
    {.key = "cache", .flag = "--cache", .field = &CompileOptions::cache, .group = Group::Output, .commands = kCompile,
     .value = "DIR", .help = "keep finished compiles in DIR by the contents of their inputs and options, and copy from there"},
    {.flag = "--config", .field = &CompileOptions::config, .group = Group::Output, .commands = kModelCommands, .value = "FILE",
     .help = "read options from a JSON file; flags override the file, the file overrides the environment"},
    {.flag = "--save-config", .field = &CommandLine::save_config, .group = Group::Output, .commands = kModelCommands,
     .value = "FILE", .help = "write the options of this command to a file for --config"},
    {.flag = "--print-config", .field = &CommandLine::print_config, .group = Group::Output, .commands = kModelCommands,
     .help = "print the options of this command as --save-config writes them, and exit"},

    {.flag = "--data", .field = &RunRequest::data, .commands = kRun, .value = "PATH",
     .help = "folder with input_i.pb (.npy) or NAME.npy of each input, and output_i or NAME of the expected outputs; a folder of "
             "such folders test_data_set_*; a file NAME.npz; a folder of those; or, for a model with one input, .npy or .pb files of "
             "any name"},
    {.flag = "--random", .field = &RunRequest::random, .commands = kRun,
     .help = "use random inputs; the reference evaluator gives the expected outputs"},
    {.flag = "--size", .field = &RunRequest::sizes, .commands = kRun, .value = "NAME=SIZE,...", .step = "size",
     .help = "with --random: sizes of symbolic dims, e.g. batch=2,seq=7 (repeatable: one package runs them all); without "
             "=, the size of --vmap"},
    {.flag = "--engine", .field = &RunRequest::engine, .commands = kRun, .choices = "reference|interpreter|kernels",
     .help = "the reference evaluator, the generated kernels, or an interpreter of the kernels with checks (slow)"},
    {.flag = "--target,-t", .field = &RunRequest::target, .commands = kRun, .value = "TARGET",
     .help = "cpu; or cuda, rocm, metal (emulated on this machine), wgpu (Dawn in Node), mlx (python3)"},
    {.flag = "--sanitize", .field = &RunRequest::sanitize, .commands = kRun,
     .help = "cpu: build the kernels with AddressSanitizer; a kernel may access only the arena slots of its node"},
    {.flag = "--device", .field = &RunRequest::device, .commands = kRun,
     .help = "cuda, rocm, metal: build the package with the vendor's compiler (make) and run it on the device of this machine"},
    {.flag = "--rtol", .field = &RunRequest::rtol, .commands = kRun,
     .help = "relative tolerance (default: by precision; f32: 0.001)"},
    {.flag = "--atol", .field = &RunRequest::atol, .commands = kRun,
     .help = "absolute tolerance (default: by precision; f32: 1e-05)"},
    {.flag = "--seed", .field = &RunRequest::seed, .commands = kRun,
     .help = "seed of random inputs, and of random weights where the model has none"},
    {.flag = "--save-outputs", .field = &RunRequest::save_outputs, .commands = kRun, .value = "PATH",
     .help = "write the outputs to a folder (output_0.npy, ...; a folder per data set where there are several) or to a file "
             "NAME.npz"},
    {.flag = "--save-as", .field = &RunRequest::save_as, .commands = kRun, .choices = "npy|pb",
     .help = "files of --save-outputs in a folder"},
    {.flag = "--min-cosine", .field = &RunRequest::min_cosine, .commands = kRun, .low = -1, .value = "C",
     .help = "compare float outputs by cosine similarity instead of by tolerances"},
    {.flag = "--data", .field = &ProfileRequest::data, .commands = kProfile | kBench | kTune, .value = "PATH",
     .help = "inputs, as for rlxc run (default: random inputs)"},
    {.flag = "--threads", .field = &ProfileRequest::threads, .commands = kProfile | kBench | kTune, .low = 1, .high = 1024,
     .help = "threads to run on"},
    {.flag = "--repeat", .field = &ProfileRequest::repeat, .commands = kProfile | kTune, .low = 1, .high = 1000000,
     .help = "number of runs"},
    {.flag = "--top", .field = &ProfileRequest::top, .commands = kProfile,
     .help = "number of slowest nodes to print"},
    {.flag = "--repeat", .field = &BenchRequest::runs, .commands = kBench, .low = 1, .high = 1000000,
     .help = "number of measured runs"},
    {.flag = "--warm-up", .field = &BenchRequest::warm_up, .commands = kBench, .high = 1000000,
     .help = "number of runs before them"},
    {.flag = "--against", .field = &BenchRequest::against, .commands = kBench, .value = "WHAT",
     .help = "a model to compare with, measured in turn with the first, or onnxruntime (the Python module)"},
    {.flag = "--json", .field = &ProfileRequest::json, .commands = kProfile | kBench,
     .help = "print JSON; profile: all nodes in execution order"},
    {.flag = "--data", .field = &CalibrateRequest::data, .commands = kCalibrate, .value = "PATH",
     .help = "samples, as for rlxc run (repeatable); a .npy file of the only input may have them along its first axis, where the "
             "input has 1 or lacks the axis"},
    {.flag = "--random", .field = &CalibrateRequest::random, .commands = kCalibrate, .value = "N",
     .help = "number of samples with random inputs"},
    {.flag = "--method", .field = &CalibrateRequest::method, .commands = kCalibrate, .choices = "minmax|percentile|entropy|mse",
     .help = "range of an activation: minmax covers all values, percentile drops outliers, entropy and mse minimise the error"},
    {.flag = "--percentile", .field = &CalibrateRequest::percentile, .commands = kCalibrate, .low = 50, .high = 100,
     .help = "percentile method: share of the values inside the range"},
    {.flag = "--symmetric", .field = &CalibrateRequest::symmetric, .commands = kCalibrate,
     .help = "ranges of activations have 0 in the middle"},
    {.flag = "--smooth", .field = &CalibrateRequest::smooth, .commands = kCalibrate, .high = 1, .value = "SHARE",
     .help = "move this share of the range of each channel from a norm to the weights of the matmuls after it (SmoothQuant: 0.5)"},
    {.flag = "--accuracy", .field = &CalibrateRequest::accuracy, .commands = kCalibrate, .high = 1, .value = "COSINE",
     .help = "cosine similarity to the float model that every output must reach; layers that do harm stay float"},
    {.flag = "--check", .field = &CalibrateRequest::check, .commands = kCalibrate, .value = "CMD",
     .help = "a shell command that exits with 0 if the record in the output file is good; layers that do harm stay float"},
    {.flag = "--data", .field = &TrainRequest::data, .commands = kTrain, .value = "[INPUT=]FILE", .required = true,
     .help = "samples along the first axis: a .npy file for each input, or a .npz file with arrays named as the inputs"},
    {.flag = "--labels", .field = &TrainRequest::labels, .commands = kTrain, .value = "FILE",
     .help = "a .npy file with the class (cross-entropy) or the target (mse) of each sample"},
    {.flag = "--validation", .field = &TrainRequest::validation, .commands = kTrain, .high = 0.9, .value = "SHARE",
     .help = "share of the samples, drawn with the seed, that measure the loss after each epoch and train nothing"},
    {.flag = "--validation-data", .field = &TrainRequest::validation_data, .commands = kTrain, .value = "[INPUT=]FILE",
     .help = "samples to measure the loss on, as --data"},
    {.flag = "--validation-labels", .field = &TrainRequest::validation_labels, .commands = kTrain, .value = "FILE",
     .help = "their labels, as --labels"},
    {.flag = "--epochs", .field = &TrainRequest::epochs, .commands = kTrain, .low = 1, .high = 1e6, .help = "passes over the samples"},
    {.flag = "--batch", .field = &TrainRequest::batch, .commands = kTrain, .low = 1, .high = 1e6, .help = "samples of a step"},
    {.flag = "--seed", .field = &TrainRequest::seed, .commands = kTrain, .help = "seed of the order of the samples"},
    {.flag = "--patience", .field = &TrainRequest::patience, .commands = kTrain, .low = 0, .high = 1e6, .value = "N",
     .help = "stop after N epochs without a smaller loss, and keep the weights of the best one (0: never)"},
    {.flag = "--threads", .field = &TrainRequest::threads, .commands = kTrain, .low = 0, .high = 1024,
     .help = "threads to run on (0: RLXC_THREADS, or as many as there are processors)"},
    {.flag = "--checkpoint", .field = &TrainRequest::checkpoint, .commands = kTrain, .value = "FILE",
     .help = "write parameters and moments after every epoch (safetensors)"},
    {.flag = "--resume", .field = &TrainRequest::resume, .commands = kTrain, .value = "FILE",
     .help = "begin with the parameters and moments of a checkpoint"},
    {.flag = "--history", .field = &TrainRequest::history, .commands = kTrain, .value = "FILE",
     .help = "write the losses of every epoch as JSON"},
    {.flag = "--stage", .field = &CommandLine::stage, .commands = kInspect, .choices = "hir|mir|lir",
     .help = "hir (as read; a model without blocks is MIR already), mir (before the passes), lir (after them)"},
    {.flag = "--after-each", .field = &CommandLine::after_each, .commands = kInspect,
     .help = "print the graph after every pass that changed it"},
    {.flag = "--check", .field = &CommandLine::check, .commands = kBisect, .value = "CMD", .required = true,
     .help = "shell command that exits with 0 if the result is good; it runs with RLX_BISECT_LIMIT set"},
    {.flag = "--check", .field = &CommandLine::check, .commands = kReduce, .value = "CMD", .required = true,
     .help = "shell command that exits with 0 if the result is good; {} is the file of the part to check"},
    {.flag = "--inputs", .field = &CommandLine::cut_inputs, .commands = kExtract, .value = "NAME,...", .comma_separated = true,
     .help = "values that become inputs (default: the inputs that the outputs need)"},
    {.flag = "--outputs", .field = &CommandLine::cut_outputs, .commands = kExtract, .value = "NAME,...", .comma_separated = true,
     .help = "values that become outputs (default: the outputs of the model)"},
    {.flag = "buffers", .field = &CommandLine::csv, .commands = kPlan, .value = "CSV", .required = true, .help = "CSV file"},
    {.flag = "--capacity", .field = &CommandLine::capacity, .commands = kPlan, .value = "BYTES",
     .help = "limit on the arena in bytes; 0: as small as possible"},
    {.flag = "--effort", .field = &CommandLine::effort, .commands = kPlan, .low = 1, .high = 1000,
     .help = "search effort if the lower bound is hard to reach, in units of about ten seconds"},
    {.flag = "before", .field = &CommandLine::before, .commands = kDiff | kReport, .value = "DIR", .required = true,
     .help = "output folder of a compile"},
    {.flag = "after", .field = &CommandLine::after, .commands = kDiff, .value = "DIR", .required = true,
     .help = "output folder of another compile"},
    {.flag = "after", .field = &CommandLine::after, .commands = kReport, .value = "DIR",
     .help = "output folder of another compile, to compare with the first"},
    {.flag = "--fail-on", .field = &CommandLine::fail_on, .commands = kDiff, .value = "EXPR",
     .help = "exit with 1 only if the condition holds, e.g. plan.arena>+2% or dispatch.unsupported>0 (repeatable)"},
    {.flag = "expression", .field = &CommandLine::name, .commands = kEval, .value = "EXPR", .required = true,
     .help = "a size as reports write it: + - * ( ) floordiv(a,b) mod(a,b) min(a,b) max(a,b)"},
    {.flag = "sizes", .field = &CommandLine::sizes_of_expression, .commands = kEval, .value = "NAME=SIZE",
     .comma_separated = true, .help = "sizes of its symbols"},
    {.flag = "topic", .field = &CommandLine::topic, .commands = kList,
     .choices = "targets|passes|ops|onnx|options|env|schemas|codes|reasons|patterns", .required = true, .help = "what to list"},
    {.flag = "--matrix", .field = &CommandLine::matrix, .commands = kList,
     .help = "ops: print what each op supports (evaluation, kernels, derivatives, batching)"},
    {.flag = "--markdown", .field = &CommandLine::markdown, .commands = kList, .help = "options: print docs/options.md"},
    {.flag = "--json", .field = &CommandLine::as_json, .commands = kInfo | kCheck | kInspect | kDiff | kList,
     .help = "print JSON; inspect: the graph in the format that rlxc compile reads"},
    {.flag = "name", .field = &CommandLine::name, .commands = kSchema, .required = true,
     .help = "as listed by rlxc list schemas"},
    {.flag = "code", .field = &CommandLine::name, .commands = kExplain, .value = "WORD", .required = true,
     .help = "RLX0214, multi_consumer, attention, fuse_matmul_bias_act, ..."},
    {.flag = "command", .field = &CommandLine::name, .commands = kManual, .value = "COMMAND",
     .help = "a command (default: the page of rlxc itself)"},
    {.flag = "shell", .field = &CommandLine::name, .commands = kCompletion, .choices = "bash|zsh|fish", .required = true,
     .help = "bash, zsh or fish"},
};
// clang-format on

// Further environment variables: flags that set an option to a fixed value.
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
