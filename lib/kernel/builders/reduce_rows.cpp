#include "kernel/builders/reduce_rows.h"

namespace rlxc::kernel {
namespace {

class ReduceRowsBuilder : RowBuilder {
 public:
  ReduceRowsBuilder(Builder& b, const ReduceRowsSpec& spec, const Mapping& m) : RowBuilder(b, spec, m), rows_(spec) {
    int64_t length = 0;
    if (spec.result && constant(*spec.result, &length))
      while (lanes_ > 1 && lanes_ > length) lanes_ /= 2;
  }

  void run() {
    if (!rows_.kept.empty() && !m_.workgroups) return run_together();
    each_row([&](Thread thread) {
      reduce(thread);
      const Place row = first();
      if (!rows_.one) write_row(thread);
      else if (thread) b_.when(*thread == 0, [&] { write(row); });
      else write(row);
    });
  }

 private:
  static constexpr int64_t kRowsTogether = 4;

  void run_together() {
    each_rows(kRowsTogether, [&](Expr begin, Expr count) {
      std::vector<Buf> all;
      for (const auto& kept : rows_.kept) all.push_back(b_.registers("kept", kept.dtype, kRowsTogether));
      b_.loop("k", count, [&](Expr k) {
        start_row(begin + k);
        reduce({});
        for (size_t i = 0; i < all.size(); ++i) all[i].store(k, roots_[rows_.kept[i].root]);
        roots_.assign(roots_.size(), {});
      });
      b_.loop("k", count, [&](Expr k) {
        start_row(begin + k);
        for (size_t i = 0; i < all.size(); ++i) roots_[rows_.kept[i].root] = b_.let("r", all[i].load(k));
        write_row({});
      });
    });
  }

  Place first() { return {std::vector<Expr>(s_.shape.size() - s_.axis, b_.i64(0)), 1}; }

  void reduce(Thread thread) {
    const Place row = first();
    const LoadInput once = loader(row);
    roots_.clear();
    for (const RowReduction& r : rows_.walks) {
      std::vector<Expr> roots = roots_;
      for (const Expr sum : accumulated(r, thread)) roots.push_back(sum);
      roots.push_back(size());
      for (const Expr value : r.epilogue.body(roots, once)) roots_.push_back(value);
    }
  }

  void write(const Place& p) {
    const std::vector<Expr> all = rows_.epilogue.body(roots_, loader(p));
    for (size_t i = 0; i < all.size(); ++i) store(i, p, all[i]);
  }
  void write_row(Thread thread) {
    walk(
        thread, 1, [&](const Place& p, int) { write(p); }, rows_.result);
  }

  std::vector<Expr> accumulated(const RowReduction& r, Thread thread) {
    std::vector<Accumulator> sums;
    for (const RowTerm& t : r.terms) sums.emplace_back(b_, t.combine, t.type, lanes_);
    walk(thread, sums[0].slots(), [&](const Place& p, int slot) {
      const std::vector<Expr> values = r.prologue.body(roots_, loader(p));
      for (size_t i = 0; i < sums.size(); ++i) sums[i].add(broadcast(cast_to(values[i], r.terms[i].type), p.lanes), slot);
    });
    std::vector<Expr> all;
    for (const Accumulator& sum : sums) all.push_back(sum.result(m_, thread, m_.workgroup_size));
    return all;
  }

  const ReduceRowsSpec& rows_;
  std::vector<Expr> roots_;  // values of the current row
};

}  // namespace

void build_reduce_rows(Builder& b, const ReduceRowsSpec& s, const Mapping& m) { ReduceRowsBuilder(b, s, m).run(); }

}  // namespace rlxc::kernel
