// Text about a model in READMEs and headers of packages: types of inputs and outputs, sizes, and where the weights are.
#pragma once
#include <string>
#include <vector>

#include "backend/c/cpu_package.h"
#include "codegen/package.h"

namespace rlxc {

std::string port_type(const codegen::Package&, const codegen::Port&);  // "f32[batch,8]"
// With values for the symbols, in their order: "f32[2,8]".
std::string port_type(const codegen::Package&, const codegen::Port&, const std::vector<int64_t>& sizes);

// Sizes of values of the model that the symbols may make negative, where the symbols tell them.
std::vector<Dim> size_differences(const codegen::Package&);
// Sizes for an example, in the order of the symbols: small ones that the model and its plan allow, where such are found.
std::vector<int64_t> example_sizes(const codegen::Package&);
std::string example_size_arguments(const codegen::Package&);  // " batch=1 seq=8", words of a shell

std::string tensor_table(const codegen::Package&);  // markdown: inputs, outputs, sizes with their ranges
// Markdown: where the weights are, and which files of the model are read.
std::string weights_paragraph(const codegen::Package&, const CpuPackageOptions&);

}  // namespace rlxc
