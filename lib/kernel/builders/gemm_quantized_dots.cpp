// A matmul of 8-bit integer rows and a quantized weight on CPU threads with a dot unit:
//   y = sum over blocks of scale of row and block * scale of block and column * (sum x * q - zero * sum x)
// Weight values are unsigned: signed ones have their sign bit flipped, which shifts their zero point. A byte of a word has as
// many values of a column as fit, kWordCodes steps of k apart: a shift and a mask of a vector of words yield the unit's operand.
// Few rows multiply the words directly; for more, a chunk of a panel is unpacked to bytes first. Split rows (RoundedRows) have
// such sums for each digit; those of the last digit are computed where it counts. Where the count of rows decides in the run
// whether they are split (splits_rows), a kernel has both forms.
#include <algorithm>

#include "kernel/builders/dot_unit.h"
#include "kernel/builders/gemm_quantized.h"
#include "kernel/builders/round_rows.h"

namespace rlxc::kernel {
namespace {

constexpr int kTileRows = 2;             // rows whose sums, and those of a block, stay in registers beside a row of the panel
constexpr int kRowsOfWords = 3;          // up to so many rows, words are multiplied without unpacking
constexpr int kSplitRowsOfWords = 8;     // the same of split rows
constexpr int64_t kMostBlock = 1 << 16;  // products whose sum fits in 32 bits
constexpr double kDigitBase = 256;       // of split rows
constexpr int64_t kLineWords = 16;       // of a cache line
constexpr int64_t kAheadWords = 2048;    // about twice as many as come from memory while one is awaited

int64_t codes_of_word(int bits) { return 32 / bits; }

class QuantizedDots {
 public:
  QuantizedDots(GemmOperands& o, const Mapping& m)
      : o_(o),
        b_(o.b),
        m_(m),
        quantized_(*o.spec.quantized),
        t_(register_tile(m, DType::I32)),
        w_(gemm_panel(m, DType::I32)),
        own_(o.spec.two_sums ? w_ / 2 : w_),
        bits_(quantized_.bits),
        fields_(8 / bits_),
        step_(codes_of_word(bits_)),
        digits_(o.spec.rounded && o.spec.rounded->fine ? kRowDigits - 1 : 1) {
    constant(o.k, &k_);
    block_ = quantized_.block ? quantized_.block : k_;
  }

  void pack(const std::string& out) {
    const Expr panels = ceil_div(o_.n, own_);
    const int64_t words = k_ / step_ * w_;
    Buf to = b_.output(out, DType::I32, panels * words);
    const auto word_of = [&](Expr panel, Expr at) {
      const Expr place = at % w_, column = b_.let("from", min(panel * own_ + place % own_, o_.n - 1) + place / own_ * o_.n);
      Expr word = b_.value(DType::I32, 0);
      for (int64_t f = 0; f < fields_; ++f)
        for (int64_t q = 0; q < kWordCodes; ++q) {
          const Expr code = cast_to(o_.code_of_b(at / w_ * step_ + f * kWordCodes + q, column), DType::I32);
          word = word | ((code ^ quantized_.sign) & ((1 << bits_) - 1)) << static_cast<int>(8 * q + f * bits_);
        }
      to.store(panel * words + at, word);
    };
    if (m_.workgroups)
      return for_each(b_, m_, "word", panels * words, 64, [&](Expr i) { word_of(b_.let("panel", i / words), i % words); });
    for_each(b_, m_, "panel", panels, 1 << 16, [&](Expr i) { b_.loop("at", words, [&](Expr at) { word_of(i, at); }); });
  }

  // A task is a block of rows and a panel of columns.
  Tasks tasks() {
    const Expr panels = ceil_div(o_.n, own_);
    int64_t m = 0;
    const bool known = constant(o_.m, &m);
    row_block_ = known ? std::min(m, row_block_) : row_block_;
    const Expr blocks = ceil_div(o_.m, row_block_);
    const int64_t bytes = std::max(k_ * w_ * bits_ / 8, row_block_ * k_ * w_ / 32);
    return {o_.batches() * panels * blocks, bytes, [=, this](Expr work) {
              const Expr rows = b_.let("block", work % blocks);
              panel_ = b_.let("panel", work / blocks % panels);
              o_.batch = split_index(b_.let("batch", work / (blocks * panels)), o_.spec.batch);
              row0_ = b_.let("row0", rows * row_block_);
              rows_ = b_.let("rows", min(o_.m - row0_, row_block_));
              column0_ = b_.let("column0", panel_ * own_);
              words_at_ = b_.let("words_at", panel_ * (k_ / step_ * w_));
              if (digits_ > 1) return split_rows(known ? std::optional(m) : std::nullopt);
              if (known && m <= kRowsOfWords) return tile(whole(), b_.i64(0), static_cast<int>(m));
              if (known) return many();
              b_.when(
                  rows_ <= kRowsOfWords, [&] { b_.loop("r", rows_, [&](Expr r) { tile(whole(), r, 1); }); }, [&] { many(); });
            }};
  }

 private:
  // Blocks first .. first + count of the panel. spread: unpacked to bytes. Sums start at zero (`begins`) and are written to the
  // result (`ends`), or else are buffered; where a loop over chunks decides, `continues` says that sums are buffered from the
  // chunk before, and `is_last`. digits: of split rows, those that always count, the last one, or both.
  enum class Digits : uint8_t { First, Last, All };
  struct Chunk {
    Expr first, count;
    bool spread, begins, ends;
    Digits digits = Digits::All;
    std::optional<Expr> continues = {}, is_last = {};
  };
  Chunk whole() const { return {b_.i64(0), b_.i64(k_ / block_), false, true, true}; }

  // The last digits of a row are added after all others: the result of a row does not depend on the number of rows.
  void split_rows(std::optional<int64_t> m) {
    const auto rows = [&](const Chunk& c) { b_.loop("r", rows_, [&](Expr r) { tile(c, r, 1); }); };
    if ((m && *m <= kSplitRowsOfWords) || !splits_rows(kSplitRowsOfWords + 1, m_).value_or(true)) return rows(whole());
    sums_ = b_.registers("sums", DType::F32, row_block_ * w_);
    Chunk first = whole(), last = first;
    first.ends = last.begins = false;
    first.digits = Digits::First;
    last.digits = Digits::Last;
    m ? many()
      : b_.when(
            rows_ <= kSplitRowsOfWords, [&] { rows(first); }, [&] { many(); });
    rows(last);
    sums_ = {};
  }

  void many() {
    const bool spread = fields_ > 1 && block_ <= 2 * kChunk, split = digits_ > 1;
    const int64_t blocks = k_ / block_, size = blocks_of_chunk();
    if (spread) bytes_ = b_.registers("panel_b", DType::I32, size * block_ / kWordCodes * w_);
    Chunk c{b_.i64(0), b_.i64(blocks), spread, true, !split, split ? Digits::First : Digits::All};
    if (size == blocks) {
      if (spread) spread_out(c);
      return tiles(c);
    }
    const int64_t chunks = ceil_div(blocks, size);
    if (split) b_.loop("i", rows_ * t_.vectors, [&](Expr i) { sums_.store(i * t_.lanes, float_zero()); });
    else sums_ = b_.registers("sums", DType::F32, row_block_ * w_);
    c.begins = c.ends = false;
    b_.loop("chunk", chunks, [&](Expr i) {
      if (!split) c.continues = i != 0, c.is_last = i == chunks - 1;
      c.first = b_.let("first", i * size);
      c.count = b_.let("blocks", min(blocks - c.first, size));
      if (spread) spread_out(c);
      tiles(c);
    });
    if (!split) sums_ = {};
  }

  Expr float_zero() const { return broadcast(b_.f32(0), t_.lanes); }

  void spread_out(const Chunk& c) {
    const Expr from = b_.let("from", words_at_ + c.first * (block_ / step_ * w_));
    b_.loop("p", c.count * (block_ / step_), [&](Expr p) {
      for (int64_t j = 0; j < w_; j += t_.lanes) {
        const Expr words = b_.let("words", o_.from_b.load(from + p * w_ + j, t_.lanes));
        for (int64_t f = 0; f < fields_; ++f) bytes_.store((p * fields_ + f) * w_ + j, field(words, f));
      }
    });
  }

  Expr field(Expr words, int64_t f) const {
    if (fields_ == 1) return words;
    const int mask = (1 << bits_) - 1;
    return words >> static_cast<int>(f * bits_) & mask * 0x01010101;
  }

  void tiles(const Chunk& c) {
    int64_t m = 0;
    const int high = digits_ > 1 ? 1 : kTileRows;
    b_.loop("tile", rows_ / high, [&](Expr i) {
      fetch_next(c, i, std::max<int64_t>(row_block_ / high, 1));
      tile(c, b_.let("row", i * high), high);
    });
    if (high == 1) return;
    const Expr done = rows_ / kTileRows * kTileRows;
    if (constant(o_.m, &m) && m == row_block_) {
      if (m % kTileRows) tile(c, done, static_cast<int>(m % kTileRows));
      return;
    }
    b_.loop("r", rows_ % kTileRows, [&](Expr r) { tile(c, done + r, 1); });
  }

  // Each tile fetches its share of the next chunk, so that weights come from memory while others are multiplied.
  void fetch_next(const Chunk& c, Expr tile, int64_t tiles) {
    constexpr int64_t kMostLines = 8;
    const Expr next = c.first + c.count;
    const auto fetch = [&](const Buf& from, Expr first, int64_t elements_of_block) {
      const int64_t line = kLineWords * 32 / rlxc::bits(from.type().dtype);
      const int64_t lines = blocks_of_chunk() * elements_of_block / line;
      const int64_t own = std::clamp<int64_t>(ceil_div(lines, tiles), 1, kMostLines);
      const Expr at =
          b_.let("next", first + next * elements_of_block + min(tile, b_.i64(ceil_div(lines, own) - 1)) * (own * line));
      for (int64_t i = 0; i < own; ++i) from.prefetch(at + i * line);
    };
    fetch(o_.from_b, words_at_, block_ / step_ * w_);
    const Operand& scale = *quantized_.scale;
    const Index &of_panel = scale.strides[0], &of_block = scale.strides.end()[-2];
    if (is_constant(of_block, w_)) fetch(o_.scale, panel_ * of_panel.in(b_.kernel()), w_);
  }
  int64_t blocks_of_chunk() const { return std::min(std::max<int64_t>(kChunk / block_, 1), k_ / block_); }

  Expr zero_of(Expr block, int v) const {
    Expr zero = b_.value(DType::I32, quantized_.sign);
    if (!quantized_.zero) return zero;
    const Expr own = panel_entry(o_, o_.zero_point, *quantized_.zero, panel_, block, int64_t{v} * t_.lanes, t_.lanes);
    return zero + cast_to(own, DType::I32);
  }

  // Rows of a tile and digits of them whose sums of a block are computed together.
  struct Part {
    Expr r;
    int rows, digit, digits;
    Buf zeros = {};              // sum_of_zeros() of rows and the blocks of a chunk, if these are the same in all columns
    std::vector<Buf> dots = {};  // of rows, digits and vectors
    size_t at(int row, int d, int vectors, int v) const { return static_cast<size_t>((row * digits + d) * vectors + v); }
  };

  // Returns the correction of a block's sum for the zero point.
  Expr sum_of_zeros(Expr r, Expr block, int digit, int v) const {
    const Expr entry = block + digit * (k_ / block_);
    return -(zero_of(block, v) * o_.of_row(o_.row_sums, o_.spec.rounded->sums, row0_ + r, entry));
  }

  // The same for rows and blocks of a chunk: vectors of numbers in memory take less time than a number in a register.
  Buf sums_of_zeros(const Chunk& c, Expr r, int rows) {
    const bool same = !quantized_.zero || is_constant(quantized_.zero->strides.back(), 0);
    if (!c.spread || !same || digits_ > 1) return {};
    Buf zeros = b_.registers("zeros", DType::I32, rows * blocks_of_chunk());
    for (int i = 0; i < rows; ++i)
      b_.loop("g", c.count,
              [&](Expr g) { zeros.store(i * blocks_of_chunk() + g, sum_of_zeros(r + i, b_.let("block", c.first + g), 0, 0)); });
    return zeros;
  }

  void multiply_block(const Chunk& c, Expr g, Expr block, Part* part) {
    const auto each = [&](const std::function<void(int i, int d)>& body) {
      for (int i = 0; i < part->rows; ++i)
        for (int d = 0; d < part->digits; ++d) body(i, d);
    };
    each([&](int i, int d) {
      Expr first;
      if (part->zeros.builder()) first = b_.let("first", part->zeros.load(i * blocks_of_chunk() + g));
      for (int v = 0; v < t_.vectors; ++v) {
        const Expr own = first.kernel ? first : sum_of_zeros(part->r + i, block, part->digit + d, v);
        part->dots.push_back(b_.variable("dots", broadcast(own, t_.lanes)));
      }
    });
    const Expr base = c.spread ? g * (block_ / kWordCodes * w_) : words_at_ + block * (block_ / step_ * w_);
    const Expr words_at = b_.let("at", base), k0 = b_.let("k0", block * block_);
    const int64_t fields = c.spread ? 1 : fields_;
    b_.loop("p", block_ / (kWordCodes * fields), [&](Expr p) {
      const Buf& from = c.spread ? bytes_ : o_.from_b;
      const auto word_of = [&](int v) { return b_.let("words", from.load(words_at + p * w_ + int64_t{v} * t_.lanes, t_.lanes)); };
      std::vector<Expr> words;  // of several fields
      for (int v = 0; fields > 1 && v < t_.vectors; ++v) words.push_back(word_of(v));
      // The products of the first digits of split rows leave no room to load words of later steps before they are needed.
      if (!c.spread && part->digit == 0 && digits_ > 1)
        for (int64_t i = 0; i < w_; i += kLineWords) from.prefetch(words_at + p * w_ + (kAheadWords + i), Cache::First);
      for (int64_t f = 0; f < fields; ++f) {
        std::vector<Expr> of_rows;
        each([&](int i, int d) {
          const Expr at = o_.where_a(row0_ + part->r + i, k0 + (p * fields + f) * kWordCodes + (part->digit + d) * k_);
          const Expr word = bitcast_to(o_.from_a.load(at, kWordCodes), Type(DType::I32));
          of_rows.push_back(b_.let("x", bitcast_to(broadcast(word, t_.lanes), {DType::I8, t_.lanes * kWordCodes})));
        });
        // All rows read a vector of the panel before the next one is loaded: compilers load it once.
        for (int v = 0; v < t_.vectors; ++v) {
          const Expr word = fields > 1 ? words[static_cast<size_t>(v)] : word_of(v);
          const Expr codes = b_.let("codes", bitcast_to(c.spread ? word : field(word, f), {DType::U8, t_.lanes * kWordCodes}));
          each([&](int i, int d) {
            Buf& to = part->dots[part->at(i, d, t_.vectors, v)];
            const Expr x = of_rows[part->at(i, d, 1, 0)];
            to.set(fields_ > 1 ? dot_of_small(codes, x, to.get()) : dot(codes, x, to.get()));
          });
        }
      }
    });
  }

  // Split rows have tiles of one row.
  void tile(const Chunk& c, Expr r, int rows) {
    const auto each = [&](const std::function<void(int i, int v, size_t at)>& body) {
      for (int i = 0; i < rows; ++i)
        for (int v = 0; v < t_.vectors; ++v) body(i, v, static_cast<size_t>(i * t_.vectors + v));
    };
    const auto place = [&](int i, int v) { return (r + i) * w_ + int64_t{v} * t_.lanes; };
    std::vector<Buf> sums;
    const auto kept = [&](int i, int v) { return sums_.load(place(i, v), t_.lanes); };
    each([&](int i, int v, size_t) { sums.push_back(b_.variable("sum", c.begins || c.continues ? float_zero() : kept(i, v))); });
    if (c.continues) b_.when(*c.continues, [&] { each([&](int i, int v, size_t at) { sums[at].set(kept(i, v)); }); });
    const Buf zeros = sums_of_zeros(c, r, rows);
    // Adds digits digit .. digit + digits of a block.
    const auto add_block = [&](Expr g, Expr block, int digit, int digits) {
      Part part{r, rows, digit, digits, zeros};
      multiply_block(c, g, block, &part);
      std::vector<Expr> scales;
      for (int v = 0; v < t_.vectors; ++v) {
        const Expr scale = panel_entry(o_, o_.scale, *quantized_.scale, panel_, block, int64_t{v} * t_.lanes, t_.lanes);
        scales.push_back(b_.let("scale", broadcast(cast_to(scale, DType::F32), t_.lanes)));
      }
      each([&](int i, int v, size_t at) {
        const Expr of_row = o_.of_row(o_.row_scales, o_.spec.rounded->scale, row0_ + r + i, block);
        const auto of_digit = [&](int d) { return cast_to(part.dots[part.at(i, d, t_.vectors, v)].get(), DType::F32); };
        Expr dots = of_digit(0);
        for (int d = 1; d < digits; ++d) dots = fma(dots, broadcast(b_.f32(kDigitBase), t_.lanes), of_digit(d));
        const Expr scale = scales[static_cast<size_t>(v)] * (digit == 0 ? of_row : of_row * (1 / kDigitBase));
        sums[at].set(fma(dots, scale, sums[at].get()));
      });
    };
    if (c.digits != Digits::Last) b_.loop("g", c.count, [&](Expr g) { add_block(g, b_.let("block", c.first + g), 0, digits_); });
    // The last digits have a loop of their own: compilers would keep decoded weights of the first one for it.
    if (digits_ > 1 && c.digits != Digits::First)
      b_.loop("g", c.count, [&](Expr g) {
        const Expr block = b_.let("block", c.first + g);
        b_.when(o_.of_row(o_.row_fine, *o_.spec.rounded->fine, row0_ + r, block) != 0, [&] { add_block(g, block, digits_, 1); });
      });
    const auto keep = [&] { each([&](int i, int v, size_t at) { sums_.store(place(i, v), sums[at].get()); }); };
    const auto write = [&] { write_sums(r, rows, sums); };
    if (c.is_last) return b_.when(*c.is_last, write, keep);
    c.ends ? write() : keep();
  }

  void write_sums(Expr r, int rows, const std::vector<Buf>& sums) {
    if (o_.c_vectors() && is_multiple(o_.n, own_)) {
      const int halves = o_.spec.two_sums ? t_.vectors / 2 : t_.vectors;
      for (int i = 0; i < rows; ++i)
        for (int v = 0; v < halves; ++v) {
          const auto at = static_cast<size_t>(i * t_.vectors + v);
          const auto second = o_.spec.two_sums ? std::optional(sums[at + static_cast<size_t>(halves)].get()) : std::nullopt;
          o_.write(row0_ + r + i, column0_ + int64_t{v} * t_.lanes, sums[at].get(), second);
        }
      return;
    }
    const Buf line = b_.registers("line", DType::F32, rows * w_);
    for (size_t at = 0; at < sums.size(); ++at) line.store(b_.i64(static_cast<int64_t>(at) * t_.lanes), sums[at].get());
    b_.loop("i", b_.i64(rows), [&](Expr i) { o_.write_line(row0_ + r + i, column0_, own_, line, i * w_, t_.lanes); });
  }

  GemmOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const Quantized& quantized_;
  const RegisterTile t_;
  const int64_t w_, own_;  // columns per panel, and result columns per panel
  const int bits_;
  const int64_t fields_, step_;  // quantized values per byte and per word
  const int digits_;             // of a value of a, without the last of split rows
  int64_t k_ = 0, block_ = 0, row_block_ = m_.blocking.gemm_rows;
  Expr panel_, row0_, rows_, column0_, words_at_;
  Buf bytes_, sums_;
};

}  // namespace

const DotUnit* gemm_quantized_dot_unit(int bits, int64_t block, int64_t n, int64_t k, const Mapping& m) {
  const int64_t terms = block ? block : k;
  const bool fits = (bits == 2 || bits == 4 || bits == 8) && n >= 16 && terms > 0 && terms <= kMostBlock && k % terms == 0 &&
                    terms % codes_of_word(bits) == 0;
  if (!fits) return nullptr;
  return m.workgroups ? gemm_dot_unit(DType::I8, DType::I8, m) : gemm_dot_unit(DType::U8, DType::I8, m);
}

int64_t quantized_dot_words(const GemmSpec& s, const Mapping& m) {
  const int64_t w = gemm_panel(m, DType::I32), own = s.two_sums ? w / 2 : w;
  int64_t n = 0, k = 0;
  constant(s.n, &n);
  constant(s.k, &k);
  return (n + own - 1) / own * (k / codes_of_word(s.quantized->bits)) * w;
}

void gemm_on_quantized_dots(GemmOperands& o, const Mapping& m) {
  const Tasks dots = tasks_of(std::make_shared<QuantizedDots>(o, m));
  if (!o.spec.floats) return run_tasks(o.b, m, dots);
  GemmSpec of_floats = o.spec;
  of_floats.a = *o.spec.floats;
  GemmOperands floats(o, of_floats);
  floats.from_a = o.floats;
  run_tasks(o.b, m, splits_rows_of(o.m, m), dots, gemm_tasks_on_tiles(floats, m));
}

void pack_quantized_dots(GemmOperands& o, const std::string& out, const Mapping& m) { QuantizedDots(o, m).pack(out); }

}  // namespace rlxc::kernel
