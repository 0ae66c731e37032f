// Test data in the layout of the ONNX backend tests: a folder with input_i.pb and output_i.pb, or one that holds several such
// folders test_data_set_*.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "eval/eval.h"
#include "ir/graph.h"

namespace rlxc {

struct DataSet {
  std::string name;                       // of the folder
  std::vector<eval::HostValue> inputs;    // one per graph input
  std::vector<eval::HostValue> expected;  // one per graph output; fewer when the folder has fewer
};

std::optional<std::vector<DataSet>> read_data_sets(const Module&, const std::string& folder, Diagnostics&);

// Input strings become the bytes that kernels read (eval/text_bytes.h); false, with an error, if one cannot be shown so.
bool strings_to_bytes(DataSet&, Diagnostics&);

// The i-th input of a folder that holds one data set; of several, none decides for the others.
std::optional<TensorData> input_contents(const std::string& folder, size_t i, TypeKind);

}  // namespace rlxc
