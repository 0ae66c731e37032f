// Reads the definitions of operations of --ops (schemas/ops.schema.json).
#pragma once
#include <string>
#include <vector>

#include "ir/custom_op.h"
#include "support/diagnostics.h"

namespace rlxc {

// False after an error, which names the operation and the part. Bodies are checked when a model uses them.
bool read_operations(const std::string& path, std::vector<OpDefinition>*, Diagnostics&);

}  // namespace rlxc
