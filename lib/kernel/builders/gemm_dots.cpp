// A matmul of 8-bit integers or of bf16 on CPU threads with a dot unit. Words of the right operand hold `group` values of a
// column, in panels. The panels of integers have the column sums as their last row. Operands of another signedness than the
// unit's have their sign bit flipped, which shifts their zero point. A matrix unit (pair_unit) multiplies twice as many words at
// once, those of two rows and two columns; the dot unit then adds the last words and computes single rows.
#include <algorithm>

#include "kernel/builders/dot_words.h"
#include "kernel/builders/gemm.h"
#include "kernel/builders/turn.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kDotPieces = 16;        // tasks that keep threads busy
constexpr int64_t kLeastDotRows = 48;     // per task
constexpr int64_t kLeastFillRows = 96;    // per task that fills a panel, which takes as long as some rows
constexpr int64_t kMostDotRows = 384;     // per task, if row sums are stored
constexpr int64_t kChunkWords = 512;      // words per column in a panel on the stack
constexpr int64_t kMostCopied = 1 << 16;  // bytes of quantized rows on the stack
constexpr int64_t kPairedTiles = 4;       // tiles for which the words of a panel are copied in pairs
constexpr int64_t kMostPaired = 1 << 16;  // bytes of such a panel on the stack

class DotTiles {
 public:
  DotTiles(GemmOperands& o, const Mapping& m)
      : o_(o),
        b_(o.b),
        m_(m),
        words_(o, m),
        t_(register_tile(m, words_.unit.accumulator)),
        w_(words_.columns),
        own_(o.spec.two_sums ? w_ / 2 : w_),
        steps_(words_.steps),
        left_(o.spec.rows_packed),
        pairs_(words_.reads_words_of_a() ? pair_unit(words_.unit, m) : nullptr) {}

  void pack(const std::string& out) {
    const Expr panels = ceil_div(o_.n, own_), words = words_.in_rows * w_;
    Buf to = b_.output(out, DType::I32, o_.batches() * panels * words);
    if (m_.workgroups)
      return for_each(b_, m_, "place", o_.batches() * panels * w_, 1 << 10, [&](Expr i) {
        const Expr panel = b_.let("panel", i / w_), j = b_.let("j", i % w_), first = b_.let("first", panel % panels * own_);
        o_.batch = split_index(panel / panels, o_.spec.batch);
        const Expr base = b_.let("base", panel * words), column = b_.let("column", first + j % own_);
        b_.when(
            column < o_.n, [&] { pack_column(to, base, column + j / own_ * o_.n, j, 1); },
            [&] {
              b_.loop("p", words_.padded, [&](Expr p) { to.store(base + words_.in_own_panel(p, j), words_.none()); });
              if (!words_.floats) to.store(base + words_.padded * w_ + j, words_.none());
            });
      });
    for_each(b_, m_, "panel", o_.batches() * panels, 1 << 16, [&](Expr i) {
      o_.batch = split_index(i / panels, o_.spec.batch);
      const Expr column0 = b_.let("column", i % panels * own_), words_of_panel = b_.let("base", i * words);
      // The columns from `first` on to those of the panel from `base` on.
      const auto whole = [&](Expr base, Expr first) {
        if (turns_columns())
          return b_.loop("v", own_ / t_.lanes, [&](Expr v) { pack_turned(to, base, first + v * t_.lanes, v * t_.lanes); });
        o_.b_vectors()
            ? b_.loop("v", own_ / t_.lanes, [&](Expr v) { pack_column(to, base, first + v * t_.lanes, v * t_.lanes, t_.lanes); })
            : b_.loop("j", own_, [&](Expr j) { pack_column(to, base, first + j, j, 1); });
      };
      const auto part = [&](Expr base, Expr first) {
        const Expr count = b_.let("count", o_.n - column0);
        b_.loop("j", count, [&](Expr j) { pack_column(to, base, first + j, j, 1); });
        b_.loop("p", words_.in_rows,
                [&](Expr p) { b_.loop("j", own_ - count, [&](Expr j) { to.store(base + p * w_ + count + j, words_.none()); }); });
      };
      const auto halves = [&](const std::function<void(Expr base, Expr first)>& pack_columns) {
        pack_columns(words_of_panel, column0);
        if (o_.spec.two_sums) pack_columns(b_.let("base", words_of_panel + own_), b_.let("first", column0 + o_.n));
      };
      if (is_constant(o_.n % own_, 0)) halves(whole);
      else
        b_.when(
            column0 + own_ <= o_.n, [&] { halves(whole); }, [&] { halves(part); });
    });
  }

  // A task is a block of rows and a panel of columns. If it copies its rows, it computes all panels.
  void run() {
    if (o_.spec.copied_rows) return by_copied_rows();
    const Expr panels = ceil_div(o_.n, own_);
    int64_t m = 0, k = 256, count = 0;
    constant(o_.k, &k);
    const bool known = constant(o_.m, &m);
    row_block_ = known ? m : kMostDotRows;
    if (known && m > 0 && constant(o_.batches() * panels, &count)) {
      const int64_t least = left_ ? kLeastFillRows : kLeastDotRows;
      int64_t blocks =
          std::clamp<int64_t>((kDotPieces + count - 1) / std::max<int64_t>(count, 1), 1, std::max<int64_t>(m / least, 1));
      if (sums_rows() || left_) blocks = std::max(blocks, (m + kMostDotRows - 1) / kMostDotRows);
      row_block_ = blocks == 1 ? m : ((m + blocks - 1) / blocks + t_.rows - 1) / t_.rows * t_.rows;
    }
    const Expr blocks = ceil_div(o_.m, row_block_);
    for_each(b_, m_, "work", o_.batches() * panels * blocks, std::max<int64_t>(row_block_ * k * w_ / 32, 1), [&](Expr work) {
      const Expr block = b_.let("block", work % blocks), panel = b_.let("panel", work / blocks % panels);
      o_.batch = split_index(b_.let("batch", work / (blocks * panels)), o_.spec.batch);
      row0_ = b_.let("row0", block * row_block_);
      rows_ = b_.let("rows", min(o_.m - row0_, row_block_));
      column0_ = b_.let("column0", panel * own_);
      if (left_) return by_filled_panel();
      panel_ = o_.from_b;
      at_ = b_.let("at", (o_.base_b() * panels + panel) * (words_.in_rows * w_));
      if (sums_rows()) add_rows();
      copy_pairs();
      columns([&](int vectors, Count count) { rows(vectors, count); });
    });
  }

  void run(Expr row0, Expr rows_of_block, int64_t row_block) {
    row_block_ = row_block;
    row0_ = row0;
    rows_ = rows_of_block;
    all_panels();
  }

 private:
  // Columns of the panel within the result; nullopt: determined by column0 at run time.
  using Count = std::optional<int64_t>;

  void all_panels() {
    panel_ = o_.from_b;
    if (sums_rows()) add_rows();
    const Expr panels = ceil_div(o_.n, own_);
    b_.loop("panel", panels, [&](Expr panel) {
      column0_ = b_.let("column0", panel * own_);
      at_ = b_.let("at", (o_.base_b() * panels + panel) * (words_.in_rows * w_));
      copy_pairs();
      columns([&](int vectors, Count count) { rows(vectors, count); });
    });
  }

  void by_copied_rows() {
    int64_t m = 0, n = w_, k = 0, count = 0;
    constant(o_.k, &k);
    constant(o_.n, &n);
    const int64_t group = words_.unit.group, width = (k + group - 1) / group * group;
    const int64_t most = std::max<int64_t>(kMostCopied / width / t_.rows, 1) * t_.rows;
    row_block_ = std::min(kMostDotRows, most);
    if (constant(o_.m, &m) && constant(o_.batches(), &count)) {
      const int64_t tasks = std::clamp<int64_t>((kDotPieces + count - 1) / std::max<int64_t>(count, 1), 1,
                                                std::max<int64_t>(m / kLeastDotRows, 1)),
                    blocks = std::max(tasks, (m + most - 1) / most);
      row_block_ = blocks <= 1 ? m : ((m + blocks - 1) / blocks + t_.rows - 1) / t_.rows * t_.rows;
    }
    const Expr blocks = ceil_div(o_.m, row_block_);
    for_each(b_, m_, "work", o_.batches() * blocks, std::max<int64_t>(row_block_ * k * n / 32, 1), [&](Expr work) {
      const Expr block = b_.let("block", work % blocks);
      o_.batch = split_index(b_.let("batch", work / blocks), o_.spec.batch);
      row0_ = b_.let("row0", block * row_block_);
      rows_ = b_.let("rows", min(o_.m - row0_, row_block_));
      copy_rows(k, width);
      all_panels();
    });
  }

  // Copies the rows of the task, quantized if they are floats, and fills their last words with what the unit reads as 0.
  void copy_rows(int64_t k, int64_t width) {
    const DType type = *o_.spec.copied_rows;
    const Buf codes = b_.registers("codes", type, row_block_ * width);
    const Expr none = constant_int(b_.kernel(), type, o_.spec.a_shift == 0 ? 0 : type == DType::U8 ? 128 : -128);
    std::vector<Expr> inputs = o_.of_rows.load_all({b_.i64(0)});
    for (Expr& v : inputs) v = b_.let("of_rows", v);
    const bool vectors = is_constant(o_.spec.a.strides.back(), 1);
    const int lanes = vectors ? m_.vector_lanes(4) : 1;
    b_.loop("r", rows_, [&](Expr r) {
      const auto copy = [&](Expr at, int count) {
        const Expr value = o_.from_a.load(o_.where_a(row0_ + r, at), count);
        codes.store(r * width + at, fused_values(o_.spec.prologue.body, {&value, 1}, inputs)[0]);
      };
      b_.loop("v", b_.i64(k / lanes), [&](Expr v) { copy(v * lanes, lanes); });
      if (k % lanes != 0) b_.loop("j", b_.i64(k % lanes), [&](Expr j) { copy(j + k / lanes * lanes, 1); });
      for (int64_t j = k; j < width; ++j) codes.store(r * width + j, none);
    });
    o_.from_a = codes;
    o_.copied_width = width;
    o_.first_copied = row0_;
  }

  // Sums of the unpacked operand are needed if the other one has a zero point.
  bool sums_rows() const { return !left_ && words_.needs_rows(); }
  bool sums_columns() const { return left_ && words_.needs_columns(); }
  Type quantized(DType t, int lanes) const { return {t, lanes * words_.unit.group}; }

  // Writes the words of columns from `column` on to those of a panel from j on, and their sums.
  void pack_column(const Buf& to, Expr base, Expr column, Expr j, int lanes) {
    Buf sum;
    if (!words_.floats) sum = b_.variable("sum", words_.none(lanes));
    b_.loop("p", steps_, [&](Expr p) {
      if (lanes == 1 && words_.reads_words_of_b()) {
        const Expr word = b_.let("word", words_.word_of_b(p, column, true));
        to.store(base + words_.in_own_panel(p, j), word);
        if (!words_.floats) sum.set(words_.add_b(word, sum.get()));
        return;
      }
      Expr all = words_.floats ? words_.none(lanes) : sum.get();
      const Expr word = words_.word([&](int q) {
        const Expr code = b_.let("code", words_.code_of_b(p * words_.unit.group + q, column, lanes));
        all = all + code;
        return code;
      });
      to.store(base + words_.in_own_panel(p, j), word);
      if (!words_.floats) sum.set(all);
    });
    if (!is_constant(words_.padded - steps_, 0))
      b_.loop("p", words_.padded - steps_, [&](Expr p) { to.store(base + words_.in_own_panel(steps_ + p, j), words_.none()); });
    if (!words_.floats) to.store(base + words_.padded * w_ + j, sum.get());
  }

  // Packs a vector of columns that are contiguous in memory: squares of words are turned.
  bool turns_columns() const { return t_.lanes > 1 && words_.reads_words_of_b() && is_multiple(steps_, t_.lanes); }
  void pack_turned(const Buf& to, Expr base, Expr column, Expr j) {
    Buf sum;
    if (!words_.floats) sum = b_.variable("sum", words_.none(t_.lanes));
    b_.loop("square", steps_ / t_.lanes, [&](Expr square) {
      const Expr p = b_.let("p", square * t_.lanes);
      std::vector<Expr> words;
      for (int l = 0; l < t_.lanes; ++l) words.push_back(b_.let("line", words_.words_of_b(p, column + l, t_.lanes)));
      words = turned(b_, std::move(words));
      for (int l = 0; l < t_.lanes; ++l) {
        const Expr word = words[static_cast<size_t>(l)];
        to.store(base + (p + l) * w_ + j, word);
        if (!words_.floats)
          sum.set(dot(ones(words_.unit.a, t_.lanes), bitcast_to(word, quantized(words_.unit.b, t_.lanes)), sum.get()));
      }
    });
    if (!words_.floats) to.store(base + steps_ * w_ + j, sum.get());
  }

  // Returns word p of a row of a, or of the chunk of the packed row.
  Expr word_of_a(Expr row, Expr p, bool whole) const { return words_.word_of_a(row, left_ ? first_ + p : p, whole); }

  // Calls body(word, whole) for each word of a row or of the current chunk, from p = first on. whole: no value is beyond k.
  void each_word(const std::function<void(Expr p, bool whole)>& body, Expr first) {
    if (!left_) return words_.each_word(body, first);
    const Expr count = count_ - first;
    if (!is_constant(count, 0)) b_.loop("p", count, [&](Expr p) { body(first + p, true); });
  }
  void each_word(const std::function<void(Expr p, bool whole)>& body) { each_word(body, b_.i64(0)); }

  // Copies unpacked columns to a panel, a chunk of words at a time. Sums are buffered between chunks.
  void by_filled_panel() {
    int64_t steps = 0;
    constant(steps_, &steps);
    const int64_t chunk = std::clamp<int64_t>(kChunkWords / o_.spec.k_step, 1, std::max<int64_t>(steps, 1)) * o_.spec.k_step;
    panel_ = b_.registers("panel_b", DType::I32, std::min(chunk, std::max<int64_t>(steps, 1)) * w_ + t_.lanes);
    at_ = b_.i64(0);
    if (pairs_) paired_ = panel_;
    if (sums_columns()) {
      column_sums_ = b_.registers("column_sums", DType::I32, w_);
      b_.loop("v", t_.vectors, [&](Expr v) { column_sums_.store(v * t_.lanes, o_.zero(t_.lanes)); });
    }
    const auto filled = [&](Expr first, Expr count) {
      first_ = first;
      count_ = count;
      fill_panel();
      if (sums_columns()) add_columns();
      if (pairs_) pair_words(panel_, at_);
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

  int64_t place(int v, int own) const { return v < own ? int64_t{v} * t_.lanes : own_ + int64_t{v - own} * t_.lanes; }
  Expr pairs_of_words() const { return (left_ ? count_ : words_.whole_words()) / 2; }

  // Copies a panel to paired_ in the order of the matrix unit, by interleaving the vectors of words p and p + 1. Each result
  // holds both words of half of the columns. The panel may be paired_.
  void pair_words(const Buf& panel, Expr at) {
    b_.loop("pair", pairs_of_words(), [&](Expr pair) {
      const Expr from = b_.let("from", pair * (2 * w_));
      for (int64_t j = 0; j < w_; j += t_.lanes) {
        const Expr first = b_.let("first", panel.load(at + from + j, t_.lanes)),
                   second = b_.let("second", panel.load(at + from + w_ + j, t_.lanes));
        paired_.store(from + j, interleave_low(first, second));
        paired_.store(from + w_ + j, interleave_high(first, second));
      }
    });
  }

  // Copies the pairs of the panel for many tiles.
  void copy_pairs() {
    int64_t m = 0, pairs = 0;
    const bool pays = pairs_ && constant(o_.m, &m) && std::min(m, row_block_) >= kPairedTiles * t_.rows &&
                      constant(pairs_of_words(), &pairs) && pairs > 0 && pairs * 2 * w_ * 4 <= kMostPaired;
    if (!pays) return;
    paired_ = b_.registers("paired", DType::I32, pairs * 2 * w_);
    pair_words(panel_, at_);
  }

  // Adds the products of whole pairs of words by the matrix unit. A register holds two words of two rows or of two columns. Its
  // sums are those of two rows and two columns.
  void add_pairs(Expr r, int rows, int own, int vectors, const std::vector<Buf>& sums) {
    const auto none = [&] { return broadcast(constant_int(b_.kernel(), words_.unit.accumulator, 0), t_.lanes); };
    const size_t pairs = static_cast<size_t>(rows + 1) / 2, registers = 2 * static_cast<size_t>(vectors);
    std::vector<Buf> products;
    for (size_t i = 0; i < pairs * registers; ++i) products.push_back(b_.variable("products", none()));
    const DType of_rows = left_ ? words_.unit.b : words_.unit.a, of_columns = left_ ? words_.unit.a : words_.unit.b;
    const auto halves = [&](Expr p, int v) {
      const Buf& from = paired_.builder() ? paired_ : panel_;
      const Expr at = (paired_.builder() ? b_.i64(0) : at_) + p * (2 * w_) + place(v, own);
      const Expr first = from.load(at, t_.lanes), second = from.load(at + w_, t_.lanes);
      if (paired_.builder()) return std::pair(first, second);
      return std::pair(interleave_low(first, second), interleave_high(first, second));
    };
    b_.loop("pair", pairs_of_words(), [&](Expr p) {
      std::vector<Expr> of_pairs;
      for (size_t i = 0; i < pairs; ++i) {
        const int first = 2 * static_cast<int>(i), second = std::min(first + 1, rows - 1);
        const auto words = [&](int row) {
          return broadcast(words_.two_words_of_a(row0_ + r + row, (left_ ? first_ : b_.i64(0)) + p * 2), t_.lanes / 2);
        };
        of_pairs.push_back(b_.let("a", bitcast_to(even_lanes(words(first), words(second)), quantized(of_rows, t_.lanes))));
      }
      for (int v = 0; v < vectors; ++v) {
        const auto [low, high] = halves(p, v);
        size_t at = 2 * static_cast<size_t>(v);
        for (const Expr& half : {low, high}) {
          const Expr b = b_.let("b", bitcast_to(half, quantized(of_columns, t_.lanes)));
          for (size_t i = 0; i < pairs; ++i) {
            Buf& to = products[i * registers + at];
            to.set(left_ ? b_.matrix_multiply(*pairs_, b, of_pairs[i], to.get())
                         : b_.matrix_multiply(*pairs_, of_pairs[i], b, to.get()));
          }
          ++at;
        }
      }
    });
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) {
        const size_t at = static_cast<size_t>(i / 2) * registers + 2 * static_cast<size_t>(v);
        const Expr low = products[at].get(), high = products[at + 1].get();
        const int unit = left_ ? 1 : 2;
        const Expr of_row = i % 2 == 0 ? even_lanes(low, high, unit) : odd_lanes(low, high, unit);
        Buf sum = sums[static_cast<size_t>(i * vectors + v)];
        sum.set(sum.get() + of_row);
      }
  }

  Expr ones(DType t, int lanes) const { return broadcast(constant_int(b_.kernel(), t, 1), lanes * kWordCodes); }

  void add_rows() {
    row_sums_ = b_.registers("row_sums", DType::I32, row_block_);
    const int64_t step = int64_t{t_.lanes} * kWordCodes;
    const bool contiguous = o_.copied_width || is_constant(o_.spec.a.strides.back(), 1);
    const bool vectors = contiguous && is_multiple(o_.k, step) && !o_.spec.a_shift;
    b_.loop("r", rows_, [&](Expr r) {
      Buf sum = b_.variable("sum", o_.zero(vectors ? t_.lanes : 1));
      if (vectors)
        b_.loop("p", o_.k / step, [&](Expr p) {
          const Expr a = o_.from_a.load(o_.where_a(row0_ + r, p * step), static_cast<int>(step));
          sum.set(dot(a, ones(words_.unit.b, t_.lanes), sum.get()));
        });
      else
        each_word([&](Expr p, bool whole) {
          sum.set(
              dot(bitcast_to(word_of_a(row0_ + r, p, whole), quantized(words_.unit.a, 1)), ones(words_.unit.b, 1), sum.get()));
        });
      row_sums_.store(r, reduce_add(sum.get()));
    });
  }

  void add_columns() {
    std::vector<Buf> sums;
    for (int64_t j = 0; j < w_; j += t_.lanes) sums.push_back(b_.variable("sum", column_sums_.load(j, t_.lanes)));
    b_.loop("p", count_, [&](Expr p) {
      for (int64_t j = 0; j < w_; j += t_.lanes) {
        Buf& sum = sums[static_cast<size_t>(j / t_.lanes)];
        const Expr words = bitcast_to(panel_.load(p * w_ + j, t_.lanes), quantized(words_.unit.a, t_.lanes));
        sum.set(dot(words, ones(words_.unit.b, t_.lanes), sum.get()));
      }
    });
    for (int64_t j = 0; j < w_; j += t_.lanes) column_sums_.store(j, sums[static_cast<size_t>(j / t_.lanes)].get());
  }

  void columns(const std::function<void(int vectors, Count)>& body) {
    int64_t n = 0;
    const int vectors = static_cast<int>(own_ / t_.lanes);
    const auto whole = [&] { body(vectors, own_); };
    if (is_constant(o_.n % own_, 0)) return whole();
    if (!constant(o_.n, &n)) return b_.when(column0_ + own_ <= o_.n, whole, [&] { body(vectors, {}); });
    const auto last = [&] { body(static_cast<int>((n % own_ + t_.lanes - 1) / t_.lanes), n % own_); };
    if (n < own_) return last();
    b_.when(column0_ + own_ <= o_.n, whole, last);
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

  // Divides the rows among tiles. Heights differ by at most one row, or by one pair where rows are paired. If the number of
  // paired rows is odd, the last tile has one row less.
  void balanced(int64_t m, int vectors, Count count) {
    if (m == 0) return;
    const int64_t step = pairs_ ? 2 : 1, steps = m / step, odd = m % step, most = t_.rows / step;
    const int64_t tiles = (steps + odd + most - 1) / most, high = (steps + odd + tiles - 1) / tiles,
                  low = tiles * high - steps - odd;
    const auto several = [&](int64_t first, int64_t tiles, int64_t rows) {
      if (tiles > 0)
        b_.loop("tile", tiles, [&](Expr i) { tile(b_.let("row", first + i * rows), static_cast<int>(rows), vectors, count); });
    };
    const int64_t next = (tiles - low) * high * step, lower = (high - 1) * step;
    several(0, tiles - low - (low == 0 ? odd : 0), high * step);
    if (low > 0) several(next, low - odd, lower);
    if (odd == 0) return;
    const int64_t last = (low > 0 ? lower : high * step) - 1;
    if (last > 0) several(m - last, 1, last);
  }

  // Computes rows r .. of the task over all of k, with sums in registers. `own`: vectors of the result. With two sums, those of
  // the second half of the columns follow.
  void tile(Expr r, int rows, int own, Count count) {
    const int vectors = o_.spec.two_sums ? 2 * own : own;
    std::vector<Buf> sums;
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) {
        const Expr before = sums_.builder() ? sums_.load((r + i) * w_ + place(v, own), t_.lanes) : o_.zero(t_.lanes);
        sums.push_back(b_.variable("sum", before));
      }
    const bool pairs = pairs_ && rows > 1 && !is_constant(pairs_of_words(), 0);
    if (pairs) add_pairs(r, rows, own, vectors, sums);
    const DotUnit& u = words_.unit;
    const DType of_a = left_ ? u.b : u.a, of_b = left_ ? u.a : u.b;
    const auto add_word = [&](Expr p, bool whole) {
      std::vector<Expr> columns;
      for (int v = 0; v < vectors; ++v)
        columns.push_back(
            b_.let("b", bitcast_to(panel_.load(at_ + p * w_ + place(v, own), t_.lanes), quantized(of_b, t_.lanes))));
      for (int i = 0; i < rows; ++i) {
        const Expr word = word_of_a(row0_ + r + i, p, whole);
        const Expr a = b_.let("a", bitcast_to(broadcast(word, t_.lanes), quantized(of_a, t_.lanes)));
        for (int v = 0; v < vectors; ++v) {
          Buf& sum = sums[static_cast<size_t>(i * vectors + v)];
          const Expr b = columns[static_cast<size_t>(v)];
          sum.set(left_ ? dot(b, a, sum.get()) : dot(a, b, sum.get()));
        }
      }
    };
    pairs ? each_word(add_word, pairs_of_words() * 2) : each_word(add_word);
    const auto sum_of = [&](int i, int v) { return sums[static_cast<size_t>(i * vectors + v)].get(); };
    if (!sums_.builder()) return put(r, rows, own, count, sum_of);
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) sums_.store((r + i) * w_ + place(v, own), sum_of(i, v));
  }

  // Writes the sums of rows from r on. With two sums, those of vector v are v and vectors + v.
  void put(Expr r, int rows, int vectors, Count count, const std::function<Expr(int i, int v)>& sum_of) {
    // Values are computed in vectors even if a result is written by columns.
    const int direct = !count ? 0 : static_cast<int>(*count / t_.lanes);
    Buf line;
    const bool two = o_.spec.two_sums;
    if (direct < vectors) line = b_.registers("line", words_.unit.accumulator, int64_t{rows} * w_);
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) {
        const int64_t j = int64_t{v} * t_.lanes;
        if (v < direct) {
          write(r + i, j, sum_of(i, v), two ? std::optional(sum_of(i, vectors + v)) : std::nullopt);
          continue;
        }
        line.store(b_.i64(i * w_ + j), sum_of(i, v));
        if (two) line.store(b_.i64(i * w_ + own_ + j), sum_of(i, vectors + v));
      }
    if (direct == vectors) return;
    int64_t first = int64_t{direct} * t_.lanes;
    // Half a vector, then single columns.
    constexpr int kLeastLanes = 8;
    if (const int half = t_.lanes / 2; count && half >= kLeastLanes && *count - first >= half) {
      b_.loop("i", b_.i64(rows), [&](Expr i) {
        const Expr from = i * w_ + first;
        write(r + i, first, line.load(from, half), two ? std::optional(line.load(from + own_, half)) : std::nullopt);
      });
      first += half;
      if (first == *count) return;
    }
    const Expr rest = count ? b_.i64(*count - first) : b_.let("rest", min(o_.n - column0_, own_) - first);
    b_.loop("i", b_.i64(rows), [&](Expr i) {
      b_.loop("j", rest, [&](Expr j) {
        const Expr from = i * w_ + first + j;
        write(r + i, first + j, line.load(from), two ? std::optional(line.load(from + own_)) : std::nullopt);
      });
    });
  }

  // Applies zero points to the sums of columns j .. and writes them.
  void write(Expr r, Index j, Expr sum, std::optional<Expr> second) {
    const int lanes = sum.lanes();
    const Expr row = row0_ + r, in_panel = j.in(b_.kernel()), column = column0_ + in_panel;
    const auto of_row = [&] { return left_ ? words_.sum_of_row(row) : row_sums_.load(r); };
    const auto whole = [&](Expr part, Expr at, Expr of) {
      const auto of_column = [&] { return left_ ? column_sums_.load(at, lanes) : panel_.load(at_ + steps_ * w_ + at, lanes); };
      return b_.let("whole", words_.without_zeros(part, row, of, of_row, of_column));
    };
    const Expr first = whole(sum, in_panel, column);
    o_.write(row, column, first, second ? std::optional(whole(*second, in_panel + own_, column + o_.n)) : std::nullopt);
  }

  GemmOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const DotWords words_;
  const RegisterTile t_;
  const int64_t w_, own_;          // columns per panel, and result columns per panel
  const Expr steps_;               // words per column
  const bool left_;                // a is the packed operand, and words of b are copied to a panel
  const MatrixUnit* const pairs_;  // multiplies two words of two rows and of two columns; null: there is none
  int64_t row_block_ = 0;
  Expr row0_, rows_, column0_, at_;
  Expr first_, count_;  // words of the chunk in the panel
  Buf panel_, paired_, row_sums_, column_sums_, sums_;
};

}  // namespace

void build_pack_dots(Builder& b, const GemmSpec& s, const std::string& out, const Mapping& m) {
  GemmOperands o(b, s);
  o.add_b();
  DotTiles(o, m).pack(out);
}

void gemm_on_dots(GemmOperands& o, const Mapping& m) { DotTiles(o, m).run(); }

void gemm_rows_on_dots(GemmOperands& o, const Mapping& m, Expr row0, Expr rows, int64_t row_block) {
  DotTiles(o, m).run(row0, rows, row_block);
}

}  // namespace rlxc::kernel
