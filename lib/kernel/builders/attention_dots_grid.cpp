// Attention of 8-bit integers on a grid. A workgroup computes a block of queries of a head and some columns of the values. The
// probabilities are rounded once their sum is known, so the scores are computed twice: for the maxima and sums of the rows, and
// for the codes that multiply the values. With one block of keys they stay in registers. Tiles of words go through shared memory.
#include <algorithm>
#include <limits>
#include <numeric>

#include "kernel/builders/attention_dots.h"
#include "kernel/builders/dot_words.h"
#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kSliceOfDots = 16;     // most words of a row of queries or keys in shared memory
constexpr int64_t kColumnsOfThread = 8;  // columns of the values per thread
constexpr int64_t kQueriesOfThread = 4;  // queries per thread

// Sums of products of words: of a thread's rows and columns, and of the words themselves where zero points need them.
struct TileSums {
  TileSums(Builder& b, const DotWords& w, int64_t row_count, int64_t column_count)
      : words(w), width(static_cast<size_t>(column_count)) {
    const auto add = [&](std::vector<Buf>* to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) to->push_back(b.variable("sum", b.value(DType::I32, 0)));
    };
    add(&sums, row_count * column_count);
    if (words.needs_rows()) add(&rows, row_count);
    if (words.needs_columns()) add(&columns, column_count);
  }
  void clear(Builder& b) {
    for (std::vector<Buf>* all : {&sums, &rows, &columns})
      for (Buf& v : *all) v.set(b.value(DType::I32, 0));
  }
  void add(const std::vector<Expr>& left, const std::vector<Expr>& right) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i].set(words.add_a(left[i], rows[i].get()));
    for (size_t j = 0; j < columns.size(); ++j) columns[j].set(words.add_b(right[j], columns[j].get()));
    for (size_t i = 0; i < left.size(); ++i)
      for (size_t j = 0; j < right.size(); ++j) {
        Buf& sum = sums[i * right.size() + j];
        sum.set(words.a_times_b(left[i], right[j], sum.get()));
      }
  }
  Expr value(size_t i, size_t j, Expr row, Expr column) const {
    return words.without_zeros(
        sums[i * width + j].get(), row, column, [&] { return rows[i].get(); }, [&] { return columns[j].get(); });
  }

  const DotWords& words;
  const size_t width;  // columns of the thread
  std::vector<Buf> sums, rows, columns;
};

class GridDots {
 public:
  GridDots(Builder& b, const IntegerAttentionSpec& s, const Mapping& m)
      : b_(b), s_(s), m_(m), scores_(b, s.scores), values_(b, s.values) {
    scores_.add_a();
    scores_.add_b();
    scores_.add_zeros();
    scores_.add_fused();
    values_.add_b();
    values_.add_zeros();
    values_.add_fused_and_c();
    of_scores_.emplace(scores_, m);
    of_values_.emplace(values_, m);
    choose_tile();
  }

  void run() {
    const Expr blocks = ceil_div(scores_.m, rows_ * side_), chunks = ceil_div(values_.n, own_ * side_);
    for_each_workgroup(b_, m_, "work", scores_.batches() * blocks * chunks, side_ * side_, [&](Expr work, Expr thread) {
      scores_.batch = values_.batch = split_index(b_.let("batch", work / (blocks * chunks)), s_.scores.batch);
      row0_ = b_.let("query0", work / chunks % blocks * (rows_ * side_));
      column0_ = b_.let("column0", work % chunks * (own_ * side_));
      thread_ = thread;
      x_ = b_.let("x", thread % side_);
      y_ = b_.let("y", thread / side_);
      body();
    });
  }

 private:
  static constexpr int64_t kKeys = 4;  // neighbouring keys of a thread: a word of codes

  void choose_tile() {
    while ((2 * side_) * (2 * side_) <= std::min<int64_t>(m_.workgroup_size, 256)) side_ *= 2;
    int64_t queries = 0, columns = 0, words = 0, keys = 0, batches = 0;
    if (constant(values_.n, &columns)) own_ = std::clamp<int64_t>((columns + side_ - 1) / side_, 1, kColumnsOfThread);
    if (own_ > kKeys) own_ = kColumnsOfThread;
    const int64_t chunks = (std::max<int64_t>(columns, 1) + own_ * side_ - 1) / (own_ * side_);
    const bool known = constant(scores_.m, &queries) && constant(scores_.batches(), &batches);
    const auto workgroups = [&] { return batches * chunks * ((queries + rows_ * side_ - 1) / (rows_ * side_)); };
    while (known && rows_ > 1 && workgroups() < m_.busy_workgroups) rows_ /= 2;
    if (constant(of_scores_->steps, &words)) {
      slices_ = std::max<int64_t>((words + kSliceOfDots - 1) / kSliceOfDots, 1);
      slice_ = std::max<int64_t>((words + slices_ - 1) / slices_, 1);
    }
    one_block_ = constant(scores_.n, &keys) && keys <= kKeys * side_;
  }

  int64_t rows_of_tile() const { return rows_ * side_; }
  int64_t keys_of_tile() const { return kKeys * side_; }
  int64_t columns_of_tile() const { return own_ * side_; }
  Expr row_at(int64_t i) const { return y_ * rows_ + i; }
  Expr key_at(int64_t j) const { return x_ * kKeys + j; }
  Expr column_at(int64_t j) const {
    const int64_t beside = std::gcd(own_, kKeys);
    return x_ * beside + (j / beside * side_ * beside + j % beside);
  }

  // Stores `words` words of each of `size` rows or columns; `along`: neighbouring threads read neighbouring words of one.
  void fill(const Buf& to, int64_t words, int64_t size, bool along, const std::function<Expr(Expr i, Expr p)>& load) {
    const int64_t pieces = words * size, threads = side_ * side_;
    b_.unroll("e", ceil_div(pieces, threads), [&](Expr e) {
      const Expr piece = b_.let("piece", e * threads + thread_);
      const auto one = [&] {
        const Expr p = b_.let("p", along ? piece % words : piece / size), i = b_.let("i", along ? piece / words : piece % size);
        to.store(p * size + i, load(i, p));
      };
      pieces % threads == 0 ? one() : b_.when(piece < pieces, one);
    });
  }
  Expr guarded(Expr condition, const std::function<Expr()>& word) {
    Buf v = b_.variable("word", b_.value(DType::I32, 0));
    b_.when(condition, [&] { v.set(word()); });
    return v.get();
  }

  void fill_queries(Expr first) {
    const bool whole = is_multiple(scores_.k, of_scores_->unit.group);
    fill(queries_, slice_, rows_of_tile(), true, [&](Expr i, Expr p) {
      const Expr row = row0_ + i, word = first + p;
      return guarded(row < scores_.m && word < of_scores_->steps, [&] { return of_scores_->word_of_a(row, word, whole); });
    });
  }
  void fill_right(const DotWords& words, const GemmOperands& o, const Buf& to, int64_t steps, int64_t size, Expr first,
                  Expr column0) {
    const bool whole = is_multiple(o.k, words.unit.group);
    fill(to, steps, size, is_constant(o.spec.b.strides.end()[-2], 1), [&](Expr i, Expr p) {
      const Expr column = column0 + i, word = first + p;
      return guarded(column < o.n && word < words.steps, [&] { return words.word_of_b(word, column, whole); });
    });
  }

  // Neighbouring words of a tile.
  std::vector<Expr> words_at(const Buf& from, Expr at, int64_t count) const {
    const int64_t lanes = m_.load_lanes(sizeof(int32_t)) >= count ? count : 1;
    std::vector<Expr> all;
    for (int64_t i = 0; i < count; i += lanes) {
      const Expr v = b_.let("words", from.load(at + i, static_cast<int>(lanes)));
      for (int l = 0; l < lanes; ++l) all.push_back(lanes == 1 ? v : lane(v, l));
    }
    return all;
  }
  void multiply(const Buf& left, const Buf& right, int64_t steps, int64_t columns, TileSums& sums) {
    b_.unroll("p", steps, [&](Expr p) {
      const int64_t beside = std::gcd(columns, kKeys);
      const std::vector<Expr> a = words_at(left, p * rows_of_tile() + row_at(0), rows_);
      std::vector<Expr> all;
      for (int64_t j = 0; j < columns; j += beside)
        for (const Expr& w : words_at(right, p * (columns * side_) + (x_ * beside + j * side_), beside)) all.push_back(w);
      sums.add(a, all);
    });
  }

  // The scores of a thread's queries and keys of a block, or -inf.
  void find_scores(Expr key0) {
    products_->clear(b_);
    b_.loop("slice", slices(), [&](Expr slice) {
      const Expr first = b_.let("first", slice * slice_);
      b_.barrier();
      if (slices_ != 1) fill_queries(first);
      fill_right(*of_scores_, scores_, keys_, slice_, keys_of_tile(), first, key0);
      b_.barrier();
      multiply(queries_, keys_, slice_, kKeys, *products_);
    });
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < kKeys; ++j) {
        const Expr key = key0 + key_at(j), row = row_of(i), column = b_.let("key", min(key, scores_.n - 1));
        const Expr sum = products_->value(static_cast<size_t>(i), static_cast<size_t>(j), row, column);
        const Expr score = fused_values(s_.scores.epilogue.body, {&sum, 1}, scores_.load_fused(row, column, 1, false))[0];
        found_[at(i, j)].set(select(key < scores_.n, score, low()));
      }
  }
  Expr slices() const { return ceil_div(of_scores_->steps, slice_); }
  Expr row_of(int64_t i) const { return min(row0_ + row_at(i), scores_.m - 1); }
  static size_t at(int64_t i, int64_t j) { return static_cast<size_t>(i * kKeys + j); }
  Expr low() const { return b_.f32(-std::numeric_limits<double>::infinity()); }

  // Maxima of a thread's scores, and sums of their exponentials.
  void add_to_rows() {
    for (int64_t i = 0; i < rows_; ++i) {
      Buf &top = tops_[static_cast<size_t>(i)], &total = totals_[static_cast<size_t>(i)];
      Expr most = top.get();
      for (int64_t j = 0; j < kKeys; ++j) most = max(most, found_[at(i, j)].get());
      most = b_.let("most", most);
      const Expr base = b_.let("base", finite_or_zero(most));
      Expr sum = total.get() * exp(top.get() - base);
      for (int64_t j = 0; j < kKeys; ++j) sum = sum + exp(found_[at(i, j)].get() - base);
      total.set(sum);
      top.set(most);
    }
  }
  // Combines those of the threads of a row: `tops_` become what is subtracted from scores, `totals_` factors of exponentials.
  void combine_rows() {
    const Buf tops = b_.shared("tops", DType::F32, rows_of_tile() * side_),
              totals = b_.shared("totals", DType::F32, rows_of_tile() * side_);
    for (int64_t i = 0; i < rows_; ++i) {
      tops.store(row_at(i) * side_ + x_, tops_[static_cast<size_t>(i)].get());
      totals.store(row_at(i) * side_ + x_, totals_[static_cast<size_t>(i)].get());
    }
    b_.barrier();
    for (int64_t i = 0; i < rows_; ++i) {
      Buf &top = tops_[static_cast<size_t>(i)], &total = totals_[static_cast<size_t>(i)];
      top.set(low());
      b_.loop("t", side_, [&](Expr t) { top.set(max(top.get(), tops.load(row_at(i) * side_ + t))); });
      top.set(finite_or_zero(top.get()));
      total.set(b_.f32(0));
      b_.loop("t", side_, [&](Expr t) {
        const Expr from = row_at(i) * side_ + t;
        total.set(total.get() + totals.load(from) * exp(tops.load(from) - top.get()));
      });
      const Expr sum = b_.let("sum", total.get());
      total.set(select(sum == 0.0, sum, 1.0 / sum));
    }
  }

  // Rounded probabilities of a block, as words of four keys. There are none after the last key.
  void store_codes(Expr key0) {
    for (int64_t i = 0; i < rows_; ++i) {
      const Expr word = of_values_->word([&](int j) {
        const Expr key = key0 + key_at(j), column = min(key, scores_.n - 1);
        const Expr p = b_.let(
            "p", exp(found_[at(i, j)].get() - tops_[static_cast<size_t>(i)].get()) * totals_[static_cast<size_t>(i)].get());
        const Expr q = fused_values(s_.probability.body, {&p, 1}, scores_.load_fused(row_of(i), column, 1, false))[0];
        const Expr code = cast_to(cast_to(q, s_.values.a.dtype), DType::I32) + s_.values.a_shift;
        return b_.let("code", select(key < scores_.n, code, b_.value(DType::I32, 0)));
      });
      codes_.store(x_ * rows_of_tile() + row_at(i), word);
    }
  }

  void body() {
    queries_ = b_.shared("queries", DType::I32, slice_ * rows_of_tile());
    keys_ = b_.shared("keys", DType::I32, slice_ * keys_of_tile());
    codes_ = b_.shared("codes", DType::I32, side_ * rows_of_tile());
    const Buf columns = b_.shared("columns", DType::I32, side_ * columns_of_tile());
    products_.emplace(b_, *of_scores_, rows_, kKeys);
    results_.emplace(b_, *of_values_, rows_, own_);
    for (int64_t i = 0; i < rows_; ++i) {
      tops_.push_back(b_.variable("top", low()));
      totals_.push_back(b_.variable("total", b_.f32(0)));
      for (int64_t j = 0; j < kKeys; ++j) found_.push_back(b_.variable("score", low()));
    }
    if (slices_ == 1) fill_queries(b_.i64(0));
    const Expr blocks = ceil_div(scores_.n, keys_of_tile());
    b_.loop("block", blocks, [&](Expr block) {
      find_scores(b_.let("key0", block * keys_of_tile()));
      add_to_rows();
    });
    combine_rows();
    b_.loop("block", blocks, [&](Expr block) {
      const Expr key0 = b_.let("key0", block * keys_of_tile());
      if (!one_block_) find_scores(key0);
      b_.barrier();
      store_codes(key0);
      fill_right(*of_values_, values_, columns, side_, columns_of_tile(), b_.let("word0", block * side_), column0_);
      b_.barrier();
      multiply(codes_, columns, side_, own_, *results_);
    });
    for (int64_t i = 0; i < rows_; ++i) {
      const Expr row = b_.let("row", row0_ + row_at(i));
      b_.when(row < values_.m, [&] {
        for (int64_t j = 0; j < own_; ++j) {
          const Expr column = b_.let("column", column0_ + column_at(j));
          b_.when(column < values_.n, [&] {
            values_.write(row, column, results_->value(static_cast<size_t>(i), static_cast<size_t>(j), row, column));
          });
        }
      });
    }
  }

  Builder& b_;
  const IntegerAttentionSpec& s_;
  const Mapping& m_;
  GemmOperands scores_, values_;
  std::optional<DotWords> of_scores_, of_values_;
  int64_t side_ = 1, rows_ = kQueriesOfThread, own_ = kKeys;  // threads along an axis; queries and columns of values per thread
  int64_t slice_ = kSliceOfDots, slices_ = 0;  // words of rows in shared memory, and their number of times; 0: unknown
  bool one_block_ = false;                     // of all keys
  Buf queries_, keys_, codes_;
  std::optional<TileSums> products_, results_;
  std::vector<Buf> found_, tops_, totals_;  // scores; per row
  Expr row0_, column0_, thread_, x_, y_;
};

}  // namespace

void integer_attention_on_grid(Builder& b, const IntegerAttentionSpec& s, const Mapping& m) { GridDots(b, s, m).run(); }

}  // namespace rlxc::kernel
