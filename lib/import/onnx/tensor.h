// Converts TensorProto to TensorData. Raw data, packed float and double lists, and external data refer to the mapped files. Other
// encodings (mostly varint integers) are decoded, bounded by the size of the message.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "import/onnx/import.h"
#include "import/onnx/proto.h"
#include "ir/data.h"
#include "support/diagnostics.h"
#include "support/mapped_file.h"

namespace rlxc::onnx_import {

// The model file and its external files, each mapped once.
class TensorSource {
 public:
  // `name`: of the file in the folder; empty if it is a copy in memory.
  TensorSource(std::shared_ptr<const MappedFile> file, std::string folder, std::string name, MissingWeights policy)
      : file_(std::move(file)), folder_(std::move(folder)), name_(std::move(name)), policy_(policy) {}

  // Returns nullopt with a diagnostic: BadTensor, MissingWeights, UnsafePath. If the tensor's file is missing, returns no bytes
  // and sets *missing; `report_missing` reports these.
  std::optional<TensorData> load(const TensorView&, const std::string& where, Diagnostics&, bool* missing = nullptr);
  std::optional<TensorData> load_sparse(const SparseTensorView&, const std::string& where, Diagnostics&);
  // Reports each missing external file once, as an error or a warning depending on the policy.
  void report_missing(Diagnostics&) const;
  const MappedFile& file() const { return *file_; }

 private:
  bool load_external(const TensorView&, TensorData*, uint64_t size, const std::string& where, Diagnostics&, bool* missing);
  void refer(TensorData*, Bytes) const;

  std::shared_ptr<const MappedFile> file_;
  std::string folder_, name_;
  struct External {
    std::shared_ptr<const MappedFile> file;  // null: could not be opened
    std::string problem;                     // the reason if the file is missing
    size_t tensors = 0;
    uint64_t bytes = 0;
    std::string sha1 = {};  // of the file, computed on demand
    bool refused = false;   // its checksum is wrong
  };
  bool verify_checksum(const ExternalData&, External&, const std::string& where, Diagnostics&) const;

  MissingWeights policy_;
  std::map<std::string, External, std::less<>> external_;
};

// Returns the dtype of a TensorProto.DataType, or reports an error.
std::optional<DType> read_dtype(int64_t onnx_type, const std::string& where, Diagnostics&);

}  // namespace rlxc::onnx_import
