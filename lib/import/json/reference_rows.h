// Operations of the reference vocabulary by family: name and handler.
#pragma once
#include <span>

#include "import/json/reference.h"

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

// What several families use.
ConvAttrs reference_conv_attrs(ReferenceNode&);
bool reference_epilogue(ReferenceNode&, Epilogue*);
std::optional<AttentionLayout> reference_head_layout(ReferenceNode&, int64_t heads);
bool reference_mask_kind(ReferenceNode&, std::string_view field, AttentionAttrs*);
// f32 [batch, keys] of numbers, hidden below 0.5, as a bool mask [batch,1,1,keys].
ValueId reference_custom_mask(ReferenceNode&, ValueId mask);

}  // namespace rlxc::import_json
