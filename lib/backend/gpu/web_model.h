// The typed loader of a wgpu package: <name>_model.js, its types, and package.json.
#pragma once
#include <vector>

#include "backend/c/cpu_package.h"

namespace rlxc {

std::vector<TextFile> web_model(const codegen::Package&);
std::string web_example(const codegen::Package&);  // markdown: a worked call

}  // namespace rlxc
