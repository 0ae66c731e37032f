// A model that was read, with what is known about its file.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/gguf/file.h"
#include "ir/graph.h"
#include "passes/pass.h"
#include "transform/stage.h"
#include "transform/training.h"

namespace rlxc {

struct LoadedModel {
  std::unique_ptr<Module> module;
  std::string format;                             // "onnx", "gguf", "json", "stablehlo", "text"
  std::shared_ptr<const gguf_import::File> gguf;  // of a GGUF file
  uint64_t file_size = 0;
  std::string content_hash;                     // sha256
  bool hash_sampled = false;                    // hash of the size and both ends, because the file is large
  std::vector<std::string> float_initializers;  // of an ONNX model, if they are parameters
  transform::Ledger transforms;                 // that were applied
  std::optional<transform::Training> training;
  std::vector<PrecisionNote> precision;  // of training, which is differentiated in its precision

  // The same model, to compile it for another target. Weights are shared. O(nodes).
  LoadedModel copy() const {
    return {module->copy(),     format,     gguf,     file_size, content_hash, hash_sampled,
            float_initializers, transforms, training, precision};
  }
};

}  // namespace rlxc
