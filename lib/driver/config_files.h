// Small files that flags name: precision maps and calibration records. Both are JSON; see `rlxc schema precision-map` and
// `rlxc schema calibration`.
#pragma once
#include <string>

#include "passes/pass.h"

namespace rlxc {

bool read_precision_map(const std::string& path, PrecisionClassMap*, Diagnostics&);
bool read_calibration(const std::string& path, CalibrationRecord*, Diagnostics&);

}  // namespace rlxc
