// `rlxc profile`: which nodes of a model take the time, on the processor of this machine.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analysis/cost.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

struct NodeTime {
  ForeignText node;
  std::string op, result;  // its name, kind, and the type of its first result
  size_t launches = 0;     // kernels and copies
  double ms = 0;           // of a run, the least
  Cost cost;               // zero where sizes are symbolic
};

struct Profile {
  ForeignText model;
  int64_t threads = 1, repeat = 1;
  double run_ms = 0;            // wall time of a run, the least
  std::vector<NodeTime> nodes;  // in the order of execution; those of bodies of control flow after the main graph
};

// Compiles for cpu with optimisation, runs once to warm up and then `repeat` times; each time is the least of these. Symbolic
// sizes are those of the data, else 2 where none is bound. Errors: those of loading, compiling, and building with the C compiler
// (Code::ToolFailed).
std::optional<Profile> profile_model(const CompileOptions&, const ProfileRequest&, Diagnostics&);

std::string profile_text(const Profile&, const ProfileRequest&);
std::string profile_json(const Profile&);

}  // namespace rlxc
