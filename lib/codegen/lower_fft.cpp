// Fourier transforms. On CPU threads, a row of constant length n is transformed in one pass per factor of n with Stockham's
// self-sorting algorithm (Cochran et al., "What is the fast Fourier transform?", 1967): O(n * sum of the factors). Otherwise each
// element is the DFT sum, with angles from the exact remainder of i * j modulo n.
#include <numbers>

#include "codegen/lowerings.h"

namespace rlxc::codegen {
namespace {

constexpr int64_t kMostOnStack = 1 << 15;  // complex numbers per row

class Fft {
 public:
  Fft(Node& node, Scope& s)
      : a_(node.attrs<FftAttrs>()),
        node_(node),
        s_(s),
        b_(s.builder()),
        axis_(static_cast<size_t>(a_.axis)),
        x_(s.shape(node.dims(0))),
        y_(s.shape(node.result_dims())),
        type_(kernel::compute_dtype(node.dtype(0))),
        wide_(node.wide()) {
    kernel::constant(x_.back(), &parts_), kernel::constant(y_.back(), &out_parts_);
    own_ = x_[axis_].in(s.kernel()), inner_ = kernel::product(s.kernel(), x_, axis_ + 1, x_.size() - 1);
    outer_ = kernel::product(s.kernel(), x_, 0, axis_);
    length_ = a_.length == Dim(0) ? own_ : s.size(a_.length).in(s.kernel());
  }

  // Computes the DFT sum of each element.
  void sums() {
    data_ = s_.in_buf(0), out_ = s_.out_buf();
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
        re.set(re.get() + (xr * c - xi * w)), im.set(im.get() + (xr * w + xi * c));
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
          re.set(xr), im.set(xi);
        };
        mirrored() ? read() : b_.when(j < own_, read);
        from.store(2 * j, re.get()), from.store(2 * j + 1, im.get());
      });
      int64_t done = 1;
      for (int64_t p : factors(n)) {
        pass(from, to, n, done, p);
        std::swap(from, to), done *= p;
      }
      const Expr count = y_[axis_].in(s_.kernel());
      b_.loop("j", count, [&](Expr j) { store((i * count + j) * inner_ + k, from.load(2 * j), from.load(2 * j + 1)); });
    });
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

  void store(Expr i, Expr re, Expr im) {
    Expr scale = b_.value(wide_, 1);
    if (a_.norm == FftNorm::InverseN) scale = 1.0 / cast_to(length_, wide_);
    if (a_.norm == FftNorm::Unitary) scale = 1.0 / sqrt(cast_to(length_, wide_));
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
          re.set(re.get() + (xr * c - xi * w)), im.set(im.get() + (xr * w + xi * c));
        });
        const Expr at = b_.let("to_at", 2 * (j * (done * p) + e));
        to.store(at, re.get()), to.store(at + 1, im.get());
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

// Returns the table of roots of unity, computed at load time if it is prepacked.
uint32_t circle_table(Node& node, int64_t n, bool inverse) {
  const bool on_load = !node.prepacked.empty();
  const uint32_t table = node.scratch(node.wide(), Dim(2 * n), on_load);
  Scope s(node, "circle");
  const Operand o = s.scratch(table);
  Buf out = s.builder().output(o.name, o.dtype, o.extent);
  kernel::for_each(s.builder(), node.mapping(), "i", n, 64, [&](Expr i) {
    const Expr angle =
        s.builder().let("angle", (inverse ? 2 : -2) * std::numbers::pi * cast_to(i, node.wide()) / static_cast<double>(n));
    out.store(2 * i, cos(angle)), out.store(2 * i + 1, sin(angle));
  });
  s.finish(on_load);
  return table;
}

}  // namespace

bool lower_fft(Node& node) {
  const auto n = row_length(node);
  const uint32_t table = n ? circle_table(node, *n, node.attrs<FftAttrs>().inverse) : 0;
  Scope s(node);
  Fft fft(node, s);
  if (n) fft.passes(*n, table);
  else fft.sums();
  return s.finish(), true;
}

std::vector<PrepackedBuffer> prepack_fft(Node& node, const std::vector<bool>&) {
  const auto n = row_length(node);
  if (!n) return {};
  return {{node.wide(), Dim(2 * *n), {}, kElementNs * static_cast<double>(2 * *n)}};
}

}  // namespace rlxc::codegen
