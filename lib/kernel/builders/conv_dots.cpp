// Convolutions of 8-bit integers on a dot unit: words of four input channels, multiplied with words of the
// weights as rows of a matmul whose columns are positions of the result.
#include "kernel/builders/conv_dots.h"

#include <algorithm>

#include "kernel/builders/gemm.h"
#include "kernel/builders/matrix_fragment.h"
#include "kernel/builders/phase_split.h"

namespace rlxc::kernel {
namespace {

int64_t words_of_channel(const WindowSpec& s, int64_t group_channels) {
  return (group_channels + kWordCodes - 1) / kWordCodes * taps_of(s);
}

// Words of an output channel with their sum. A grid reads them by vectors.
int64_t words_of_row(const WindowSpec& s, int64_t group_channels) {
  constexpr int64_t kVector = kVectorBytes / static_cast<int64_t>(sizeof(int32_t));
  const int64_t words = words_of_channel(s, group_channels);
  return s.channels_last || s.bytes ? (words + kVector) / kVector * kVector : words + 1;
}

}  // namespace

bool conv_fills_matrix_unit(const WindowSpec& s, int64_t group_channels) {
  constexpr int64_t kUnknown = int64_t{1} << 31;
  const auto size = [](const Index& i) {
    int64_t n = 0;
    return constant(i, &n) ? n : kUnknown;
  };
  int64_t pixels = 1;
  for (const Index& d : s.out_size) pixels = std::min(pixels * size(d), kUnknown);
  return gemm_fills_matrix_unit(size(s.out_channels) / s.groups, pixels, group_channels * taps_of(s));
}

const DotUnit* conv_dot_unit(const WindowSpec& s, int64_t group_channels, const Mapping& m) {
  if (group_channels < 2) return nullptr;
  const bool large = conv_fills_matrix_unit(s, group_channels);
  // The weights are the left operand of a matrix unit.
  if (large && find_unit(m, DType::I8, DType::I32)) return gemm_dot_unit(DType::I8, DType::I8, m);
  return gemm_dot_unit(s.input, s.weight, m);
}

WindowSpec window_of_words(const WindowSpec& s, int64_t group_channels) {
  WindowSpec w = s;
  w.in_channels = (group_channels + kWordCodes - 1) / kWordCodes * s.groups;
  w.input = w.accumulate = DType::I32;
  w.image.reset();
  w.x_zero.emplace();
  return w;
}

int64_t weight_words(const WindowSpec& s, int64_t group_channels, int64_t out_channels) {
  return out_channels * words_of_row(s, group_channels);
}

void build_pack_weight_words(Builder& b, const WindowSpec& s, int64_t group_channels, const Mapping& m) {
  Kernel* k = b.kernel();
  const int64_t taps = taps_of(s), words = words_of_channel(s, group_channels), row = words_of_row(s, group_channels);
  const int64_t shift = dot_shift(s.weight, s.dots->b);
  const Expr out = s.out_channels.in(k);
  Buf w = b.input("w", s.weight, out * (group_channels * taps)), y = b.output("rows", DType::I32, out * row);
  for_each(b, m, "channel", out, 1 << 16, [&](Expr o) {
    Buf sum = b.variable("sum", b.value(DType::I32, 0));
    b.loop("p", words, [&](Expr p) {
      const int64_t beside = s.channels_last ? words / taps : taps;
      const Expr channel = b.let("channel", (s.channels_last ? p % beside : p / beside) * kWordCodes),
                 tap = b.let("tap", s.channels_last ? p / beside : p % beside);
      Expr word = b.value(DType::I32, 0), all = sum.get();
      for (int q = 0; q < kWordCodes; ++q) {
        const Expr at = min(channel + q, b.i64(group_channels - 1));
        Expr code = cast_to(w[(o * group_channels + at) * taps + tap], DType::I32) + shift;
        code = b.let("code", select(channel + q < group_channels, code, 0));
        word = word | (code & 255) << 8 * q;
        all = all + code;
      }
      y.store(o * row + p, word);
      sum.set(all);
    });
    y.store(o * row + words, sum.get());
  });
}

GemmSpec conv_by_dots(Kernel* k, const WindowSpec& s, int64_t group_channels) {
  const int64_t words = words_of_channel(s, group_channels), row = words_of_row(s, group_channels);
  const Expr rows = s.out_channels.in(k) / s.groups;
  GemmSpec g;
  g.batch = {s.batch, Index(s.groups)};
  g.m = rows;
  g.k = s.bytes ? group_channels : kWordCodes * words;
  g.accumulate = DType::I32;
  g.a = {"w", DType::I32, {0, rows * row, row, 1}, s.out_channels.in(k)*row, 0};
  g.dots = s.dots;
  g.rows_packed = true;
  g.a_shift = dot_shift(s.weight, s.dots->b);
  g.b_shift = dot_shift(s.input, s.dots->a);
  if (s.w_zero) {
    const Index& step = s.w_zero->strides[0];
    g.a_zero = *s.w_zero;
    g.a_zero->strides = {0, step.in(k)*rows, step};
  }
  if (s.x_zero) {
    g.b_zero = *s.x_zero;
    g.b_zero->strides = {0, 0, 0};
  }
  return g;
}

}  // namespace rlxc::kernel
