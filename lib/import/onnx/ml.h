// What the operators of ai.onnx.ml share. Scores are f32 [rows, n].
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

ValueId real_vector(Op&, DType, const std::vector<double>&);
ValueId as_rows(Op&, DType = DType::F32);     // input 0 as [rows, features]; one axis becomes one row
ValueId post_transform(Op&, ValueId scores);  // by the attribute of that name
ValueId post_transform(Op&, ValueId scores, std::string_view name);
ValueId first_largest(Op&, ValueId scores);  // the class of each row, i64
ValueId class_labels(Op&, ValueId classes);  // the labels (integers or strings, from the attributes) of classes
size_t class_count(Op&);                     // the number of those labels

}  // namespace rlxc::onnx_import
