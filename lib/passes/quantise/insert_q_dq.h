// Inserts Quantize and Dequantize behind the tensors that the calibration record names (options.calibration): i8, one scale a
// tensor or one a coordinate of an axis. All readers read the dequantised value, graph outputs (of bodies too) the original. The
// element type is kept. Tensors that are quantised already, by the model or by an earlier run, are left alone.
// The whole record is checked first, and nothing changes when an entry does not fit (Code::BadCalibration): a name that the model
// never had, a tensor that is not of floats, an axis or a number of scales that is not the tensor's, a scale that is not positive
// and finite in the tensor's type. Names of tensors that became part of other operations are listed in one warning.
// Each pair is a PrecisionNote. O(values + entries).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult insert_q_dq(Module&, PassContext&);

}  // namespace rlxc
