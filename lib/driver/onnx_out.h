// A module as an ONNX model.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "export/onnx/export.h"
#include "ir/graph.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

struct OnnxFile {
  std::string bytes;
  std::string data_name;  // of the file beside the model that takes `data`; empty: there is none
  std::vector<onnx_export::ExternalData> data;
};

// The module as a model in the file `path` ("-": standard output), with --opset and --dialect. What has no operator is written
// with simpler operations: as functions of the domain "rlxc", or in its place. Weights that the model at hand keeps in files
// beside it stay there if the new model lies beside it too; else they are copied into it, or into a file beside it if they are
// larger than 1 GiB. --embed-weights copies them in any case. Adds graphs to the module, and changes none. nullopt after errors.
enum class Fused : uint8_t { Functions, InPlace };
std::optional<OnnxFile> onnx_model(Module&, const std::string& path, Fused, const CompileOptions&, Diagnostics&);

// Replaces nodes that have no operator by simpler ones, so that passes simplify these, too. O(nodes).
void expand_for_onnx(Module&, const CompileOptions&);

// Writes it there.
bool write_onnx(Module&, const CompileOptions&, Diagnostics&);
// Writes the bytes of OnnxFile::data.
void write_external_data(const OnnxFile&, class OutputFile&);

}  // namespace rlxc
