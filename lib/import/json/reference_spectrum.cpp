// Spectral ops of the reference vocabulary: integer FFTs, single stages, mel filters, peaks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "import/json/reference_rows.h"
#include "transform/nn_gradients.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::concat, transform::make, transform::Term;

Term integers(Node& n, const std::vector<int64_t>& v) {
  return {&n.b, n.b.constant(make_data(DType::I64, {static_cast<int64_t>(v.size())}, v))};
}
Term casted(Term x, DType t) { return x.valid() ? x.with(x.b->cast(x.v, t)) : x; }

// FftQ: i32 [.., 2n], real parts before imaginary parts, n a power of two; radix 2 with factors of 30 fractional bits. Every step
// rounds to an integer, halves up. Values are i64 and wrap to 32 bits after each sum.

constexpr int kFraction = 30;

Term shifted(Term x, int bits) {
  if (bits == 0) return x;
  return make(OpKind::Shr, {x + std::ldexp(1, bits - 1), x.number(bits)});
}
Term wrapped(Term x) { return casted(casted(x, DType::I32), DType::I64); }

struct Parts {
  Term re, im;
};

Parts stage(Node& n, Parts x, Dim rows, int64_t points, int64_t length, double sign, bool saturating) {
  const int64_t half = length / 2;
  std::vector<int64_t> cos, sin;
  for (int64_t k = 0; k < half; ++k) {
    const double angle = sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
    cos.push_back(std::llround(std::ldexp(std::cos(angle), kFraction)));
    sin.push_back(std::llround(std::ldexp(std::sin(angle), kFraction)));
  }
  const Term wr = integers(n, cos), wi = integers(n, sin);
  const std::vector<Dim> pairs{rows, Dim(points / length), Dim(2), Dim(half)};
  const auto piece = [&](Term v, int64_t which) { return narrow(reshape(v, pairs), 2, Dim(which), Dim(1)); };
  const Term br = piece(x.re, 1), bi = piece(x.im, 1);
  const Term tr = wrapped(shifted(wr * br - wi * bi, kFraction)), ti = wrapped(shifted(wr * bi + wi * br, kFraction));
  const auto joined = [&](Term a, Term t) {
    const auto bounded = [&](Term v) { return saturating ? max(min(v, 2147483647.0), -2147483648.0) : wrapped(v); };
    return reshape(concat({bounded(a + t), bounded(a - t)}, 2), {rows, Dim(points)});
  };
  return {joined(piece(x.re, 0), tr), joined(piece(x.im, 0), ti)};
}

ValueId fft_q(Node& n) {
  const std::string scale = n.find("scale") ? n.word("scale") : "None", norm = n.find("norm") ? n.word("norm") : "Backward";
  const bool inverse = n.flag("inverse"), every = scale == "PerStage" || scale == "EveryStage", other = scale == "EveryOther";
  if (!n.count(1, 1)) return {};
  const Term x = term(n, 0);
  const auto d = x.dims();
  const auto width = d.empty() ? std::nullopt : n.b.dims().constant_value(d.back());
  if (!width || *width < 2 || *width % 2 || !std::has_single_bit(static_cast<uint64_t>(*width / 2)) || *width > 1 << 24 ||
      x.dtype() != DType::I32)
    return n.fail(Code::BadShape, "needs i32 [.., 2n] with a known n that is a power of two"), ValueId();
  if ((!every && !other && scale != "None" && scale != "Saturating") ||
      (norm != "Backward" && norm != "Forward" && norm != "Ortho"))
    return n.fail(Code::BadAttribute, "the scale \"" + scale + "\" or the norm \"" + norm + "\" is unknown"), ValueId();
  const int64_t points = *width / 2;
  const int bits = std::countr_zero(static_cast<uint64_t>(points));
  const Dim rows = n.b.dims().product(std::span(d).first(d.size() - 1));
  std::vector<int64_t> order;
  for (int64_t i = 0; i < points; ++i) {
    int64_t reversed = 0;
    for (int k = 0; k < bits; ++k) reversed |= (i >> k & 1) << (bits - 1 - k);
    order.push_back(reversed);
  }
  const Term whole = reshape(casted(x, DType::I64), {rows, Dim(*width)});
  const auto half = [&](int64_t which) {
    return make(OpKind::Gather, {narrow(whole, 1, Dim(which * points), Dim(points)), integers(n, order)}, AxisAttrs{1});
  };
  Parts p{half(0), half(1)};
  for (int s = 0; s < bits; ++s) {
    p = stage(n, p, rows, points, int64_t{2} << s, inverse ? 1 : -1, scale == "Saturating");
    if (every || (other && s % 2 == 0)) p = {shifted(p.re, 1), shifted(p.im, 1)};
  }
  Term y = concat({p.re, p.im}, 1);
  if (norm == "Forward" && !inverse) y = shifted(y, bits);
  if (norm == "Ortho")
    y = shifted(y * static_cast<double>(std::llround(std::ldexp(1 / std::sqrt(static_cast<double>(points)), kFraction))),
                kFraction);
  return reshape(casted(y, DType::I32), d).v;
}

// One radix-2 stage with optional pairs: state [batch, n, 2]; gate (0: unchanged), rev (1: swapped), and the real and imaginary
// parts of the factors, [n/2] each.
ValueId butterfly(Node& n) {
  const int64_t stage = n.integer("stage"), points = n.integer("n_fft");
  if (!n.good || !n.count(5, 5)) return {};
  const auto d = term(n, 0).dims();
  if (stage < 0 || stage > 30 || points < 2 || points > 1 << 24 || points % (int64_t{2} << stage) || d.size() != 3 ||
      !n.b.dims().equal(d[1], Dim(points)) || !n.b.dims().equal(d[2], Dim(2)))
    return n.fail(Code::BadShape, "needs state [batch, n_fft, 2] and n_fft in whole pairs of 2^stage"), ValueId();
  const Dim stride(int64_t{1} << stage), groups(points / (int64_t{2} << stage));
  const Term state = reshape(term(n, 0), {d[0], groups, Dim(2), stride, Dim(2)});
  const auto of_pair = [&](size_t i) { return reshape(term(n, i), {groups, Dim(1), stride, Dim(1)}); };
  const Term gate = of_pair(1), rev = of_pair(2), wr = of_pair(3), wi = of_pair(4);
  const Term a = narrow(state, 2, Dim(0), Dim(1)), b = narrow(state, 2, Dim(1), Dim(1));
  const Term br = narrow(b, 4, Dim(0), Dim(1)), bi = narrow(b, 4, Dim(1), Dim(1));
  const Term t = concat({br * wr - bi * wi, br * wi + bi * wr}, 4);
  const Term top = a + t, bottom = a - t, swapped = rev >= 0.5;
  const Term turned = concat({select(swapped, bottom, top), select(swapped, top, bottom)}, 2);
  return reshape(select(equal(gate, 0.0), state, turned), d).v;
}

// Whisper's log-mel: a spectrum [.., 2n], real parts before imaginary parts, and filters [m, n/2+1].

struct Mel {
  Term re, im;               // [rows, bins]
  Term energy, logs, floor;  // [rows, m]; floor: 8 below the largest of a row
};
std::optional<Mel> mel_of(Node& n) {
  if (n.rank(0) < 1 || n.rank(1) != 2) return n.fail(Code::BadShape, "needs a spectrum and filters"), std::nullopt;
  const auto d = term(n, 0).dims();
  const Dim half = n.b.dims().floor_div(d.back(), Dim(2)), bins = term(n, 1).dims()[1];
  const Term x = reshape(term(n, 0), {n.b.dims().product(std::span(d).first(d.size() - 1)), d.back()});
  Mel m{narrow(x, 1, Dim(0), bins), narrow(x, 1, half, bins), {}, {}, {}};
  m.energy = matmul(square(m.re) + square(m.im), term(n, 1), false, true);
  m.logs = log(max(m.energy, 1e-10)) * (1 / std::numbers::ln10);
  m.floor = reduce(ReduceOp::Max, m.logs, {1}) - 8.0;
  return m;
}
ValueId log_mel(Node& n) {
  const auto m = n.count(2, 2) ? mel_of(n) : std::nullopt;
  if (!m) return {};
  auto out = term(n, 0).dims();
  out.back() = term(n, 1).dims()[0];
  return reshape((max(m->logs, m->floor) + 4) / 4, out).v;
}
// Gradient by the spectrum. The row maximum is treated as a constant; clipped values and bins without energy have no gradient.
ValueId log_mel_backward(Node& n) {
  const auto m = n.count(3, 3) ? mel_of(n) : std::nullopt;
  if (!m) return {};
  const auto d = term(n, 0).dims();
  const Term dy = reshape(term(n, 2), m->logs.dims());
  const Term seen = both(m->logs - m->floor > 1e-6, m->energy > 1e-10);
  const Term dm = select(seen, dy * (0.25 / std::numbers::ln10) / max(m->energy, 1e-10), 0.0);
  const Term power = matmul(dm, term(n, 1)) * 2;
  const Dim half = n.b.dims().floor_div(d.back(), Dim(2)), rest = n.b.dims().sub(half, term(n, 1).dims()[1]);
  const auto padded = [&](Term x) {
    return make(OpKind::Pad, {x, x.number(0)}, PadAttrs{{Dim(0), Dim(0)}, {Dim(0), rest}, PadMode::Constant});
  };
  return reshape(concat({padded(power * m->re), padded(power * m->im)}, 1), d).v;
}

// The k largest powers of the mean spectrum of segments [batch*segments, 2n], as bins and powers: [batch, 2k]. All bins but the
// first and the last count twice.
ValueId welch_peaks(Node& n) {
  const int64_t k = n.integer("k"), segments = n.integer("n_segments");
  if (!n.good || !n.count(1, 1)) return {};
  const Term x = term(n, 0);
  const auto d = x.dims();
  const auto width = d.size() == 2 ? n.b.dims().constant_value(d[1]) : std::nullopt;
  if (!width || *width < 2 || *width % 2 || segments < 1 || !n.b.dims().divides(Dim(segments), d[0]))
    return n.fail(Code::BadShape, "needs spectra [batch*n_segments, 2n] of a known n"), ValueId();
  const int64_t points = *width / 2, bins = points / 2 + 1;
  if (k < 1 || k > bins) return n.fail(Code::BadAttribute, "k must be 1 to " + std::to_string(bins)), ValueId();
  const Dim batch = n.b.dims().floor_div(d[0], Dim(segments));
  std::vector<float> weights(static_cast<size_t>(bins), 2);
  weights.front() = weights.back() = 1;
  const Term power = square(narrow(x, 1, Dim(0), Dim(bins))) + square(narrow(x, 1, Dim(points), Dim(bins)));
  const Term twice = power * casted(x.with(n.b.constant(make_data(DType::F32, {bins}, weights))), x.dtype());
  const Term mean = transform::mean(reshape(twice, {batch, Dim(segments), Dim(bins)}), {1});
  const Term rows = reshape(mean, {batch, Dim(bins)});
  if (!rows.valid()) return {};
  const NodeId top = n.b.create_node(OpKind::TopK, std::array{rows.v}, TopKAttrs{Dim(k), 1, true, true});
  if (!top.valid()) return {};
  const auto column = [&](size_t r) {
    return reshape(casted(x.with(n.b.graph().result(top, r)), x.dtype()), {batch, Dim(k), Dim(1)});
  };
  return reshape(concat({column(1), column(0)}, 2), {batch, Dim(2 * k)}).v;
}

}  // namespace

std::span<const ReferenceRow> reference_spectrum_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"FftQ", fft_q},
      {"FftButterflyStage", butterfly},
      {"LogMel", log_mel},
      {"LogMelBackward", log_mel_backward},
      {"WelchPeaks", welch_peaks},
  };
  return kRows;
}

}  // namespace rlxc::import_json
