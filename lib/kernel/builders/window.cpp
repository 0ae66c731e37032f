#include "kernel/builders/window.h"

#include <limits>

#include "kernel/builders/generate.h"
#include "kernel/builders/phase_split.h"
#include "support/checked.h"

namespace rlxc::kernel {
namespace {

// Whether all windows are inside of the image along an axis.
bool never_leaves(const WindowSpec& s, size_t d) {
  int64_t in = 0, out = 0;
  return s.pads_begin[d] == 0 && constant(s.in_size[d], &in) && constant(s.out_size[d], &out) &&
         (out - 1) * s.strides[d] + (s.kernel[d] - 1) * s.dilations[d] < in;
}

// Called for every tap: tap index, element offset in the plane, whether it is inside of the image, and of image and padding.
using TapBody = std::function<void(Expr tap, Expr offset, Expr inside, Expr padded)>;

class Window {
 public:
  Window(Builder& b, const WindowSpec& s) : b_(b), s_(s) {}

  void taps(const std::vector<Expr>& at, bool transposed, const TapBody& body) {
    walk(at, transposed, 0, b_.i64(0), b_.i64(0), truth(), truth(), body);
  }
  Expr plane() { return product(b_.kernel(), s_.in_size); }

  // The element of the first tap, if all windows are inside of the image.
  std::optional<Expr> first(const std::vector<Expr>& at) {
    Expr offset = b_.i64(0);
    for (size_t d = 0; d < s_.kernel.size(); ++d) {
      if (!never_leaves(s_, d)) return std::nullopt;
      offset = offset * s_.in_size[d].in(b_.kernel()) + at[d] * s_.strides[d];
    }
    return offset;
  }
  // The type of positions in a plane: that of a vector of 32-bit floats, if they fit.
  DType position() const {
    std::optional<int64_t> elements = 1;
    for (const Index& n : s_.in_size)
      if (int64_t size = 0; !constant(n, &size) || !(elements = checked_mul(*elements, size))) return DType::I64;
    return *elements <= std::numeric_limits<int32_t>::max() ? DType::I32 : DType::I64;
  }

 private:
  Expr truth() { return constant_int(b_.kernel(), DType::Bool, 1); }

  void walk(const std::vector<Expr>& at, bool transposed, size_t d, Expr tap, Expr offset, Expr inside, Expr padded,
            const TapBody& body) {
    if (d == s_.kernel.size()) return body(tap, offset, inside, padded);
    auto step = [&](Expr t) {
      const Expr n = s_.in_size[d].in(b_.kernel());
      Expr i = transposed ? at[d] + s_.pads_begin[d] - t * s_.dilations[d]
                          : at[d] * s_.strides[d] - s_.pads_begin[d] + t * s_.dilations[d];
      Expr in = inside;
      if (transposed && s_.strides[d] != 1) {
        in = in && i % s_.strides[d] == 0;
        in = in && i >= 0;
        i = i / s_.strides[d];
      }
      if (transposed || !never_leaves(s_, d)) in = in && i >= 0 && i < n;
      walk(at, transposed, d + 1, tap * s_.kernel[d] + t, offset * n + i, in, padded && i < n + s_.pads_end[d], body);
    };
    if (s_.kernel[d] == 1) return step(b_.i64(0));
    b_.loop("t", s_.kernel[d], step);
  }

  Builder& b_;
  const WindowSpec& s_;
};

Dims result_shape(const WindowSpec& s) {
  Dims shape = {s.batch, s.out_channels};
  shape.insert(shape.end(), s.out_size.begin(), s.out_size.end());
  return shape;
}

// The strides of the image's batches, channels and pixels.
Dims image_strides(Kernel* k, const WindowSpec& s) {
  const Expr plane = product(k, s.in_size);
  return s.image ? s.image->strides : Dims{s.in_channels.in(k)*plane, plane, 1};
}
Buf input_image(Builder& b, const WindowSpec& s) {
  Kernel* k = b.kernel();
  return s.image ? b.input(s.image->name, s.image->dtype, s.image->extent)
                 : b.input("x", s.prologue.body ? DType::F32 : s.input, s.batch.in(k)*s.in_channels.in(k)*product(k, s.in_size));
}

void convolve(Builder& b, const WindowSpec& s, bool transposed, const Mapping& m) {
  Kernel* k = b.kernel();
  Window window(b, s);
  const Expr in = s.in_channels.in(k), out = s.out_channels.in(k), in_group = in / s.groups, out_group = out / s.groups;
  const int64_t taps = taps_of(s);
  const Dims strides = image_strides(k, s);
  Buf x = input_image(b, s);
  Buf w = b.input("w", s.weight, (transposed ? in * out_group : out * in_group) * taps);
  Buf x_zero, w_zero;
  if (s.x_zero) x_zero = b.input(s.x_zero->name, s.x_zero->dtype, s.x_zero->extent);
  if (s.w_zero) w_zero = b.input(s.w_zero->name, s.w_zero->dtype, s.w_zero->extent);
  const FusedInputs of_x(b, s.prologue.inputs);
  const FusedInputs inputs(b, s.epilogue.inputs);
  std::vector<std::pair<std::string, DType>> results{{"y", s.output}};
  for (const Operand& o : s.epilogue.also) results.emplace_back(o.name, o.dtype);
  build_generate(b, result_shape(s), results, taps * 64, m, [&](const std::vector<Expr>& at) -> std::vector<Expr> {
    const Expr channel = at[1], group = s.groups == 1 ? b.i64(0) : channel / out_group;
    const std::vector<Expr> position(at.begin() + 2, at.end());
    Buf sum = b.variable("sum", constant_int(k, s.accumulate, 0));
    auto wide = [&](Expr v) { return cast_to(v, s.accumulate); };
    b.loop("c", in_group, [&](Expr c) {
      const Expr from = b.let("from", at[0] * strides[0].in(k) + (group * in_group + c) * strides[1].in(k));
      const Expr weights =
          b.let("weights",
                (transposed ? (group * in_group + c) * out_group + channel - group * out_group : channel * in_group + c) * taps);
      window.taps(position, transposed, [&](Expr tap, Expr offset, Expr inside, Expr) {
        b.when(inside, [&] {
          Expr v = x[from + offset * strides.back().in(k)], f = wide(w[weights + tap]);
          v = wide(of_x.values(s.prologue.body, {&v, 1}, {b.i64(0)})[0]);
          if (s.x_zero) v = v - wide(x_zero[0]);
          if (s.w_zero) f = f - wide(w_zero[channel * s.w_zero->strides[0].in(k)]);
          sum.set(sum.get() + v * f);
        });
      });
    });
    Expr result = sum.get();
    return inputs.values(s.epilogue.body, {&result, 1}, {at[0], channel, linear_index(k, position, s.out_size)});
  });
}

}  // namespace

void build_window_conv(Builder& b, const WindowSpec& s, const Mapping& m) { convolve(b, s, false, m); }
void build_window_conv_transpose(Builder& b, const WindowSpec& s, const Mapping& m) { convolve(b, s, true, m); }

void build_windows(Builder& b, const WindowSpec& s, const Mapping& m) {
  Kernel* k = b.kernel();
  const size_t axes = s.kernel.size();
  const Dims strides = image_strides(k, s);
  Buf x = input_image(b, s);
  Dims shape{s.batch};
  shape.insert(shape.end(), s.out_size.begin(), s.out_size.end());
  shape.push_back(s.in_channels);
  shape.insert(shape.end(), s.kernel.begin(), s.kernel.end());
  build_generate(b, shape, {{"windows", s.input}}, 16, m, [&](const std::vector<Expr>& at) -> std::vector<Expr> {
    Expr place = b.i64(0), inside = constant_int(k, DType::Bool, 1);
    for (size_t d = 0; d < axes; ++d) {
      const Expr size = s.in_size[d].in(k), i = at[1 + d] * s.strides[d] - s.pads_begin[d] + at[2 + axes + d] * s.dilations[d];
      if (!never_leaves(s, d)) inside = inside && i >= 0 && i < size;
      place = place * size + i;
    }
    const Expr from = at[0] * strides[0].in(k) + at[1 + axes] * strides[1].in(k) + place * strides.back().in(k);
    return {x.load_if(inside, from, constant_int(k, s.input, 0))};
  });
}

void build_pool(Builder& b, const PoolSpec& p, const Mapping& m) {
  const WindowSpec& s = p.window;
  Kernel* k = b.kernel();
  Window window(b, s);
  const Expr plane = window.plane(), channels = s.in_channels.in(k);
  Buf x = b.input("x", s.input, s.batch.in(k)*channels * plane);
  const FusedInputs inputs(b, p.epilogue.inputs);
  build_generate(b, result_shape(s), {{"y", s.output}}, taps_of(s) * 8, m, [&](const std::vector<Expr>& at) -> std::vector<Expr> {
    Buf acc = b.variable("acc", p.start(k)), count = b.variable("count", b.i64(0));
    const Expr from = b.let("from", (at[0] * channels + at[1]) * plane);
    window.taps({at.begin() + 2, at.end()}, false, [&](Expr, Expr offset, Expr inside, Expr padded) {
      b.when(inside, [&] { acc.set(p.step(acc.get(), cast_to(x[from + offset], s.accumulate))); });
      count.set(count.get() + cast_to(p.count_padding ? padded : inside, DType::I64));
    });
    const Expr roots[] = {acc.get(), count.get()}, where = linear_index(k, {at.begin() + 2, at.end()}, s.out_size);
    return inputs.values(p.epilogue.body, roots, {at[0], at[1], where});
  });
}

void build_max_pool_indices(Builder& b, const WindowSpec& s, bool column_major, const Mapping& m) {
  Kernel* k = b.kernel();
  Window window(b, s);
  const Expr plane = window.plane(), channels = s.in_channels.in(k);
  const DType t = s.accumulate, position = window.position();
  Buf x = b.input("x", s.input, s.batch.in(k)*channels * plane);
  build_generate(b, result_shape(s), {{"y", s.output}, {"index", DType::I64}}, taps_of(s) * 8, m,
                 [&](const std::vector<Expr>& at) -> std::vector<Expr> {
                   const std::vector<Expr> place(at.begin() + 2, at.end());
                   const Expr from = b.let("from", (at[0] * channels + at[1]) * plane);
                   // Without padding the first element is the largest so far; else the first one inside takes the place of -1.
                   const std::optional<Expr> first = window.first(place);
                   const Expr low = is_float(t) ? constant(k, t, -std::numeric_limits<double>::infinity())
                                                : constant_int(k, t, std::numeric_limits<int64_t>::min() >> (64 - rlxc::bits(t)));
                   Buf best = b.variable("best", first ? cast_to(x[from + *first], t) : low);
                   Buf where = b.variable("where", first ? cast_to(*first, position) : constant_int(k, position, -1));
                   window.taps(place, false, [&](Expr, Expr offset, Expr inside, Expr) {
                     b.when(inside, [&] {
                       const Expr v = b.let("v", cast_to(x[from + offset], t)), old = best.get(), at = where.get();
                       const Expr is_larger = b.let("larger", first ? v > old : v > old || at < 0);
                       best.set(select(is_larger, v, old));
                       where.set(select(is_larger, cast_to(offset, position), at));
                     });
                   });
                   Expr index = cast_to(where.get(), DType::I64);
                   if (!first) index = max(index, 0);
                   if (column_major) {
                     const std::vector<Expr> axes = split_index(index, s.in_size);
                     Expr flat = b.i64(0);
                     for (size_t d = axes.size(); d-- > 0;) flat = flat * s.in_size[d].in(k) + axes[d];
                     index = flat;
                   }
                   return {best.get(), from + index};
                 });
}

}  // namespace rlxc::kernel
