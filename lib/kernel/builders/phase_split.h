// The image layout for convolution and pooling: padded, with the last axis split by index modulo stride, which
// makes the elements that neighbouring results read contiguous. Along an axis where the window has one element, only elements
// that are read are stored.
#pragma once
#include "kernel/builders/window_spec.h"

namespace rlxc::kernel {

// A spatial axis of the phase-split image: `phases` phases of out size * step + extra elements. Element i of phase f is element i
// * source_step + f - pad of the image. The window of result element o begins at element o * step.
struct PhaseSplitAxis {
  int64_t phases = 1, step = 1, extra = 0, source_step = 1;
};
std::vector<PhaseSplitAxis> phase_split_axes(const WindowSpec&);
bool is_phase_split(const WindowSpec&);          // whether the image is its own phase-split image
inline constexpr int64_t kPhaseSplitSlack = 64;  // elements after the phase-split image that vector loads may read

// For dot units of CPU threads: i32 words of four channels of x, as the unit reads them. `to`: the window over words. Missing
// channels and padding hold the zero point. Adds x, [x_zero], inputs of the prologue, the image of `to`.
void build_phase_split_words(Builder&, const WindowSpec&, const WindowSpec& to, const Mapping&);

// For CPU threads: adds x, [x_zero], inputs of the prologue and the phase-split image [batch * channels][axes...] + slack, of
// s.input or, with x_zero subtracted, of s.accumulate. `padding` is the value outside of the image (of type s.input); null: 0.
void build_phase_split(Builder&, const WindowSpec&, const std::function<Expr(Kernel*)>& padding, const Mapping&);

// On a grid: the phase-split image of `to`, which is s or its window over words, or with channels last [batch][axes...][channels]
// without phases, written by vectors of kVectorBytes or less. Adds x, [x_zero], inputs of the prologue, image.
void build_image_on_grid(Builder&, const WindowSpec& s, const WindowSpec& to, const Mapping&);
inline constexpr int kVectorBytes = 16;

// Offsets in a phase-split image.
class PhaseSplitImage {
 public:
  PhaseSplitImage(Kernel*, const WindowSpec&);
  Expr length(size_t axis) const;
  Expr plane() const { return plane_; }     // elements per channel
  Expr channel(Expr batch, Expr c) const;   // where a channel of an image begins
  Expr row(Expr r) const;                   // offset of the windows of result row r (all axes but the last, linear)
  Expr column(Expr c) const;                // offset of the window of column c of a row
  Expr tap(size_t axis, Expr t) const;      // offset of element t of a window along an axis
  Operand operand(std::string name) const;  // without strides
  const std::vector<PhaseSplitAxis>& axes() const { return axes_; }

 private:
  Kernel* k_;
  const WindowSpec& s_;
  std::vector<PhaseSplitAxis> axes_;
  std::vector<Expr> pitch_;
  Expr plane_;
};

int64_t taps_of(const WindowSpec&);  // elements per window

}  // namespace rlxc::kernel
