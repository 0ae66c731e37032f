// Inputs and outputs in a cpu package: tables and functions of its C sources, and lines for people.
#pragma once
#include <string>
#include <vector>

#include "backend/c/cpu_launcher.h"
#include "codegen/package.h"

namespace rlxc {

// The alignment of each buffer in bytes: that of the widest element that a kernel reads or writes in it.
struct PortAlignments {
  std::vector<uint64_t> inputs, outputs;
};
PortAlignments port_alignments(const codegen::Package&);  // O(places of all steps)

std::string tensor_rows(const codegen::Package&, const std::vector<codegen::Port>&, const std::vector<uint64_t>& alignments);
// Cases of a switch over the number of the port: its bytes, and the size of an axis.
std::string bytes_cases(const codegen::Package&, const std::vector<codegen::Port>&, CSizes&);
std::string dim_cases(const codegen::Package&, const std::vector<codegen::Port>&, CSizes&);
// Statements that return an error where `s`, the sizes that are set, do not fit the model or its plan.
std::string size_conditions(const codegen::Package&, CSizes&, const std::string& error);

}  // namespace rlxc
