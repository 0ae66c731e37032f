// Weights in the order in which kernels read them, as a file beside a package of the cpu target (docs/planning.md).
#pragma once
#include <string>

#include "support/diagnostics.h"
#include "support/mapped_file.h"

namespace rlxc {

// Builds the package in `folder` with make and the C compiler of this machine, and returns the file NAME.packed that it writes.
// `model_folder` has the weights files of the model. The folder stays as it is. Error: Code::ToolFailed.
std::optional<MappedFile> prepack(const std::string& folder, const std::string& name, const std::string& model_folder,
                                  Diagnostics&);

}  // namespace rlxc
