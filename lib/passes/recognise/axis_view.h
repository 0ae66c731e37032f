// Where do the axes of a value come from? Exporters split heads with Reshape, move them with Transpose, repeat them with Expand
// and fold them again. Walking up such a chain with every axis kept as a list of factors tells which earlier value holds the same
// elements and in which order, so that an operation that understands that order can read it and the chain disappears.
#pragma once
#include "passes/match.h"

namespace rlxc::recognise {

// What an axis of an attention operand means.
enum class Role : uint8_t { Batch, Head, Row, Element };

// The order of roles from slowest to fastest, as bits: sizes of 1 fit everywhere, so several may hold.
enum HeadOrder : uint8_t { kOrderBSHD = 1, kOrderBHSD = 2, kOrderBHDS = 4 };

// A value up the chain that holds the operand's elements in one of the orders (as one block: a Reshape away from any rank).
struct HeadSource {
  ValueId value;
  uint8_t orders = 0;
  Dim heads;         // distinct heads in the value; the operand repeats each of them
  double scale = 1;  // scalar factors between the value and the operand
  // The operand is part number `part` of `parts` equal ones, which lie side by side in each row (order BSHD only).
  int64_t part = 0, parts = 1;
};

// Sizes of an attention operand by role.
struct HeadSizes {
  Dim batch, heads, rows, width;
};

// The usable sources of `operand`, nearest first (the operand itself, if its order is one of the three). `axes` names the role
// of each of its axes; with `heads_in_batch` the first one is batch and heads in one. `sizes` are those of the operand. Scalar
// factors are passed through only when `through_scale`. O(length of the chain), bounded.
std::vector<HeadSource> head_sources(const Graph&, ValueId operand, std::span<const Role> axes, const HeadSizes&,
                                     bool through_scale, bool heads_in_batch = false);

// The layout in which to read sources of order BSHD: with heads as an axis of their own where one is a slice whose heads lie
// apart, which is then read where it lies.
AttentionLayout packed_layout(const Graph&, std::initializer_list<const HeadSource*>);

// The source as [B,S,H*D], [B,S,H,D] or [B,H,S,D] ([B,H,D,S] if `transposed`): reshaped if necessary, before b's insertion point.
ValueId as_layout(Builder& b, const HeadSource&, const HeadSizes&, AttentionLayout, bool transposed = false);

}  // namespace rlxc::recognise
