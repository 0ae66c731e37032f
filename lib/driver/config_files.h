// Small files that flags name: precision maps and calibration records. Both are JSON; see `rlxc schema precision-map` and
// `rlxc schema calibration`.
#pragma once
#include <bitset>
#include <string>

#include "passes/pass.h"

namespace rlxc {

bool read_precision_map(const std::string& path, PrecisionClassMap*, Diagnostics&);
// Names of operations ("MatMul", "matmul") or of classes of them ("Activation", "Binary", "Compare"), one a line (behind '#' is a
// comment) or as a JSON list.
bool read_supported_ops(const std::string& path, std::bitset<kOpCount>* out, Diagnostics&);
bool read_calibration(const std::string& path, CalibrationRecord*, Diagnostics&);
// False when the record names the model it was made from, and that is not the model with this hash (LoadedModel::content_hash).
bool check_calibrated_model(const std::string& path, std::string_view model, Diagnostics&);

}  // namespace rlxc
