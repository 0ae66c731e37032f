// What the user asks of the transforms, as a list of words in the order in which they are applied. A step is a word that begins
// one, followed by the words that say more about it:
//
//   grad LOSS [wrt NAME,...|params|inputs] [order N] [along NAME]    jvp NAME,...    hvp    vmap INPUT[:AXIS],... size B
//
// `stop-gradient NAME,...` holds for all steps, wherever it stands.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/diagnostics.h"

namespace rlxc::transform {

enum class StepKind : uint8_t { Grad, Jvp, Hvp, Vmap };

struct BatchedInput {
  std::string name;
  int64_t axis = 0;
};

struct Step {
  StepKind kind = StepKind::Grad;
  std::string text;              // the words of the step
  std::string loss;              // of grad
  std::vector<std::string> wrt;  // of grad and jvp: names, or the one word "params" or "inputs"; empty: params if there are any
  int64_t order = 1;             // of grad: how often it is taken, by `wrt`
  std::vector<BatchedInput> batched;  // of vmap
  std::string size;                   // of vmap: a number, or the name of a symbol
};

struct Steps {
  std::vector<Step> list;
  std::vector<std::string> stopped;  // names of values that count as constant
};

// Errors (Code::BadFlag): an unknown word, one that does not belong to the step before it, a number that is none.
std::optional<Steps> parse_steps(std::span<const std::string> words, Diagnostics&);

}  // namespace rlxc::transform
