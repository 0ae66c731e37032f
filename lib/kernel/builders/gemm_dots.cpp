// A matmul of 8-bit integers or of bf16 on CPU threads with a dot unit. Words of the right operand hold `group` values of a
// column, in panels. The panels of integers have the column sums as their last row. The unit multiplies unsigned values on the
// left by signed ones on the right. Operands of the other signedness have their sign bit flipped, which shifts their zero point.
// Zero points are subtracted from the sums:
//   sum (a - za) * (b - zb) = sum a * b - za * sum b - zb * (sum a - k * za)
// Integer sums wrap: the result is exact whenever that of a plain loop is.
#include <algorithm>

#include "kernel/builders/gemm_operands.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kDotPieces = 16;     // tasks that keep threads busy
constexpr int64_t kLeastDotRows = 48;  // per task
constexpr int64_t kMostDotRows = 384;  // per task, if row sums are stored
constexpr int64_t kChunkWords = 512;   // words per column in a panel on the stack

// Returns the unit for these operands, whose signedness may differ from the unit's.
const DotUnit* dot_unit(DType a, DType b, const Mapping& m) {
  const auto is_quantized = [](DType t) { return t == DType::I8 || t == DType::U8; };
  const bool halves = a == DType::BF16 && b == DType::BF16;
  if (!halves && (!is_quantized(a) || !is_quantized(b))) return nullptr;
  const DotUnit wanted = halves ? DotUnit{m.vector_lanes(4), 2, DType::BF16, DType::BF16, DType::F32}
                                : DotUnit{m.vector_lanes(4), kWordCodes, DType::U8, DType::I8, DType::I32};
  for (const DotUnit& u : m.dot_units)
    if (!m.workgroups && u == wanted) return &u;
  return nullptr;
}

const DotUnit& unit_of(const GemmSpec& s, const Mapping& m) {
  return *(s.accumulate == DType::F32 ? dot_unit(DType::BF16, DType::BF16, m) : dot_unit(DType::U8, DType::I8, m));
}

class DotTiles {
 public:
  DotTiles(GemmOperands& o, const Mapping& m, const DotUnit& u)
      : o_(o),
        b_(o.b),
        m_(m),
        u_(u),
        t_(register_tile(m, u.accumulator)),
        w_(t_.panel()),
        floats_(is_float(u.accumulator)),
        steps_(ceil_div(o.k, u.group)),
        panel_rows_(floats_ ? steps_ : steps_ + 1),
        left_(o.spec.rows_packed) {}

  void pack(const std::string& out) {
    const Expr panels = ceil_div(o_.n, w_), words = panel_rows_ * w_;
    Buf to = b_.output(out, DType::I32, o_.batches() * panels * words);
    for_each(b_, m_, "panel", o_.batches() * panels, 1 << 16, [&](Expr i) {
      o_.batch = split_index(i / panels, o_.spec.batch);
      const Expr first = b_.let("column", i % panels * w_), base = b_.let("base", i * words);
      const auto column = [&](Expr j, int lanes) {
        Buf sum;
        if (!floats_) sum = b_.variable("sum", no_word(lanes));
        b_.loop("p", steps_, [&](Expr p) {
          Expr word = no_word(lanes), all = floats_ ? word : sum.get();
          for (int q = 0; q < u_.group; ++q) {
            const Expr code = b_.let("code", code_of_b(p * u_.group + q, first + j, lanes));
            word = word | (code & mask()) << width() * q;
            all = all + code;
          }
          to.store(base + p * w_ + j, word);
          if (!floats_) sum.set(all);
        });
        if (!floats_) to.store(base + steps_ * w_ + j, sum.get());
      };
      const auto whole = [&] {
        o_.b_vectors() ? b_.loop("v", t_.vectors, [&](Expr v) { column(v * t_.lanes, t_.lanes); })
                       : b_.loop("j", w_, [&](Expr j) { column(j, 1); });
      };
      const auto part = [&] {
        const Expr count = b_.let("count", o_.n - first);
        b_.loop("j", count, [&](Expr j) { column(j, 1); });
        b_.loop("p", panel_rows_,
                [&](Expr p) { b_.loop("j", w_ - count, [&](Expr j) { to.store(base + p * w_ + count + j, no_word()); }); });
      };
      if (is_constant(o_.n % w_, 0)) whole();
      else b_.when(first + w_ <= o_.n, whole, part);
    });
  }

  // A task is a block of rows and a panel of columns.
  void run() {
    const Expr panels = ceil_div(o_.n, w_);
    int64_t m = 0, k = 256, count = 0;
    constant(o_.k, &k);
    const bool known = constant(o_.m, &m);
    row_block_ = known ? m : kMostDotRows;
    if (known && m > 0 && constant(o_.batches() * panels, &count)) {
      int64_t blocks =
          std::clamp<int64_t>((kDotPieces + count - 1) / std::max<int64_t>(count, 1), 1, std::max<int64_t>(m / kLeastDotRows, 1));
      if (sums_rows() || left_) blocks = std::max(blocks, (m + kMostDotRows - 1) / kMostDotRows);
      row_block_ = blocks == 1 ? m : ((m + blocks - 1) / blocks + t_.rows - 1) / t_.rows * t_.rows;
    }
    const Expr blocks = ceil_div(o_.m, row_block_);
    for_each(b_, m_, "work", o_.batches() * panels * blocks, std::max<int64_t>(row_block_ * k * w_ / 32, 1), [&](Expr work) {
      const Expr block = b_.let("block", work % blocks), panel = b_.let("panel", work / blocks % panels);
      o_.batch = split_index(b_.let("batch", work / (blocks * panels)), o_.spec.batch);
      row0_ = b_.let("row0", block * row_block_);
      rows_ = b_.let("rows", min(o_.m - row0_, row_block_));
      column0_ = b_.let("column0", panel * w_);
      if (left_) return by_filled_panel();
      panel_ = o_.from_b;
      at_ = b_.let("at", (o_.base_b() * panels + panel) * (panel_rows_ * w_));
      if (sums_rows()) add_rows();
      columns([&](int vectors, Count count) { rows(vectors, count); });
    });
  }

 private:
  // Columns of the panel within the result; nullopt: determined by column0 at run time.
  using Count = std::optional<int64_t>;

  bool flips_a() const { return o_.spec.a.dtype == DType::I8; }
  bool flips_b() const { return o_.spec.b.dtype == DType::U8; }
  // Sums of the unpacked operand are needed if the other one has a zero point.
  bool sums_rows() const { return !left_ && (o_.spec.b_zero || o_.spec.b_shift); }
  bool sums_columns() const { return left_ && (o_.spec.a_zero || o_.spec.a_shift); }
  Type quantized(DType t, int lanes) const { return {t, lanes * u_.group}; }
  Expr no_word(int lanes = 1) const { return broadcast(b_.value(DType::I32, 0), lanes); }
  int width() const { return 32 / u_.group; }
  int mask() const { return (1 << width()) - 1; }
  // Returns the bits of an element of either operand.
  Expr code_of(Expr element) const {
    return cast_to(floats_ ? bitcast_to(element, Type(DType::U16, element.lanes())) : element, DType::I32);
  }

  // Returns an element of b as a signed value, or its bits; 0 beyond k.
  Expr code_of_b(Expr k, Expr column, int lanes) const {
    const bool whole = is_multiple(o_.k, u_.group);
    Expr code = code_of(o_.from_b.load(o_.where_b(whole ? k : min(k, o_.k - 1), column), lanes));
    if (flips_b()) code = code - kSignFlip;
    return whole ? code : select(k < o_.k, code, no_word(lanes));
  }

  // Returns word p of a row of a (values p * group ..); 0 beyond k.
  Expr word_of_a(Expr row, Expr p, bool whole) const {
    if (left_) return o_.from_a.load(o_.where_a(row, first_ + p));
    const Expr k = p * u_.group;
    if (whole && is_constant(o_.spec.a.strides.back(), 1)) {
      const Expr word = bitcast_to(o_.from_a.load(o_.where_a(row, k), u_.group), Type(DType::I32));
      return flips_a() ? word ^ static_cast<int32_t>(0x80808080) : word;
    }
    Expr word = no_word();
    for (int q = 0; q < u_.group; ++q) {
      const Expr at = whole ? k + q : min(k + q, o_.k - 1);
      Expr code = code_of(o_.from_a.load(o_.where_a(row, at)));
      if (flips_a()) code = code + kSignFlip;
      word = word | (whole ? code : select(k + q < o_.k, code, no_word())) << width() * q;
    }
    return b_.let("word", word);
  }

  // Calls body(word, whole) for each word of a row or of the current chunk. whole: no value is beyond k.
  void each_word(const std::function<void(Expr p, bool whole)>& body) {
    if (left_) return b_.loop("p", count_, [&](Expr p) { body(p, true); });
    b_.loop("p", o_.k / u_.group, [&](Expr p) { body(p, true); });
    if (is_multiple(o_.k, u_.group)) return;
    const auto last = [&] { body(steps_ - 1, false); };
    int64_t k = 0;
    if (constant(o_.k, &k)) last();
    else b_.when(o_.k % u_.group != 0, last);
  }

  // Copies unpacked columns to a panel, a chunk of words at a time. Sums are buffered between chunks.
  void by_filled_panel() {
    int64_t steps = 0;
    constant(steps_, &steps);
    const int64_t chunk = std::clamp<int64_t>(kChunkWords / o_.spec.k_step, 1, std::max<int64_t>(steps, 1)) * o_.spec.k_step;
    panel_ = b_.registers("panel_b", DType::I32, std::min(chunk, std::max<int64_t>(steps, 1)) * w_ + t_.lanes);
    at_ = b_.i64(0);
    if (sums_columns()) {
      column_sums_ = b_.registers("column_sums", DType::I32, w_);
      b_.loop("v", t_.vectors, [&](Expr v) { column_sums_.store(v * t_.lanes, o_.zero(t_.lanes)); });
    }
    const auto filled = [&](Expr first, Expr count) {
      first_ = first;
      count_ = count;
      fill_panel();
      if (sums_columns()) add_columns();
      columns([&](int vectors, Count wanted) { rows(vectors, wanted); });
    };
    if (steps <= chunk) return filled(b_.i64(0), steps_);
    sums_ = b_.registers("sums", DType::I32, row_block_ * w_);
    b_.loop("i", rows_ * t_.vectors, [&](Expr i) { sums_.store(i * t_.lanes, o_.zero(t_.lanes)); });
    b_.loop("chunk", (steps + chunk - 1) / chunk, [&](Expr c) {
      const Expr first = b_.let("first", c * chunk);
      filled(first, b_.let("words", min(steps_ - first, chunk)));
    });
    columns([&](int vectors, Count wanted) {
      b_.loop("r", rows_, [&](Expr r) {
        put(r, 1, vectors, wanted, [&](int, int v) { return sums_.load(r * w_ + int64_t{v} * t_.lanes, t_.lanes); });
      });
    });
  }

  void fill_panel() {
    if (o_.spec.fill) return o_.spec.fill({&b_, o_.from_b, panel_, o_.batch, column0_, first_, count_, w_, t_.lanes});
    b_.loop("p", count_, [&](Expr p) {
      for (int64_t j = 0; j < w_; j += t_.lanes)
        panel_.store(p * w_ + j, o_.from_b.load(o_.where_b(first_ + p, column0_ + j), t_.lanes));
    });
  }

  Expr ones(DType t, int lanes) const { return broadcast(constant_int(b_.kernel(), t, 1), lanes * kWordCodes); }

  void add_rows() {
    row_sums_ = b_.registers("row_sums", DType::I32, row_block_);
    const int64_t step = int64_t{t_.lanes} * kWordCodes;
    const bool vectors = is_constant(o_.spec.a.strides.back(), 1) && is_multiple(o_.k, step) && !flips_a();
    b_.loop("r", rows_, [&](Expr r) {
      Buf sum = b_.variable("sum", o_.zero(vectors ? t_.lanes : 1));
      if (vectors)
        b_.loop("p", o_.k / step, [&](Expr p) {
          const Expr a = o_.from_a.load(o_.where_a(row0_ + r, p * step), static_cast<int>(step));
          sum.set(dot(a, ones(u_.b, t_.lanes), sum.get()));
        });
      else
        each_word([&](Expr p, bool whole) {
          sum.set(dot(bitcast_to(word_of_a(row0_ + r, p, whole), quantized(u_.a, 1)), ones(u_.b, 1), sum.get()));
        });
      row_sums_.store(r, reduce_add(sum.get()));
    });
  }

  void add_columns() {
    b_.loop("v", t_.vectors, [&](Expr v) {
      Buf sum = b_.variable("sum", column_sums_.load(v * t_.lanes, t_.lanes));
      b_.loop("p", count_, [&](Expr p) {
        const Expr words = panel_.load(p * w_ + v * t_.lanes, t_.lanes);
        sum.set(dot(bitcast_to(words, quantized(u_.a, t_.lanes)), ones(u_.b, t_.lanes), sum.get()));
      });
      column_sums_.store(v * t_.lanes, sum.get());
    });
  }

  void columns(const std::function<void(int vectors, Count)>& body) {
    int64_t n = 0;
    const auto whole = [&] { body(t_.vectors, w_); };
    if (is_constant(o_.n % w_, 0)) return whole();
    if (!constant(o_.n, &n)) return b_.when(column0_ + w_ <= o_.n, whole, [&] { body(t_.vectors, {}); });
    const auto last = [&] { body(static_cast<int>((n % w_ + t_.lanes - 1) / t_.lanes), n % w_); };
    if (n < w_) return last();
    b_.when(column0_ + w_ <= o_.n, whole, last);
  }

  // Processes all rows of the task, in tiles of nearly equal height if their number is known.
  void rows(int vectors, Count count) {
    int64_t m = 0;
    if (constant(o_.m, &m)) {
      const int64_t rest = row_block_ ? m % row_block_ : 0;
      if (m <= row_block_) return balanced(m, vectors, count);
      if (rest == 0) return balanced(row_block_, vectors, count);
      return b_.when(
          rows_ == row_block_, [&] { balanced(row_block_, vectors, count); }, [&] { balanced(rest, vectors, count); });
    }
    b_.loop("tile", rows_ / t_.rows, [&](Expr i) { tile(b_.let("row", i * t_.rows), t_.rows, vectors, count); });
    Expr next = rows_ / t_.rows * t_.rows;
    for (int high : {4, 2, 1}) {
      if (high >= t_.rows) continue;
      const Expr bit = b_.let("odd", rows_ % t_.rows / high % 2);
      b_.when(bit != 0, [&] { tile(next, high, vectors, count); });
      next = next + bit * high;
    }
  }

  void balanced(int64_t m, int vectors, Count count) {
    if (m == 0) return;
    const int64_t tiles = (m + t_.rows - 1) / t_.rows, high = (m + tiles - 1) / tiles, low = tiles * high - m;
    b_.loop("tile", tiles - low, [&](Expr i) { tile(b_.let("row", i * high), static_cast<int>(high), vectors, count); });
    if (low > 0)
      b_.loop("tile", low, [&](Expr i) {
        tile(b_.let("row", (tiles - low) * high + i * (high - 1)), static_cast<int>(high - 1), vectors, count);
      });
  }

  // Computes rows r .. of the task over all of k, with sums in registers.
  void tile(Expr r, int rows, int vectors, Count count) {
    std::vector<Buf> sums;
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) {
        const Expr before = sums_.builder() ? sums_.load((r + i) * w_ + int64_t{v} * t_.lanes, t_.lanes) : o_.zero(t_.lanes);
        sums.push_back(b_.variable("sum", before));
      }
    const DType of_a = left_ ? u_.b : u_.a, of_b = left_ ? u_.a : u_.b;
    each_word([&](Expr p, bool whole) {
      std::vector<Expr> columns;
      for (int v = 0; v < vectors; ++v)
        columns.push_back(
            b_.let("b", bitcast_to(panel_.load(at_ + p * w_ + int64_t{v} * t_.lanes, t_.lanes), quantized(of_b, t_.lanes))));
      for (int i = 0; i < rows; ++i) {
        const Expr word = word_of_a(row0_ + r + i, p, whole);
        const Expr a = b_.let("a", bitcast_to(broadcast(word, t_.lanes), quantized(of_a, t_.lanes)));
        for (int v = 0; v < vectors; ++v) {
          Buf& sum = sums[static_cast<size_t>(i * vectors + v)];
          const Expr b = columns[static_cast<size_t>(v)];
          sum.set(left_ ? dot(b, a, sum.get()) : dot(a, b, sum.get()));
        }
      }
    });
    const auto sum_of = [&](int i, int v) { return sums[static_cast<size_t>(i * vectors + v)].get(); };
    if (!sums_.builder()) return put(r, rows, vectors, count, sum_of);
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) sums_.store((r + i) * w_ + int64_t{v} * t_.lanes, sum_of(i, v));
  }

  // Writes the sums of rows from r on.
  void put(Expr r, int rows, int vectors, Count count, const std::function<Expr(int i, int v)>& sum_of) {
    const int direct = !o_.c_vectors() || !count ? 0 : static_cast<int>(*count / t_.lanes);
    Buf line;
    if (direct < vectors) line = b_.registers("line", u_.accumulator, int64_t{rows} * w_);
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) {
        const int64_t j = int64_t{v} * t_.lanes;
        if (v < direct) write(r + i, j, sum_of(i, v));
        else line.store(b_.i64(i * w_ + j), sum_of(i, v));
      }
    if (direct == vectors) return;
    const int64_t first = int64_t{direct} * t_.lanes;
    const Expr rest = count ? b_.i64(*count - first) : b_.let("rest", min(o_.n - column0_, w_) - first);
    b_.loop("i", b_.i64(rows),
            [&](Expr i) { b_.loop("j", rest, [&](Expr j) { write(r + i, first + j, line.load(i * w_ + first + j)); }); });
  }

  // Returns the zero point of the values as the unit reads them.
  std::optional<Expr> shifted(std::optional<Expr> zero, int by) const {
    if (by == 0) return zero;
    return zero ? *zero + by : b_.value(DType::I32, by);
  }

  // Applies the zero-point corrections to the sums of columns j .. and writes them.
  void write(Expr r, Index j, Expr sum) {
    const int lanes = sum.lanes();
    const Expr row = row0_ + r, in_panel = j.in(b_.kernel()), column = column0_ + in_panel;
    const auto a_zero = shifted(o_.zero_of_a(row), left_ ? o_.spec.a_shift : flips_a() ? kSignFlip : 0);
    const auto b_zero = shifted(o_.zero_of_b(column, lanes), o_.spec.b_shift);
    if (a_zero)
      sum = sum - *a_zero * (left_ ? column_sums_.load(in_panel, lanes) : panel_.load(at_ + steps_ * w_ + in_panel, lanes));
    if (b_zero) {
      Expr of_row = left_ ? o_.from_a.load(o_.where_a(row, steps_)) : row_sums_.load(r);
      if (a_zero) of_row = of_row - cast_to(o_.k, DType::I32) * *a_zero;
      sum = sum - *b_zero * of_row;
    }
    o_.write(row, column, b_.let("whole", sum));
  }

  GemmOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const DotUnit& u_;
  const RegisterTile t_;
  const int64_t w_;                // columns per panel
  const bool floats_;              // without zero points and sums of operands
  const Expr steps_, panel_rows_;  // words per column, and rows of a panel
  const bool left_;                // a is the packed operand: its words are signed, and words of b are copied to a panel
  int64_t row_block_ = 0;
  Expr row0_, rows_, column0_, at_;
  Expr first_, count_;  // words of the chunk in the panel
  Buf panel_, row_sums_, column_sums_, sums_;
};

}  // namespace

bool gemm_fits_dots(DType a, DType b, const Mapping& m) { return dot_unit(a, b, m) != nullptr; }

int64_t dot_group(DType accumulate) { return accumulate == DType::F32 ? 2 : kWordCodes; }

void build_pack_dots(Builder& b, const GemmSpec& s, const std::string& out, const Mapping& m) {
  GemmOperands o(b, s);
  o.add_b();
  DotTiles(o, m, unit_of(s, m)).pack(out);
}

void gemm_on_dots(GemmOperands& o, const Mapping& m) { DotTiles(o, m, unit_of(o.spec, m)).run(); }

}  // namespace rlxc::kernel
