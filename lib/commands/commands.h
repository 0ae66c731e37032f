// The commands of the tool. Results go to standard output, everything else to standard error.
#pragma once
#include <string>
#include <vector>

#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

struct Terminal {
  bool err_is_tty = false;
  size_t warnings = 5;  // most warnings per code
};

std::string build_description();  // commit, compiler and kind of build
std::string build_features();     // what this build can do, and what it leaves out

ExitCode compile_command(const CompileOptions&, Terminal);
// Plans a compiled module (lir.json) again with sizes or ranges bound, without the model. The default target is the file's.
ExitCode specialize_command(CompileOptions, Terminal);
ExitCode run_command(const CompileOptions&, const RunRequest&, const ResultForm&, Terminal);
ExitCode profile_command(const CompileOptions&, const ProfileRequest&, Terminal);
// Writes the block sizes that are fastest on this machine to the file that --output names.
ExitCode tune_command(const CompileOptions&, const ProfileRequest&, Terminal);
ExitCode calibrate_command(const CompileOptions&, const CalibrateRequest&, Terminal);
// Runs `check` (a shell command that reads RLX_BISECT_LIMIT) with fewer and fewer rewrites and reports the one that breaks it.
ExitCode bisect_command(const CompileOptions&, const std::string& check, Terminal);
// Reports everything in a model that the targets cannot run, grouped by reason.
ExitCode check_command(const CompileOptions&, const ResultForm&, Terminal);
// `json`: prints the graph of the stage in the form that `compile` reads.
ExitCode inspect_command(const CompileOptions&, const std::string& stage, bool after_each, bool json, Terminal);
// Prints inputs, outputs, symbols, parameters, work and memory.
ExitCode info_command(CompileOptions, bool json, Terminal);
ExitCode bench_command(const CompileOptions&, const ProfileRequest&, const BenchRequest&, const std::string& junit, Terminal);
// Writes the part of the model between values.
ExitCode extract_command(const CompileOptions&, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                         Terminal);
// Writes the smallest part found on which `check` (a shell command with {} for the file) fails.
ExitCode reduce_command(const CompileOptions&, const std::string& check, Terminal);
// Lists the entries of a cache of compiles. `limit`: bytes that they may take from now on.
ExitCode cache_command(const std::string& folder, std::optional<uint64_t> limit, Terminal);
// Prints the value of an expression over sizes.
ExitCode eval_command(const std::string& expression, const DimBindings& sizes, Terminal);
// Writes the HTML report of one output folder, or of two (`after` may be empty).
ExitCode report_command(const std::string& before, const std::string& after, const std::string& output, Terminal);
ExitCode manual_command(const std::string& command, Terminal);
// Writes the model after its transforms, and if `ledger` is not empty what they did.
ExitCode transform_command(const CompileOptions&, const std::string& ledger, Terminal);
// Trains the model on the cpu package and writes it with its new weights.
ExitCode train_command(const CompileOptions&, const TrainRequest&, Terminal);
// Writes the model as ONNX, without what is constant, dead or repeated.
ExitCode simplify_command(const CompileOptions&, Terminal);
ExitCode plan_command(const std::string& csv, uint64_t capacity, uint64_t effort, Terminal);
// `fail_on`: conditions (report/diff.h). Returns ExitCode::Finding if one fails or, without any, if the compiles differ.
ExitCode diff_command(const std::string& before, const std::string& after, const std::vector<std::string>& fail_on,
                      const ResultForm&, Terminal);
ExitCode list_command(const std::string& topic, bool json, bool matrix, bool markdown);
ExitCode schema_command(const std::string& name, Terminal);
ExitCode explain_command(const std::string& code, Terminal);
ExitCode completion_command(const std::string& shell);

// Prints diagnostics to standard error, in colour on a terminal unless NO_COLOR is set. Returns their exit code.
ExitCode print_diagnostics(const Diagnostics&, Terminal);

}  // namespace rlxc
