// The typed loader of a wgpu package: <name>_model.js, its type declarations, and package.json.
#pragma once
#include <vector>

#include "backend/c/cpu_package.h"

namespace rlxc {

std::vector<TextFile> web_model(const codegen::Package&);
std::string web_example(const codegen::Package&);  // markdown: an example call

}  // namespace rlxc
