// Images as convolutions and pooling on threads read them: padded, and the last axis sorted by the remainder of the index modulo
// the stride, so that neighbours in a row of the result read neighbours of the image whatever the stride. Of an axis along which
// the window has one element only what is read is there, so that a window of one element makes the image a plain matrix.
#pragma once
#include "kernel/builders/window.h"

namespace rlxc::kernel {

// A spatial axis of the phase-split image: `phases` parts of out size * step + extra elements; element i of part f is element
// i * source_step + f - pad of the image. The window of result element o begins at element o * step.
struct PhaseSplitAxis {
  int64_t phases = 1, step = 1, extra = 0, source_step = 1;
};
std::vector<PhaseSplitAxis> phase_split_axes(const WindowSpec&);
bool is_phase_split(const WindowSpec&);          // the image is its own phase-split image
inline constexpr int64_t kPhaseSplitSlack = 64;  // elements after the phase-split image, that whole vectors may read

// For dot units: words of four channels of x, unsigned codes (those of signed ones plus 128), `to` a window of so many channels
// of i32. Channels that are missing, and padding, hold the zero point. Adds x, [x_zero], spread of `to`.
void build_phase_split_words(Builder&, const WindowSpec&, const WindowSpec& to, const Mapping&);

// Adds x, [x_zero], spread [batch * channels][axes...] + slack, of s.input or, with x_zero subtracted, of s.accumulate. `padding`
// is what stands outside of the image (of type s.input); null: 0.
void build_phase_split(Builder&, const WindowSpec&, const std::function<Expr(Kernel*)>& padding, const Mapping&);

// Where things are in a phase-split image.
class PhaseSplitImage {
 public:
  PhaseSplitImage(Kernel*, const WindowSpec&);
  Expr length(size_t axis) const;
  Expr plane() const { return plane_; }     // elements of a channel
  Expr row(Expr r) const;                   // first element of the windows of result row r (all axes but the last, linear)
  Expr tap(size_t axis, Expr t) const;      // distance of element t of a window along an axis
  Operand operand(std::string name) const;  // without strides
  const std::vector<PhaseSplitAxis>& axes() const { return axes_; }

 private:
  Kernel* k_;
  const WindowSpec& s_;
  std::vector<PhaseSplitAxis> axes_;
  std::vector<Expr> pitch_;
  Expr plane_;
};

int64_t taps_of(const WindowSpec&);  // elements of a window

}  // namespace rlxc::kernel
