// Reads the container of GGUF: metadata (keys with typed values) and tensors, in place in the mapped file.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/block_format.h"
#include "support/diagnostics.h"
#include "support/dtype.h"
#include "support/mapped_file.h"

namespace rlxc::gguf_import {

using Bytes = std::span<const std::byte>;

// Limits of what is read. The format has none for most of them.
inline constexpr uint64_t kMaxKeys = 1 << 16, kMaxTensors = 1 << 18, kMaxKeyBytes = 65535, kMaxNameBytes = 255;
inline constexpr uint64_t kMaxStringBytes = 1 << 24, kMaxElements = 1 << 26, kMaxAlignment = 1 << 20;
inline constexpr uint32_t kMaxAxes = 4;

enum class ValueType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };
inline constexpr uint32_t kValueTypes = 13;

// A value of the metadata, or a list of values of one type.
struct Value {
  ValueType type = ValueType::U8;  // of the elements
  bool list = false;
  uint64_t count = 1;
  Bytes bytes;  // the elements, packed; a string is its length (u64) and its bytes
};

// Reads the elements of a value in order.
class ElementReader {
 public:
  explicit ElementReader(const Value& v) : type_(v.type), rest_(v.bytes), left_(v.count) {}
  bool next();  // false at the end

  // The value of the element. integer() is null beyond i64; both are null for strings.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;
  std::string_view text() const;  // of a string
  uint64_t bits() const;          // of the others

 private:
  ValueType type_;
  Bytes rest_, element_;
  uint64_t left_;
};

// How the elements of a tensor are stored: numbers, or quantized blocks.
struct Storage {
  std::optional<BlockFormat> block;
  DType dtype = DType::F32;
};

struct Tensor {
  std::string name;
  std::vector<int64_t> dims;  // the last is the innermost; in the file, it is the first
  Storage storage;
  Bytes bytes;
  uint64_t offset = 0;  // of the bytes, in the file
};

class File {
 public:
  // Null on errors.
  static std::shared_ptr<const File> read(std::shared_ptr<const MappedFile>, Diagnostics&);

  const std::shared_ptr<const MappedFile>& mapped() const { return mapped_; }
  const std::map<std::string, Value, std::less<>>& metadata() const { return metadata_; }
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }
  const Value* find(std::string_view key) const;
  Bytes head() const { return mapped_->bytes().first(data_); }  // all before the data of the tensors

 private:
  friend class FileReader;

  std::shared_ptr<const MappedFile> mapped_;
  std::map<std::string, Value, std::less<>> metadata_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  uint64_t data_ = 0;
};

}  // namespace rlxc::gguf_import
