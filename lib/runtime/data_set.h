// Test data: a folder with a file for each input and, where known, output; a folder of several such folders test_data_set_*; or
// an archive NAME.npz. A file is input_i.pb (ONNX backend tests), input_i.npy, NAME.npy or NAME.pb; an array of an archive is
// named by the input or output, or input_i. For a model with one input a file of any name is a data set. A folder of archives or
// of such files, none with the name of an input or output, has a data set in each.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "eval/eval.h"
#include "ir/graph.h"

namespace rlxc {

struct DataSet {
  std::string name;                       // name of the folder or file
  std::vector<eval::HostValue> inputs;    // one per graph input
  std::vector<eval::HostValue> expected;  // one per graph output; none where the set has none
  std::vector<size_t> missing = {};       // outputs that have no file although others do; their place in `expected` is empty
};

// Errors: inputs that are missing or whose types do not fit the model. `stacked`: an array of a .npy file of the only input may
// have a data set in each slice along its first axis, which the input lacks or has as 1.
std::optional<std::vector<DataSet>> read_data_sets(const Module&, const std::string& path, Diagnostics&, bool stacked = false);

// Converts input strings to the bytes that kernels read (eval/text_bytes.h). Returns false with an error if a string cannot be
// converted.
bool strings_to_bytes(DataSet&, const std::vector<bool>& which, Diagnostics&);

// Returns the i-th input (`input_i`) of a path with one data set; nullopt if there are several sets.
std::optional<TensorData> input_contents(const std::string& path, size_t i, TypeKind);

}  // namespace rlxc
