#include "kernel/builders/gemm.h"

#include <algorithm>

#include "kernel/builders/reduce.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kRowBlock = 192;  // least rows for which one piece of work walks a panel
constexpr int64_t kPackedChunk = 1024;

// The register tile: all registers but one row of b and one value of a hold sums.
struct Shape {
  int lanes, vectors, rows;
  int64_t panel() const { return int64_t{lanes} * vectors; }
};

Shape tile_shape(const Mapping& m, DType accumulate) {
  const int vectors = m.vector_registers >= 32 ? 4 : 2;
  return {m.vector_lanes(rlxc::bits(accumulate) / 8), vectors, (m.vector_registers - vectors - 1) / vectors};
}

bool is_constant(const Index& i, int64_t want) {
  int64_t v = 0;
  return constant(i, &v) && v == want;
}

class Gemm {
 public:
  Gemm(Builder& b, const GemmSpec& s, const Mapping& m) : b_(b), s_(s), m_(m), t_(tile_shape(m, s.accumulate)) {
    M_ = s.m.in(b.kernel()), N_ = s.n.in(b.kernel()), K_ = s.k.in(b.kernel());
  }

  void gemm() {
    a_ = b_.input(s_.a.name, s_.a.dtype, s_.a.extent);
    bb_ = b_.input(s_.b.name, s_.b.dtype, s_.b.extent);
    zeros();
    for (const Operand& o : s_.extras) extras_.push_back(b_.input(o.name, o.dtype, o.extent));
    c_ = b_.output(s_.c.name, s_.c.dtype, s_.c.extent);
    gemm_is_tiled(s_, m_) || s_.packed ? tiled() : simple();
  }

  void pack(const std::string& out) {
    bb_ = b_.input(s_.b.name, s_.b.dtype, s_.b.extent);
    zeros();
    const Expr panels = ceil_div(N_, t_.panel());
    Buf to = b_.output(out, s_.accumulate, product(b_.kernel(), s_.batch) * panels * K_ * t_.panel());
    for_each(b_, m_, "panel", product(b_.kernel(), s_.batch) * panels, 1 << 16, [&](Expr i) {
      batch_ = split_index(i / panels, s_.batch);
      pack_panel(to, i * (K_ * t_.panel()), b_.let("column", i % panels * t_.panel()), b_.i64(0), K_);
    });
  }

 private:
  void zeros() {
    if (s_.a_zero) a_zero_ = b_.input(s_.a_zero->name, s_.a_zero->dtype, s_.a_zero->extent);
    if (s_.b_zero) b_zero_ = b_.input(s_.b_zero->name, s_.b_zero->dtype, s_.b_zero->extent);
  }

  Expr base(const Operand& o) {
    Expr at = o.offset.in(b_.kernel());
    for (size_t d = 0; d < batch_.size(); ++d) at = at + batch_[d] * o.strides[d].in(b_.kernel());
    return at;
  }
  Expr stride(const Operand& o, int back) { return o.strides[o.strides.size() - static_cast<size_t>(back)].in(b_.kernel()); }
  Expr at(const Operand& o, Expr row, Expr column) { return base(o) + row * stride(o, 2) + column * stride(o, 1); }

  Expr accumulator(Expr v) { return cast_to(v, s_.accumulate); }
  Expr multiply_add(Expr a, Expr b, Expr c) { return is_float(s_.accumulate) ? fma(a, b, c) : a * b + c; }

  Expr load_a(Expr row, Expr k, int lanes = 1) {
    Expr v = accumulator(a_.load(at(s_.a, row, k), lanes));
    if (s_.a_zero) v = v - accumulator(a_zero_.load(base(*s_.a_zero) + row * stride(*s_.a_zero, 1)));
    return v;
  }
  Expr finish_b(Expr v, Expr column) {
    v = accumulator(v);
    if (s_.b_zero)
      v = v - accumulator(b_zero_.load(base(*s_.b_zero) + column * stride(*s_.b_zero, 1),
                                       is_constant(stride(*s_.b_zero, 1), 0) ? 1 : v.lanes()));
    return v;
  }
  Expr load_b(Expr k, Expr column, int lanes = 1) { return finish_b(bb_.load(at(s_.b, k, column), lanes), column); }

  Expr finish(Expr sum, Expr row, Expr column) {
    std::vector<Expr> extra;
    for (size_t i = 0; i < extras_.size(); ++i) {
      const bool repeated = is_constant(s_.extras[i].strides.back(), 0);
      extra.push_back(
          cast_to(extras_[i].load(at(s_.extras[i], row, column), repeated ? 1 : sum.lanes()), compute_dtype(s_.extras[i].dtype)));
    }
    return broadcast(cast_to(s_.epilogue ? s_.epilogue(sum, extra) : sum, s_.c.dtype), sum.lanes());
  }

  // Columns column .. column + panel of rows k0 .. k0 + count of b; beyond n zero, or anything finite.
  void pack_panel(Buf to, Expr base_to, Expr column, Expr k0, Expr count) {
    if (s_.fill) return s_.fill({&b_, bb_, to, batch_, column, k0, count, t_.panel(), t_.lanes});
    const int64_t w = t_.panel();
    auto whole = [&] {
      if (is_constant(s_.b.strides.back(), 1) &&
          (!s_.b_zero || is_constant(s_.b_zero->strides.back(), 1) || is_constant(s_.b_zero->strides.back(), 0)))
        b_.loop("p", count, [&](Expr p) {
          for (int v = 0; v < t_.vectors; ++v)
            to.store(base_to + p * w + v * t_.lanes, load_b(k0 + p, column + v * t_.lanes, t_.lanes));
        });
      else
        b_.loop("j", w,
                [&](Expr j) { b_.loop("p", count, [&](Expr p) { to.store(base_to + p * w + j, load_b(k0 + p, column + j)); }); });
    };
    auto part = [&] {
      b_.loop("p", count, [&](Expr p) {
        b_.loop("j", w, [&](Expr j) {
          b_.when(
              column + j < N_, [&] { to.store(base_to + p * w + j, load_b(k0 + p, column + j)); },
              [&] { to.store(base_to + p * w + j, constant_int(b_.kernel(), s_.accumulate, 0)); });
        });
      });
    };
    if (is_constant(N_ % w, 0)) return whole();
    int64_t n = 0;
    if (constant(N_, &n) && n < w) return part();
    b_.when(column + w <= N_, whole, part);
  }

  // A piece of work is a panel of columns and a block of rows; blocks are large where panels are many, since each packs again.
  void tiled() {
    const int64_t w = t_.panel();
    const Expr panels = ceil_div(N_, w);
    int64_t k = 64, m = kRowBlock, count = 0;
    constant(K_, &k), constant(M_, &m);
    row_block_ = constant(product(b_.kernel(), s_.batch) * panels, &count) && count >= 16 ? 3 * kRowBlock : kRowBlock;
    const Expr blocks = ceil_div(M_, row_block_);
    const int64_t bytes = std::min(m, row_block_) * k * w / 8;  // a multiplication takes less time than moving a byte
    for_each(b_, m_, "work", product(b_.kernel(), s_.batch) * panels * blocks, bytes, [&](Expr work) {
      const Expr block = b_.let("block", work % blocks), panel = b_.let("panel", work / blocks % panels);
      const Expr batch = b_.let("batch", work / (blocks * panels));
      batch_ = split_index(batch, s_.batch);
      row0_ = b_.let("row0", block * row_block_), column0_ = b_.let("column0", panel * w);
      rows_ = b_.let("rows", min(M_ - row0_, row_block_));
      chunks(batch * panels + panel);
    });
  }

  // The sum over k in chunks, so that a chunk of the panel stays in the cache; between them the sums wait in a buffer.
  void chunks(Expr panel) {
    const int64_t w = t_.panel(), size = s_.packed ? kPackedChunk : std::max<int64_t>(kGemmChunk / s_.k_step, 1) * s_.k_step;
    int64_t k = 0, m = 0;
    const bool known = constant(K_, &k);
    if (!s_.packed)
      local_ = b_.registers("panel_b", s_.accumulate, (known ? std::min(std::max<int64_t>(k, 1), size) : size) * w + t_.lanes);
    if (known && k <= size) return chunk(panel, b_.i64(0), K_, true);
    sums_ = b_.registers("sums", s_.accumulate, (constant(M_, &m) ? std::min(m, row_block_) : row_block_) * w);
    const Expr zero = broadcast(constant_int(b_.kernel(), s_.accumulate, 0), t_.lanes);
    b_.loop("i", rows_ * t_.vectors, [&](Expr i) { sums_.store(i * t_.lanes, zero); });
    b_.loop("chunk", ceil_div(K_, size), [&](Expr c) {
      const Expr k0 = b_.let("k0", c * size);
      chunk(panel, k0, b_.let("count", min(K_ - k0, size)), false);
    });
    b_.loop("r", rows_, [&](Expr r) { write_row(row0_ + r, sums_, r * w, t_.vectors, t_.lanes); });
  }

  void chunk(Expr panel, Expr k0, Expr count, bool once) {
    const int64_t w = t_.panel();
    if (!s_.packed) pack_panel(local_, b_.i64(0), column0_, k0, count);
    const Expr at = s_.packed ? panel * (K_ * w) + k0 * w : b_.i64(0);
    int64_t n = 0;
    if (!constant(N_, &n) || n % w == 0) return tiles(at, k0, count, t_.vectors, t_.lanes, once);
    auto last = [&] {
      int lanes = t_.lanes;
      while (lanes > 1 && lanes / 2 >= n % w) lanes /= 2;
      tiles(at, k0, count, static_cast<int>((n % w + lanes - 1) / lanes), lanes, once);
    };
    if (n < w) return last();
    b_.when(
        column0_ + w <= N_, [&] { tiles(at, k0, count, t_.vectors, t_.lanes, once); }, last);
  }

  // All rows of the piece of work, a tile at a time; what is left over in one tile where their number is known.
  void tiles(Expr at, Expr k0, Expr count, int vectors, int lanes, bool once) {
    int64_t m = 0;
    const bool known = constant(M_, &m) && m <= row_block_;
    auto tile_rows = [&](Expr r, int rows) { tile(at, r, rows, k0, count, vectors, lanes, once); };
    const int high = t_.rows;
    if (!known || m >= high) b_.loop("tile", rows_ / high, [&](Expr i) { tile_rows(b_.let("row", i * high), high); });
    const Expr done = rows_ / high * high, rest = rows_ - done;
    if (known) {
      if (m % high) tile_rows(done, static_cast<int>(m % high));
      return;
    }
    Expr next = done;
    for (int rows : {4, 2, 1}) {
      const Expr bit = b_.let("odd", rest / rows % 2);
      b_.when(bit != 0, [&] { tile_rows(next, rows); });
      next = next + bit * rows;
    }
  }

  // Rows row0 + r .. of the panel: vectors of sums in registers over the whole chunk, then to the result or back to the buffer.
  void tile(Expr at, Expr r, int rows, Expr k0, Expr count, int vectors, int lanes, bool once) {
    const int64_t w = t_.panel();
    std::vector<Buf> acc;
    const Expr zero = broadcast(constant_int(b_.kernel(), s_.accumulate, 0), lanes);
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v)
        acc.push_back(b_.variable("sum", once ? zero : sums_.load((r + i) * w + v * lanes, lanes)));
    const Buf& panel = s_.packed ? bb_ : local_;
    b_.loop("p", count, [&](Expr p) {
      std::vector<Expr> column_values;
      for (int v = 0; v < vectors; ++v) column_values.push_back(b_.let("b", panel.load(at + p * w + v * lanes, lanes)));
      for (int i = 0; i < rows; ++i) {
        const Expr a = b_.let("a", load_a(row0_ + r + i, k0 + p));
        for (int v = 0; v < vectors; ++v) {
          Buf& sum = acc[static_cast<size_t>(i * vectors + v)];
          sum.set(multiply_add(broadcast(a, lanes), column_values[static_cast<size_t>(v)], sum.get()));
        }
      }
    });
    auto keep = [&](const Buf& to) {
      for (int i = 0; i < rows; ++i)
        for (int v = 0; v < vectors; ++v)
          to.store((once ? b_.i64(i * w) : (r + i) * w) + v * lanes, acc[static_cast<size_t>(i * vectors + v)].get());
    };
    if (!once) return keep(sums_);
    auto whole = [&] {
      for (int i = 0; i < rows; ++i)
        for (int v = 0; v < vectors; ++v)
          write(row0_ + r + i, column0_ + v * lanes, acc[static_cast<size_t>(i * vectors + v)].get());
    };
    auto part = [&] {
      Buf line = b_.registers("line", s_.accumulate, rows * w);
      keep(line);
      b_.loop("i", b_.i64(rows), [&](Expr i) { write_row(row0_ + r + i, line, i * w, vectors, lanes); });
    };
    if (!vectors_fit()) return part();
    int64_t n = 0;
    if (!constant(N_, &n)) return b_.when(column0_ + w <= N_, whole, part);
    vectors * lanes == w || n % w == vectors * lanes ? whole() : part();
  }

  // Sums of a row of the panel as they lie in a buffer.
  void write_row(Expr row, const Buf& from, Expr at, int vectors, int lanes) {
    const int64_t w = int64_t{vectors} * lanes;
    const bool wide = vectors_fit() && lanes > 1;
    if (wide && is_constant(N_ % w, 0)) {
      for (int v = 0; v < vectors; ++v) write(row, column0_ + v * lanes, from.load(at + v * lanes, lanes));
      return;
    }
    const Expr columns = b_.let("columns", min(N_ - column0_, w)), done = wide ? columns / lanes : b_.i64(0);
    if (wide) b_.loop("v", done, [&](Expr v) { write(row, column0_ + v * lanes, from.load(at + v * lanes, lanes)); });
    b_.loop("j", columns - done * lanes, [&](Expr j) {
      const Expr i = done * lanes + j;
      write(row, column0_ + i, from.load(at + i));
    });
  }

  void write(Expr row, Expr column, Expr sum) { c_.store(at(s_.c, row, column), finish(sum, row, column)); }

  bool vectors_fit() const {
    return is_constant(s_.c.strides.back(), 1) && std::all_of(s_.extras.begin(), s_.extras.end(), [](const Operand& o) {
             return is_constant(o.strides.back(), 1) || is_constant(o.strides.back(), 0);
           });
  }

  // One vector of neighbouring results (or one result, its sum by vectors along k) at a time.
  void simple() {
    const bool k_fits = !m_.lanes && is_constant(s_.a.strides.back(), 1) && is_constant(stride(s_.b, 2), 1);
    const bool along_n = is_constant(s_.b.strides.back(), 1) && vectors_fit() && !m_.lanes && !(k_fits && is_constant(N_, 1)) &&
                         (!s_.b_zero || is_constant(s_.b_zero->strides.back(), 1) || is_constant(s_.b_zero->strides.back(), 0));
    const bool along_k = !along_n && k_fits;
    int64_t n = 0, k = 64;
    int lanes = t_.lanes;
    const bool known = constant(along_n ? N_ : K_, &n);
    while (known && lanes > 1 && lanes > n) lanes /= 2;
    if (!along_n && !along_k) lanes = 1;
    constant(K_, &k);
    const Expr zero = broadcast(constant_int(b_.kernel(), s_.accumulate, 0), lanes);
    auto element = [&](Expr row, Expr column, int width) {
      Buf sum = b_.variable("sum", broadcast(lane_of(zero), width));
      b_.loop("p", K_,
              [&](Expr p) { sum.set(multiply_add(broadcast(load_a(row, p), width), load_b(p, column, width), sum.get())); });
      c_.store(at(s_.c, row, column), finish(sum.get(), row, column));
    };
    auto dot = [&](Expr row, Expr column) {
      // Several sums hide the latency of an addition.
      const int sums = known && n < 4 * lanes ? 1 : 4;
      const int64_t step = int64_t{sums} * lanes;
      std::vector<Buf> sum;
      for (int i = 0; i < sums; ++i) sum.push_back(b_.variable("sum", zero));
      auto add = [&](Buf& to, Expr p) {
        const Expr a = load_a(row, p, lanes), v = finish_b(bb_.load(at(s_.b, p, column), lanes), column);
        to.set(multiply_add(a, v, to.get()));
      };
      const Expr done = K_ / step * step, vectors = K_ / lanes * lanes;
      b_.loop("p", K_ / step, [&](Expr p) {
        for (int i = 0; i < sums; ++i) add(sum[static_cast<size_t>(i)], p * step + i * lanes);
      });
      if (sums > 1) b_.loop("p", (vectors - done) / lanes, [&](Expr p) { add(sum[0], done + p * lanes); });
      Expr all = sum[0].get();
      for (int i = 1; i < sums; ++i) all = all + sum[static_cast<size_t>(i)].get();
      Buf rest = b_.variable("rest", reduce_add(all));
      b_.loop("p", K_ - vectors, [&](Expr p) {
        const Expr q = vectors + p;
        rest.set(multiply_add(load_a(row, q), load_b(q, column), rest.get()));
      });
      c_.store(at(s_.c, row, column), finish(rest.get(), row, column));
    };
    const Expr groups = along_n ? ceil_div(N_, lanes) : N_;
    for_each(b_, m_, "work", product(b_.kernel(), s_.batch) * M_ * groups, k * lanes, [&](Expr work) {
      const Expr column = b_.let("column", along_n ? work % groups * lanes : work % groups),
                 row = b_.let("row", work / groups % M_);
      batch_ = split_index(b_.let("batch", work / (groups * M_)), s_.batch);
      if (along_k && lanes > 1) return dot(row, column);
      if (!along_n || lanes == 1) return element(row, column, 1);
      if (is_constant(N_ % lanes, 0)) return element(row, column, lanes);
      b_.when(
          column + lanes <= N_, [&] { element(row, column, lanes); },
          [&] { b_.loop("t", N_ - column, [&](Expr t) { element(row, column + t, 1); }); });
    });
  }

  static Expr lane_of(Expr v) { return v.lanes() > 1 ? lane(v, 0) : v; }

  Builder& b_;
  const GemmSpec& s_;
  const Mapping& m_;
  Shape t_;
  Expr M_, N_, K_;
  Buf a_, bb_, c_, a_zero_, b_zero_, local_, sums_;
  std::vector<Buf> extras_;
  std::vector<Expr> batch_;
  Expr row0_, rows_, column0_;  // of the piece of work
  int64_t row_block_ = kRowBlock;
};

}  // namespace

int64_t gemm_panel(const Mapping& m, DType accumulate) { return tile_shape(m, accumulate).panel(); }

bool gemm_is_tiled(const GemmSpec& s, const Mapping& mapping) {
  if (mapping.lanes) return false;
  int64_t m = 0, n = 0, k = 0;
  const bool known_m = constant(s.m, &m), known_n = constant(s.n, &n), known_k = constant(s.k, &k);
  if ((known_m && m == 0) || (known_n && n == 0) || (known_k && k == 0)) return false;
  return !(known_m && m < 3) && !(known_n && n < 4) && !(known_k && k < 4);
}

void build_gemm(Builder& b, const GemmSpec& s, const Mapping& m) { Gemm(b, s, m).gemm(); }
void build_pack(Builder& b, const GemmSpec& s, const std::string& out, const Mapping& m) { Gemm(b, s, m).pack(out); }

}  // namespace rlxc::kernel
