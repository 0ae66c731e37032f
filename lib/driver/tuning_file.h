// Reads and writes the block sizes of --tuning (schemas/tuning.schema.json).
#pragma once
#include <memory>
#include <string>

#include "codegen/tuning.h"
#include "support/diagnostics.h"

namespace rlxc {

struct TuningFile {
  std::string cpu;  // the processor that was measured, for people
  codegen::Tuning nodes;
};

// Null after an error, which names the node and the part.
std::shared_ptr<const codegen::Tuning> read_tuning(const std::string& path, Diagnostics&);
std::string tuning_json(const TuningFile&, std::string_view version);

}  // namespace rlxc
