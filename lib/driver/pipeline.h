// The pipelines: which passes run for a target, in which order. `rlxc list passes` prints them.
#pragma once
#include <string>
#include <vector>

#include "options/options.h"

namespace rlxc {

// A stretch of the pipeline. Passes of a `repeat` stretch run until nothing changes, at most so many rounds.
struct PipelinePart {
  std::string_view name;
  std::vector<std::string_view> passes;
  int repeat = 1;
};

std::vector<PipelinePart> pipeline(std::string_view target, const CompileOptions&);

}  // namespace rlxc
