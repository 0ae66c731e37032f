// The hyperparameters of a decoder-only language model, from the metadata of a GGUF file. Names of keys: gguf.md of ggml; where
// it is silent, as llama.cpp reads them.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "import/gguf/file.h"
#include "ir/attrs.h"

namespace rlxc::gguf_import {

// Properties of an architecture that the keys of a file do not give.
struct Family {
  std::string_view name;  // general.architecture
  RopeStyle rope = RopeStyle::NeoX;
  bool gemma = false;        // scaled embeddings, GELU, gemma's scale of the scores
  bool post_norms = false;   // norms of the results of attention and feed-forward
  bool head_norms = false;   // RMS norms of the heads of q and k
  bool packed_gate = false;  // ffn_up holds gate and up
  int64_t period = 1;        // every period-th layer sees all keys, the others those of the window
  int64_t window = 0;        // where no key says it
  double local_base = 0;     // of the rotary embedding of layers with a window; 0: as the other layers
  int64_t wide_layers = 0;   // the model of so many layers scales the scores by width/heads
};

// The angles of a rotary embedding: position * frequency.
struct Rotation {
  double base = 10000;
  double scale = 1;  // of all frequencies; YaRN: of the low ones
  bool yarn = false;
  double beta_fast = 32, beta_slow = 1, extrapolation = 1;  // YaRN
  double magnitude = 1;                                     // of cos and sin
  int64_t original_context = 0;
};

struct Config {
  const Family* family = nullptr;
  int64_t layers = 0, width = 0, context = 0;
  std::vector<int64_t> heads, kv_heads;               // of each layer
  int64_t key_size = 0, value_size = 0, rotated = 0;  // of a head
  double epsilon = 1e-5;
  double scale = 0;  // of the scores
  double softcap = 0, final_softcap = 0;
  int64_t window = 0;            // keys that a query sees, with its own; 0: all
  std::vector<bool> has_window;  // of each layer
  Rotation rotation, local_rotation;

  const Rotation& rotation_of(size_t layer) const { return has_window[layer] ? local_rotation : rotation; }
};

std::optional<Config> read_config(const File&, Diagnostics&);

// The frequencies of `rotated`/2 pairs of elements. `factors` divide them; empty: none.
std::vector<float> frequencies(const Rotation&, int64_t rotated, const std::vector<double>& factors);
// The factor of cos and sin.
double magnitude(const Rotation&);

}  // namespace rlxc::gguf_import
