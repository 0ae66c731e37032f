// Contents of weights and constants. A TensorData refers to bytes in a memory map or a buffer, so a weight of 30 GB costs one
// row.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/dtype.h"
#include "support/ids.h"

namespace rlxc {

using DataId = Id<struct DataTag>;

struct TensorData {
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes;   // little-endian, row-major, packed; empty for strings and splats of size 0
  bool splat = false;                 // `bytes` holds one element, equal to all elements
  std::vector<std::string> strings;   // for DType::String
  std::shared_ptr<const void> owner;  // keeps `bytes` alive

  // Source of the bytes on disk: file name relative to the model, and offset. Empty if created in memory.
  std::string file;
  uint64_t offset = 0;

  int64_t elements() const;     // dims are checked when the tensor is created
  uint64_t size_bytes() const;  // of the whole tensor, also for splats
};

// References to rows remain valid when rows are added.
class DataTable {
 public:
  DataId add(TensorData d) {
    rows_.push_back(std::move(d));
    return DataId(rows_.size() - 1);
  }
  const TensorData& operator[](DataId id) const { return rows_[id.raw]; }
  size_t size() const { return rows_.size(); }

 private:
  std::deque<TensorData> rows_;
};

// Copies `bytes`.
TensorData make_data(DType, std::vector<int64_t> dims, std::span<const std::byte> bytes);
template <class T>
TensorData make_data(DType t, std::vector<int64_t> dims, const std::vector<T>& values) {
  return make_data(t, std::move(dims), std::as_bytes(std::span(values)));
}
TensorData make_splat(DType, std::vector<int64_t> dims, std::span<const std::byte> element);

// Returns one element as a number (f16, bf16, f8 widened; bool 0 or 1). Requires a real numeric type and index < elements().
double element_as_double(const TensorData&, int64_t index);
int64_t element_as_int(const TensorData&, int64_t index);
// Encodes `value` as one element of `t` (rounded to nearest even, integers saturated). Bytes: byte_size(t, 1).
std::vector<std::byte> element_bytes(DType t, double value);

// Returns whether all elements are bitwise equal. Returns false if the tensor is larger than `limit` bytes.
bool is_uniform(const TensorData&, uint64_t limit = 1 << 16);

}  // namespace rlxc
