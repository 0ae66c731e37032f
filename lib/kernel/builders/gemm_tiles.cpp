// A matmul on CPU threads, after Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008): register
// tiles of rows x vectors of sums over panels of b with contiguous columns. Panels are prepacked (weights) or packed on the
// thread's stack, a chunk of k at a time.
#include <algorithm>
#include <bit>

#include "kernel/builders/gemm.h"
#include "kernel/builders/gemm_quantized.h"
#include "kernel/builders/turn.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kLeastRows = 48;    // packing a panel does not pay for fewer rows
constexpr int64_t kStays = 1 << 16;   // elements of rows that fit in the cache
constexpr int64_t kManyPieces = 32;   // tasks that keep threads busy
constexpr int64_t kFewRows = 3;       // most rows for which a quantized panel is decoded while it is read
constexpr int64_t kMostSingles = 2;   // remaining columns computed as vectors of rows
constexpr int64_t kTermsPerStep = 4;  // terms per step of a tile that fetches
constexpr int64_t kLineBytes = 64;    // of a cache line
constexpr int64_t kGridPanel = 32;    // columns
constexpr int64_t kSetBytes = 4096;   // row strides of a multiple of it conflict in the cache

class GemmTiles {
 public:
  GemmTiles(GemmOperands& o, const Mapping& m)
      : o_(o), b_(o.b), m_(m), t_(register_tile(m, o.spec.accumulate)), w_(t_.panel()), own_(o.spec.two_sums ? w_ / 2 : w_) {
    if (o.spec.quantized && o.spec.packed) quantized_.emplace(o, t_);
  }

  void pack(const std::string& out) {
    const Expr panels = ceil_div(o_.n, own_);
    Buf to = b_.output(out, o_.spec.stored.value_or(o_.spec.accumulate), o_.batches() * panels * o_.k * w_);
    for_each(b_, m_, "panel", o_.batches() * panels, 1 << 16, [&](Expr i) {
      o_.batch = split_index(i / panels, o_.spec.batch);
      pack_panel(to, i * (o_.k * w_), b_.let("column", i % panels * own_), b_.i64(0), o_.k);
    });
  }

  void pack_quantized(const std::string& out) {
    const QuantizedPanels quantized(o_, t_);
    const Expr panels = ceil_div(o_.n, own_), words = quantized.words();
    Buf to = b_.output(out, DType::I32, panels * words);
    for_each(b_, m_, "panel", panels, 1 << 16, [&](Expr i) {
      const Expr first = b_.let("column", i * own_);
      const auto column = [&](Expr place) { return min(first + place % own_, o_.n - 1) + place / own_ * o_.n; };
      b_.loop("at", words, [&](Expr at) { to.store(i * words + at, quantized.word(at, column)); });
    });
  }

  void pack_rows(const std::string& out) {
    const int64_t high = t_.rows;
    const Expr blocks = ceil_div(o_.m, high);
    Buf to = b_.output(out, o_.spec.accumulate, o_.batches() * blocks * o_.k * high);
    for_each(b_, m_, "block", o_.batches() * blocks, 1 << 16, [&](Expr i) {
      o_.batch = split_index(i / blocks, o_.spec.batch);
      const Expr row = b_.let("row", i % blocks * high), rows = b_.let("rows", min(o_.m - row, high));
      auto each_column = [&](Expr done, const std::function<void(Expr, Expr)>& body) {
        b_.loop("p", o_.k - done, [&](Expr p) { body(done + p, b_.let("at", (i * o_.k + done + p) * high)); });
      };
      auto whole = [&](Expr p, Expr at) {
        for (int64_t r = 0; r < high; ++r) to.store(at + r, o_.load_a(row + r, p));
      };
      auto part = [&](Expr p, Expr at) {
        b_.loop("r", rows, [&](Expr r) { to.store(at + r, o_.load_a(row + r, p)); });
        b_.loop("r", high - rows, [&](Expr r) { to.store(at + rows + r, o_.zero()); });
      };
      b_.when(
          rows == high, [&] { each_column(turn_rows(to, i, row), whole); }, [&] { each_column(b_.i64(0), part); });
    });
  }

  // A task is a block of rows and a panel of columns, or several panels if rows are copied.
  Tasks tasks() {
    copied_ = gemm_copies_rows(o_.spec);
    const Expr panels = ceil_div(o_.n, own_);
    const int64_t row_block = m_.blocking.gemm_rows;
    int64_t k = 64, m = row_block, count = 0;
    constant(o_.k, &k);
    constant(o_.m, &m);
    const bool known = constant(o_.batches() * panels, &count);
    // Rows that are copied, or exceed the cache, are reused for several panels.
    const bool grouped = copied_ || (o_.spec.rows_packed && m > kStays / k);
    if (known && grouped) group_ = std::clamp<int64_t>(count * ((m + row_block - 1) / row_block) / kManyPieces, 1, 8);
    if (known) row_block_ = balanced_rows(m, (count + group_ - 1) / group_, grouped ? row_block : 3 * row_block);
    const Expr groups = ceil_div(panels, group_), blocks = ceil_div(o_.m, row_block_);
    const int64_t bytes = std::min(m, row_block_) * k * w_ * group_ / 8;  // a multiplication takes less time than moving a byte
    return {o_.batches() * groups * blocks, bytes, [=, this](Expr work) {
              const Expr block = b_.let("block", work % blocks), first = b_.let("panel0", work / blocks % groups * group_);
              o_.batch = split_index(b_.let("batch", work / (blocks * groups)), o_.spec.batch);
              const Expr matrix = o_.spec.packed ? b_.let("matrix", o_.base_b()) : b_.i64(0);
              row0_ = b_.let("row0", block * row_block_);
              rows_ = b_.let("rows", min(o_.m - row0_, row_block_));
              auto each_panel = [&](const std::function<void(Expr, Expr)>& body) {
                auto one = [&](Expr i) {
                  column0_ = b_.let("column0", (first + i) * own_);
                  body(i, matrix * panels + first + i);
                };
                group_ == 1 ? one(b_.i64(0)) : b_.loop("panel", min(panels - first, group_), one);
              };
              chunks(each_panel);
            }};
  }

 private:
  // Packs squares of a block of rows by vectors along k, and returns how many columns. What a vector holds beyond the rows is
  // overwritten by the next one, so at least one column is left.
  Expr turn_rows(Buf to, Expr block, Expr row) {
    const int64_t high = t_.rows, side = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(high)));
    if (side > m_.vector_lanes(rlxc::bits(o_.spec.accumulate) / 8) || side < 2 || !is_constant(o_.spec.a.strides.back(), 1))
      return b_.i64(0);
    const int lanes = static_cast<int>(side);
    const Expr squares = b_.let("squares", max(o_.k - 1, 0) / side);
    b_.loop("square", squares, [&](Expr square) {
      const Expr first = b_.let("first", square * side), at = b_.let("at", (block * o_.k + first) * high);
      std::vector<Expr> all;
      for (int64_t r = 0; r < side; ++r) all.push_back(r < high ? b_.let("along", o_.load_a(row + r, first, lanes)) : all.back());
      all = turned(b_, all);
      for (int64_t p = 0; p < side; ++p) to.store(at + p * high, all[static_cast<size_t>(p)]);
    });
    return squares * side;
  }

  // Returns the rows per task, given `groups` groups of panels: enough tasks to balance threads, of nearly equal size.
  int64_t balanced_rows(int64_t m, int64_t groups, int64_t most) const {
    const int64_t high = t_.rows;
    if (groups < kManyPieces) most = m_.blocking.gemm_rows;
    int64_t blocks = std::max<int64_t>((m + most - 1) / most, 1);
    while (m / (blocks + 1) >= kLeastRows &&
           (blocks * groups < kManyPieces || (blocks * groups < 4 * kManyPieces && blocks * groups % 2)))
      ++blocks;
    return ((m + blocks - 1) / blocks + high - 1) / high * high;
  }

  // Packs rows k0 .. k0 + count of the columns of b for result columns column .. Values beyond n are zero or any finite number.
  void pack_panel(const Buf& to, Expr base, Expr column, Expr k0, Expr count) {
    if (o_.spec.fill) return o_.spec.fill({&b_, o_.from_b, to, o_.batch, column, k0, count, w_, t_.lanes});
    pack_columns(to, base, column, 0, k0, count);
    if (o_.spec.two_sums) pack_columns(to, base + own_, column, o_.n, k0, count);
  }
  void pack_columns(const Buf& to, Expr base, Expr column, Index skip, Expr k0, Expr count) {
    const Expr from = column + skip.in(b_.kernel());
    int64_t n = 0;
    const bool known = constant(o_.n, &n);
    if (known && n % own_ == 0) return copy_columns(to, base, from, b_.i64(own_), k0, count);
    auto part = [&] {
      const Expr rest = known ? b_.i64(n % own_) : b_.let("rest", o_.n - column), done = rest / t_.lanes;
      b_.loop("p", count, [&](Expr p) {
        b_.loop("v", own_ / t_.lanes - done, [&](Expr v) {
          to.store(base + p * w_ + (done + v) * t_.lanes, broadcast(b_.value(to.type().dtype, 0), t_.lanes));
        });
      });
      copy_columns(to, base, from, rest, k0, count);
    };
    if (known && n < own_) return part();
    b_.when(
        column + own_ <= o_.n, [&] { copy_columns(to, base, from, b_.i64(own_), k0, count); }, part);
  }

  void copy_columns(const Buf& to, Expr base, Expr from, Expr width, Expr k0, Expr count) {
    auto one = [&](Expr p, Expr j, int lanes) {
      to.store(base + p * w_ + j, cast_to(o_.load_b(k0 + p, from + j, lanes), to.type().dtype));
    };
    if (!o_.b_vectors()) return b_.loop("j", width, [&](Expr j) { b_.loop("p", count, [&](Expr p) { one(p, j, 1); }); });
    const Expr vectors = width / t_.lanes, done = vectors * t_.lanes;
    b_.loop("p", count, [&](Expr p) {
      b_.loop("v", vectors, [&](Expr v) { one(p, v * t_.lanes, t_.lanes); });
      b_.loop("j", width - done, [&](Expr j) { one(p, done + j, 1); });
    });
  }

  void copy_rows(Expr k0, Expr count) {
    auto copy = [&](Expr r, Expr p, int lanes) { rows_copy_.store(r * pitch_ + p, o_.load_a(row0_ + r, k0 + p, lanes)); };
    if (!is_constant(o_.spec.a.strides.back(), 1))
      return b_.loop("p", count, [&](Expr p) { b_.loop("r", rows_, [&](Expr r) { copy(r, p, 1); }); });
    b_.loop("r", rows_, [&](Expr r) {
      b_.loop("p", count / t_.lanes, [&](Expr p) { copy(r, p * t_.lanes, t_.lanes); });
      b_.loop("p", count % t_.lanes, [&](Expr p) { copy(r, count / t_.lanes * t_.lanes + p, 1); });
    });
  }

  // Sums over k in chunks, to keep a chunk of the panel in the cache. Sums are buffered between chunks.
  void chunks(const std::function<void(const std::function<void(Expr, Expr)>&)>& each_panel) {
    const GemmSpec& s = o_.spec;
    const int64_t step = quantized_ && s.quantized->block % kChunk != 0 ? s.quantized->block : s.k_step;
    int64_t k = 0, m = 0;
    const bool known = constant(o_.k, &k);
    const int64_t size = chunk_size(known ? k : 0, step);
    const bool once = known && k <= size;
    const int64_t depth = once ? std::max<int64_t>(k, 1) : size, rows = constant(o_.m, &m) ? std::min(m, row_block_) : row_block_;
    if (!s.packed || (quantized_ && few_rows() != true)) panel_ = b_.registers("panel_b", s.accumulate, depth * w_ + t_.lanes);
    if (copied_) {
      pitch_ = depth + t_.lanes;
      rows_copy_ = b_.registers("rows_a", s.accumulate, rows * pitch_);
    }
    if (once) {
      if (copied_) copy_rows(b_.i64(0), o_.k);
      if (down()) sums_ = b_.registers("sums", s.accumulate, rows * w_);
      return each_panel([&](Expr, Expr panel) {
        chunk(panel, b_.i64(0), b_.i64(0), o_.k, true);
        if (down()) write_rows(row0_, rows_, sums_, b_.i64(0));
      });
    }
    sums_ = b_.registers("sums", s.accumulate, group_ * rows * w_);
    b_.loop("i", b_.i64(group_ * rows * t_.vectors), [&](Expr i) { sums_.store(i * t_.lanes, o_.zero(t_.lanes)); });
    b_.loop("chunk", ceil_div(o_.k, size), [&](Expr c) {
      const Expr k0 = b_.let("k0", c * size), count = b_.let("count", min(o_.k - k0, size));
      if (copied_) copy_rows(k0, count);
      each_panel([&](Expr i, Expr panel) { chunk(panel, i * (rows * w_), k0, count, false); });
    });
    each_panel([&](Expr i, Expr) { write_rows(row0_, rows_, sums_, i * (rows * w_)); });
  }

  // Returns the terms of a chunk, for `k` terms (0: unknown) in steps of `step`. Chunks of prepacked panels are of equal size.
  int64_t chunk_size(int64_t k, int64_t step) const {
    int64_t size = quantized_ ? kChunk : m_.blocking.gemm_depth;
    if (o_.spec.packed && !quantized_ && !copied_) {
      size = m_.blocking.packed_depth;
      const int64_t chunks = std::max<int64_t>((k + size - 1) / size, 1);
      if (k > size) size = (k + chunks * kTermsPerStep - 1) / (chunks * kTermsPerStep) * kTermsPerStep;
    }
    return std::max<int64_t>(size / step, 1) * step;
  }

  // Whether there are few rows, for which quantized values are decoded as they are read; otherwise a panel is decoded once.
  // nullopt: decided at run time.
  std::optional<bool> few_rows() const {
    int64_t m = 0;
    return constant(o_.m, &m) ? std::optional(m <= kFewRows) : std::nullopt;
  }

  void chunk(Expr panel, Expr sums, Expr k0, Expr count, bool once) {
    const bool in_memory = o_.spec.packed && !quantized_;
    const Chunk c{panel, b_.let("panel_at", in_memory ? panel * (o_.k * w_) + k0 * w_ : b_.i64(0)), sums, k0, count, {}, once};
    auto decoded = [&] {
      const std::vector<int> all(static_cast<size_t>(t_.vectors), t_.lanes);
      quantized_->each_step(panel, k0, count, all, [&](Expr p, const QuantizedPanels::Column& column) {
        for (size_t v = 0; v < all.size(); ++v) panel_.store(p * w_ + static_cast<int64_t>(v) * t_.lanes, column(v));
      });
      with_columns(c);
    };
    auto in_tiles = [&] {
      Chunk few = c;
      few.decode = true;
      with_columns(few);
    };
    if (quantized_ && few_rows()) return *few_rows() ? in_tiles() : decoded();
    if (quantized_) return b_.when(rows_ <= kFewRows, in_tiles, decoded);
    if (!in_memory) pack_panel(panel_, b_.i64(0), column0_, k0, count);
    with_columns(c);
  }

  struct Chunk;
  static constexpr int kInFlight = 8;  // multiply-adds that a processor begins before the first ends
  void with_columns(Chunk c) {
    const std::vector<int> all(static_cast<size_t>(t_.vectors), t_.lanes);
    auto with = [&](const std::vector<int>& lanes, Columns of_result, int singles = 0) {
      c.lanes = lanes;
      c.of_result = of_result;
      c.singles = singles;
      tiles(c);
    };
    int64_t n = 0;
    const bool known = constant(o_.n, &n);
    if (known && n % own_ == 0) return with(all, Columns::All);
    if (!known || o_.spec.two_sums) return with(all, Columns::Asked);
    auto last = [&] {
      const int64_t rest = n % w_ % t_.lanes;
      std::vector<int> lanes(static_cast<size_t>(n % w_ / t_.lanes), t_.lanes);
      if (o_.spec.rows_packed && !quantized_ && !lanes.empty() && rest > 0 && rest <= kMostSingles)
        return with(lanes, Columns::All, static_cast<int>(rest));
      const int tail = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(rest)));
      if (rest > 0) lanes.push_back(tail);
      with(lanes, rest == 0 || rest == tail ? Columns::All : Columns::Some);
    };
    if (n < w_) return last();
    b_.when(
        column0_ + w_ <= o_.n, [&] { with(all, Columns::All); }, last);
  }

  // How many columns of the chunk's vectors are in the result. Asked: computed from column0 at run time.
  enum class Columns : uint8_t { All, Some, Asked };

  // A chunk of a panel (at `at`): the lanes of its vectors, its sums (at `sums`), whether it is all of k (`once`), whether it is
  // decoded as it is read, and how many columns after the vectors are computed as vectors of rows (`singles`).
  struct Chunk {
    Expr panel, at, sums, k0, count;
    std::vector<int> lanes;
    bool once;
    Columns of_result = Columns::All;
    bool decode = false;
    int singles = 0;
  };

  // Sums of one column for `lanes` rows from `row` on.
  struct Single {
    int row, lanes, column;
    Buf sum;
  };

  // Processes all rows of the task in tiles. A known remainder is one tile. A remainder with too few sums to hide the latency of
  // a multiply-add shares the rows of the last whole tile.
  void tiles(const Chunk& c) {
    int64_t m = 0;
    const bool known = constant(o_.m, &m);
    const int high = t_.rows, odd = known ? static_cast<int>(m % high) : 0;
    const bool shares =
        !c.decode && !o_.spec.rows_packed && odd > 0 && odd * t_.vectors < kInFlight && m > high && m <= row_block_;
    if (!c.decode && (!known || m >= (shares ? 2 * high : high)))
      b_.loop("tile", shares ? rows_ / high - 1 : rows_ / high, [&](Expr i) {
        number_ = i;
        tile(c, b_.let("row", i * high), high);
      });
    number_ = {};
    const Expr done = c.decode ? b_.i64(0) : rows_ / high * high, rest = rows_ - done;
    if (shares) {
      const int first = (high + odd + 1) / 2;
      tile(c, done - high, first);
      return tile(c, done - high + first, high + odd - first);
    }
    if (known) {
      auto last = [&] { tile(c, done, static_cast<int>(m % high)); };
      if (m % high == 0) return;
      return m <= row_block_ ? last() : b_.when(rest != 0, last);
    }
    Expr next = done;
    for (int rows : {4, 2, 1}) {
      if (c.decode && rows > kFewRows) continue;
      const Expr bit = b_.let("odd", rest / rows % 2);
      b_.when(bit != 0, [&] { tile(c, next, rows); });
      next = next + bit * rows;
    }
  }

  // Computes rows row0 + r .. over the whole chunk with sums in registers, then writes the result or the sums.
  void tile(const Chunk& c, Expr r, int rows) {
    std::vector<Buf> acc;
    auto each = [&](const std::function<void(int i, size_t v, int column, int lanes)>& body) {
      for (int i = 0; i < rows; ++i)
        for (size_t v = 0; v < c.lanes.size(); ++v) body(i, v, static_cast<int>(v) * t_.lanes, c.lanes[v]);
    };
    auto sum_of = [&](int i, size_t v) -> Buf& { return acc[static_cast<size_t>(i) * c.lanes.size() + v]; };
    auto place = [&](int i, int column) { return c.sums + (r + i) * w_ + column; };
    std::vector<Single> singles;
    for (int s = 0; s < c.singles; ++s)
      for (int i = 0, n; i < rows; i += n) {
        n = static_cast<int>(std::bit_floor(static_cast<unsigned>(rows - i)));
        singles.push_back({i, n, static_cast<int>(c.lanes.size()) * t_.lanes + s, {}});
      }
    Buf rows_of;  // elements of a single's vector
    if (c.singles) rows_of = b_.registers("rows_of_column", o_.spec.accumulate, rows);
    auto each_single = [&](const std::function<void(int i, int column, Expr sum)>& body) {
      for (const Single& s : singles) {
        rows_of.store(b_.i64(s.row), s.sum.get());
        for (int i = s.row; i < s.row + s.lanes; ++i) body(i, s.column, rows_of.load(b_.i64(i)));
      }
    };
    each([&](int i, size_t, int column, int lanes) {
      acc.push_back(b_.variable("sum", c.once ? o_.zero(lanes) : sums_.load(place(i, column), lanes)));
    });
    for (Single& s : singles) {
      for (int i = s.row; !c.once && i < s.row + s.lanes; ++i) rows_of.store(b_.i64(i), sums_.load(place(i, s.column)));
      s.sum = b_.variable("sum", c.once ? o_.zero(s.lanes) : rows_of.load(b_.i64(s.row), s.lanes));
    }
    // The steps of a word have sums of their own where those of a few rows would wait for one another.
    const size_t copies = c.decode ? own_sums(acc.size()) : 1, first_sums = acc.size();
    for (size_t i = first_sums; i < copies * first_sums; ++i)
      acc.push_back(b_.variable("sum", o_.zero(c.lanes[i % c.lanes.size()])));
    size_t turn = 0;
    auto step = [&](Expr p, const QuantizedPanels::Column& column) {
      std::vector<Expr> columns;
      for (size_t v = 0; v < c.lanes.size(); ++v) columns.push_back(b_.let("b", column(v)));
      const size_t own = turn++ % copies * first_sums;
      for (int i = 0; i < rows; ++i) {
        const Expr a = b_.let("a", a_at(r, i, p, c.k0));
        for (size_t v = 0; v < c.lanes.size(); ++v) {
          Buf& sum = acc[own + static_cast<size_t>(i) * c.lanes.size() + v];
          sum.set(o_.multiply_add(broadcast(a, c.lanes[v]), columns[v], sum.get()));
        }
      }
    };
    const Buf& panel = o_.spec.packed && !quantized_ ? o_.from_b : panel_;
    const auto one = [&](Expr p) {
      step(p, [&](size_t v) { return panel.load(c.at + p * w_ + static_cast<int>(v) * t_.lanes, c.lanes[v]); });
      for (Single& s : singles) {
        const Expr a = o_.load_packed_a(row0_ + r, s.row, c.k0 + p, s.lanes);
        s.sum.set(o_.multiply_add(a, broadcast(panel.load(c.at + p * w_ + s.column), s.lanes), s.sum.get()));
      }
    };
    if (c.decode) quantized_->each_step(c.panel, c.k0, c.count, c.lanes, step);
    else if (!o_.spec.packed || quantized_ || !number_.kernel) b_.loop("p", c.count, one);
    else fetching(c, one);
    for (size_t i = first_sums; i < acc.size(); ++i) {
      Buf& sum = acc[i % first_sums];
      sum.set(sum.get() + acc[i].get());
    }
    if (!c.once || down()) {
      each_single([&](int i, int column, Expr sum) { sums_.store(place(i, column), sum); });
      return each([&](int i, size_t v, int column, int) { sums_.store(place(i, column), sum_of(i, v).get()); });
    }
    auto whole = [&] {
      each([&](int i, size_t v, int column, int) {
        const Expr sum = sum_of(i, v).get();
        if (!o_.spec.two_sums) return o_.write(row0_ + r + i, column0_ + column, sum);
        const size_t half = c.lanes.size() / 2;
        if (v < half) o_.write(row0_ + r + i, column0_ + column, sum, sum_of(i, v + half).get());
      });
      each_single([&](int i, int column, Expr sum) { o_.write(row0_ + r + i, column0_ + column, sum); });
    };
    auto part = [&] {
      Buf line = b_.registers("line", o_.spec.accumulate, rows * w_);
      each([&](int i, size_t v, int column, int) { line.store(b_.i64(i * w_ + column), sum_of(i, v).get()); });
      each_single([&](int i, int column, Expr sum) { line.store(b_.i64(i * w_ + column), sum); });
      write_rows(row0_ + r, b_.i64(rows), line, b_.i64(0));
    };
    if (!o_.c_vectors()) return part();
    if (c.of_result == Columns::Asked) return b_.when(column0_ + own_ <= o_.n, whole, part);
    c.of_result == Columns::All ? whole() : part();
  }

  // How many sums each element of a tile of `sums` vectors has while words are decoded.
  size_t own_sums(size_t sums) const {
    return std::clamp<size_t>(size_t{kInFlight} / sums, 1, static_cast<size_t>(quantized_->steps_of_word()));
  }

  // Adds all terms of a tile and fetches its share of the panel that comes next, because packed weights come from memory: a few
  // lines per step keep the requests apart.
  void fetching(const Chunk& c, const std::function<void(Expr)>& one) {
    const int64_t line = kLineBytes * 8 / rlxc::bits(o_.spec.accumulate), per_step = kTermsPerStep * w_ / line;
    int64_t m = 0;
    const int64_t tiles = std::max<int64_t>((constant(o_.m, &m) ? std::min(m, row_block_) : row_block_) / t_.rows, 1);
    const int64_t lines = (per_step + tiles - 1) / tiles, shares = (per_step + lines - 1) / lines;
    const Expr after = c.once || group_ > 1 ? o_.k * w_ : c.count * w_;
    const Expr share = c.count / kTermsPerStep * (lines * line);
    const Expr next = b_.let("next", c.at + after + min(number_, shares - 1) * share);
    if (!m_.has_many_registers())
      return b_.loop("p", c.count, [&](Expr p) {
        o_.from_b.prefetch(next + p * (lines * line / kTermsPerStep));
        one(p);
      });
    const Expr steps = b_.let("steps", c.count / kTermsPerStep), rest = c.count % kTermsPerStep;
    b_.loop("s", steps, [&](Expr s) {
      for (int64_t i = 0; i < lines; ++i) o_.from_b.prefetch(next + (s * lines + i) * line);
      for (int64_t u = 0; u < kTermsPerStep; ++u) one(s * kTermsPerStep + u);
    });
    if (!is_constant(rest, 0)) b_.loop("p", rest, [&](Expr p) { one(steps * kTermsPerStep + p); });
  }

  Expr a_at(Expr r, int i, Expr p, Expr k0) const {
    if (o_.spec.rows_packed) return o_.load_packed_a(row0_ + r, i, k0 + p);
    return copied_ ? rows_copy_.load((r + i) * pitch_ + p) : o_.load_a(row0_ + r + i, k0 + p);
  }

  bool down() const { return o_.c_down() && t_.lanes > 1; }  // whether the result is written by columns

  // Writes rows of buffered sums.
  void write_rows(Expr row, Expr count, const Buf& from, Expr at) {
    if (down()) return write_columns(row, count, from, at);
    b_.loop("r", count, [&](Expr r) { o_.write_line(row + r, column0_, own_, from, at + r * w_, t_.lanes); });
  }

  // Writes buffered sums by columns, a few rows at a time, which keeps them in the nearest cache.
  void write_columns(Expr row, Expr count, const Buf& from, Expr at) {
    const Expr columns = is_constant(o_.n % own_, 0) ? b_.i64(own_) : b_.let("columns", min(o_.n - column0_, own_));
    const auto write = [&](Expr r, int lanes) {
      b_.loop("j", columns, [&](Expr j) {
        const auto sums = [&](Expr first) { return lanes == 1 ? from.load(first) : from.gather(ramp(first, w_, lanes)); };
        const Expr first = b_.let("first", at + r * w_ + j);
        o_.write(row + r, column0_ + j, sums(first), o_.spec.two_sums ? std::optional(sums(first + own_)) : std::nullopt, true);
      });
    };
    const Expr vectors = count / t_.lanes;
    b_.loop("v", vectors, [&](Expr v) { write(v * t_.lanes, t_.lanes); });
    Expr next = vectors * t_.lanes;
    for (int rows = t_.lanes / 2; rows > 0; rows /= 2) {
      const Expr bit = b_.let("odd", count / rows % 2);
      if (!is_constant(bit, 0)) b_.when(bit != 0, [&] { write(next, rows); });
      next = next + bit * rows;
    }
  }

  GemmOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const RegisterTile t_;
  const int64_t w_, own_;                      // columns per panel, and result columns per panel
  bool copied_ = false;                        // rows of a are copied
  int64_t pitch_ = 0;                          // of the copied rows
  int64_t group_ = 1;                          // panels per task
  int64_t row_block_ = m_.blocking.gemm_rows;  // most rows per task
  Expr row0_, rows_, column0_;
  Expr number_;  // of the tile among the whole tiles of its task; unset elsewhere
  Buf panel_, rows_copy_, sums_;
  std::optional<QuantizedPanels> quantized_;
};

}  // namespace

RegisterTile register_tile(const Mapping& m, DType accumulate) {
  const int vectors = m.has_many_registers() ? 4 : 2;
  return {m.vector_lanes(rlxc::bits(accumulate) / 8), vectors, (m.vector_registers - vectors - 1) / vectors};
}

// On a grid, a panel is what the threads of a warp read together.
int64_t gemm_panel(const Mapping& m, DType accumulate) {
  return m.workgroups ? kGridPanel : register_tile(m, accumulate).panel();
}
int64_t gemm_rows(const Mapping& m, DType accumulate) { return register_tile(m, accumulate).rows; }

// Copies pay for rows that need a conversion or have a stride, and for many rows that conflict in the cache.
bool gemm_copies_rows(const GemmSpec& s) {
  int64_t distance = 0, rows = 0;
  if (s.rows_packed) return false;
  if (s.a.dtype != s.accumulate || s.a_zero || !is_constant(s.a.strides.back(), 1)) return true;
  if (constant(s.m, &rows) && rows <= kFewRows) return false;
  return constant(s.a.strides.end()[-2], &distance) && distance * (rlxc::bits(s.a.dtype) / 8) % kSetBytes == 0;
}

Tasks gemm_tasks_on_tiles(GemmOperands& o, const Mapping& m) { return tasks_of(std::make_shared<GemmTiles>(o, m)); }
void gemm_on_tiles(GemmOperands& o, const Mapping& m) { run_tasks(o.b, m, gemm_tasks_on_tiles(o, m)); }

void build_pack(Builder& b, const GemmSpec& s, const std::string& out, const Mapping& m) {
  GemmOperands o(b, s);
  o.add_b();
  o.add_zeros();
  GemmTiles(o, m).pack(out);
}

void build_pack_codes(Builder& b, const GemmSpec& s, const std::string& out, const Mapping& m) {
  GemmOperands o(b, s);
  o.add_b();
  s.dots ? pack_quantized_dots(o, out, m) : GemmTiles(o, m).pack_quantized(out);
}

void build_pack_rows(Builder& b, const GemmSpec& s, const std::string& out, const Mapping& m) {
  GemmOperands o(b, s);
  o.add_a();
  o.add_zeros();
  GemmTiles(o, m).pack_rows(out);
}

}  // namespace rlxc::kernel
