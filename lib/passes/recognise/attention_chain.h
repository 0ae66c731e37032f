// What lies around a Softmax that may be an attention: the matmul of scores above it, the matmul with the values below, and
// between them scale, soft-cap, masks, guards, and Reshapes that fold heads into the batch or split axes for a mask.
#pragma once
#include "passes/recognise/mask_match.h"

namespace rlxc::recognise {

// A mask and what it makes of the scores, in axes of their own: [B,H,Sq,Sk], [B*H,Sq,Sk], or any other shape of these elements.
struct AppliedMask {
  ValueId mask, scores;
  double scale = 1;  // of the sum, before the softmax
};

struct AttentionChain {
  NodeId softmax, scores, output;  // scores and output are the two MatMuls
  std::vector<NodeId> nodes;       // all of it, in order from the scores to the output
  double scale = 1, softcap = 0;
  std::vector<AppliedMask> added;      // additive masks
  std::optional<AdditiveMask> filled;  // Where(condition, scores, hidden), which is filled_scores; -inf: hidden rows give 0
  ValueId filled_scores;
  ValueId least;  // that masked scores are raised to, if any: rows that are hidden throughout are uniform then
  std::optional<std::pair<Dim, Dim>> folded;  // batch and heads, where a Reshape tells them apart
};

// The chain around a softmax along the last axis. Where it would be one but for what it is used for, `reason` says so.
std::optional<AttentionChain> attention_chain(const Graph&, NodeId softmax, std::string* reason);

}  // namespace rlxc::recognise
