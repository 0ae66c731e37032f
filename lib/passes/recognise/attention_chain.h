// Matches the nodes around a Softmax that may form an attention: the matmul of scores, the matmul with the values, and scale,
// soft-cap, masks, guards and Reshapes between them that fold heads into the batch or split axes for a mask.
#pragma once
#include "passes/recognise/mask_match.h"

namespace rlxc::recognise {

// A mask and the masked scores, with axes of their own: [B,H,Sq,Sk], [B*H,Sq,Sk], or any other shape of these elements.
struct AppliedMask {
  ValueId mask, scores;
  double scale = 1;  // applied to the sum before the softmax
};

struct AttentionChain {
  NodeId softmax, scores, output;  // scores and output are the two MatMuls
  std::vector<NodeId> nodes;       // all nodes from the scores to the output, in order
  double scale = 1, softcap = 0;
  std::vector<AppliedMask> added;      // additive masks
  std::optional<AdditiveMask> filled;  // Where(condition, scores, hidden) = filled_scores; hidden -inf: fully masked rows give 0
  ValueId filled_scores;
  ValueId least;                              // lower bound of masked scores, if any: fully masked rows are uniform then
  std::optional<std::pair<Dim, Dim>> folded;  // batch and heads, if a Reshape separates them
};

// The chain around a softmax along the last axis. If only an additional user prevents a match, sets `reason`.
std::optional<AttentionChain> attention_chain(const Graph&, NodeId softmax, std::string* reason);

}  // namespace rlxc::recognise
