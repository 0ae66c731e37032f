// The pass pipelines of the targets. `rlxc list passes` prints them.
#pragma once
#include <string>
#include <vector>

#include "options/options.h"

namespace rlxc {

// A part of the pipeline. Its passes repeat until nothing changes, at most `repeat` times.
struct PipelinePart {
  std::string_view name;
  std::vector<std::string_view> passes;
  int repeat = 1;
};

std::vector<PipelinePart> pipeline(std::string_view target, const CompileOptions&);

}  // namespace rlxc
