// `rlxc profile`: the time of each node on this machine's CPU.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analysis/cost.h"
#include "eval/eval.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

struct LoadedModel;

struct NodeTime {
  ForeignText node;
  std::string op, result;   // op: the kind; result: the type of the first result
  std::string result_json;  // the same as JSON
  std::string key;          // codegen::tuning_key
  size_t launches = 0;      // kernels and copies
  double ms = 0;            // minimum over the runs
  Cost cost;                // zero if sizes are symbolic
};

struct Profile {
  ForeignText model;
  int64_t threads = 1, repeat = 1;
  double run_ms = 0;            // wall time, minimum over the runs
  std::vector<NodeTime> nodes;  // in execution order; nodes of control flow bodies follow the main graph
};

// Compiles for cpu with optimisation, and runs once to warm up and then `repeat` times. Times are minima. Symbolic sizes come
// from the data; unbound ones are 2. Errors: those of loading, compiling, and the C compiler (Code::ToolFailed).
std::optional<Profile> profile_model(const CompileOptions&, const ProfileRequest&, Diagnostics&);

// Inputs from a data set or, if `data` is empty, at random, in the form that kernels read. Binds symbols to the sizes of the
// data.
std::optional<std::vector<eval::HostValue>> host_inputs(LoadedModel&, const CompileOptions&, const std::string& data,
                                                        Diagnostics&);

double rounded_ms(double);  // to nanoseconds
std::string profile_text(const Profile&, const ProfileRequest&);
std::string profile_json(const Profile&);
// Trace events (JSON): the nodes one after another, as in a run whose every node takes its least time. In microseconds.
std::string profile_trace(const Profile&);

}  // namespace rlxc
