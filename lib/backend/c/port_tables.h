// Inputs and outputs of a cpu package: tables and functions of its C sources, and text.
#pragma once
#include <string>
#include <vector>

#include "backend/c/cpu_launcher.h"
#include "codegen/package.h"

namespace rlxc {

// The alignment of each buffer in bytes: the widest element that a kernel accesses in it.
struct PortAlignments {
  std::vector<uint64_t> inputs, outputs;
};
PortAlignments port_alignments(const codegen::Package&);  // O(arguments of all commands)

std::string tensor_rows(const codegen::Package&, const std::vector<codegen::Port>&, const std::vector<uint64_t>& alignments);
// Return the cases of a switch over the port number: its bytes, and its dims.
std::string bytes_cases(const codegen::Package&, const std::vector<codegen::Port>&, CSizes&);
std::string dim_cases(const codegen::Package&, const std::vector<codegen::Port>&, CSizes&);
// Returns statements that return `error` if the sizes in `s` do not fit the model or its plan.
std::string size_conditions(const codegen::Package&, CSizes&, const std::string& error);

}  // namespace rlxc
