// Imports GGUF files of decoder-only language models (llama with mistral, qwen2, qwen3, phi3, gemma, gemma2, gemma3) as HIR.
// Inputs: token numbers `input_ids` [batch,sequence], and keys and values of earlier tokens `past_key_values.N.key` and `.value`
// [batch,heads,past,size]. Outputs: `logits` [batch,sequence,vocabulary], `present.N.key` and `.value` [batch,heads,
// past+sequence,size]. With a cache of fixed room, `past_length` says how many of its tokens are there, and both have the sizes
// [batch,heads,room,size]: a run writes its keys and values behind them. The file stays mapped: weights are not copied. O(tensors
// + metadata).
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "import/gguf/file.h"
#include "ir/lir.h"

namespace rlxc::gguf_import {

struct ImportOptions {
  int64_t room = 0;               // tokens of a cache of fixed room; 0: caches grow
  DType cache_type = DType::F32;  // of keys and values in a cache
  bool last_logits = false;       // logits [batch,1,vocabulary] of the last token only
};

// Null on errors. `file_name` is recorded as the source of the weights.
std::unique_ptr<Module> import_gguf(const File&, const std::string& file_name, const ImportOptions&, Diagnostics&);

// The inputs and outputs of a cache of fixed room, which may share memory.
std::vector<std::pair<std::string, std::string>> cache_states(const Module&);

// The token numbers, and the number of tokens in a cache of fixed room. Shapes are those of the module, which passes may have
// changed.
std::vector<IndexInput> index_inputs(Module&, const File&);

}  // namespace rlxc::gguf_import
