// Operations of the reference vocabulary by family: name and handler.
#pragma once
#include <span>

#include "import/json/reference.h"
#include "ir/term.h"

namespace rlxc::import_json {

struct ReferenceRow {
  std::string_view name;
  ReferenceHandler make;
  bool block = false;  // of the HIR
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

// What several families use.
constexpr DType kReal = DType::F32;  // in which codes and scales are multiplied
inline transform::Term term(ReferenceNode& n, size_t operand) { return {&n.b, n.in[operand]}; }
inline std::vector<Dim> sizes(ReferenceNode& n, ValueId v) {
  return v.valid() ? transform::Term{&n.b, v}.dims() : std::vector<Dim>();
}
ConvAttrs reference_conv_attrs(ReferenceNode&);
bool reference_epilogue(ReferenceNode&, Epilogue*);
std::optional<AttentionLayout> reference_head_layout(ReferenceNode&, int64_t heads);
bool reference_mask_kind(ReferenceNode&, std::string_view field, AttentionAttrs*);
bool reference_rope_style(ReferenceNode&, RopeAttrs*);
// f32 [batch, keys] of numbers, hidden below 0.5, as a bool mask [batch,1,1,keys].
ValueId reference_custom_mask(ReferenceNode&, ValueId mask);
// "PerTensor", or {"Nvfp4": {"group": 16}} with numbers.
struct ReferenceTag {
  std::string name;
  std::vector<std::pair<std::string, int64_t>> numbers;

  bool has(std::string_view field) const;
  int64_t number(std::string_view field) const;  // 0 if absent
};
ReferenceTag reference_tag(ReferenceNode&, std::string_view field);
// Each row of x [M,K] times the weights [E,K,N] of its expert.
ValueId reference_by_expert(ReferenceNode&, ValueId x, ValueId weights, ValueId experts);
// DequantMatMul of the schemes MlxAffine, MlxMxfp4 and MlxMxfp8.
ValueId reference_mlx_matmul(ReferenceNode&);
// Images [N,C,H,W], every pixel four times.
ValueId reference_twice_as_large(ReferenceNode&, ValueId);
// The gradients of sum(dy * y) by these operands of the node, by the rules of lib/transform; none after errors.
std::vector<ValueId> reference_gradients(ReferenceNode&, ValueId y, ValueId dy, std::span<const ValueId> operands);
// The elements of all values, one after another, in the declared shape.
ValueId reference_packed(ReferenceNode&, std::span<const ValueId>);

}  // namespace rlxc::import_json
