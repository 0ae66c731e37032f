// Reads a model in any format: ONNX, GGUF, JSON graph, or IR text (the content determines the format), and applies the transforms
// of the options.
#pragma once
#include <memory>
#include <string>

#include "driver/training_stage.h"
#include "import/gguf/file.h"
#include "ir/graph.h"
#include "options/options.h"
#include "support/diagnostics.h"
#include "transform/stage.h"

namespace rlxc {

struct LoadedModel {
  std::unique_ptr<Module> module;
  std::string format;                             // "onnx", "gguf", "json", "text"
  std::shared_ptr<const gguf_import::File> gguf;  // of a GGUF file
  uint64_t file_size = 0;
  std::string content_hash;      // sha256
  bool hash_sampled = false;     // hash of the size and both ends, because the file is large
  transform::Ledger transforms;  // that were applied
  std::optional<transform::Training> training;
  std::vector<PrecisionNote> precision;  // of training, which is differentiated in its precision
};

std::optional<LoadedModel> load_model(const CompileOptions&, Diagnostics&);

}  // namespace rlxc
