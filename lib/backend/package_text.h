// Text about a model for package READMEs and headers: port types, sizes, locations of weights.
#pragma once
#include <string>
#include <vector>

#include "backend/package_options.h"
#include "codegen/package.h"

namespace rlxc {

// ASCII uppercase: the prefix of a package's macros.
std::string upper(std::string);

std::string port_type(const codegen::Package&, const codegen::Port&);  // "f32[batch,8]"
// With the symbols bound to `sizes`, in their order: "f32[2,8]".
std::string port_type(const codegen::Package&, const codegen::Port&, const std::vector<int64_t>& sizes);

// Returns the sizes of model values that some symbol values make negative.
std::vector<Dim> size_differences(const codegen::Package&);
// Returns example sizes in the order of the symbols: small ones that the model and its plan accept, if any are found.
std::vector<int64_t> example_sizes(const codegen::Package&);
std::string example_size_arguments(const codegen::Package&);  // " batch=1 seq=8", shell words

std::string tensor_table(const codegen::Package&);  // markdown: inputs, outputs, sizes with their ranges
// Markdown: locations of the weights, and the model files that are read.
std::string weights_paragraph(const codegen::Package&, const CpuPackageOptions&);

}  // namespace rlxc
