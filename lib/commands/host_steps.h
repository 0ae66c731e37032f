// Models with nodes that only the host can evaluate: strings, sequences, maps, image files. A run takes them in steps. The
// reference evaluator computes these nodes, packages of their own the nodes between them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "options/options.h"
#include "runtime/data_set.h"
#include "support/diagnostics.h"

namespace rlxc {

// Runs the model on the inputs of the set, whose values have the form of the model's interface. Appends to
// `summary_text` which nodes the host computes. Null, with errors, if a step between the host's does not compile.
std::optional<std::vector<eval::HostValue>> run_in_steps(const CompileOptions&, const RunRequest&, const DataSet&,
                                                         std::string* summary_text, Diagnostics&);

}  // namespace rlxc
