// The ops of the reference vocabulary by family: name and handler.
#pragma once
#include <span>

#include "import/json/reference.h"
#include "ir/term.h"

namespace rlxc::import_json {

struct ReferenceRow {
  std::string_view name;
  ReferenceHandler make;
  bool block = false;  // in the HIR only
};
std::span<const ReferenceRow> reference_quant_rows();
std::span<const ReferenceRow> reference_backward_rows();
std::span<const ReferenceRow> reference_control_rows();
std::span<const ReferenceRow> reference_fused_rows();
std::span<const ReferenceRow> reference_tensor_rows();
std::span<const ReferenceRow> reference_recurrent_rows();
std::span<const ReferenceRow> reference_scaled_rows();
std::span<const ReferenceRow> reference_matrix_rows();
std::span<const ReferenceRow> reference_signal_rows();
std::span<const ReferenceRow> reference_region_rows();
std::span<const ReferenceRow> reference_spectrum_rows();
std::span<const ReferenceRow> reference_learned_rows();
std::span<const ReferenceRow> reference_manifold_rows();
std::span<const ReferenceRow> reference_mlx_rows();

// Helpers of several families.
constexpr DType kReal = DType::F32;  // type of dequantized values and scales
inline transform::Term term(ReferenceNode& n, size_t operand) { return {&n.b, n.in[operand]}; }
inline std::vector<Dim> sizes(ReferenceNode& n, ValueId v) {
  return v.valid() ? transform::Term{&n.b, v}.dims() : std::vector<Dim>();
}
ConvAttrs reference_conv_attrs(ReferenceNode&);
bool reference_epilogue(ReferenceNode&, Epilogue*);
std::optional<AttentionLayout> reference_head_layout(ReferenceNode&, int64_t heads);
bool reference_mask_kind(ReferenceNode&, std::string_view field, AttentionAttrs*);
bool reference_rope_style(ReferenceNode&, RopeAttrs*);
// Converts f32 [batch, keys], where values below 0.5 hide a key, to a bool mask [batch,1,1,keys].
ValueId reference_custom_mask(ReferenceNode&, ValueId mask);
// "PerTensor", or an object with integer fields like {"Nvfp4": {"group": 16}}.
struct ReferenceTag {
  std::string name;
  std::vector<std::pair<std::string, int64_t>> numbers;

  bool has(std::string_view field) const;
  int64_t number(std::string_view field) const;  // 0 if absent
};
ReferenceTag reference_tag(ReferenceNode&, std::string_view field);
// Multiplies each row of x [M,K] by the weights [E,K,N] of its expert.
ValueId reference_by_expert(ReferenceNode&, ValueId x, ValueId weights, ValueId experts);
// DequantMatMul with the schemes MlxAffine, MlxMxfp4 and MlxMxfp8.
ValueId reference_mlx_matmul(ReferenceNode&);
// Upsamples images [N,C,H,W] by 2 (nearest).
ValueId reference_twice_as_large(ReferenceNode&, ValueId);
// Returns the gradients of sum(dy * y) by these operands, with the rules of lib/transform; none after errors.
std::vector<ValueId> reference_gradients(ReferenceNode&, ValueId y, ValueId dy, std::span<const ValueId> operands);
// Concatenates the elements of all values and reshapes them to the declared shape.
ValueId reference_packed(ReferenceNode&, std::span<const ValueId>);

}  // namespace rlxc::import_json
