// Nodes whose operands or attributes do not fit are refused, with the reason.
#include "ir/infer.h"

#include <doctest/doctest.h>

#include "ir/size_message.h"
#include "ir/text.h"
#include "ir/verify.h"

using namespace rlxc;

namespace {

struct Refused {
  std::vector<const char*> operands;  // types of the inputs %0, %1, ...
  const char *node, *reason;
  int results = 1;
};

// Returns the diagnostics of a graph with this node.
std::string diagnostics_of(const Refused& r) {
  std::string s = "module \"m\" mir {\ngraph @main {\n", values, types;
  const auto number = [](size_t i) { return "%" + std::to_string(i); };
  for (size_t i = 0; i < r.operands.size(); ++i)
    s += "  " + number(i) + " = input \"x" + std::to_string(i) + "\" : " + r.operands[i] + "\n";
  for (int i = 0; i < r.results; ++i) {
    values += (i ? ", " : "") + number(r.operands.size() + static_cast<size_t>(i));
    types += i ? ", f32[1]" : "f32[1]";
  }
  s += "  " + values + " = " + r.node + " : " + types + "\n  return " + number(r.operands.size()) + "\n}\n}\n";
  Diagnostics d;
  const auto m = parse_text(s, d);
  CHECK_FALSE((m && verify(*m, d)));
  return d.text();
}

}  // namespace

TEST_CASE("a node whose operands or attributes do not fit is refused, with the reason") {
  const std::vector<Refused> cases = {
      {{"f32[2,3]", "f64[2,3]"}, "add(%0, %1)", "operands have different element types: f32[2,3] and f64[2,3]"},
      {{"f32[2,3]", "f32[2,4]"}, "add(%0, %1)", "sizes to broadcast differ: 3 and 4"},
      {{"f32[2]", "f32[2]", "f32[2]"}, "where(%0, %1, %2)", "the condition must be bool, is f32[2]"},
      {{"f32[2]", "f32[2]", "f64[2]"}, "fma(%0, %1, %2)", "operands have different element types"},
      {{"i64[2]"}, "dim_value {dims = [2, 3], scalar = true}", "a scalar needs exactly one size"},
      {{"f32[2]"}, R"(bit_cast(%0) {to = "f64"})", "bits of f32[2] cannot be read as f64"},
      {{"f32[3]"}, R"(bit_cast(%0) {to = "c64"})", "the last axis of f32[3] must hold two parts"},
      {{"f32[2,3]"}, "reshape(%0) {dims = [7], scalar = false}", "cannot reshape f32[2,3] (6 elements) to 7 elements"},
      {{"f32[2,3]"}, "transpose(%0) {perm = [0, 0]}", "perm repeats axis 0"},
      {{"f32[2,3]"}, "transpose(%0) {perm = [0]}", "perm has 1 entries for f32[2,3]"},
      {{"f32[2,3]"}, "transpose(%0) {perm = [0, 2]}", "axis 2 is out of range for rank 2"},
      {{"f32[2,3]"}, "narrow(%0) {axis = 1, start = 2, len = 2}", "elements 2..4 are outside axis of size 3"},
      {{"f32[2,3]"}, "narrow(%0) {axis = 2, start = 0, len = 1}", "axis 2 is out of range for rank 2"},
      {{"f32[2,3]"}, "slice(%0) {axis = 0, start = 0, step = 0, len = 1}", "step is 0"},
      {{"f32[2,3]"}, "slice(%0) {axis = 1, start = 0, step = 2, len = 3}", "elements are outside axis of size 3"},
      {{"f32[2,3]"}, "slice(%0) {axis = 1, start = 1, step = -1, len = 3}", "elements are outside axis of size 3"},
      {{"f32[2,3]", "f32[2]"}, "concat(%0, %1) {axis = 0}", "ranks differ: f32[2,3] and f32[2]"},
      {{"f32[2,3]", "f32[2,4]"}, "concat(%0, %1) {axis = 0}", "sizes off the concat axis differ: 3 and 4"},
      {{"f32[2,3]", "f64[2,3]"}, "concat(%0, %1) {axis = 0}", "operands have different element types"},
      {{"f32[2,3]"}, "expand(%0) {dims = [3], scalar = false}", "cannot lower the rank of f32[2,3]"},
      {{"f32[2,3]"}, "expand(%0) {dims = [4, 3], scalar = false}", "sizes to expand differ: 2 and 4"},
      {{"f32[2,3]", "f32[2]"}, "gather(%0, %1) {axis = 0}", "indices must be i32 or i64, are f32[2]"},
      {{"f32[2,3]", "i64[2]"}, "gather(%0, %1) {axis = 2}", "axis 2 is out of range for rank 2"},
      {{"f32[2,3]", "i64[2]"}, "gather_elements(%0, %1) {axis = 0}", "ranks differ: f32[2,3] and i64[2]"},
      {{"f32[2,3]", "u8[2,1]"}, "gather_nd(%0, %1) {batch_dims = 0}", "indices must be i32 or i64, are u8[2,1]"},
      {{"f32[2,3]", "i64[2,1]"}, "gather_nd(%0, %1) {batch_dims = 2}", "batch_dims 2 does not fit f32[2,3], i64[2,1]"},
      {{"f32[2,3]", "i64[2,3]"}, "gather_nd(%0, %1) {batch_dims = 0}", "last size of the indices must be 1..2"},
      {{"f32[2,3]", "i64[4,1]"}, "gather_nd(%0, %1) {batch_dims = 1}", "batch sizes differ: 2 and 4"},
      {{"bool[2]", "i64[1]", "bool[1]"},
       R"(scatter_elements(%0, %1, %2) {axis = 0, reduction = "add"})",
       "bools can't be combined"},
      {{"f32[2]", "i64[1,1]", "f32[1]"},
       R"(scatter_elements(%0, %1, %2) {axis = 0, reduction = "none"})",
       "ranks differ: f32[2], i64[1,1], f32[1]"},
      {{"f32[4]", "i64[2]", "f32[3]"},
       R"(scatter_elements(%0, %1, %2) {axis = 0, reduction = "none"})",
       "sizes of indices and updates differ: 2 and 3"},
      {{"f32[4]", "i64[2,2]", "f32[2]"},
       R"(scatter_nd(%0, %1, %2) {axis = 0, reduction = "none"})",
       "last size of the indices does not fit f32[4]"},
      {{"f32[4]", "i64[2,1]", "f32[2,1]"},
       R"(scatter_nd(%0, %1, %2) {axis = 0, reduction = "none"})",
       "updates have the wrong rank: f32[2,1]"},
      {{"f32[4]", "i64[2,1]", "f32[3]"},
       R"(scatter_nd(%0, %1, %2) {axis = 0, reduction = "none"})",
       "sizes of updates differ: 2 and 3"},
      {{"f32[2,3]"}, R"(pad(%0) {before = [1], after = [0, 0], mode = "constant"})", "needs one padding per axis at each end"},
      {{"f32[2]", "f32[2]"},
       R"(pad(%0, %1) {before = [1], after = [0], mode = "constant"})",
       "the fill must be one element of the same type"},
      {{"f32[2]"}, R"(pad(%0) {before = [-2], after = [-1], mode = "constant"})", "axis 0 would have a negative size"},
      {{"f32[0]"}, R"(pad(%0) {before = [1], after = [0], mode = "edge"})", "size of axis 0 to extend: 0, must be at least 1"},
      {{"f32[1]"}, R"(pad(%0) {before = [1], after = [0], mode = "reflect"})", "size of axis 0 to extend: 1, must be at least 2"},
      {{"f32[2,3]"}, "tile(%0) {dims = [2], scalar = false}", "needs one repeat per axis"},
      {{"f32[]", "f32[]"}, "range(%0, %1) {dims = [2, 3], scalar = false}", "needs one length"},
      {{"f32[2]", "f32[]"}, "range(%0, %1) {dims = [2], scalar = false}", "start and step must be scalars of one type"},
      {{"i64[2]", "f32[3]"}, "one_hot(%0, %1) {axis = 0, depth = 4}", "values must be [off, on]"},
      {{"i64[2]", "f32[2]"}, "one_hot(%0, %1) {axis = 2, depth = 4}", "axis 2 is out of range"},
      {{"f32[2,3]"}, "resize(%0) {sizes = [2]}", "needs one size per axis"},
      {{"f32[2,3]"}, "resize(%0) {sizes = [4, 6], scales = [2]}", "needs one scale per axis"},
      {{"f32[3]", "f32[3,4]"}, "matmul(%0, %1)", "operands need at least two axes: f32[3], f32[3,4]"},
      {{"f32[2,3]"}, R"(elementwise_region(%0) {steps = ["layer_norm(i0;1e-05,0):f32"]})", "step 0 is not elementwise"},
      {{"f32[2,3]"}, R"(elementwise_region(%0) {steps = ["abs(i0):f32", "q_matmul():i32"]})", "step 1 is not elementwise"},
      {{"f32[2,3]"},
       "norm_region(%0) {steps = [\"abs(i0):f32\", \"neg(s0):f32\", \"layer_norm(s1;axis=1):f32\"], also = [0]}",
       "also names step 0, must be the last norm or a step after it"},
      {{"f32[2,3]"},
       "norm_region(%0) {steps = [\"layer_norm(i0;1e-05,0):f32\", \"neg(s0):f32\"], axis = 1, also = [2]}",
       "also names step 2 of 2"},
      {{"f32[2,3]"},
       R"(concat_region(%0) {steps = ["abs(i0):f32"], axis = 0, results = 1, parts = [0, 1]})",
       "parts names step 1 of 1"},
      {{"f32[2,3]"},
       R"(concat_region(%0) {steps = ["abs(i0):f32"], axis = 0, results = 2, parts = [0]})",
       "needs results with as many parts each"},
      {{"f32[2,3]"},
       R"(concat_region(%0) {steps = ["abs(i0):f32"], axis = 2, results = 1, parts = [0, 0]})",
       "axis 2 is out of range"},
      {{"f32[2,3]", "f32[2,4]"},
       R"(concat_region(%0, %1) {steps = ["abs(i0):f32", "abs(i1):f32"], axis = 0, results = 1, parts = [0, 1]})",
       "sizes off the concat axis differ: 3 and 4"},
      {{"f32[2,4]", "f32[2,2]"},
       R"(concat_region(%0, %1) {steps = ["reduce_sum(i0):f32", "add(i1,s0):f32"], axis = 0, results = 1, parts = [1, 1]})",
       "reduces along the last axis, of several elements"},
      {{"f32[2,4]", "f32[2,2]"},
       R"(concat_region(%0, %1) {steps = ["reduce_sum(i0):f32", "add(i1,s0):f32", "add(i0,s0):f32"], axis = 1, results = 1, parts = [1, 2]})",
       "parts of rows that are reduced must have one size"},
      {{"f32[2,4]", "f32[3,2]"},
       R"(concat_region(%0, %1) {steps = ["reduce_sum(i0):f32", "add(i1,s0):f32"], axis = 1, results = 1, parts = [1, 1]})",
       "2 and 3"},
      {{"f32[2,3]", "f32[4,5]"}, "matmul(%0, %1)", "contracted sizes differ: 3 and 4"},
      {{"f32[2,3]", "f32[3,4]", "f32[1,4]"},
       "fused_matmul_bias_act(%0, %1, %2)",
       "bias f32[1,4] must be a scalar or have one element per column"},
      {{"f32[2,3]", "f32[3,4]", "f32[4]", "f32[2,5]"},
       "fused_matmul_bias_act(%0, %1, %2, %3)",
       "the residual f32[2,5] must have the result's shape"},
      {{"u8[2,3]", "u8[3,4]", "u8[5]"}, "q_matmul(%0, %1, %2)", "the zero point u8[5] must be one, or one per row"},
      {{"u8[2,3]", "u8[3,4]", "u8[]", "u8[5]"},
       "q_matmul(%0, %1, %2, %3)",
       "the zero point u8[5] must be one, or one per column"},
      {{"f32[2,8]", "i8[2,8,4]", "f32[1,4]"}, "dequant_matmul(%0, %1, %2)", "the weight needs two axes: i8[2,8,4]"},
      {{"f32[2,8]", "i32[8,4]", "f32[1,4]"},
       "dequant_matmul(%0, %1, %2)",
       "the weight must hold numbers of at most 8 bits: i32[8,4]"},
      {{"f32[2,8]", "i8[8,4]", "i32[1,4]"}, "dequant_matmul(%0, %1, %2)", "the scale must be of floats: i32[1,4]"},
      {{"f32[2,8]", "i8[8,4]", "f32[1,4]", "i32[1,4]"},
       "dequant_matmul(%0, %1, %2, %3)",
       "the zero point must be of the type of the weight or the scale, u8 or i8: i32[1,4]"},
      {{"f32[2,8]", "i8[8,4]", "f32[1,4]"}, "dequant_matmul(%0, %1, %2) {block = -1}", "the block must not be negative"},
      {{"f32[2,8]", "i8[8,4]", "f32[3,4]"},
       "dequant_matmul(%0, %1, %2) {block = 4}",
       "the scale f32[3,4] must have one entry, or 2, along the summed axis and one, or 4, along the columns"},
      {{"f32[2,8]", "i8[8,4]", "f32[2,4]", "i8[2,3]"},
       "dequant_matmul(%0, %1, %2, %3) {block = 4}",
       "the zero point i8[2,3] must have one entry, or 2"},
      {{"f32[2,8]", "i8[8,4]", "f32[3,4]"},
       "dequant_matmul(%0, %1, %2) {block = 3, int8_x = true}",
       "rows of 8 bits need a number of terms that is a multiple of the block"},
      {{"f32[2,8]", "i8[8,5]", "f32[1,5]"},
       "dequant_matmul(%0, %1, %2) {gated = true}",
       "the weight i8[8,5] must have an even number of columns"},
      {{"f32[2,8,1]", "f32[3,8,4]", "i64[2]"},
       "grouped_matmul(%0, %1, %2)",
       "needs rows [M,K], matrices [E,K,N] and a number for each row"},
      {{"f32[2,8]", "f32[3,8,4]", "u8[2]"}, "grouped_matmul(%0, %1, %2)", "the numbers must be i32 or i64: u8[2]"},
      {{"f32[2,8]", "f32[3,8,4]", "i64[3]"}, "grouped_matmul(%0, %1, %2)", "numbers of rows differ: 2 and 3"},
      {{"f32[2,8]", "f32[8]"}, "fused_matmul_swiglu(%0, %1)", "the weight needs two axes"},
      {{"f32[2,8]", "f32[8,3]"}, "fused_matmul_swiglu(%0, %1)", "the weight f32[8,3] must have an even number of columns"},
      {{"f32[2,3]", "f32[3,2]"},
       "dot_general(%0, %1) {lhs_batch = [0], rhs_batch = [], lhs_contracting = [1], rhs_contracting = [0]}",
       "both sides need as many batch and contracting axes"},
      {{"f32[2,3]", "f32[3,2]"},
       "dot_general(%0, %1) {lhs_batch = [1], rhs_batch = [0], lhs_contracting = [1], rhs_contracting = [0]}",
       "an axis is used twice"},
      {{"f32[2,3]", "f32[3,2]"},
       "dot_general(%0, %1) {lhs_batch = [], rhs_batch = [], lhs_contracting = [0], rhs_contracting = [0]}",
       "paired sizes differ: 2 and 3"},
      {{"f32[2,3]", "f32[3,2]"},
       "dot_general(%0, %1) {lhs_batch = [], rhs_batch = [], lhs_contracting = [2], rhs_contracting = [0]}",
       "axis 2 is out of range for rank 2"},
      {{"bool[2,3]"},
       R"(reduce(%0) {op = "sum", axes = [0], keep_dim = false})",
       "bools have a maximum, a minimum and a product only"},
      {{"f32[2,3]"}, R"(reduce(%0) {op = "sum", axes = [0, 0], keep_dim = false})", "axis 0 is listed twice"},
      {{"f32[0,3]"},
       "arg_reduce(%0) {axis = 0, largest = true, keep_dim = false}",
       "size of the axis to choose from: 0, must be at least 1"},
      {{"f32[2,3]"},
       "topk(%0) {k = 4, axis = 1, largest = true, sorted = true}",
       "size of the axis for k = 4: 3, must be at least 4",
       2},
      {{"f32[2,3,2]"},
       "fft(%0) {axis = 2, inverse = false, onesided = false}",
       "axis 2 must precede the last axis of f32[2,3,2]"},
      {{"f32[2,3,3]"},
       "fft(%0) {axis = 1, inverse = false, onesided = false}",
       "the last axis must hold 1 or 2 parts: f32[2,3,3]"},
      {{"f32[2,3]"}, "det(%0)", "sides of the matrix differ: 2 and 3"},
      {{"f32[3]"}, "det(%0)", "needs square matrices of floats, is f32[3]"},
      {{"f32[2,3]", "f32[4]"}, "layer_norm(%0, %1) {axis = 1, eps = 1e-5}", "sizes to broadcast differ: 4 and 3"},
      {{"f32[2,1]", "f32[3]"},
       "layer_norm(%0, %1) {axis = 1, eps = 1e-5}",
       "scale and shift must fit the normalised axes: f32[3]"},
      {{"f32[2,3]", "f32[2,1]"},
       "fused_residual_ln(%0, %1) {axis = 1, eps = 1e-5}",
       "x and residual must have one shape: f32[2,3], f32[2,1]",
       2},
      {{"f32[2,1]", "f32[2,1]", "f32[3]"}, "fused_residual_ln(%0, %1, %2) {axis = 1, eps = 1e-5}", "bias must broadcast to x", 2},
      {{"f32[2]"}, "group_norm(%0) {groups = 1, eps = 1e-5}", "needs [N,C,...]: f32[2]"},
      {{"f32[2,3]"}, "group_norm(%0) {groups = 0, eps = 1e-5}", "groups must be >= 1"},
      {{"f32[2,3]"}, "group_norm(%0) {groups = 2, eps = 1e-5}", "groups does not divide the channels"},
      {{"f32[2,4]", "f32[2,2]"}, "group_norm(%0, %1) {groups = 2, eps = 1e-5}", "gamma must have one axis, is f32[2,2]"},
      {{"f32[2,4]", "f32[3]", "f32[4]", "f32[4]", "f32[4]"},
       "batch_norm_inference(%0, %1, %2, %3, %4) {axis = 1, eps = 1e-5}",
       "a per-channel operand differ: 3 and 4"},
      {{"f32[3]"}, "lrn(%0) {size = 3}", "needs [N,C,...]: f32[3]"},
      {{"f32[2,3]", "f32[3,4]"}, "fused_residual_rms_norm(%0, %1) {axis = 2}", "axis 2 is out of range for rank 2"},
      {{"f32[1,2,3,4]", "f32[3,2]", "f32[3,2]", "f32[5]"},
       R"(rope(%0, %1, %2, %3) {head_dim = 4, n_rot = 4, style = "neox", layout = "bhsd"})",
       "the scale must be [head size] or [heads, head size]: f32[5]"},
      {{"f32[1,2,3,4]", "f32[3,2]", "f32[3,2]", "i32[4]"},
       R"(rope(%0, %1, %2, %3) {head_dim = 4, n_rot = 4, style = "neox", layout = "bhsd"})",
       "the scale of the heads must be of floats: i32[4]"},
      {{"f32[2,3,4]", "f32[2,3,4]", "f32[2,3,4]"}, "attention(%0, %1, %2)", "q, k, v need 4 axes: f32[2,3,4]"},
      {{"f32[1,2,3,4]", "f32[1,2,3,4]", "f32[1,2,3,4]"},
       R"(attention(%0, %1, %2) {layout = "packed"})",
       "q, k, v need 3 axes: f32[1,2,3,4]"},
      {{"f32[2,3,4]", "f32[2,3,4]", "f32[2,3,4]"},
       R"(attention(%0, %1, %2) {layout = "packed"})",
       "the packed layout needs num_heads"},
      {{"f32[1,3,3,4]", "f32[1,2,3,4]", "f32[1,2,3,4]"}, "attention(%0, %1, %2)", "heads of q must be a multiple of heads of k"},
      {{"f32[1,2,3,4]", "f32[1,2,3,5]", "f32[1,2,3,4]"}, "attention(%0, %1, %2)", "head sizes of q and k differ: 4 and 5"},
      {{"f32[1,2,3,4]", "f32[1,2,3,4]", "f32[1,2,5,4]"}, "attention(%0, %1, %2)", "lengths of k and v differ: 3 and 5"},
      {{"f32[1,2,3,4]", "f32[2,2,3,4]", "f32[1,2,3,4]"}, "attention(%0, %1, %2)", "batch sizes differ: 1 and 2"},
      {{"f32[1,2,3,4]", "f32[1,2,3,4]", "f32[1,2,3,4]"},
       R"(attention(%0, %1, %2) {mask = "custom"})",
       "the mask operand is absent"},
      {{"f32[1,2,3,4]", "f32[1,2,3,4]", "f32[1,2,3,4]", "f32[3,3]"},
       R"(attention(%0, %1, %2, %3) {mask = "none"})",
       "a mask operand needs a mask kind"},
      {{"f32[1,2,3,4]", "f32[1,2,3,4]", "f32[1,2,3,4]", "f32[1,1,1,3,3]"},
       R"(attention(%0, %1, %2, %3) {mask = "bias"})",
       "the mask must broadcast to [B,H,Sq,Sk]"},
      {{"f32[2,3]", "f32[2,3]"},
       "conv(%0, %1) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "needs x [N,C,...] and w of the same rank >= 3: f32[2,3], f32[2,3]"},
      {{"f32[1,2,5]", "f32[2,2,3]"},
       "conv(%0, %1) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 0}",
       "groups is 0, must be >= 1"},
      {{"f32[1,2,5]", "f32[2,2,3]"},
       "conv(%0, %1) {strides = [1, 1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "strides needs 1 entries, has 2"},
      {{"f32[1,2,5]", "f32[2,2,3]"},
       "conv(%0, %1) {strides = [0], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "strides has 0, must be 1..1048576"},
      {{"f32[1,2,5]", "f32[2,2,3]"},
       "conv(%0, %1) {strides = [1], dilations = [1], pads_begin = [-1], pads_end = [0], groups = 1}",
       "pads has -1, must be 0..1048576"},
      {{"f32[1,2,5]", "f32[2,3,3]"},
       "conv(%0, %1) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "channels of x and w*groups differ: 2 and 3"},
      {{"f32[1,4,5]", "f32[3,2,3]"},
       "conv(%0, %1) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 2}",
       "groups does not divide the output channels"},
      {{"f32[1,2,5]", "f32[2,2,7]"},
       "conv(%0, %1) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "the window is larger than the padded input on axis 2"},
      {{"f32[1,2,5]", "f32[2,2,n]"},
       "conv(%0, %1) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "kernel sizes must be known and positive: f32[2,2,n]"},
      {{"f32[1,2,5]", "f32[2,2,3]", "f32[3]"},
       "conv(%0, %1, %2) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "bias differ: 3 and 2"},
      {{"f32[1,2,5]", "f32[2,2,3]", "f32[2]", "f32[1,2,4]"},
       "fused_conv_bias_act(%0, %1, %2, %3) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "the residual f32[1,2,4] must have the result's shape"},
      {{"u8[1,2,5]", "u8[2,2,7]"},
       "q_conv(%0, %1) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "the window is larger than the padded input on axis 2"},
      {{"f32[1,3,5]", "f32[3,2,3]"},
       "conv_transpose(%0, %1) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 2}",
       "groups does not divide the input channels"},
      {{"f32[1,3,5]", "f32[2,2,3]"},
       "conv_transpose(%0, %1) {strides = [1], dilations = [1], pads_begin = [0], pads_end = [0], groups = 1}",
       "channels of x and w differ: 3 and 2"},
      {{"f32[1,2,1]", "f32[2,2,1]"},
       "conv_transpose(%0, %1) {strides = [1], dilations = [1], pads_begin = [2], pads_end = [2], groups = 1}",
       "axis 2 would have a negative size"},
      {{"f32[2,3]"},
       R"(pool(%0) {op = "max", kernel = [2], strides = [1], dilations = [1], pads_begin = [0], pads_end = [0]})",
       "needs [N,C,...] of rank >= 3: f32[2,3]"},
      {{"f32[1,2,3]"},
       R"(pool(%0) {op = "max", kernel = [4], strides = [1], dilations = [1], pads_begin = [0], pads_end = [0]})",
       "the window is larger than the padded input on axis 2"},
      {{"f32[1,2,3]"},
       R"(max_pool_indices(%0) {op = "max", kernel = [2, 2], strides = [1], dilations = [1], pads_begin = [0], pads_end = [0]})",
       "kernel needs 1 entries, has 2",
       2},
      {{"f32[2,3]", "f32[1,4,3]", "f32[1,4,4]"}, "rnn(%0, %1, %2) {hidden = 4}", "x, w and r need three axes", 2},
      {{"f32[2,1,3]", "f32[1,4,3]", "f32[1,4,4]"}, "rnn(%0, %1, %2) {hidden = 0}", "hidden size must be positive", 2},
      {{"f32[2,1,3]", "f32[1,4,3]", "f32[1,4,5]"}, "rnn(%0, %1, %2) {hidden = 4}", "sizes of r differ: 5 and 4", 2},
      {{"f32[2,1,3]", "f32[1,12,3]", "f32[1,12,4]", "f32[1,12]"},
       "gru(%0, %1, %2, %3) {hidden = 4}",
       "sizes of bias differ: 12 and 24",
       2},
      {{"f32[2,1,3]", "f32[1,12,3]", "f32[1,12,4]", "f32[24]"},
       "gru(%0, %1, %2, %3) {hidden = 4}",
       "bias must be of rank 2, is f32[24]",
       2},
      {{"f32[2,1,3]", "f32[1,12,3]", "f32[1,12,4]", "f32[1,24]", "f32[1]"},
       "gru(%0, %1, %2, %3, %4) {hidden = 4}",
       "sequence_lens must be integers: f32[1]",
       2},
      {{"f32[2,3]", "f32[]"}, R"(quantize(%0, %1) {to = "f32"})", "cannot quantize to f32"},
      {{"f32[2,3]"}, R"(fake_quantize(%0) {bits = 1, axis = -1, mode = "per_batch"})", "bits must be 2..16"},
      {{"f32[2,3]", "f32[]"},
       R"(fake_quantize(%0, %1) {bits = 8, axis = -1, mode = "per_batch"})",
       "a fixed scale needs an operand, and no other does"},
      {{"f32[2,3]"}, R"(fake_quantize(%0) {bits = 8, axis = 2, mode = "per_batch"})", "axis 2 is out of range"},
      {{"f32[2,3]", "f32[2]"},
       R"(fake_quantize(%0, %1) {bits = 8, axis = 1, mode = "fixed"})",
       "numbers of scales differ: 2 and 3"},
      {{"f64[2,3]"}, "dynamic_quantize(%0)", "needs floats of at most 32 bits, gets f64[2,3]", 3},
      {{"f32[]"}, "fused_swiglu(%0)", "needs at least one axis"},
      {{"f32[2,3]"}, "fused_swiglu(%0)", "the last size must be even: f32[2,3]"},
      {{"f32[3]", "f32[3,4]", "f32[3,4]"}, "shared_linear_pair(%0, %1, %2)", "needs x [..,M,K] and two weights [K,N]", 2},
      {{"f32[2,3]", "f32[3,4]", "f32[5,4]"}, "shared_linear_pair(%0, %1, %2)", "contracted sizes differ: 3 and 5", 2},
      {{"f32[2,3]", "f32[3]", "f32[3,4]", "f32[4,3]"}, "swiglu(%0, %1, %2, %3)", "weights need two axes"},
      {{"f32[2,3]", "f32[3,4]", "f32[3,5]", "f32[4,3]"}, "swiglu(%0, %1, %2, %3)", "sizes of up and gate differ: 4 and 5"},
      {{"f32[3]", "f32[3,4]", "f32[3,4]", "f32[4,3]"}, "swiglu(%0, %1, %2, %3)", "x needs two axes"},
      {{"c64[3]"}, "unique(%0) {flat = true}", "complex numbers have no order", 4},
      {{"f32[3]"}, "unique(%0) {axis = 1, flat = false}", "axis 1 is out of range for rank 1", 4},
      {{"f32[1,3,4]", "f32[1,3]"},
       "non_max_suppression(%0, %1)",
       "needs boxes f32[batch,n,4] and scores f32[batch,classes,n], has f32[1,3,4] and f32[1,3]"},
      {{"f32[1,3,4]", "f32[1,2,5]"}, "non_max_suppression(%0, %1)", "numbers of boxes differ: 3 and 5"},
      {{"f32[1,3,4]", "f32[1,2,3]", "f32[]"}, "non_max_suppression(%0, %1, %2)", "operand 2 must be one integer, is f32[]"},
      {{"f32[1,3,4]", "f32[1,2,3]", "i64[]", "i64[]"},
       "non_max_suppression(%0, %1, %2, %3)",
       "operand 3 must be one float, is i64[]"},
      {{"f32[]"}, "iota(%0)", "operand 0 must be one integer, is f32[]"},
      {{"u8[2,3]"}, "image_decode(%0)", "needs the bytes of a file, u8[n], is u8[2,3]"},
      {{"i64[1]"}, R"(random {dims = [2], to = "i32"})", "random numbers are floats"},
      {{"f32[2,3]", "f32[2]"}, "reshape_to(%0, %1)", "the sizes must be integers of known number, are f32[2]"},
      {{"f32[2,3]", "i64[n]"}, "reshape_to(%0, %1)", "the sizes must be integers of known number, are i64[n]"},
      {{"f32[2]"}, "string_normalize(%0)", "operand 0 must hold strings, is f32[2]"},
      {{"string[2,2,2]"}, "string_normalize(%0)", "needs strings [n] or [1,n], is string[2,2,2]"},
      {{"string[2,2]"}, "string_normalize(%0)", "the first size differ: 2 and 1"},
      {{"string[2]", "f32[2]"}, "string_concat(%0, %1)", "operand 1 must hold strings, is f32[2]"},
      {{"f32[2]", "string[2]"}, "string_equal(%0, %1)", "operand 0 must hold strings, is f32[2]"},
      {{"f32[2]"}, "string_split(%0)", "operand 0 must hold strings, is f32[2]", 2},
      {{"f32[2]"}, R"(string_match(%0) {pattern = "a"})", "operand 0 must hold strings, is f32[2]"},
      {{"f32[2]"}, "ngram(%0)", "needs i32, i64 or strings, is f32[2]"},
      {{"i64[1,2,3]"}, "ngram(%0)", "needs [n] or [rows,n], is i64[1,2,3]"},
      {{"f32[3]"}, "map_of_row(%0)", "needs keys, all integers or all strings"},
      {{"f32[3]"}, "map_of_row(%0) {ints = [1, 1, 2]}", "a key occurs twice"},
      {{"f32[1,1,3]"}, "map_of_row(%0) {ints = [1, 2, 3]}", "needs rows of values, is f32[1,1,3]"},
      {{"f32[3]"}, "map_of_row(%0) {ints = [1, 2]}", "columns and keys differ: 3 and 2"},
      {{"f32[3]"}, "map_lookup(%0) {ints = [1, 2]}", "needs a map, is f32[3]"},
      {{"f32[3]"}, "map_values(%0)", "needs a map, is f32[3]"},
      {{"f32[3]", "f32[3]"}, "sequence_insert(%0, %1)", "operand 0 must be a sequence, is f32[3]"},
      {{"f32[3]", "i64[]"}, "sequence_at(%0, %1)", "needs a sequence of tensors of known rank, is f32[3]"},
      {{"f32[3]"}, "sequence_length(%0)", "needs a sequence, is f32[3]"},
      {{"f32[3]"}, "sequence_erase(%0)", "needs a sequence, is f32[3]"},
      {{"f32[3]"}, "split_to_sequence(%0) {axis = 1}", "axis 1 is out of range for rank 1"},
      {{"f32[3]"}, "concat_from_sequence(%0) {axis = 0}", "needs a sequence of tensors of known rank, is f32[3]"},
      {{"f32[2,3]"}, "softmax(%0) {axis = 2}", "axis 2 is out of range for rank 2"},
      {{"f32[2,3]"}, "log_softmax(%0) {axis = -1}", "axis -1 is out of range for rank 2"},
      {{"f32[2,3]"}, "cumsum(%0) {axis = 3}", "axis 3 is out of range for rank 2"},
      {{"f32[2,3]"}, "cumprod(%0) {axis = 2}", "axis 2 is out of range for rank 2"},
      {{"f32[2,3]"}, "reverse(%0) {axes = [4]}", "axis 4 is out of range for rank 2"},
      {{"f32[2,3]"}, "reverse(%0) {axes = [1, 1]}", "axis 1 is listed twice"},
      {{"f32[3]"}, "trilu(%0)", "needs at least two axes: f32[3]"},
      {{"f32[2,3]", "f32[]"}, "trilu(%0, %1)", "the diagonal must be one integer, is f32[]"},
      {{"f32[2,3]"}, "lrn(%0) {size = 0}", "the size must be >= 1"},
      {{"f32[2,3]", "f32[3,2]", "f32[3,2]"},
       R"(rope(%0, %1, %2) {style = "neox", layout = "bhsd"})",
       "x does not have the rank of its layout: f32[2,3]"},
      {{"f32[1,2,3,4]", "f32[3,2]", "f32[3,2]"},
       R"(rope(%0, %1, %2) {n_rot = 6, style = "neox", layout = "bhsd"})",
       "n_rot or head_dim does not fit x: f32[1,2,3,4]"},
      {{"f32[1,3,6]", "f32[3,2]", "f32[3,2]"},
       R"(rope(%0, %1, %2) {head_dim = 4, style = "neox", layout = "packed"})",
       "n_rot or head_dim does not fit x: f32[1,3,6]"},
      {{"f32[1,2,3,4]", "f32[3,2]", "f32[2]"},
       R"(rope(%0, %1, %2) {style = "neox", layout = "bhsd"})",
       "the tables must have one shape: f32[3,2], f32[2]"},
      {{"f32[1,2,3,4]", "f32[2,2]", "f32[2,2]"},
       R"(rope(%0, %1, %2) {style = "neox", layout = "bhsd"})",
       "tables f32[2,2] do not cover x f32[1,2,3,4]"},
      {{"f32[1,2,3,4]", "f32[3,3]", "f32[3,3]"},
       R"(rope(%0, %1, %2) {style = "neox", layout = "bhsd"})",
       "tables f32[3,3] do not cover x f32[1,2,3,4]"},
      {{"f32[2,3]", "f32[2,3]", "f32[3,4]", "f32[2,4]", "f32[2,4]"},
       "selective_scan(%0, %1, %2, %3, %4)",
       "needs x [b,s,h] and A [h,n]: f32[2,3], f32[3,4]"},
      {{"f32[1,2,3]", "f32[1,2,3]", "f32[4,5]", "f32[1,2,5]", "f32[1,2,5]"},
       "selective_scan(%0, %1, %2, %3, %4)",
       "rows of A and channels of x differ: 4 and 3"},
      {{"f32[1,2,3]", "f32[1,2,3]", "f32[3,5]", "f32[1,2,5]", "f32[1,2,4]"},
       "selective_scan(%0, %1, %2, %3, %4)",
       "sizes of C differ: 4 and 5"},
      {{"u8[2,3]", "f32[3]"}, R"(dequantize(%0, %1) {axis = 9, to = "f32"})", "axis 9 is out of range for rank 2"},
      {{"u8[2,3]", "f32[2]"},
       R"(dequantize(%0, %1) {axis = 1, to = "f32"})",
       "needs one scale per coordinate of axis 1, has f32[2]"},
      {{"u8[2,3]", "f32[3]", "u8[]"},
       R"(dequantize(%0, %1, %2) {axis = 1, to = "f32"})",
       "scale and zero point must have one shape: f32[3], u8[]"},
      {{"f32[2,8]", "f32[2,3]"},
       R"(quantize(%0, %1) {axis = 1, block = 4, to = "u8"})",
       "scales f32[2,3] of blocks of 4 do not fit f32[2,8]"},
  };
  for (const Refused& r : cases) {
    const std::string all = diagnostics_of(r);
    CHECK_MESSAGE(all.find(r.reason) != std::string::npos, std::string(r.node) << "\n" << all);
  }
}

TEST_CASE("control flow whose bodies do not fit is refused, with the reason") {
  const auto reason = [](const std::string& main, const std::string& bodies) {
    Diagnostics d;
    const auto m = parse_text("module \"m\" mir {\ngraph @main {\n  %0 = input \"x\" : f32[2,3]\n  %1 = input \"c\" : bool[]\n" +
                                  main + "  return %2\n}\n" + bodies + "}\n",
                              d);
    CHECK_FALSE((m && verify(*m, d)));
    return d.text();
  };
  const auto body = [](const std::string& name, const std::string& lines) { return "graph @" + name + " {\n" + lines + "}\n"; };
  const auto has = [](const std::string& all, std::string_view part) { CHECK_MESSAGE(all.find(part) != std::string::npos, all); };
  const std::string same = "  %0 = input \"a\" : f32[2,3]\n  return %0\n", flat = "  %0 = input \"a\" : f32[6]\n  return %0\n",
                    turned =
                        "  %0 = input \"a\" : f32[2,3]\n  %1 = reshape(%0) {dims = [6], scalar = false} : f32[6]\n  return %1\n",
                    twice = "  %0 = input \"a\" : f32[2,3]\n  return %0, %0\n";
  has(reason("  %2 = if(%1, %0) [@t] : f32[2,3]\n", body("t", same)), "needs two bodies");
  has(reason("  %2 = if(%0, %0) [@t, @e] : f32[2,3]\n", body("t", same) + body("e", same)),
      "the condition must be one bool, is f32[2,3]");
  has(reason("  %2 = if(%1, %0, %0) [@t, @e] : f32[2,3]\n", body("t", same) + body("e", same)),
      "the body takes 1 inputs, gets 2");
  has(reason("  %2 = if(%1, %0) [@t, @e] : f32[2,3]\n", body("t", same) + body("e", twice)),
      "the bodies give different numbers of results");
  has(reason("  %2 = if(%1, %0) [@t, @e] : f32[2,3]\n", body("t", same) + body("e", turned)),
      "results of the bodies differ: f32[2,3] and f32[6]");
  has(reason("  %2 = scan(%0) [@b] {states = 0, scan_inputs = 2, input_axes = [0], input_reverse = [0], output_axes = [0], "
             "output_reverse = [0]} : f32[2,3]\n",
             body("b", same)),
      "has too few operands");
  has(reason("  %2 = scan(%0) [@b] {states = 0, scan_inputs = 1, input_axes = [0], input_reverse = [0], output_axes = [0, 0], "
             "output_reverse = [0, 0]} : f32[2,3]\n",
             body("b", "  %0 = input \"a\" : f32[3]\n  return %0\n")),
      "the body gives the wrong number of results");
  has(reason("  %2 = loop(%1, %1) [@b, @b] {carries = 0} : f32[2,3]\n", body("b", same)),
      "sub-graph @b belongs to several nodes");
  has(reason("  %2 = loop(%1, %1) [@b] {carries = 1} : f32[2,3]\n", body("b", same)), "has fewer operands than carries");
  has(reason("  %2 = loop(%1, %1, %0) [@b] {carries = 1} : f32[2,3]\n",
             body("b", "  %0 = input \"i\" : i64[]\n  %1 = input \"c\" : bool[]\n  %2 = input \"a\" : f32[2,3]\n  return %1\n")),
      "the body gives too few results");
  has(reason("  %2 = custom_op(%0) [@b] {name = \"f\", vjp = true} : f32[2,3]\n", body("b", same)),
      "needs a body for its results, and one for each rule that it has");
  has(reason("  %2 = custom_op(%0) [@b] {name = \"f\"} : f32[2,3]\n", body("b", flat)), "f32[6]");
}

TEST_CASE("what constants do not decide about a size is a requirement") {
  // The sizes 0, 1, ... of n for which the recorded requirements hold, as one digit each.
  const auto sizes = [](const std::string& node, const char* dims, const char* result) {
    Diagnostics d;
    const auto m = parse_text("module \"m\" mir {\ngraph @main {\n  %0 = input \"x\" : f32[" + std::string(dims) + "]\n  " +
                                  node + " : " + result + "\n  return %1\n}\n}\n",
                              d);
    REQUIRE_MESSAGE((m && verify(*m, d)), d.text());
    std::string out;
    for (int64_t n = 0; n < 6; ++n)
      if (unmet_equality(m->dims, {{"n", n}, {"p", 1}}).empty()) out += std::to_string(n);
    return out;
  };
  CHECK(sizes("%1, %2 = topk(%0) {k = 3, axis = 0, largest = true, sorted = true}", "n", "f32[3], i64[3]") == "345");
  CHECK(sizes("%1, %2 = topk(%0) {k = 1, axis = 0, largest = true, sorted = true}", "n", "f32[1], i64[1]") == "12345");
  CHECK(sizes("%1, %2 = topk(%0) {k = 2, axis = 0, largest = true, sorted = true}", "2*n", "f32[2], i64[2]") == "12345");
  CHECK(sizes("%1, %2 = topk(%0) {k = \"min(n,3)\", axis = 0, largest = true, sorted = true}", "n",
              "f32[min(n,3)], i64[min(n,3)]") == "012345");
  CHECK(sizes("%1 = arg_reduce(%0) {axis = 0, largest = true, keep_dim = false}", "n,2", "i64[2]") == "12345");
  CHECK(sizes("%1 = pad(%0) {before = [1], after = [0], mode = \"reflect\"}", "n", "f32[n+1]") == "2345");
  CHECK(sizes("%1 = pad(%0) {before = [1], after = [0], mode = \"edge\"}", "n", "f32[n+1]") == "12345");
  CHECK(sizes("%1 = pad(%0) {before = [1], after = [0], mode = \"constant\"}", "n", "f32[n+1]") == "012345");
  const auto pool = [](const char* kind) {
    return "%1 = pool(%0) {" + std::string(kind) + ", strides = [2], pads_begin = [0], pads_end = [0], dilations = [1]}";
  };
  CHECK(sizes(pool("kernel = [3], ceil_mode = false"), "1,1,n", "f32[1,1,floordiv(n-1,2)]") == "345");
  CHECK(sizes(pool("kernel = [3], ceil_mode = true"), "1,1,n", "f32[1,1,floordiv(n,2)]") == "2345");
}

TEST_CASE("windows in ceil mode are as many for an open size as for that size") {
  Module m;
  const Dim n = m.dims.symbol("n");
  for (int64_t kernel : {1, 2, 3})
    for (int64_t stride : {1, 2, 3})
      for (int64_t before : {0, 1})
        for (int64_t after : {0, 1, 4})
          for (int64_t size = kernel; size < 9; ++size) {
            const Dim open = conv_output_size(m.dims, n, kernel, stride, before, after, 1, true);
            const int64_t span = size + before + after - kernel;
            int64_t count = (span + stride - 1) / stride + 1;
            if ((count - 1) * stride >= size + before) --count;
            CHECK(m.dims.evaluate(open, {{"n", size}}) == count);
            CHECK(conv_output_size(m.dims, Dim(size), kernel, stride, before, after, 1, true) == Dim(count));
          }
}
