#include "kernel/builders/phase_split.h"

namespace rlxc::kernel {

constexpr int64_t kBeside = 16;  // channels that lie in one line of a cache, about

int64_t taps_of(const WindowSpec& s) {
  int64_t n = 1;
  for (int64_t k : s.kernel) n *= k;
  return n;
}

std::vector<PhaseSplitAxis> phase_split_axes(const WindowSpec& s) {
  std::vector<PhaseSplitAxis> axes(s.kernel.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    PhaseSplitAxis& a = axes[d];
    const int64_t reach = (s.kernel[d] - 1) * s.dilations[d];
    if (s.kernel[d] == 1) a.source_step = s.strides[d];
    else if (d + 1 < axes.size()) a.step = s.strides[d], a.extra = reach;
    else a.phases = a.source_step = s.strides[d], a.extra = (reach + s.strides[d] - 1) / s.strides[d];
  }
  return axes;
}

bool is_phase_split(const WindowSpec& s) {
  bool plain = !s.x_zero;
  for (size_t d = 0; d < s.kernel.size(); ++d)
    plain = plain && s.kernel[d] == 1 && s.strides[d] == 1 && s.pads_begin[d] == 0 && s.pads_end[d] == 0;
  return plain;
}

PhaseSplitImage::PhaseSplitImage(Kernel* k, const WindowSpec& s) : k_(k), s_(s), axes_(phase_split_axes(s)) {
  Expr pitch = constant_int(k, DType::I64, 1);
  pitch_.resize(axes_.size());
  for (size_t d = axes_.size(); d-- > 0;) {
    pitch_[d] = pitch;
    pitch = pitch * (length(d) * axes_[d].phases);
  }
  plane_ = pitch;
}

Expr PhaseSplitImage::length(size_t d) const { return s_.out_size[d].in(k_)*axes_[d].step + axes_[d].extra; }

Expr PhaseSplitImage::row(Expr r) const {
  const std::vector<Expr> at = split_index(r, Dims(s_.out_size.begin(), s_.out_size.end() - 1));
  Expr offset = constant_int(k_, DType::I64, 0);
  for (size_t d = 0; d < at.size(); ++d) offset = offset + at[d] * axes_[d].step * pitch_[d];
  return offset;
}

Expr PhaseSplitImage::tap(size_t d, Expr t) const {
  const Expr i = t * s_.dilations[d];
  return (i % axes_[d].phases * length(d) + i / axes_[d].phases) * pitch_[d];
}

Operand PhaseSplitImage::operand(std::string name) const {
  const Expr elements = s_.batch.in(k_)*s_.in_channels.in(k_)*plane_;
  return {std::move(name), s_.x_zero ? s_.accumulate : s_.input, {}, elements + (is_phase_split(s_) ? 0 : kPhaseSplitSlack), 0};
}

void build_phase_split(Builder& b, const WindowSpec& s, const std::function<Expr(Kernel*)>& padding, const Mapping& m) {
  Kernel* k = b.kernel();
  const PhaseSplitImage image(k, s);
  const Operand spread = image.operand("image");
  Dims shape = {s.batch, s.in_channels};
  shape.insert(shape.end(), s.in_size.begin(), s.in_size.end());
  const Operand source = s.image ? *s.image : dense(k, "x", s.input, shape);
  Buf x = b.input("x", s.input, source.extent), x_zero;
  if (s.x_zero) x_zero = b.input(s.x_zero->name, s.x_zero->dtype, s.x_zero->extent);
  Buf y = b.output(spread.name, spread.dtype, spread.extent);
  const size_t last = s.kernel.size() - 1;
  Dims rows = {s.batch, s.in_channels};
  for (size_t d = 0; d < last; ++d) rows.push_back(image.length(d));
  const PhaseSplitAxis& axis = image.axes()[last];
  const Expr size = s.in_size[last].in(k), length = image.length(last);
  const auto copy_row = [&](Expr row) {
    const std::vector<Expr> at = split_index(row, rows);
    Expr inside = constant_int(k, DType::Bool, 1);
    std::vector<Expr> place = {at[0], at[1]};
    for (size_t d = 0; d < last; ++d) {
      const Expr n = s.in_size[d].in(k), i = b.let("i", at[d + 2] * image.axes()[d].source_step - s.pads_begin[d]);
      inside = inside && i >= 0 && i < n;
      place.push_back(i);
    }
    const Expr reads = b.let("reads", inside), from = b.let("from", element_at(k, source, place)),
               step = source.strides.back().in(k);
    const Expr outside = padding ? cast_to(padding(k), spread.dtype) : constant_int(k, spread.dtype, 0);
    const auto phase = [&](Expr f) {
      const Expr to = row * (length * axis.phases) + f * length, shift = f - s.pads_begin[last];
      auto reach = [&](Expr i) { return max(min(ceil_div(i, axis.source_step), length), 0); };  // elements before element i
      const Expr begin = b.let("begin", select(reads, reach(0 - shift), length));
      const Expr end = b.let("end", max(select(reads, reach(size - shift), length), begin));
      b.loop("j", begin, [&](Expr j) { y.store(to + j, outside); });
      b.loop("j", end - begin, [&](Expr j) {
        const Expr i = begin + j;
        Expr v = cast_to(x[from + (i * axis.source_step + shift) * step], spread.dtype);
        if (s.x_zero) v = v - cast_to(x_zero[0], spread.dtype);
        y.store(to + i, v);
      });
      b.loop("j", length - end, [&](Expr j) { y.store(to + end + j, outside); });
    };
    axis.phases == 1 ? phase(b.i64(0)) : b.loop("phase", axis.phases, phase);
  };
  if (m.workgroups || !is_constant(source.strides[1], 1) || is_constant(source.strides.back(), 1))
    return for_each(b, m, "row", product(k, rows), 512, copy_row);
  // Pixels of neighbouring channels are read while they are in the nearest cache.
  const Expr channels = s.in_channels.in(k), of_channel = product(k, rows, 2), groups = ceil_div(channels, kBeside);
  for_each(b, m, "group", s.batch.in(k)*groups * of_channel, 512 * kBeside, [&](Expr group) {
    const Expr first = b.let("channel0", group / of_channel % groups * kBeside);
    b.loop("channel", min(channels - first, kBeside), [&](Expr c) {
      const Expr channel = group / (of_channel * groups) * channels + first + c;
      copy_row(b.let("row", channel * of_channel + group % of_channel));
    });
  });
}

}  // namespace rlxc::kernel
