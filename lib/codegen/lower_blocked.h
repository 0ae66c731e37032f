// Lowering of nodes whose images have channels in blocks (analysis/channel_blocks.h).
#pragma once
#include "codegen/lowerings.h"
#include "kernel/builders/blocked.h"
#include "kernel/builders/map.h"
#include "kernel/builders/window.h"

namespace rlxc::codegen {

// Channels per block of the value's layout; 0 if it is not blocked.
int64_t block_of(const Node&, ValueId);

// Changes the index space [N, C, ...] to [N, C / block, ..., block], over which a blocked operand is contiguous. Operands may be
// blocked, row-major or constant along C.
void split_channels(int64_t block, Dims* shape);
void split_channels(int64_t block, Operand*);
void split_channels(int64_t block, kernel::MapSpec*);  // changes nothing if the block is 0
// The same, with C / block as an argument of the kernel if the batch is 1: maps of other numbers of channels share it.
void split_channels(Scope&, int64_t block, kernel::MapSpec*);

// A convolution node. Operands 2 and 3 are zero points of x and w if it multiplies integers, else bias and residual.
struct ConvParts {
  const ConvAttrs& attrs;
  Epilogue act = {};
  bool integers = false;
  std::span<const RegionStep> steps = {};  // epilogue of integers; its operands follow the zero points
  std::span<const int64_t> also = {};      // steps whose values are further results
};
ConvParts conv_parts(const Node&);

// A convolution whose operand or result is blocked, of depthwise windows between images whose channels are the innermost axis, or
// of integers where blocks pay: sizes and prepacked weights. Nullopt for other nodes.
struct BlockedConvNode {
  kernel::BlockedConv conv;
  bool depthwise = false, row_major_result = false;
  bool channels_last = false;   // operand and result
  bool row_major_ends = false;  // of integers: operand and result are row-major, but blocks take less time
  int64_t tile = 0;  // of Winograd's algorithm, for weights that are known at load time (kernel/builders/winograd.h); 0: not used

  int64_t weight_elements() const;  // of packed weights
};
std::optional<BlockedConvNode> blocked_conv_of(const Node&);
// The tile of a convolution whose weights are prepacked for Winograd's algorithm, or 0.
int64_t winograd_tile(const Graph&, const GraphLayouts&, NodeId, const CapabilityRow&);

bool lower_blocked_conv(Node&, BlockedConvNode);
bool lower_blocked_pool(Node&, const kernel::PoolFunction&);

}  // namespace rlxc::codegen
