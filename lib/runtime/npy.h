// NumPy's files: .npy holds one array, .npz is a zip archive of them. Format: numpy.lib.format, versions 1 to 3.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/data.h"
#include "support/diagnostics.h"

namespace rlxc {

using NamedArrays = std::vector<std::pair<std::string, TensorData>>;

// Reads an array of numbers, bools or strings in either order of axes. Elements of two bytes without a type (`V2`, bfloat16 of
// ml_dtypes) become bf16. Errors: Code::BadTensor. O(bytes).
std::optional<TensorData> parse_npy(std::span<const std::byte>, const std::string& where, Diagnostics&);
std::optional<TensorData> read_npy(const std::string& path, Diagnostics&);
// Reads all arrays of an archive that numpy.savez or savez_compressed wrote, by name.
std::optional<NamedArrays> read_npz(const std::string& path, Diagnostics&);

// Types that NumPy lacks are widened without loss: 16-bit and 8-bit brain floats to float32, 4-bit integers to 8 bits.
std::string npy_bytes(const TensorData&);
std::string npz_bytes(const NamedArrays&);

}  // namespace rlxc
