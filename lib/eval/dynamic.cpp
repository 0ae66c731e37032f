// Ops with data-dependent dims, including image decoding; random numbers; determinants; bit casts.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "eval/context.h"
#include "eval/image/image.h"

namespace rlxc::eval {
namespace {

bool eval_iota(Context& c) {
  const int64_t n = std::max<int64_t>(0, load_int(c.t(0)));
  TensorData d;
  if (!c.charge(static_cast<double>(n)) || !c.make(DType::I64, {n}, &d)) return false;
  auto* out = reinterpret_cast<int64_t*>(writable(d));
  std::iota(out, out + n, 0);
  return c.put(std::move(d));
}

bool eval_non_zero(Context& c) {
  const TensorData& x = c.t(0);
  const int64_t n = x.elements();
  if (!c.charge(static_cast<double>(n)) || x.dtype == DType::String) return c.fail("strings are never 0");
  std::vector<int64_t> found;
  with_numbers(x.dtype, [&](auto v) {
    using V = decltype(v);
    const auto values = load_all<V>(x);
    for (int64_t i = 0; i < n; ++i)
      if (!(values[static_cast<size_t>(i)] == V(0))) found.push_back(i);
    return true;
  });
  const std::vector<int64_t> dims = x.dims.empty() ? std::vector<int64_t>{1} : x.dims;
  const auto strides = strides_of(dims);
  std::vector<Int> out;
  out.reserve(found.size() * dims.size());
  for (size_t a = 0; a < dims.size(); ++a)
    for (int64_t i : found) out.push_back(i / strides[a] % dims[a]);
  return c.put(DType::I64, {static_cast<int64_t>(dims.size()), static_cast<int64_t>(found.size())}, out);
}

// Slices along the axis as rows of comparable values.
template <class V>
bool unique_rows(Context& c, const std::vector<V>& x, const UniqueAttrs& a, const Split& s) {
  const int64_t width = s.outer * s.inner;
  if (!c.charge(static_cast<double>(x.size()) * 32)) return false;
  const auto at = [&](int64_t row, int64_t k) -> const V& {
    return x[static_cast<size_t>((k / s.inner * s.n + row) * s.inner + k % s.inner)];
  };
  const auto before = [](const V& v, const V& w) {  // NaNs come last and are equal
    if constexpr (std::is_floating_point_v<V>) return v < w || (std::isnan(w) && !std::isnan(v));
    else return v < w;
  };
  const auto less = [&](int64_t i, int64_t j) {
    for (int64_t k = 0; k < width; ++k) {
      if (before(at(i, k), at(j, k))) return true;
      if (before(at(j, k), at(i, k))) return false;
    }
    return false;
  };
  std::vector<int64_t> order(static_cast<size_t>(s.n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), less);
  std::vector<int64_t> first, group(order.size()), counts;  // groups in sorted order
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || less(order[i - 1], order[i])) first.push_back(order[i]), counts.push_back(0);
    group[static_cast<size_t>(order[i])] = static_cast<int64_t>(first.size()) - 1;
    ++counts.back();
  }
  std::vector<int64_t> rank(first.size());
  std::iota(rank.begin(), rank.end(), 0);
  if (!a.sorted)
    std::sort(rank.begin(), rank.end(),
              [&](int64_t i, int64_t j) { return first[static_cast<size_t>(i)] < first[static_cast<size_t>(j)]; });
  std::vector<int64_t> place(rank.size());
  for (size_t i = 0; i < rank.size(); ++i) place[static_cast<size_t>(rank[i])] = static_cast<int64_t>(i);
  const auto m = static_cast<int64_t>(rank.size());
  std::vector<Int> indices, inverse, number;
  for (int64_t r : rank) indices.push_back(first[static_cast<size_t>(r)]), number.push_back(counts[static_cast<size_t>(r)]);
  for (int64_t g : group) inverse.push_back(place[static_cast<size_t>(g)]);
  std::vector<V> y(static_cast<size_t>(m * width));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t k = 0; k < width; ++k)
      y[static_cast<size_t>((k / s.inner * m + i) * s.inner + k % s.inner)] = at(indices[static_cast<size_t>(i)].v, k);
  std::vector<int64_t> dims = c.dims(0);
  if (a.flat) dims = {m};
  else dims[static_cast<size_t>(a.axis)] = m;
  TensorData d;
  if (!c.make(c.t(0).dtype, dims, &d)) return false;
  if constexpr (std::is_same_v<V, std::string>) d.strings = std::move(y);
  else store(d, 0, d.elements(), y.data());
  return c.put(std::move(d)) && c.put(DType::I64, {m}, indices) && c.put(DType::I64, {s.n}, inverse) &&
         c.put(DType::I64, {m}, number);
}

bool eval_unique(Context& c) {
  const auto& a = c.a<UniqueAttrs>();
  const TensorData& x = c.t(0);
  if (!a.flat && (a.axis < 0 || a.axis >= static_cast<int64_t>(x.dims.size()))) return c.fail("axis is out of range");
  const Split s = a.flat ? Split{1, x.elements(), 1} : split_at(x.dims, a.axis);
  if (x.dtype == DType::String) {
    const Cells<std::string> cells(x);
    return unique_rows(c, std::vector<std::string>(cells.data(), cells.data() + x.elements()), a, s);
  }
  return with_numbers(x.dtype, [&](auto v) {
    using V = decltype(v);
    if constexpr (std::is_same_v<V, Complex>) return c.unsupported("complex numbers have no order");
    else return unique_rows(c, load_all<V>(x), a, s);
  });
}

struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};

Box box_of(const double* p, bool center) {
  if (center) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

double overlap(const Box& a, const Box& b) {
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1), w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (!(h > 0 && w > 0)) return 0;
  return h * w / (a.area() + b.area() - h * w);
}

bool eval_non_max_suppression(Context& c) {
  const auto boxes = c.doubles(0), scores = c.doubles(1);
  const int64_t batches = c.dims(1)[0], classes = c.dims(1)[1], n = c.dims(1)[2];
  const int64_t most = c.has(2) ? load_int(c.t(2)) : 0;
  const double iou = c.has(3) ? c.doubles(3)[0] : 0;
  const double threshold = c.has(4) ? c.doubles(4)[0] : -std::numeric_limits<double>::infinity();
  std::vector<Int> out;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t k = 0; k < classes; ++k) {
      const double* score = scores.data() + (b * classes + k) * n;
      std::vector<int64_t> order;
      for (int64_t i = 0; i < n; ++i)
        if (!c.has(4) || score[i] > threshold) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return score[i] > score[j]; });
      std::vector<Box> kept;
      for (int64_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        if (!c.charge(1 + static_cast<double>(kept.size()))) return false;
        const Box box = box_of(boxes.data() + (b * n + i) * 4, c.a<NmsAttrs>().center_point);
        if (std::any_of(kept.begin(), kept.end(), [&](const Box& other) { return overlap(box, other) > iou; })) continue;
        kept.push_back(box);
        out.insert(out.end(), {b, k, i});
      }
    }
  return c.put(DType::I64, {static_cast<int64_t>(out.size()) / 3, 3}, out);
}

// Grey values as in Pillow: ITU-R BT.601 weights in 16 bits.
bool eval_image_decode(Context& c) {
  constexpr uint64_t kBytesPerPixel = 16;  // bound on the decoder's total memory
  const Cells<uint8_t> file(c.t(0));
  const auto fits = static_cast<int64_t>(std::min<uint64_t>(c.run.options.max_bytes / kBytesPerPixel, kMaxImagePixels));
  std::string message;
  const auto image = decode_image({file.data(), static_cast<size_t>(c.t(0).elements())}, fits, &message);
  if (!image) return c.fail(message);
  const PixelFormat format = c.a<ImageDecodeAttrs>().format;
  const int64_t pixels = image->height * image->width, channels = format == PixelFormat::Grayscale ? 1 : 3;
  TensorData d;
  if (!c.charge(static_cast<double>(3 * pixels)) || !c.make(DType::U8, {image->height, image->width, channels}, &d)) return false;
  auto* out = reinterpret_cast<uint8_t*>(writable(d));
  for (const uint8_t* p = image->rgb.data(); p != image->rgb.data() + 3 * pixels; p += 3, out += channels) {
    if (format == PixelFormat::Rgb) std::copy(p, p + 3, out);
    else if (format == PixelFormat::Bgr) std::reverse_copy(p, p + 3, out);
    else *out = static_cast<uint8_t>((19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 0x8000) >> 16);
  }
  return c.put(std::move(d));
}

// RandomState(seed).uniform and .normal of NumPy: 53 bits from two draws; the polar method of Marsaglia (1964), which returns the
// second of a pair first.
bool eval_random(Context& c) {
  const auto& a = c.a<RandomAttrs>();
  TensorData d;
  if (!c.make_result(0, &d) || !c.charge(4 * static_cast<double>(d.elements()))) return false;
  std::mt19937 engine(static_cast<uint32_t>(a.seed));
  const auto uniform = [&] {
    const uint32_t high = static_cast<uint32_t>(engine()) >> 5, low = static_cast<uint32_t>(engine()) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  };
  std::vector<double> y(static_cast<size_t>(d.elements()));
  bool spare = false;
  double saved = 0;
  for (double& v : y) {
    if (!a.normal) {
      v = a.a + (a.b - a.a) * uniform();
      continue;
    }
    double gauss = saved;
    if (!spare) {
      double p, q, r;
      do p = 2 * uniform() - 1, q = 2 * uniform() - 1, r = p * p + q * q;
      while (r >= 1 || r == 0);
      const double f = std::sqrt(-2 * std::log(r) / r);
      saved = f * p, gauss = f * q;
    }
    spare = !spare;
    v = a.a + a.b * gauss;
  }
  store(d, 0, d.elements(), y.data());
  return c.put(std::move(d));
}

bool eval_reshape_to(Context& c) {
  std::vector<int64_t> to = c.ints(1);
  const auto& from = c.dims(0);
  int64_t open = -1, rest = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !c.a<ReshapeToAttrs>().allow_zero) to[i] = i < from.size() ? from[i] : 0;
    if (to[i] == -1 && open < 0) open = static_cast<int64_t>(i);
    else if (to[i] < 0 || __builtin_mul_overflow(rest, to[i], &rest)) return c.fail("bad size " + std::to_string(to[i]));
  }
  const int64_t n = c.t(0).elements();
  if (open >= 0) to[static_cast<size_t>(open)] = rest > 0 ? n / rest : 0;
  if (product(to) != n) return c.fail("cannot reshape " + show(c.t(0).dtype, from) + " to " + show(c.t(0).dtype, to));
  TensorData d = c.t(0);
  d.dims = std::move(to);
  return c.put(std::move(d));
}

// LU decomposition with partial pivoting.
bool eval_det(Context& c) {
  auto x = c.doubles(0);
  const int64_t n = c.dims(0).back(), count = n > 0 ? static_cast<int64_t>(x.size()) / (n * n) : product(c.result_dims());
  if (!c.charge(static_cast<double>(x.size()) * static_cast<double>(n))) return false;
  std::vector<double> out(static_cast<size_t>(count), 1);
  for (int64_t m = 0; m < count; ++m) {
    double* a = x.data() + m * n * n;
    double& det = out[static_cast<size_t>(m)];
    for (int64_t k = 0; k < n && det != 0; ++k) {
      int64_t pivot = k;
      for (int64_t i = k + 1; i < n; ++i)
        if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
      if (pivot != k) std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n), det = -det;
      det *= a[k * n + k];
      for (int64_t i = k + 1; i < n && det != 0; ++i) {
        const double f = a[i * n + k] / a[k * n + k];
        for (int64_t j = k; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
      }
    }
  }
  return c.put_result(0, out);
}

bool eval_bit_cast(Context& c) {
  TensorData d = c.t(0);
  const bool parts = bits(d.dtype) != bits(c.a<CastAttrs>().to);  // real and imaginary parts of complex numbers
  if (parts && d.splat) {
    std::vector<Complex> all(static_cast<size_t>(d.elements()));
    const DType t = is_complex(d.dtype) ? d.dtype : d.dtype == DType::F32 ? DType::C64 : DType::C128;
    if (!is_complex(d.dtype)) all.resize(all.size() / 2);
    const double v = element_as_double(d, 0);
    if (is_complex(d.dtype)) load(d, 0, d.elements(), all.data());
    else std::fill(all.begin(), all.end(), Complex(v, v));
    auto dims = c.result_dims();
    if (is_complex(d.dtype)) dims.pop_back();
    if (!c.make(t, std::move(dims), &d)) return false;
    store(d, 0, d.elements(), all.data());
  }
  d.dtype = c.a<CastAttrs>().to;
  d.dims = c.result_dims();
  return c.put(std::move(d));
}

}  // namespace

std::span<const Entry> dynamic_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Iota, eval_iota},
                                     {OpKind::NonZero, eval_non_zero},
                                     {OpKind::Unique, eval_unique},
                                     {OpKind::NonMaxSuppression, eval_non_max_suppression},
                                     {OpKind::Random, eval_random},
                                     {OpKind::ReshapeTo, eval_reshape_to},
                                     {OpKind::Det, eval_det},
                                     {OpKind::BitCast, eval_bit_cast},
                                     {OpKind::ImageDecode, eval_image_decode}};
  return kTable;
}

}  // namespace rlxc::eval
