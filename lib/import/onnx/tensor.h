// TensorProto -> TensorData without copying what lies in the file as it is needed: raw data, packed float and double lists, and
// external data refer to the maps. Everything else (integers as varints, mostly) is decoded, within the size of the message.
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

// The model file and the external files that it names, each mapped once.
class TensorSource {
 public:
  TensorSource(std::shared_ptr<const MappedFile> file, std::string folder, std::string name, MissingWeights policy)
      : file_(std::move(file)), folder_(std::move(folder)), name_(std::move(name)), policy_(policy) {}

  // nullopt with a diagnostic: BadTensor, MissingWeights, UnsafePath. A tensor whose file is not there has no bytes and *missing
  // is set; `report_missing` says it for all of them.
  std::optional<TensorData> load(const TensorView&, const std::string& where, Diagnostics&, bool* missing = nullptr);
  std::optional<TensorData> load_sparse(const SparseTensorView&, const std::string& where, Diagnostics&);
  // One diagnostic for each external file that could not be opened: an error or a warning, as the policy says.
  void report_missing(Diagnostics&) const;
  const MappedFile& file() const { return *file_; }

 private:
  bool load_external(const TensorView&, TensorData*, uint64_t size, const std::string& where, Diagnostics&, bool* missing);
  void refer(TensorData*, Bytes) const;

  std::shared_ptr<const MappedFile> file_;
  std::string folder_, name_;
  struct External {
    std::shared_ptr<const MappedFile> file;  // null: could not be opened
    std::string problem;                     // why, if the file is missing
    size_t tensors = 0;
    uint64_t bytes = 0;
    std::string sha1 = {};  // of the file, once it was asked for
    bool refused = false;   // its checksum is wrong
  };
  bool verify_checksum(const ExternalData&, External&, const std::string& where, Diagnostics&) const;

  MissingWeights policy_;
  std::map<std::string, External, std::less<>> external_;
};

// The dtype of a TensorProto.DataType, or a diagnostic.
std::optional<DType> read_dtype(int64_t onnx_type, const std::string& where, Diagnostics&);

}  // namespace rlxc::onnx_import
