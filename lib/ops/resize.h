// ONNX Resize (operator Resize, opset 19) along one axis: every result coordinate is a weighted sum of a few source coordinates.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/attrs.h"

namespace rlxc::ops {

struct ResizeAxis {
  int64_t in = 0, out = 0;
  bool derived = true;  // the scale follows from the sizes
  double scale = 1;     // result / operand as the coordinate rule uses it, in [kMinScale, kMaxScale]
  double roi_start = 0, roi_end = 1;
  static constexpr double kMinScale = 1e-6, kMaxScale = 1e6;
};
ResizeAxis resize_axis(const ResizeAttrs&, size_t axis, int64_t in, int64_t out);
bool resizes(const ResizeAttrs&, const ResizeAxis&);  // false: the axis stays as it is

struct ResizeTaps {
  std::vector<int64_t> at;     // source coordinates in [0, in)
  std::vector<double> weight;  // their sum is 1
  bool outside = false;        // beyond the region of tf_crop_and_resize: the result is the extrapolation value
};
// Of result coordinate x. The number of taps is the same for all of an axis. nullopt: the source coordinate is out of range.
std::optional<ResizeTaps> resize_taps(const ResizeAttrs&, const ResizeAxis&, int64_t x);

}  // namespace rlxc::ops
