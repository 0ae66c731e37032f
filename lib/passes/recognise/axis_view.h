// Traces the axes of a value through layout ops. Exporters split heads with Reshape, permute them with Transpose, repeat them
// with Expand and fold them again. With every axis represented as a list of factors, the walk finds an earlier value with the
// same elements and their order, which an attention can read directly.
#pragma once
#include "passes/match.h"

namespace rlxc::recognise {

// Meaning of an axis of an attention operand.
enum class Role : uint8_t { Batch, Head, Row, Element };

// Orders of the roles from slowest to fastest, as bits. Several may hold, since dims of 1 fit anywhere.
enum HeadOrder : uint8_t { kOrderBSHD = 1, kOrderBHSD = 2, kOrderBHDS = 4 };

// A value up the chain that holds the operand's elements in one of the orders, contiguous: a Reshape away from any rank.
struct HeadSource {
  ValueId value;
  uint8_t orders = 0;
  Dim heads;         // distinct heads in the value; the operand repeats each
  double scale = 1;  // product of scalar factors between the value and the operand
  // The operand is slice `part` of `parts` equal slices of each row (order BSHD only).
  int64_t part = 0, parts = 1;
};

// Dims of an attention operand by role.
struct HeadSizes {
  Dim batch, heads, rows, width;
};

// The usable sources of `operand`, nearest first (the operand itself if it has one of the orders). `axes`: roles of its axes;
// with `heads_in_batch` the first axis is batch * heads. `sizes`: its dims. Passes scalar factors only if `through_scale`.
// Bounded; O(length of the chain).
std::vector<HeadSource> head_sources(const Graph&, ValueId operand, std::span<const Role> axes, const HeadSizes&,
                                     bool through_scale, bool heads_in_batch = false);

// The layout for sources of order BSHD. Heads get an axis of their own if a source is a slice with strided heads, so that it is
// read in place.
AttentionLayout packed_layout(const Graph&, std::initializer_list<const HeadSource*>);

// The source as [B,S,H*D], [B,S,H,D] or [B,H,S,D] ([B,H,D,S] if `transposed`), reshaped at b's insertion point if necessary.
ValueId as_layout(Builder& b, const HeadSource&, const HeadSizes&, AttentionLayout, bool transposed = false);

}  // namespace rlxc::recognise
