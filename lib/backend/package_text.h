// Text about a model for package READMEs and headers: port types, sizes, locations of weights.
#pragma once
#include <string>
#include <vector>

#include "backend/package_options.h"
#include "codegen/package.h"

namespace rlxc {

// ASCII uppercase: the prefix of a package's macros.
std::string upper(std::string);

std::string port_type(const codegen::Package&, const codegen::Port&);                      // "f32[batch,8]"
std::string port_type(const codegen::Package&, const codegen::Port&, const DimBindings&);  // "f32[2,8]"
DimBindings bindings_of(const codegen::Package&, const std::vector<int64_t>& sizes);       // in the order of the symbols

std::string index_range(const codegen::Package&, size_t input);  // ", 0 to 511: ..." of an input of indices; else ""

// A sentence on inputs of indices: each is within the range of the table, or `refusal`. "" if there are none.
std::string checked_ranges(const codegen::Package&, const std::string& refusal);

// Returns the sizes of model values that some symbol values make negative.
std::vector<Dim> size_differences(const codegen::Package&);
// Returns example sizes in the order of the symbols: small ones that the model and its plan accept, if any are found.
std::vector<int64_t> example_sizes(const codegen::Package&);
std::string example_size_arguments(const codegen::Package&);  // " batch=1 seq=8", shell words

// Markdown: inputs with ranges of indices, outputs, sizes with their ranges, named sizes, states.
std::string tensor_table(const codegen::Package&);
// Markdown: locations of the weights, and the model files that are read.
std::string weights_paragraph(const codegen::Package&, const CpuPackageOptions&);

}  // namespace rlxc
