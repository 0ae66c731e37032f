// Imports GGUF files of decoder-only language models (llama with mistral, qwen2, qwen3, phi3, gemma, gemma2, gemma3) as HIR.
// Inputs: token numbers `input_ids` [batch,sequence], and keys and values of earlier tokens `past_key_values.N.key` and `.value`
// [batch,heads,past,size]. Outputs: `logits` [batch,sequence,vocabulary], `present.N.key` and `.value` [batch,heads,
// past+sequence,size]. The file stays mapped: weights are not copied. O(tensors + metadata).
#pragma once
#include <memory>

#include "import/gguf/file.h"
#include "ir/graph.h"

namespace rlxc::gguf_import {

// Null on errors. `file_name` is recorded as the source of the weights.
std::unique_ptr<Module> import_gguf(const File&, const std::string& file_name, Diagnostics&);

}  // namespace rlxc::gguf_import
