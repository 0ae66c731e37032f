// Fourier transforms. On CPU threads, a row of constant length n is transformed in one pass per factor of n with Stockham's
// self-sorting algorithm (Cochran et al., "What is the fast Fourier transform?", 1967): O(n * sum of the factors). A row of f32
// whose length is a multiple of `lanes` is transformed in vectors: elements l, l + lanes, ... of all l at once, then across the
// lanes (the four-step method of Bailey, "FFTs in External or Hierarchical Memory", 1990). Otherwise each element is the DFT sum,
// with angles from the exact remainder of i * j modulo n.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "codegen/lowerings.h"
#include "kernel/builders/turn.h"

namespace rlxc::codegen {
namespace {

constexpr int64_t kMostOnStack = 1 << 15;  // complex numbers per row
constexpr int kFewestLanes = 4;            // of a row that is transformed in vectors
constexpr int64_t kMostRadix = 16;         // largest factor of a row that is transformed in vectors

struct Complex {
  Expr re, im;
};

class Fft {
 public:
  Fft(Node& node, Scope& s, DType sums)
      : a_(node.attrs<FftAttrs>()),
        node_(node),
        s_(s),
        b_(s.builder()),
        axis_(static_cast<size_t>(a_.axis)),
        x_(s.shape(node.dims(0))),
        y_(s.shape(node.result_dims())),
        type_(kernel::compute_dtype(node.dtype(0))),
        wide_(sums) {
    kernel::constant(x_.back(), &parts_);
    kernel::constant(y_.back(), &out_parts_);
    own_ = x_[axis_].in(s.kernel());
    inner_ = kernel::product(s.kernel(), x_, axis_ + 1, x_.size() - 1);
    outer_ = kernel::product(s.kernel(), x_, 0, axis_);
    length_ = a_.length == Dim(0) ? own_ : s.size(a_.length).in(s.kernel());
  }

  // Computes the DFT sum of each element.
  void sums() {
    data_ = s_.in_buf(0);
    out_ = s_.out_buf();
    const Dims shape = {outer_, y_[axis_], inner_};
    const double sign = a_.inverse ? 1 : -1;
    kernel::for_each(b_, node_.mapping(), "i", kernel::product(s_.kernel(), shape), 4096, [&](Expr i) {
      const std::vector<Expr> at = kernel::split_index(i, shape);
      Buf re = b_.variable("re", b_.value(wide_, 0)), im = b_.variable("im", b_.value(wide_, 0));
      b_.loop("j", mirrored() ? length_ : min(own_, length_), [&](Expr j) {
        const auto [xr, xi] = load(at[0], j, at[2]);
        const Expr angle =
            b_.let("angle", sign * 2 * std::numbers::pi * cast_to(at[1] * j % length_, wide_) / cast_to(length_, wide_));
        const Expr c = b_.let("c", cos(angle)), w = b_.let("w", sin(angle));
        re.set(re.get() + (xr * c - xi * w));
        im.set(im.get() + (xr * w + xi * c));
      });
      store(i, re.get(), im.get());
    });
  }

  // Transforms row by row. The table has cosine and sine of angle t at 2t and 2t + 1.
  void passes(int64_t n, uint32_t table) {
    data_ = s_.in_buf(0);
    const Operand o = s_.scratch(table);
    circle_ = b_.input(o.name, o.dtype, o.extent);
    out_ = s_.out_buf();
    kernel::for_each(b_, node_.mapping(), "row", outer_ * inner_, n * 256, [&](Expr row) {
      const Expr i = b_.let("outer", row / inner_), k = b_.let("inner", row % inner_);
      Buf from = b_.registers("from", wide_, 2 * n), to = b_.registers("to", wide_, 2 * n);
      b_.loop("j", n, [&](Expr j) {
        Buf re = b_.variable("re", b_.value(wide_, 0)), im = b_.variable("im", b_.value(wide_, 0));
        auto read = [&] {
          const auto [xr, xi] = load(i, j, k);
          re.set(xr);
          im.set(xi);
        };
        mirrored() ? read() : b_.when(j < own_, read);
        from.store(2 * j, re.get());
        from.store(2 * j + 1, im.get());
      });
      int64_t done = 1;
      for (int64_t p : factors(n)) {
        pass(from, to, n, done, p);
        std::swap(from, to);
        done *= p;
      }
      const Expr count = y_[axis_].in(s_.kernel());
      b_.loop("j", count, [&](Expr j) { store((i * count + j) * inner_ + k, from.load(2 * j), from.load(2 * j + 1)); });
    });
  }

  // Transforms row by row in vectors. Behind the roots of `passes`, the table has cosines, then sines, of the angles k * l of
  // element k * lanes + l.
  void vectors(int64_t n, int lanes, uint32_t table) {
    data_ = s_.in_buf(0);
    const Operand o = s_.scratch(table);
    circle_ = b_.input(o.name, o.dtype, o.extent);
    out_ = s_.out_buf();
    const int64_t m = n / lanes;
    const Expr count = y_[axis_].in(s_.kernel());
    // Rows of pairs are read and written in vectors.
    const bool pairs = kernel::same(inner_, b_.i64(1)) && node_.dtype(0) == DType::F32;
    const bool whole = mirrored() || kernel::same(own_, length_);
    const bool reads_pairs = pairs && parts_ == 2 && whole && !mirrored();
    const bool writes_pairs = pairs && out_parts_ == 2 && kernel::same(count, length_) && m >= lanes;
    kernel::for_each(b_, node_.mapping(), "row", outer_ * inner_, n * 32, [&](Expr row) {
      const Expr i = b_.let("outer", row / inner_), k = b_.let("inner", row % inner_);
      Parts from = parts("from", n), to = parts("to", n);
      if (!reads_pairs) read_row(from, i, k, n, whole);
      const auto element = [&](Expr at) {
        if (!reads_pairs) return part_load(from, at, lanes);
        const Expr first = b_.let("first", (i * n + at) * 2);
        const Expr low = b_.let("low", data_.load(first, lanes)), high = b_.let("high", data_.load(first + lanes, lanes));
        return named(even_lanes(low, high), odd_lanes(low, high));
      };
      int64_t done = 1;
      for (int64_t p : vector_factors(m)) {
        const auto next = [&](Expr at) { return done == 1 ? element(at) : part_load(from, at, lanes); };
        vector_pass(next, to, m, done, p, lanes);
        std::swap(from, to);
        done *= p;
      }
      // Element k + m * q of the result is element q of the transform over the lanes of element k, times its angles.
      const auto turned_row = [&](Expr r) {
        const Expr at = b_.let("at", r * lanes);
        return times(part_load(from, at, lanes), {circle_.load(2 * n + at, lanes), circle_.load(3 * n + at, lanes)});
      };
      const auto put = [&](Expr first, const std::vector<Complex>& y) {
        for (int64_t q = 0; q < lanes; ++q) {
          const Complex& c = y[static_cast<size_t>(q)];
          const Expr at = first + q * m;
          if (!writes_pairs) to.store(at, c);
          else store_pairs((i * n + at) * 2, c, lanes);
        }
      };
      const auto across = [&](Expr first) {
        std::vector<Expr> re, im;
        for (int64_t r = 0; r < lanes; ++r) {
          const Complex c = turned_row(first + r);
          re.push_back(c.re);
          im.push_back(c.im);
        }
        re = kernel::turned(b_, std::move(re));
        im = kernel::turned(b_, std::move(im));
        std::vector<Complex> x;
        for (size_t l = 0; l < re.size(); ++l) x.push_back({re[l], im[l]});
        put(first, transform(x));
      };
      b_.loop("k", m / lanes, [&](Expr block) { across(b_.let("first", block * lanes)); });
      if (m % lanes > 0 && m > lanes) across(b_.i64(m - lanes));  // some elements again
      if (m < lanes) {
        Parts tile = parts("tile", lanes);
        b_.loop("k", m, [&](Expr r) {
          tile.store(b_.i64(0), turned_row(r));
          std::vector<Complex> x;
          for (int64_t l = 0; l < lanes; ++l) x.push_back(part_load(tile, b_.i64(l), 1));
          put(r, transform(x));
        });
      }
      if (!writes_pairs) b_.loop("j", count, [&](Expr j) { store((i * count + j) * inner_ + k, to.re.load(j), to.im.load(j)); });
    });
  }

  // Factors of passes in vectors: few, but of elements that fit in registers.
  static std::vector<int64_t> vector_factors(int64_t n) {
    std::vector<int64_t> f;
    int twos = 0;
    for (; n % 2 == 0; n /= 2) ++twos;
    if (twos == 1) f.push_back(2);
    for (; twos % 3 != 0 && twos > 1; twos -= 2) f.push_back(4);
    for (; twos >= 3; twos -= 3) f.push_back(8);
    for (int64_t p : factors(n)) f.push_back(p);
    return f;
  }

  static std::vector<int64_t> factors(int64_t n) {
    std::vector<int64_t> f;
    for (int64_t p : {4, 2, 3, 5})
      for (; n % p == 0; n /= p) f.push_back(p);
    for (int64_t p = 7; p * p <= n; p += 2)
      for (; n % p == 0; n /= p) f.push_back(p);
    if (n > 1) f.push_back(n);
    return f;
  }

 private:
  // Real and imaginary parts, in buffers of their own.
  struct Parts {
    Buf re, im;
    void store(Expr at, const Complex& x) const {
      re.store(at, x.re);
      im.store(at, x.im);
    }
  };
  Parts parts(const std::string& name, int64_t n) {
    return {b_.registers(name + "_re", wide_, n), b_.registers(name + "_im", wide_, n)};
  }
  Complex part_load(const Parts& p, Expr at, int lanes) { return named(p.re.load(at, lanes), p.im.load(at, lanes)); }
  Complex named(Expr re, Expr im) { return {b_.let("re", re), b_.let("im", im)}; }
  Complex sum(const Complex& x, const Complex& y) { return named(x.re + y.re, x.im + y.im); }
  Complex difference(const Complex& x, const Complex& y) { return named(x.re - y.re, x.im - y.im); }
  Complex times(const Complex& x, const Complex& w) { return named(x.re * w.re - x.im * w.im, x.re * w.im + x.im * w.re); }
  Complex quarter(const Complex& x) const { return a_.inverse ? Complex{-x.im, x.re} : Complex{x.im, -x.re}; }
  // x times the root of unity of t / n turns.
  Complex turned(const Complex& x, int64_t t, int64_t n) {
    if (t == 0) return x;
    if (4 * t == n) return quarter(x);
    const double angle = (a_.inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(t) / static_cast<double>(n);
    return times(x, {b_.value(wide_, std::cos(angle)), b_.value(wide_, std::sin(angle))});
  }

  // The transform of at most kMostRadix elements in registers.
  std::vector<Complex> transform(const std::vector<Complex>& x) {
    const auto n = static_cast<int64_t>(x.size());
    if (n == 1) return x;
    if (n == 2) return {sum(x[0], x[1]), difference(x[0], x[1])};
    if (n == 4) {
      const Complex a = sum(x[0], x[2]), b = difference(x[0], x[2]), c = sum(x[1], x[3]), d = quarter(difference(x[1], x[3]));
      return {sum(a, c), sum(b, d), difference(a, c), difference(b, d)};
    }
    const int64_t p = factors(n).front(), rest = n / p;
    if (rest == 1) return prime(x);
    std::vector<std::vector<Complex>> parts;
    for (int64_t s = 0; s < p; ++s) {
      std::vector<Complex> own;
      for (int64_t t = 0; t < rest; ++t) own.push_back(x[static_cast<size_t>(t * p + s)]);
      parts.push_back(transform(own));
    }
    std::vector<Complex> y(x.size());
    for (int64_t k = 0; k < rest; ++k) {
      std::vector<Complex> z;
      for (int64_t s = 0; s < p; ++s) z.push_back(turned(parts[static_cast<size_t>(s)][static_cast<size_t>(k)], s * k, n));
      z = transform(z);
      for (int64_t q = 0; q < p; ++q) y[static_cast<size_t>(k + rest * q)] = z[static_cast<size_t>(q)];
    }
    return y;
  }

  // Elements s and n - s have conjugate roots.
  std::vector<Complex> prime(const std::vector<Complex>& x) {
    const size_t n = x.size(), half = n / 2;
    std::vector<Complex> sums, differences, y(n);
    for (size_t s = 1; s <= half; ++s) {
      sums.push_back(sum(x[s], x[n - s]));
      differences.push_back(difference(x[s], x[n - s]));
    }
    y[0] = x[0];
    for (const Complex& s : sums) y[0] = sum(y[0], s);
    for (size_t q = 1; q <= half; ++q) {
      Complex even = x[0], odd;
      for (size_t s = 1; s <= half; ++s) {
        const double angle = (a_.inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(s * q % n) / static_cast<double>(n);
        const Complex &a = sums[s - 1], &d = differences[s - 1];
        even = named(even.re + a.re * std::cos(angle), even.im + a.im * std::cos(angle));
        const Expr re = d.re * std::sin(angle), im = d.im * std::sin(angle);
        odd = s == 1 ? named(re, im) : named(odd.re + re, odd.im + im);
      }
      y[q] = named(even.re - odd.im, even.im + odd.re);
      y[n - q] = named(even.re + odd.im, even.im - odd.re);
    }
    return y;
  }

  // A radix-p Stockham pass, as `pass`, of vectors of transforms. `from`: returns the vector at a place.
  template <class From>
  void vector_pass(const From& from, const Parts& to, int64_t n, int64_t done, int64_t p, int lanes) {
    const int64_t rest = n / (done * p);
    b_.loop("j", rest, [&](Expr j) {
      b_.loop("i", done, [&](Expr i) {
        std::vector<Complex> x;
        for (int64_t s = 0; s < p; ++s) {
          x.push_back(from(b_.let("at", ((j + s * rest) * done + i) * lanes)));
          if (s == 0 || done == 1) continue;
          const Expr turn = b_.let("turn", i * (2 * s * rest * lanes));
          x.back() = times(x.back(), named(circle_[turn], circle_[turn + 1]));
        }
        const std::vector<Complex> y = transform(x);
        for (int64_t q = 0; q < p; ++q) to.store((j * (done * p) + i + q * done) * lanes, y[static_cast<size_t>(q)]);
      });
    });
  }

  // The row as parts, behind its own elements zeros.
  void read_row(const Parts& to, Expr outer, Expr inner, int64_t n, bool whole) {
    b_.loop("j", whole ? b_.i64(n) : min(own_, n), [&](Expr j) {
      const auto [xr, xi] = load(outer, j, inner);
      to.re.store(j, xr);
      to.im.store(j, xi);
    });
    if (whole) return;
    b_.loop("j", n - min(own_, n), [&](Expr j) {
      for (const Buf& part : {to.re, to.im}) part.store(min(own_, n) + j, b_.value(wide_, 0));
    });
  }

  bool mirrored() const { return a_.onesided && a_.inverse; }  // the spectrum's second half is the conjugate of its first

  std::pair<Expr, Expr> load(Expr outer, Expr j, Expr inner) {
    Expr from = j, conjugate = b_.value(wide_, 1), present = kernel::constant_int(s_.kernel(), DType::Bool, 1);
    if (mirrored()) {
      const Expr second = j >= length_ / 2 + 1;
      from = select(second, length_ - j, j);
      conjugate = select(second, b_.value(wide_, -1), conjugate);
      present = from < own_;
    }
    const Expr element = ((outer * own_ + from) * inner_ + inner) * parts_, zero = b_.value(node_.dtype(0), 0);
    auto part = [&](const char* name, int64_t i) {
      return b_.let(name, cast_to(cast_to(data_.load_if(present, element + i, zero), type_), wide_));
    };
    const Expr xr = part("xr", 0);
    return {xr, parts_ == 2 ? part("xi", 1) * conjugate : b_.value(wide_, 0)};
  }

  Expr scale() {
    if (a_.norm == FftNorm::InverseN) return 1.0 / cast_to(length_, wide_);
    if (a_.norm == FftNorm::Unitary) return 1.0 / sqrt(cast_to(length_, wide_));
    return b_.value(wide_, 1);
  }

  // Stores vectors of numbers as pairs from element `at` on.
  void store_pairs(Expr at, const Complex& x, int lanes) {
    const Expr by = broadcast(scale(), lanes), re = b_.let("re", x.re * by), im = b_.let("im", x.im * by);
    const Expr first = b_.let("at", at);
    out_.store(first, interleave_low(re, im));
    out_.store(first + lanes, interleave_high(re, im));
  }

  void store(Expr i, Expr re, Expr im) {
    const Expr scale = this->scale();
    out_.store(i * out_parts_, cast_to(re * scale, node_.result_dtype()));
    if (out_parts_ == 2) out_.store(i * out_parts_ + 1, cast_to(im * scale, node_.result_dtype()));
  }

  // One radix-p Stockham pass: p transforms of `done` elements become one of done * p. New element e of transform j is the sum
  // over s of old element e % done of transform s * rest + j, times the root of unity of s * e / (done * p).
  void pass(const Buf& from, const Buf& to, int64_t n, int64_t done, int64_t p) {
    const int64_t rest = n / (done * p);
    b_.loop("j", rest, [&](Expr j) {
      b_.loop("e", done * p, [&](Expr e) {
        const Expr i = b_.let("i", e % done);
        Buf re = b_.variable("re", b_.value(wide_, 0)), im = b_.variable("im", b_.value(wide_, 0));
        b_.unroll("s", p, [&](Expr s) {
          const Expr at = b_.let("at", 2 * ((s * rest + j) * done + i)), turn = b_.let("turn", 2 * (s * e % (done * p) * rest));
          const Expr xr = from.load(at), xi = from.load(at + 1), c = circle_[turn], w = circle_[turn + 1];
          re.set(re.get() + (xr * c - xi * w));
          im.set(im.get() + (xr * w + xi * c));
        });
        const Expr at = b_.let("to_at", 2 * (j * (done * p) + e));
        to.store(at, re.get());
        to.store(at + 1, im.get());
      });
    });
  }

  const FftAttrs& a_;
  Node& node_;
  Scope& s_;
  kernel::Builder& b_;
  const size_t axis_;
  const Dims x_, y_;
  const DType type_, wide_;  // of elements; of sums
  int64_t parts_ = 1, out_parts_ = 2;
  Expr own_, length_, inner_, outer_;
  Buf data_, out_, circle_;
};

constexpr double kElementNs = 20;  // per sine or cosine

// Returns the row length if rows are transformed in passes.
std::optional<int64_t> row_length(const Node& node) {
  const auto& a = node.attrs<FftAttrs>();
  const auto n = node.table().constant_value(a.length == Dim(0) ? node.dims(0)[static_cast<size_t>(a.axis)] : a.length);
  return n && *n > 4 && *n <= kMostOnStack && !node.mapping().workgroups ? n : std::nullopt;
}

// Returns the lanes of the vectors in which rows of length n are transformed, or 1.
int row_lanes(const Node& node, int64_t n) {
  if (kernel::compute_dtype(node.dtype(0)) != DType::F32) return 1;
  int lanes = node.mapping().vector_lanes(4);
  while (n % lanes != 0 || (n / lanes < lanes && lanes > kFewestLanes)) lanes /= 2;
  const bool small = std::ranges::all_of(Fft::factors(n / lanes), [](int64_t p) { return p <= kMostRadix; });
  return lanes >= kFewestLanes && small ? lanes : 1;
}

// The table of roots of unity.
PrepackedBuffer table_of(const Node& node, int64_t n) {
  const bool vectors = row_lanes(node, n) > 1;
  const int64_t elements = (vectors ? 4 : 2) * n;
  return {vectors ? DType::F32 : node.wide(), Dim(elements), {}, kElementNs * static_cast<double>(elements)};
}

// Returns the table, computed at load time if it is prepacked.
uint32_t circle_table(Node& node, int64_t n, bool inverse) {
  const bool on_load = !node.prepacked.empty();
  const PrepackedBuffer form = table_of(node, n);
  const int lanes = row_lanes(node, n);
  const uint32_t table = node.scratch(form.dtype, form.elements, on_load);
  Scope s(node, "circle");
  const Operand o = s.scratch(table);
  Buf out = s.builder().output(o.name, o.dtype, o.extent);
  kernel::for_each(s.builder(), node.mapping(), "i", n, 64, [&](Expr i) {
    const auto angle = [&](Expr t) {
      return s.builder().let("angle", (inverse ? 2 : -2) * std::numbers::pi * cast_to(t, node.wide()) / static_cast<double>(n));
    };
    const Expr own = angle(i);
    out.store(2 * i, cast_to(cos(own), form.dtype));
    out.store(2 * i + 1, cast_to(sin(own), form.dtype));
    if (lanes == 1) return;
    const Expr across = angle(i / lanes * (i % lanes));
    out.store(2 * n + i, cast_to(cos(across), form.dtype));
    out.store(3 * n + i, cast_to(sin(across), form.dtype));
  });
  s.finish(on_load);
  return table;
}

}  // namespace

bool lower_fft(Node& node) {
  const auto n = row_length(node);
  const uint32_t table = n ? circle_table(node, *n, node.attrs<FftAttrs>().inverse) : 0;
  Scope s(node);
  const int lanes = n ? row_lanes(node, *n) : 1;
  Fft fft(node, s, lanes > 1 ? DType::F32 : node.wide());
  if (lanes > 1) fft.vectors(*n, lanes, table);
  else if (n) fft.passes(*n, table);
  else fft.sums();
  s.finish();
  return true;
}

std::vector<PrepackedBuffer> prepack_fft(Node& node, const std::vector<bool>&) {
  const auto n = row_length(node);
  if (!n) return {};
  return {table_of(node, *n)};
}

}  // namespace rlxc::codegen
