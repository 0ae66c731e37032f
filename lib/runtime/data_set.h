// Test data in the layout of the ONNX backend tests: a folder with input_i.pb and output_i.pb, or a folder of several
// test_data_set_* folders.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "eval/eval.h"
#include "ir/graph.h"

namespace rlxc {

struct DataSet {
  std::string name;                       // name of the folder
  std::vector<eval::HostValue> inputs;    // one per graph input
  std::vector<eval::HostValue> expected;  // one per graph output; may be shorter
};

std::optional<std::vector<DataSet>> read_data_sets(const Module&, const std::string& folder, Diagnostics&);

// Converts input strings to the bytes that kernels read (eval/text_bytes.h). Returns false with an error if a string cannot be
// converted.
bool strings_to_bytes(DataSet&, Diagnostics&);

// Returns the i-th input of a folder with one data set; nullopt if there are several sets.
std::optional<TensorData> input_contents(const std::string& folder, size_t i, TypeKind);

}  // namespace rlxc
