#include "kernel/builders/conv.h"

#include <algorithm>
#include <array>

#include "kernel/builders/conv_dots.h"
#include "kernel/builders/gemm.h"
#include "kernel/builders/matrix_fragment.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kLeastRows = 3;  // of a tile

// Splits the columns of a panel into runs that lie in one row of the result. A run has a place in the image, a place in the panel
// and a length. A few runs are held in variables, and those beyond the last one have length 0. More runs are held in arrays.
class ResultRuns {
 public:
  ResultRuns(const WindowSpec& s, const PhaseSplitImage& image, const Panel& p)
      : b_(*p.builder), lanes_(p.lanes), longest_(p.width) {
    const Expr width = s.out_size.back().in(b_.kernel()), columns = product(b_.kernel(), s.out_size);
    const Expr first = b_.let("first_row", p.column / width);
    end_ = b_.let("end", min(p.column + p.width, columns));
    count_ = b_.let("runs", (end_ - 1) / width - first + 1);
    const auto run = [&](Expr i) {
      const Expr row = first + i, begin = b_.let("begin", max(row * width, p.column));
      return std::array{image.row(row) + begin - row * width, begin - p.column, min(row * width + width, end_) - begin};
    };
    int64_t known = 0, most = kMostRuns + 1;
    if (constant(width, &known)) {
      longest_ = std::min(longest_, known);
      most = (p.width + known - 2) / known + 1;
    }
    for (int64_t i = 0; i < most && most <= kMostRuns; ++i) {
      auto parts = run(b_.i64(i));
      if (i > 0) parts[2] = select(count_ > i, parts[2], b_.i64(0));
      for (Expr& part : parts) part = b_.let("run", part);
      few_.push_back(parts);
    }
    if (!few_.empty()) return;
    for (Buf& of : arrays_) of = b_.registers("run", DType::I64, p.width);
    b_.loop("run", count_, [&](Expr i) {
      const auto parts = run(i);
      for (size_t part = 0; part < parts.size(); ++part) arrays_[part].store(i, parts[part]);
    });
  }

  Expr end() const { return end_; }

  // Calls copy(place in the image, place in the panel) for each vector of a row. What a vector holds beyond its part is
  // overwritten by the next one.
  void each_vector(const std::function<void(Expr, Expr)>& copy) const {
    const auto vectors = [&](Expr from, Expr to, Expr length, bool may_be_empty) {
      for (int64_t j = 0; j < longest_; j += lanes_) {
        const auto one = [&] { copy(from + j, to + j); };
        if (j > 0 || may_be_empty) b_.when(length > j, one);
        else one();
      }
    };
    for (size_t i = 0; i < few_.size(); ++i) vectors(few_[i][0], few_[i][1], few_[i][2], i > 0);
    if (!few_.empty()) return;
    b_.loop("run", count_, [&](Expr i) {
      vectors(b_.let("from", arrays_[0].load(i)), b_.let("to", arrays_[1].load(i)), arrays_[2].load(i), false);
    });
  }

 private:
  static constexpr int64_t kMostRuns = 6;
  Builder& b_;
  int lanes_;
  int64_t longest_;  // part
  Expr end_, count_;
  std::vector<std::array<Expr, 3>> few_;  // from, to, length
  std::array<Buf, 3> arrays_;
};

// Fills a panel: rows are (channel, tap), columns are consecutive result elements, copied by runs within one result row.
void fill_windows(const WindowSpec& s, int64_t group_channels, const Panel& p) {
  Builder& b = *p.builder;
  Kernel* k = b.kernel();
  const PhaseSplitImage image(k, s);
  const int64_t taps = taps_of(s);
  const ResultRuns runs(s, image, p);
  const Expr zero = broadcast(constant_int(k, p.to.type().dtype, 0), p.lanes);
  b.when(runs.end() < p.column + p.width,
         [&] { b.loop("i", p.count * (p.width / p.lanes), [&](Expr i) { p.to.store(i * p.lanes, zero); }); });
  const Expr base = b.let("base", image.channel(p.batch[0], p.batch[1] * group_channels + p.k0 / taps));
  b.loop("c", p.count / taps, [&](Expr c) {
    const Expr channel = b.let("channel", base + c * image.plane());
    std::function<void(size_t, Expr, Expr)> axis = [&](size_t d, Expr tap, Expr offset) {
      if (d < s.kernel.size()) {
        auto step = [&](Expr t) { axis(d + 1, tap * s.kernel[d] + t, offset + image.tap(d, t)); };
        return s.kernel[d] == 1 ? step(b.i64(0)) : b.loop("t", s.kernel[d], step);
      }
      const Expr source = b.let("source", channel + offset), row = b.let("row", (c * taps + tap) * p.width);
      runs.each_vector(
          [&](Expr from, Expr to) { p.to.store(row + to, cast_to(p.from.load(source + from, p.lanes), p.to.type().dtype)); });
    };
    axis(0, b.i64(0), b.i64(0));
  });
}

// Splits the channel axis of an operand with strides {batch, channel, position} into groups.
Operand grouped(Kernel* k, const Operand& o, const Index& channels) {
  Operand g = o;
  g.strides = {o.strides[0], o.strides[1].in(k)*channels.in(k), o.strides[1], o.strides[2]};
  return g;
}

// The constant side of the matmul: rows are the output channels of a group, batches are [image, group].
GemmSpec weights_as_rows(Kernel* k, const WindowSpec& s, int64_t group_channels) {
  GemmSpec g;
  const Expr rows = s.out_channels.in(k) / s.groups;
  const int64_t depth = group_channels * taps_of(s);
  g.batch = {s.batch, Index(s.groups)};
  g.m = rows;
  g.k = depth;
  g.accumulate = s.accumulate;
  g.a = {"w", s.weight, {0, rows * depth, depth, 1}, s.out_channels.in(k)*depth, 0};
  if (s.w_zero) {
    g.a_zero = *s.w_zero;
    g.a_zero->strides = {0, s.w_zero->strides[0].in(k)*rows, s.w_zero->strides[0]};
  }
  return g;
}

// Whether to sum shifted rows: for single channels, and for one result with too few channels for a tile.
bool is_by_rows(const WindowSpec& s, int64_t group_channels, const Mapping& m) {
  if (m.workgroups || s.dots || s.windows || !s.epilogue.also.empty()) return false;
  int64_t out = 0;
  return (group_channels == 1 && s.groups > 1) ||
         (!s.result && taps_of(s) > 1 && constant(s.out_channels, &out) && out / s.groups < kLeastRows);
}

}  // namespace

bool conv_is_tiled(Kernel* k, const WindowSpec& s, int64_t group_channels, const Mapping& m) {
  GemmSpec g = weights_as_rows(k, s, group_channels);
  g.n = product(k, s.out_size);
  return gemm_is_tiled(g, m);
}

int64_t packed_channels(const WindowSpec& s, int64_t out_channels, const Mapping& m) {
  const int64_t high = gemm_rows(m, s.accumulate);
  return (out_channels / s.groups + high - 1) / high * high * s.groups;
}

bool conv_reads_channels_last(const WindowSpec& s, int64_t group_channels, const Mapping& m) {
  if (!s.dots && !is_float(s.accumulate)) return false;
  const DType a = s.dots ? s.dots->b : s.weight, b = s.dots ? s.dots->a : s.input;
  const MatrixUnit* u = find_unit(m, a, s.dots ? s.dots->accumulator : s.accumulate);
  if (group_channels % lanes_of_read(a) != 0 || !conv_fills_matrix_unit(s, group_channels)) return false;
  if (a == DType::F32 && b == a) return true;
  return u && u->of_b() == b;
}

void build_pack_weights(Builder& b, const WindowSpec& s, int64_t group_channels, const Mapping& m) {
  if (s.channels_last) {
    const int64_t taps = taps_of(s), row = group_channels * taps;
    const Expr count = s.out_channels.in(b.kernel()) * row;
    Buf w = b.input("w", s.weight, count), y = b.output("rows", s.weight, count);
    return for_each(b, m, "i", count, 2 * rlxc::bits(s.weight) / 8, [&](Expr i) {
      const Expr at = i % row;
      y.store(i, w[i / row * row + at % group_channels * taps + at / group_channels]);
    });
  }
  GemmSpec g = weights_as_rows(b.kernel(), s, group_channels);
  g.batch[0] = 1;
  build_pack_rows(b, g, "rows", m);
}

void build_conv(Builder& b, const WindowSpec& given, int64_t given_channels, const Mapping& m) {
  if (is_by_rows(given, given_channels, m)) return build_conv_rows(b, given, given_channels, m);
  Kernel* k = b.kernel();
  const bool words = given.dots && !given.bytes;
  WindowSpec s = words ? window_of_words(given, given_channels) : given;
  if (given.bytes) s.x_zero.reset();  // the matmul subtracts it
  const int64_t taps = taps_of(s), group_channels = words ? (given_channels + 3) / 4 : given_channels;
  const PhaseSplitImage image(k, s);
  GemmSpec g = given.dots ? conv_by_dots(k, given, given_channels) : weights_as_rows(k, s, group_channels);
  const Expr plane = product(k, s.out_size), rows = g.m.in(k), channels = s.out_channels.in(k);
  if (s.weights_packed && !s.dots && !s.channels_last) {
    const int64_t high = gemm_rows(m, s.accumulate);
    const Expr depth = g.k.in(k), group = ceil_div(rows, high) * high * depth;
    g.a = {"w", s.accumulate, {0, group, depth, high}, group * s.groups, 0};
    g.rows_packed = true;
  }
  g.n = plane;
  g.b = image.operand("image");
  g.b.strides = {s.in_channels.in(k)*image.plane(), group_channels * image.plane(), image.plane(), 1};
  if (s.image && is_phase_split(s)) {
    const Dims& x = s.image->strides;
    g.b.strides = {x[0], group_channels * x[1].in(k), x[1], x.back()};
    g.b.extent = s.image->extent;
  }
  if (s.windows) {
    const Expr depth = g.k.in(k), pixel = s.in_channels.in(k)*taps;
    g.b = {"windows", s.input, {plane * pixel, depth, 1, pixel}, s.batch.in(k)*plane * pixel, 0};
  } else if (taps > 1 || s.channels_last) {
    g.b_at = [&](const std::vector<Expr>& batch, Expr at, Expr column) {
      Expr tap = s.channels_last ? at / group_channels : at % taps, channel = s.channels_last ? at % group_channels : at / taps;
      Expr offset = image.channel(batch[0], batch[1] * group_channels + channel);
      for (size_t d = s.kernel.size(); d-- > 0; tap = tap / s.kernel[d]) offset = offset + image.tap(d, tap % s.kernel[d]);
      const Expr width = s.out_size.back().in(k);
      return offset + image.row(column / width) + image.column(column % width);
    };
    if (s.channels_last) g.b_run = group_channels;
    g.fill = [&](const Panel& p) { fill_windows(s, group_channels, p); };
    g.k_step = taps;
  }
  for (const Operand& o : s.epilogue.inputs) g.epilogue.inputs.push_back(grouped(k, o, rows));
  const auto as_rows = [&](Operand y) {
    y.strides = {y.strides[0], y.strides[1], y.strides.back()};
    return grouped(k, y, rows);
  };
  g.c = as_rows(s.result ? *s.result : Operand{"y", s.output, {channels * plane, plane, 1}, s.batch.in(k)*channels * plane, 0});
  for (const Operand& y : s.epilogue.also) g.epilogue.also.push_back(as_rows(y));
  g.epilogue.body = s.epilogue.body;
  build_gemm(b, g, m);
}

}  // namespace rlxc::kernel
