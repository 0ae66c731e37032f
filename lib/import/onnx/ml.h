// Helpers of the ai.onnx.ml operators. Scores are f32 [rows, n].
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

ValueId real_vector(Op&, DType, const std::vector<double>&);
ValueId as_rows(Op&, DType = DType::F32);     // input 0 as [rows, features]; a vector becomes one row
ValueId post_transform(Op&, ValueId scores);  // as the attribute of that name says
ValueId post_transform(Op&, ValueId scores, std::string_view name);
ValueId first_largest(Op&, ValueId scores);  // i64 class per row
ValueId class_labels(Op&, ValueId classes);  // labels of classes (integers or strings, from the attributes)
size_t class_count(Op&);                     // number of those labels

}  // namespace rlxc::onnx_import
