// TensorProto -> TensorData without copying what lies in the file as it is needed: raw data, packed float and double lists, and
// external data refer to the maps. Everything else (integers as varints, mostly) is decoded, within the size of the message.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "import/onnx/proto.h"
#include "ir/data.h"
#include "support/diagnostics.h"
#include "support/mapped_file.h"

namespace rlxc::onnx_import {

// The model file and the external files that it names, each mapped once.
class TensorSource {
 public:
  TensorSource(std::shared_ptr<const MappedFile> file, std::string folder, std::string name, bool allow_missing)
      : file_(std::move(file)), folder_(std::move(folder)), name_(std::move(name)), allow_missing_(allow_missing) {}

  // nullopt with a diagnostic: BadTensor, MissingWeights, UnsafePath. With `allow_missing`, a tensor whose external data are not
  // there has no bytes and *missing is set.
  std::optional<TensorData> load(const TensorView&, const std::string& where, Diagnostics&, bool* missing = nullptr);
  std::optional<TensorData> load_sparse(const SparseTensorView&, const std::string& where, Diagnostics&);
  const MappedFile& file() const { return *file_; }

 private:
  bool load_external(const TensorView&, TensorData*, uint64_t size, const std::string& where, Diagnostics&, bool* missing);
  void refer(TensorData*, Bytes) const;

  std::shared_ptr<const MappedFile> file_;
  std::string folder_, name_;
  bool allow_missing_;
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> external_;  // null: could not be opened
};

// The dtype of a TensorProto.DataType, or a diagnostic.
std::optional<DType> read_dtype(int64_t onnx_type, const std::string& where, Diagnostics&);

}  // namespace rlxc::onnx_import
