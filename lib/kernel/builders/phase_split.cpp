#include "kernel/builders/phase_split.h"

#include <array>

#include "kernel/builders/dot_unit.h"

namespace rlxc::kernel {

constexpr int64_t kLineChannels = 16;  // channels per cache line, approximately

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
    else if (d + 1 < axes.size() || s.channels_last) {
      a.step = s.strides[d];
      a.extra = reach;
    } else {
      a.phases = a.source_step = s.strides[d];
      a.extra = (reach + s.strides[d] - 1) / s.strides[d];
    }
  }
  return axes;
}

bool is_phase_split(const WindowSpec& s) {
  bool plain = !s.x_zero && !s.channels_last;
  for (size_t d = 0; d < s.kernel.size(); ++d)
    plain = plain && s.kernel[d] == 1 && s.strides[d] == 1 && s.pads_begin[d] == 0 && s.pads_end[d] == 0;
  return plain;
}

PhaseSplitImage::PhaseSplitImage(Kernel* k, const WindowSpec& s) : k_(k), s_(s), axes_(phase_split_axes(s)) {
  plane_ = constant_int(k, DType::I64, 1);
  pitch_.resize(axes_.size());
  for (size_t d = axes_.size(); d-- > 0;) {
    pitch_[d] = s.channels_last ? plane_ * s.in_channels.in(k) : plane_;
    plane_ = plane_ * (length(d) * axes_[d].phases);
  }
}

Expr PhaseSplitImage::channel(Expr batch, Expr c) const {
  const Expr channels = s_.in_channels.in(k_);
  return s_.channels_last ? batch * channels * plane_ + c : (batch * channels + c) * plane_;
}

Expr PhaseSplitImage::length(size_t d) const { return s_.out_size[d].in(k_)*axes_[d].step + axes_[d].extra; }

Expr PhaseSplitImage::row(Expr r) const {
  const std::vector<Expr> at = split_index(r, Dims(s_.out_size.begin(), s_.out_size.end() - 1));
  Expr offset = constant_int(k_, DType::I64, 0);
  for (size_t d = 0; d < at.size(); ++d) offset = offset + at[d] * axes_[d].step * pitch_[d];
  return offset;
}

Expr PhaseSplitImage::column(Expr c) const { return c * axes_.back().step * pitch_.back(); }

Expr PhaseSplitImage::tap(size_t d, Expr t) const {
  const Expr i = t * s_.dilations[d];
  return (i % axes_[d].phases * length(d) + i / axes_[d].phases) * pitch_[d];
}

Operand PhaseSplitImage::operand(std::string name) const {
  const Expr elements = s_.batch.in(k_)*s_.in_channels.in(k_)*plane_;
  return {std::move(name), s_.x_zero ? s_.accumulate : s_.input, {}, elements + (is_phase_split(s_) ? 0 : kPhaseSplitSlack), 0};
}

namespace {

// Copies a row of the last axis of the phase-split image. `place` is the source row: the index with the last axis at 0.
struct RowCopy {
  const PhaseSplitImage& image;
  const WindowSpec& s;
  Buf to;
  Dims rows;                                                 // batch, channels, all axes of the phase-split image but the last
  Expr outside;                                              // the padding value
  std::function<Expr(const std::vector<Expr>& place)> from;  // called once per row
  std::function<Expr(Expr from, Expr position)> element;
  int lanes = 1;
  std::function<Expr(Expr from, Expr position)> vector = {};  // `lanes` neighbouring elements
};

// Elements of a phase that the source has, and those of them that vectors have copied.
struct PhaseRange {
  Expr begin, end, low, high;
};

// Copies what both of two phases have, by pairs of vectors. The last pair overlaps the one before.
void split_pairs(Builder& b, const RowCopy& c, Expr to, Expr length, Expr from, std::array<PhaseRange, 2>& phases) {
  const Expr low = b.let("low", max(phases[0].begin, phases[1].begin));
  const Expr both = b.let("both", max(min(phases[0].end, phases[1].end) - low, 0)), fits = both >= c.lanes;
  b.loop("v", select(fits, ceil_div(both, c.lanes), b.i64(0)), [&](Expr v) {
    const Expr i = b.let("i", low + min(v * c.lanes, both - c.lanes)), first = i * 2 - c.s.pads_begin.back();
    const Expr x = b.let("x", c.vector(from, first)), next = b.let("x", c.vector(from, first + c.lanes));
    c.to.store(to + i, even_lanes(x, next));
    c.to.store(to + length + i, odd_lanes(x, next));
  });
  for (PhaseRange& p : phases) {
    p.low = select(fits, low, p.end);
    p.high = select(fits, low + both, p.end);
  }
}

void copy_row(Builder& b, const RowCopy& c, Expr row) {
  Kernel* k = b.kernel();
  const size_t last = c.s.kernel.size() - 1;
  const PhaseSplitAxis& axis = c.image.axes()[last];
  const Expr size = c.s.in_size[last].in(k), length = c.image.length(last);
  const std::vector<Expr> at = split_index(row, c.rows);
  Expr inside = constant_int(k, DType::Bool, 1);
  std::vector<Expr> place = {at[0], at[1]};
  for (size_t d = 0; d < last; ++d) {
    const Expr n = c.s.in_size[d].in(k), i = b.let("i", at[d + 2] * c.image.axes()[d].source_step - c.s.pads_begin[d]);
    inside = inside && i >= 0 && i < n;
    place.push_back(i);
  }
  const Expr reads = b.let("reads", inside), from = c.from(place);
  const auto range = [&](Expr f) {
    const Expr shift = f - c.s.pads_begin[last];
    auto reach = [&](Expr i) { return max(min(ceil_div(i, axis.source_step), length), 0); };  // elements before element i
    PhaseRange p;
    p.begin = b.let("begin", select(reads, reach(0 - shift), length));
    p.end = p.low = p.high = b.let("end", max(select(reads, reach(size - shift), length), p.begin));
    return p;
  };
  const auto phase = [&](Expr f, const PhaseRange& p) {
    const Expr to = row * (length * axis.phases) + f * length, shift = f - c.s.pads_begin[last];
    const auto copy_singly = [&](Expr first, Expr count) {
      b.loop("j", count, [&](Expr j) { c.to.store(to + (first + j), c.element(from, (first + j) * axis.source_step + shift)); });
    };
    // The last vector overlaps the one before.
    const auto copy = [&](Expr first, Expr count) {
      if (!c.vector || axis.source_step != 1) return copy_singly(first, count);
      const Expr fits = count >= c.lanes;
      b.loop("v", select(fits, ceil_div(count, c.lanes), b.i64(0)), [&](Expr v) {
        const Expr i = b.let("i", first + min(v * c.lanes, count - c.lanes));
        c.to.store(to + i, c.vector(from, i + shift));
      });
      copy_singly(first, select(fits, b.i64(0), count));
    };
    b.loop("j", p.begin, [&](Expr j) { c.to.store(to + j, c.outside); });
    copy(p.begin, p.low - p.begin);
    if (p.high.id != p.end.id) copy(p.high, p.end - p.high);
    b.loop("j", length - p.end, [&](Expr j) { c.to.store(to + p.end + j, c.outside); });
  };
  if (c.vector && axis.phases == 2 && axis.source_step == 2) {
    std::array<PhaseRange, 2> phases = {range(b.i64(0)), range(b.i64(1))};
    split_pairs(b, c, row * (length * 2), length, from, phases);
    for (int64_t f = 0; f < 2; ++f) phase(b.i64(f), phases[static_cast<size_t>(f)]);
    return;
  }
  if (axis.phases == 1) phase(b.i64(0), range(b.i64(0)));
  else b.loop("phase", axis.phases, [&](Expr f) { phase(f, range(f)); });
}

// Lanes of vectors of words that fit in a row.
int vector_lanes_of(const Index& row, const Mapping& m) {
  int lanes = m.vector_lanes(sizeof(float));
  int64_t size = 0;
  while (lanes > 1 && constant(row, &size) && size < lanes) lanes /= 2;
  return lanes;
}

Dims rows_of(const PhaseSplitImage& image, const WindowSpec& s) {
  Dims rows = {s.batch, s.in_channels};
  for (size_t d = 0; d + 1 < s.kernel.size(); ++d) rows.push_back(image.length(d));
  return rows;
}

Operand source_of(Kernel* k, const WindowSpec& s) {
  Dims shape = {s.batch, s.in_channels};
  shape.insert(shape.end(), s.in_size.begin(), s.in_size.end());
  return s.image ? *s.image : dense(k, "x", s.prologue.body ? DType::F32 : s.input, shape);
}

// The arguments of the source: x, [x_zero], inputs of the prologue.
struct SplitSource {
  SplitSource(Builder& b, const WindowSpec& s, Expr extent)
      : body(s.prologue.body), x(b.input("x", s.prologue.body ? DType::F32 : s.input, extent)) {
    if (s.x_zero) zero = b.input(s.x_zero->name, s.x_zero->dtype, s.x_zero->extent);
    inputs = FusedInputs(b, s.prologue.inputs);
  }
  // Elements of the image as they are stored, or quantized.
  Expr at(Expr place, int lanes = 1) const { return stored(x.load(place, lanes)); }
  // An element, or one of the padding where the condition is false: the zero point, or 0.
  Expr at_if(Expr condition, Expr place) const {
    const Expr v = x.load_if(condition, place, constant_int(x.builder()->kernel(), x.type().dtype, 0));
    return zero.builder() && !body ? select(condition, v, cast_to(zero[0], v.dtype())) : stored(v);
  }
  Expr stored(Expr v) const { return inputs.values(body, {&v, 1}, {x.builder()->i64(0)})[0]; }
  // The same, in type `t` with the zero point subtracted.
  Expr centred(Expr condition, Expr place, DType t) const {
    const Expr v = cast_to(at_if(condition, place), t);
    return zero.builder() ? v - cast_to(zero[0], t) : v;
  }

  const FusedBody& body;
  Buf x, zero;
  FusedInputs inputs;
};

// Returns four codes of the image as a word of the dot unit. `code` returns one as i32.
Expr word_of_codes(const WindowSpec& s, const std::function<Expr(int q)>& code) {
  const int shift = dot_shift(s.input, s.dots->a);
  Expr word;
  for (int q = 0; q < kWordCodes; ++q) {
    Expr v = code(q);
    if (shift) v = v + broadcast(constant_int(v.kernel, DType::I32, shift), v.lanes());
    if (s.dots->a == DType::I8) v = v & broadcast(constant_int(v.kernel, DType::I32, 255), v.lanes());
    word = q == 0 ? v : word | v << 8 * q;
  }
  return word;
}

}  // namespace

void build_phase_split(Builder& b, const WindowSpec& s, const std::function<Expr(Kernel*)>& padding, const Mapping& m) {
  Kernel* k = b.kernel();
  const PhaseSplitImage image(k, s);
  const Operand split = image.operand("image"), source = source_of(k, s);
  const SplitSource from(b, s, source.extent.in(k));
  Buf y = b.output(split.name, split.dtype, split.extent);
  const Expr step = source.strides.back().in(k);
  const Dims rows = rows_of(image, s);
  const auto value_at = [&](Expr place, int lanes) {
    const Expr v = cast_to(from.at(place, lanes), split.dtype);
    return s.x_zero ? v - broadcast(cast_to(from.zero[0], split.dtype), lanes) : v;
  };
  RowCopy copy{image,
               s,
               y,
               rows,
               padding ? cast_to(padding(k), split.dtype) : constant_int(k, split.dtype, 0),
               [&](const std::vector<Expr>& place) { return b.let("from", element_at(k, source, place)); },
               [&](Expr first, Expr position) { return value_at(first + position * step, 1); }};
  const bool words = split.dtype == DType::F32 || split.dtype == DType::I32;
  if (words && (s.x_zero || split.dtype == source.dtype) && is_constant(step, 1)) {
    copy.lanes = vector_lanes_of(s.in_size.back(), m);
    if (copy.lanes > 1) copy.vector = [&](Expr first, Expr position) { return value_at(first + position, copy.lanes); };
  }
  if (!is_constant(source.strides[1], 1) || is_constant(source.strides.back(), 1))
    return for_each(b, m, "row", product(k, rows), 512, [&](Expr row) { copy_row(b, copy, row); });
  // Processes neighbouring channels together, because their elements share cache lines.
  const Expr channels = s.in_channels.in(k), of_channel = product(k, rows, 2), groups = ceil_div(channels, kLineChannels);
  for_each(b, m, "group", s.batch.in(k)*groups * of_channel, 512 * kLineChannels, [&](Expr group) {
    const Expr first = b.let("channel0", group / of_channel % groups * kLineChannels);
    b.loop("channel", min(channels - first, kLineChannels), [&](Expr c) {
      const Expr channel = group / (of_channel * groups) * channels + first + c;
      copy_row(b, copy, b.let("row", channel * of_channel + group % of_channel));
    });
  });
}

void build_phase_split_words(Builder& b, const WindowSpec& s, const WindowSpec& to, const Mapping& m) {
  Kernel* k = b.kernel();
  const PhaseSplitImage image(k, to);
  const Operand split = image.operand("image"), source = source_of(k, s);
  const SplitSource data(b, s, source.extent.in(k));
  Buf y = b.output(split.name, DType::I32, split.extent);
  const Expr zero = s.x_zero ? cast_to(data.zero[0], DType::I32) : b.value(DType::I32, 0);
  const Expr step = source.strides.back().in(k), words = to.in_channels.in(k) / s.groups,
             channels = s.in_channels.in(k) / s.groups;
  const bool whole = is_multiple(channels, kWordCodes);
  const Dims rows = rows_of(image, to);
  for_each(b, m, "row", product(k, rows), 2048, [&](Expr row) {
    const Expr outside = b.let("outside", word_of_codes(s, [&](int) { return zero; }));
    std::array<Expr, kWordCodes> from;
    const auto first = [&](const std::vector<Expr>& place) {
      const Expr group = place[1] / words, channel = b.let("channel", place[1] % words * kWordCodes);
      for (int q = 0; q < kWordCodes; ++q) {
        std::vector<Expr> at = place;
        at[1] = group * channels + (whole ? channel + q : min(channel + q, channels - 1));
        from[static_cast<size_t>(q)] = b.let("from", element_at(k, source, at));
      }
      return channel;
    };
    const auto words_at = [&](Expr channel, Expr position, int lanes) {
      return word_of_codes(s, [&](int q) {
        const Expr code = cast_to(data.at(from[static_cast<size_t>(q)] + position * step, lanes), DType::I32);
        return whole || q == 0 ? code : select(channel + q < channels, code, broadcast(zero, lanes));
      });
    };
    RowCopy copy{image, to, y, rows, outside, first, [&](Expr c, Expr i) { return words_at(c, i, 1); }};
    if (is_constant(step, 1)) {
      copy.lanes = vector_lanes_of(to.in_size.back(), m);
      if (copy.lanes > 1) copy.vector = [&](Expr c, Expr i) { return words_at(c, i, copy.lanes); };
    }
    copy_row(b, copy, row);
  });
}

void build_image_on_grid(Builder& b, const WindowSpec& s, const WindowSpec& to, const Mapping& m) {
  Kernel* k = b.kernel();
  const PhaseSplitImage image(k, to);
  const Operand split = image.operand("image"), source = source_of(k, s);
  const SplitSource data(b, s, source.extent.in(k));
  Buf y = b.output(split.name, split.dtype, split.extent);
  const int bytes = static_cast<int>(rlxc::bits(split.dtype)) / 8;
  const int lanes = to.channels_last ? std::min(kVectorBytes / bytes, m.load_lanes(bytes)) : 1;
  const Expr chunks = to.in_channels.in(k) / int64_t{lanes}, pixels = image.plane(), step = source.strides[1].in(k);
  const Expr words = to.in_channels.in(k) / s.groups, channels = s.in_channels.in(k) / s.groups;  // of a group
  const bool whole = is_multiple(channels, kWordCodes);
  Dims places;
  for (size_t d = 0; d < s.kernel.size(); ++d) places.insert(places.end(), {image.axes()[d].phases, image.length(d)});
  for_each(b, m, "chunk", s.batch.in(k)*chunks * pixels, 2 * kVectorBytes, [&](Expr i) {
    const Expr pixel = b.let("pixel", i % pixels), chunk = b.let("at", i / pixels % chunks),
               n = b.let("n", i / (pixels * chunks));
    const std::vector<Expr> at = split_index(pixel, places);
    std::vector<Expr> place = {n, b.i64(0)};
    Expr inside = constant_int(k, DType::Bool, 1);
    for (size_t d = 0; d < s.kernel.size(); ++d) {
      const Expr p = b.let("p", at[2 * d + 1] * image.axes()[d].source_step + at[2 * d] - s.pads_begin[d]);
      inside = inside && p >= 0 && p < s.in_size[d].in(k);
      place.push_back(p);
    }
    const Expr reads = b.let("reads", inside), from = b.let("from", element_at(k, source, place));
    // Word w of a pixel: four channels of a group. Missing channels hold the zero point.
    const auto word = [&](Expr w) {
      const Expr group = w / words, first = b.let("channel", w % words * kWordCodes);
      return word_of_codes(s, [&](int q) {
        const Expr exists = whole || q == 0 ? reads : reads && first + q < channels;
        return cast_to(data.at_if(exists, from + (group * channels + first + q) * step), DType::I32);
      });
    };
    const auto element = [&](Expr c) { return s.dots ? word(c) : data.centred(reads, from + c * step, split.dtype); };
    if (!to.channels_last) return y.store(i, element(chunk));
    const Buf vector = b.registers("vector", split.dtype, lanes);
    for (int l = 0; l < lanes; ++l) vector.store(l, element(chunk * int64_t{lanes} + l));
    y.store(((n * pixels + pixel) * chunks + chunk) * int64_t{lanes}, vector.load(0, lanes));
  });
}

}  // namespace rlxc::kernel
