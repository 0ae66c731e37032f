// A matmul of few rows or columns on a grid. One thread per element would leave most of the device idle. Instead, the
// threads of a workgroup split the steps of k. Neighbouring threads read neighbours: along k if b is contiguous there, else along
// the columns.
#include <algorithm>

#include "kernel/builders/dot_words.h"
#include "kernel/builders/gemm_codes.h"
#include "kernel/builders/reduce.h"
#include "kernel/builders/round_rows.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kLeastSteps = 64;   // of k that are worth splitting
constexpr int64_t kBeside = 32;       // threads that read neighbours
constexpr int64_t kMostOfRun = 32;    // elements of a quantized b that a thread reads at once
constexpr int64_t kRowsTogether = 2;  // rows of a for which b is read once
// Rows that workgroups round: bytes that all workgroups read, from a cache mostly. More take longer than a launch.
constexpr int64_t kMostReadBytes = 4 << 20;

// Outputs of a workgroup if neighbouring threads have neighbouring outputs.
int64_t outputs_beside(const Mapping& m, std::optional<int64_t> outputs) {
  int64_t across = std::min<int64_t>(kBeside, m.workgroup_size);
  while (outputs && across > 8 && *outputs < m.busy_workgroups * across) across /= 2;
  return across;
}

class SplitSums {
 public:
  SplitSums(GemmOperands& o, const Mapping& m) : o_(o), b_(o.b), m_(m), steps_(o.k), threads_(m.workgroup_size) {
    if (o.spec.dots) steps_ = words_.emplace(o, m).steps;
    if (blocks()) steps_ = words_->steps / words_->steps_of_block();
    const GemmSpec& s = o.spec;
    const bool in_words = words_ && (s.packed || s.quantized || s.b.dtype == DType::I32);
    reads_words_ = words_ && words_->reads_along_k() && !words_->needs_rows();
    along_k_ = reads_words_ || (!s.b_at && !in_words && is_constant(s.b.strides.end()[-2], 1));
    if (along_k_) {
      across_ = std::max<int64_t>(threads_ / kBeside, 1);
      const int64_t of_a = words_ ? 1 : contiguous_lanes(s.a, s.a.strides.size() - 1, o.k, m.load_lanes(bytes(s.a.dtype)));
      if (!words_ && s.quantized) {
        runs_.emplace(o, m, kMostOfRun, of_a);
        if (runs_->size() == 1) runs_.reset();
        else if (int64_t n = 0;
                 fills_words() || (!s.two_sums && constant(o.n, &n) && n % 2 == 0 && n / 2 >= m.busy_workgroups * across_))
          columns_ = 2;
      } else if (!words_) {
        lanes_ =
            static_cast<int>(std::min(of_a, contiguous_lanes(s.b, s.b.strides.size() - 2, o.k, m.load_lanes(bytes(s.b.dtype)))));
        if (fills_words()) columns_ = 2;
      }
    } else {
      if (!words_ && !s.quantized && !s.b_at && !s.b_zero)
        lanes_ =
            static_cast<int>(contiguous_lanes(s.b, s.b.strides.size() - 1, o.n, std::min(4, m.load_lanes(bytes(s.b.dtype)))));
      int64_t outputs = 0;
      const bool known = constant(outputs_of_threads(), &outputs);
      across_ = outputs_beside(m, known ? std::optional(outputs) : std::nullopt);
    }
    parts_ = threads_ / across_;
    if (!words_ && is_constant(o.spec.m, kRowsTogether)) rows_ = kRowsTogether;
  }

  // Whether sums are long enough to split.
  bool fits() const {
    int64_t steps = kLeastSteps;
    constant(o_.k, &steps);
    return steps >= kLeastSteps && parts_ > 1;
  }

  void run() {
    const Expr outputs = outputs_of_threads();
    for_each_workgroup(b_, m_, "group", ceil_div(outputs, across_), threads_, [&](Expr group, Expr thread) {
      if (o_.spec.rounds_rows) round_rows(thread);
      const Expr own = along_k_ ? thread / parts_ : thread % across_;
      const Expr output = b_.let("output", min(group * across_ + own, outputs - 1));
      part_ = b_.let("part", along_k_ ? thread % parts_ : thread / across_);
      const int64_t wide = along_k_ ? columns_ : lanes_;
      const Expr columns = o_.n / wide, rows = o_.m / rows_;
      o_.batch = split_index(b_.let("batch", output / (columns * rows)), o_.spec.batch);
      const Expr row = b_.let("row", output / columns % rows * rows_), column = b_.let("column", output % columns * wide);
      const std::vector<Expr> sums = added(words_  ? in_words(row, column)
                                           : runs_ ? of_runs(row, column)
                                                   : of_elements(row, column),
                                           own);
      b_.when(part_ == 0 && group * across_ + own < outputs, [&] { write(row, column, sums); });
    });
  }

 private:
  // Whether two results fill a word, where threads must not store parts of one.
  bool fills_words() const {
    return m_.whole_vectors && !o_.spec.two_sums && is_multiple(o_.n, 2) && rlxc::bits(o_.spec.c.dtype) == 16 &&
           writes_together(2);
  }

  static int bytes(DType t) { return static_cast<int>(rlxc::bits(t)) / 8; }
  bool blocks() const { return words_ && o_.spec.quantized; }
  int halves() const { return o_.spec.two_sums ? 2 : 1; }  // of b
  Expr outputs_of_threads() const { return o_.batches() * (o_.m / rows_) * (o_.n / (along_k_ ? columns_ : int64_t{lanes_})); }

  // Rounds all rows, with a team of threads for each block.
  void round_rows(Expr thread) {
    const int group = words_->unit.group;
    int64_t rows = 0, k = 0;
    constant(o_.m, &rows);
    constant(o_.k, &k);
    const int64_t of_block = words_->steps_of_block() * group, blocks = k / of_block;
    o_.row_words = b_.shared("row_words", DType::I32, rows * k / group);
    o_.row_scales = b_.shared("row_scales", DType::F32, rows * blocks);
    o_.row_sums = b_.shared("row_sums", DType::I32, rows * blocks);
    const Expr vectors = b_.i64(of_block / group);
    const int64_t team = rounding_team(m_, vectors), entries = rows * blocks, teams = threads_ / team;
    const auto lanes = contiguous_lanes(o_.spec.a, o_.spec.a.strides.size() - 1, o_.k, group);
    o_.batch = split_index(b_.i64(0), o_.spec.batch);
    b_.loop("e", (entries + teams - 1) / teams, [&](Expr e) {
      const Expr i = b_.let("i", e * teams + thread / team), entry = b_.let("entry", min(i, entries - 1));
      const Expr row = b_.let("row", entry / blocks), first = b_.let("first", entry % blocks * of_block);
      const auto load = [&](Expr v) {
        if (lanes == group) return o_.load_a(row, first + v * group, group);
        const Buf values = b_.registers("values", DType::F32, group);
        for (int q = 0; q < group; ++q) values.store(q, o_.load_a(row, first + v * group + q));
        return values.load(0, group);
      };
      const auto store = [&](Expr v, Expr values, Expr) {
        const Expr word = words_->word([&](int q) { return rlxc::kernel::lane(values, q); });
        b_.when(i < entries, [&] { o_.row_words.store((row * k + first) / group + v, word); });
      };
      const Expr member = thread % team;
      const RoundedBlock block = round_block(b_, m_, {vectors, member, group, static_cast<int>(team), load, store});
      b_.when(i < entries && member == 0, [&] {
        o_.row_scales.store(entry, block.scale);
        o_.row_sums.store(entry, block.sum);
      });
    });
    b_.barrier();
  }

  // Calls body(step) for the steps of this thread, of `count`.
  void each_step(Expr count, const std::function<void(Expr)>& body) {
    b_.loop("i", ceil_div(count - part_, parts_), [&](Expr i) { body(b_.let("step", i * parts_ + part_)); });
  }

  std::vector<Expr> of_elements(Expr row, Expr column) {
    std::vector<Buf> sums;
    const int64_t of_row = halves() * (along_k_ ? columns_ : 1);
    for (int64_t i = 0; i < rows_ * of_row; ++i) sums.push_back(b_.variable("sum", o_.zero(lanes_)));
    each_step(along_k_ ? o_.k / int64_t{lanes_} : o_.k, [&](Expr step) {
      const Expr p = along_k_ ? step * int64_t{lanes_} : step;
      std::vector<Expr> a;
      for (int64_t r = 0; r < rows_; ++r)
        a.push_back(b_.let("a", along_k_ ? o_.load_a(row + r, p, lanes_) : broadcast(o_.load_a(row + r, p), lanes_)));
      for (int64_t i = 0; i < of_row; ++i) {
        const Expr at = i == 0 ? column : o_.spec.two_sums ? column + o_.n : column + i;
        Expr of_b = along_k_ ? o_.load_b_along_k(p, at, lanes_) : o_.load_b(p, at, lanes_);
        if (rows_ > 1) of_b = b_.let("b", of_b);
        for (size_t r = 0; r < a.size(); ++r) {
          Buf& sum = sums[r * static_cast<size_t>(of_row) + static_cast<size_t>(i)];
          sum.set(o_.multiply_add(a[r], of_b, sum.get()));
        }
      }
    });
    std::vector<Expr> values;
    for (const Buf& sum : sums) values.push_back(along_k_ ? b_.let("own", reduce_add(sum.get())) : sum.get());
    return values;
  }

  // The sums for a quantized b. Products of a run are added before they are scaled.
  std::vector<Expr> of_runs(Expr row, Expr column) {
    const int width = static_cast<int>(runs_->width());
    std::vector<Buf> sums;
    const auto of_row = static_cast<size_t>(o_.spec.two_sums ? 2 : columns_), rows = static_cast<size_t>(rows_);
    for (size_t i = 0; i < rows * of_row; ++i) sums.push_back(b_.variable("sum", o_.zero(width)));
    const Expr distance = o_.spec.two_sums ? o_.n : b_.i64(1);
    each_step(o_.k / runs_->size(), [&](Expr step) {
      const Expr p = b_.let("p", step * runs_->size()), always = constant_int(b_.kernel(), DType::Bool, 1);
      std::vector<Expr> of_a;  // by rows
      for (int64_t r = 0; r < rows_; ++r)
        for (int64_t first = 0; first < runs_->size(); first += width)
          of_a.push_back(b_.let("a", o_.load_a(row + r, p + first, width)));
      const size_t vectors = of_a.size() / rows;
      for (size_t i = 0; i < of_row; ++i) {
        const Expr at = i ? column + distance : column, codes = b_.let("run", runs_->codes(p, at, always));
        const CodeRuns::Parameters of_run = runs_->parameters(p, at, always);
        std::vector<Buf> own;
        for (size_t r = 0; r < rows; ++r) own.push_back(b_.variable("own", o_.zero(width)));
        runs_->each(codes, of_run.zero, [&](int64_t first, Expr values) {
          for (size_t r = 0; r < rows; ++r)
            own[r].set(fma(of_a[r * vectors + static_cast<size_t>(first / width)], values, own[r].get()));
        });
        for (size_t r = 0; r < rows; ++r) {
          Buf& sum = sums[r * of_row + i];
          sum.set(fma(own[r].get(), broadcast(of_run.scale, width), sum.get()));
        }
      }
    });
    std::vector<Expr> values;
    for (const Buf& sum : sums) values.push_back(b_.let("own", width > 1 ? reduce_add(sum.get()) : sum.get()));
    return values;
  }

  // The sums of products, then those of the row and of the columns where zero points need them.
  std::vector<Expr> in_words(Expr row, Expr column) {
    if (blocks()) return in_blocks(row, column);
    const DotWords& w = *words_;
    std::vector<Buf> sums, of_columns;
    Buf of_row;
    for (int i = 0; i < halves(); ++i) sums.push_back(b_.variable("sum", w.zero()));
    if (adds_a()) of_row = b_.variable("row_sum", w.none());
    for (int i = 0; adds_b() && i < halves(); ++i) of_columns.push_back(b_.variable("column_sum", w.none()));
    const bool whole = is_multiple(o_.k, w.unit.group);
    const auto column_of = [&](size_t half) { return half ? column + o_.n : column; };
    if (reads_words_) {
      constexpr int kWords = DotWords::kWordsOfRead;
      each_step(steps_ / int64_t{kWords}, [&](Expr step) {
        const Expr p = b_.let("p", step * int64_t{kWords}), always = constant_int(b_.kernel(), DType::Bool, 1);
        const Expr a = b_.let("a", w.words_of_a(row, p, kWords, always));
        for (size_t h = 0; h < sums.size(); ++h) {
          const Expr b = b_.let("b", w.words_of_panel(p, column_of(h), kWords, always));
          for (int i = 0; i < kWords; ++i)
            sums[h].set(w.a_times_b(rlxc::kernel::lane(a, i), rlxc::kernel::lane(b, i), sums[h].get()));
        }
      });
    } else {
      each_step(steps_, [&](Expr p) {
        const Expr a = b_.let("a", w.word_of_a(row, p, whole));
        if (adds_a()) of_row.set(w.add_a(a, of_row.get()));
        for (size_t h = 0; h < sums.size(); ++h) {
          const Expr b = b_.let("b", w.word_of_b(p, column_of(h), whole));
          sums[h].set(w.a_times_b(a, b, sums[h].get()));
          if (adds_b()) of_columns[h].set(w.add_b(b, of_columns[h].get()));
        }
      });
    }
    std::vector<Expr> values;
    for (const Buf& v : sums) values.push_back(v.get());
    if (adds_a()) values.push_back(of_row.get());
    for (const Buf& v : of_columns) values.push_back(v.get());
    return values;
  }

  // The sums for rounded rows and a quantized b. Threads split the blocks.
  std::vector<Expr> in_blocks(Expr row, Expr column) {
    std::vector<Buf> totals;
    for (int i = 0; i < halves(); ++i) totals.push_back(b_.variable("total", b_.f32(0)));
    each_step(steps_, [&](Expr block) { words_->multiply_block(row, column, block, totals); });
    std::vector<Expr> values;
    for (const Buf& t : totals) values.push_back(t.get());
    return values;
  }

  // Adds what the threads of an output have. The result is that of part 0.
  std::vector<Expr> added(std::vector<Expr> own, Expr output) {
    if (along_k_ && parts_ <= m_.warp) {
      for (Expr& v : own) v = combine_shuffled(b_, "all", ExprOp::Add, v, parts_);
      return own;
    }
    std::vector<Expr> all;
    for (const Expr& v : own) {
      const int wide = v.lanes();
      const Buf parts = b_.shared("parts", v.type().dtype, threads_ * wide), total = b_.variable("all", v);
      const auto place = [&](Expr part) { return (part * across_ + output) * int64_t{wide}; };
      parts.store(place(part_), v);
      for (int64_t left = parts_; left > 1;) {
        const int64_t each = parts_of_thread(left);
        left /= each;
        b_.barrier();
        b_.when(part_ < left, [&] {
          b_.loop("other", each - 1, [&](Expr i) { total.set(total.get() + parts.load(place(part_ + (i + 1) * left), wide)); });
          if (left > 1) parts.store(place(part_), total.get());
        });
      }
      all.push_back(total.get());
    }
    return all;
  }

  void write(Expr row, Expr column, const std::vector<Expr>& sums) {
    if (words_ && !blocks()) {
      const auto whole = [&](size_t half) {
        const Expr of_b = half ? column + o_.n : column;
        const auto count = static_cast<size_t>(halves());
        return words_->without_zeros(
            sums[half], row, of_b, [&] { return adds_a() ? sums[count] : words_->sum_of_row(row); },
            [&] { return adds_b() ? sums[count + adds_a() + half] : words_->sum_of_column(of_b); });
      };
      return o_.write(row, column, whole(0), o_.spec.two_sums ? std::optional(whole(1)) : std::nullopt);
    }
    const size_t of_row = sums.size() / static_cast<size_t>(rows_);
    for (int64_t r = 0; r < rows_; ++r) {
      const std::span<const Expr> own = std::span(sums).subspan(static_cast<size_t>(r) * of_row, of_row);
      if (!o_.spec.two_sums && own.size() > 1) {
        if (writes_together(own.size())) o_.write(row + r, column, beside(own));
        else
          for (size_t i = 0; i < own.size(); ++i) o_.write(row + r, column + static_cast<int64_t>(i), own[i]);
        continue;
      }
      if (const int lanes = own[0].lanes(); lanes > 1 && writes_together(static_cast<size_t>(lanes))) {
        o_.write(row + r, column, own[0], own.size() > 1 ? std::optional(own[1]) : std::nullopt);
        continue;
      }
      for (int i = 0; i < own[0].lanes(); ++i) {
        const auto one = [&](Expr v) { return v.lanes() == 1 ? v : rlxc::kernel::lane(v, i); };
        o_.write(row + r, column + int64_t{i}, one(own[0]), own.size() > 1 ? std::optional(one(own[1])) : std::nullopt);
      }
    }
  }

  bool writes_together(size_t columns) const {
    const auto n = static_cast<int64_t>(columns);
    return o_.lanes_of_writes(n) == n;
  }
  Expr beside(std::span<const Expr> values) const {
    const Buf all = b_.registers("beside", values[0].dtype(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) all.store(static_cast<int64_t>(i), values[i]);
    return all.load(0, static_cast<int>(values.size()));
  }

  bool adds_a() const { return words_->needs_rows() && !words_->has_rows(); }
  bool adds_b() const { return words_->needs_columns() && !words_->has_columns(); }

  GemmOperands& o_;
  Builder& b_;
  const Mapping& m_;
  std::optional<DotWords> words_;
  std::optional<CodeRuns> runs_;
  Expr steps_;
  const int64_t threads_;
  int64_t across_ = 1, parts_ = 1;  // outputs of a workgroup, and threads for each
  bool along_k_ = false;            // neighbouring threads read along k
  bool reads_words_ = false;        // of a panel, several at once
  int64_t rows_ = 1;                // that a thread computes
  int64_t columns_ = 1;             // that a thread computes of a quantized b, which share the elements of a
  int lanes_ = 1;                   // elements along k, or columns, that a thread reads at once
  Expr part_;
};

}  // namespace

bool gemm_rounds_rows(int64_t m, int64_t n, int64_t k, int64_t block, DType a, const Mapping& mapping) {
  if (!mapping.workgroups || m > kRowsTogether || k < kLeastSteps || mapping.workgroup_size <= kBeside) return false;
  const int64_t entries = block ? m * k / block : m, workgroups = m * n / outputs_beside(mapping, m * n);
  return m * k + 8 * entries <= mapping.shared_bytes / 2 && workgroups * m * k * rlxc::bits(a) / 8 <= kMostReadBytes;
}

bool gemm_by_split_sums(GemmOperands& o, const Mapping& m) {
  SplitSums sums(o, m);
  if (!sums.fits()) return false;
  sums.run();
  return true;
}

}  // namespace rlxc::kernel
