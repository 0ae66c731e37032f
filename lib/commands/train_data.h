// Samples for training: arrays of NumPy files as the inputs of a step, in the element types of the program.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "options/options.h"
#include "support/diagnostics.h"
#include "transform/training.h"

namespace rlxc {

struct Samples {
  std::vector<TensorData> inputs;  // in the order of the program: those of the model, then the target if there is one
  int64_t count = 0;               // of samples, which lie along the first axis

  uint64_t row_bytes(size_t input) const { return count ? inputs[input].size_bytes() / static_cast<uint64_t>(count) : 0; }
};

// `step`: the module of a step. Numbers are converted to the types of its inputs. Errors: files, names of inputs, numbers of
// samples and sizes that do not fit.
std::optional<Samples> read_samples(const Module& step, const transform::Training&, const std::vector<std::string>& data,
                                    const std::vector<std::string>& labels, Diagnostics&);

// The given samples in that order, one after another, in `to` (with room for them). O(bytes).
void gather(const Samples&, size_t input, std::span<const int64_t> order, std::byte* to);

// The same numbers in another element type.
TensorData converted(const TensorData&, DType to);

// A permutation of 0 .. n-1 that depends on the seed alone.
std::vector<int64_t> shuffled(int64_t n, uint64_t seed);

}  // namespace rlxc
