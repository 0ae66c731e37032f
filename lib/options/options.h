// Values of all options. The initializer of a field is its default, and the row of the option is in option_table.h.
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
  Winograd winograd = Winograd::Auto;
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
  bool strict = false;                 // what reading the model warns about is an error

  std::string precision_name = "f32";     // a policy, or custom:FILE
  std::string tpu_precision = "highest";  // of matmuls and convolutions of f32 on matrix units: default, high or highest
  std::string weights;                    // TYPE or TYPE:GROUP SIZE for constant weights of matmuls; empty: unchanged
  std::string activations = "model";      // for matmuls with quantized weights: int8, float, or as in the model
  std::string calibration_file;
  std::string shard_rules;  // file of rules, which come before `shards`
  KernelDispatch kernel_dispatch = KernelDispatch::Native;
  std::vector<std::string> force_common, force_native;  // op kinds decomposed or not whatever kernel_dispatch says
  bool no_fusion = false;
  std::vector<std::pair<std::string, std::string>> fusion_limits;  // "steps" or "inputs" of a region, and the number
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
  std::optional<uint64_t> max_memory;  // limit on process memory in bytes; nullopt: driver/limits.h has the defaults
  std::optional<uint64_t> max_time;    // limit in seconds; nullopt: none

  // Set by commands, not by options.
  std::string input_data;     // folder of test data with inputs that determine shapes; the program is specialised to them
  bool need_weights = false;  // a missing weights file is always an error (running a model)
  bool plan_only = false;     // the contents of weights are not needed
  std::string stop_before;    // stage of the pipeline ("quantize") before which to stop
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
  std::string trace;  // a file for the time line; empty: none
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

// How a command writes its results.
struct ResultForm {
  bool as_json = false, markdown = false;
  std::string junit;  // path of a file of JUnit XML; empty: none
};

struct CommandLine : CompileOptions, RunRequest, ProfileRequest, BenchRequest, CalibrateRequest, TrainRequest, ResultForm {
  std::string save_config;  // path
  bool print_config = false;
  bool dump_to_output = false;
  std::string own_target;  // for specialize; empty: the target of the file
  std::string stage = "lir";
  bool after_each = false, matrix = false;
  std::string csv, check, before, after, topic, name, ledger;
  uint64_t capacity = 0;
  std::optional<uint64_t> cache_limit;
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
  kCache = 33554432,
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
    {kCache, "cache", "list the finished compiles of a --cache folder, or remove those that were not used for longest",
     "Examples:\n  rlxc cache build/cache\n  rlxc cache build/cache --limit 1GiB"},
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

}  // namespace rlxc
