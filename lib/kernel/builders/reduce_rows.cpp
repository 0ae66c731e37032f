#include "kernel/builders/reduce_rows.h"

namespace rlxc::kernel {
namespace {

class ReduceRowsBuilder : RowBuilder {
 public:
  ReduceRowsBuilder(Builder& b, const ReduceRowsSpec& spec, const Mapping& m) : RowBuilder(b, spec, m), rows_(spec) {}

  void run() {
    each_row([&](Thread thread) {
      const Place row{std::vector<Expr>(s_.shape.size() - s_.axis, b_.i64(0)), 1};
      const LoadInput once = loader(row);
      for (const RowReduction& r : rows_.walks) r.done(accumulated(r, thread), size(), once);
      const auto write = [&] { store(0, row, rows_.result(once)); };
      if (!rows_.one) walk(thread, 1, [&](const Place& p, int) { store(0, p, rows_.result(loader(p))); });
      else if (thread) b_.when(*thread == 0, write);
      else write();
    });
  }

 private:
  std::vector<Expr> accumulated(const RowReduction& r, Thread thread) {
    std::vector<Accumulator> sums;
    for (const RowTerm& t : r.terms) sums.emplace_back(b_, t.combine, t.type, lanes_);
    walk(thread, sums[0].slots(), [&](const Place& p, int slot) {
      const std::vector<Expr> values = r.values(loader(p));
      for (size_t i = 0; i < sums.size(); ++i) sums[i].add(broadcast(cast_to(values[i], r.terms[i].type), p.lanes), slot);
    });
    std::vector<Expr> all;
    for (const Accumulator& sum : sums) all.push_back(sum.result(m_, thread, m_.workgroup_size));
    return all;
  }

  const ReduceRowsSpec& rows_;
};

}  // namespace

void build_reduce_rows(Builder& b, const ReduceRowsSpec& s, const Mapping& m) { ReduceRowsBuilder(b, s, m).run(); }

}  // namespace rlxc::kernel
