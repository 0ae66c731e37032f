// Decompositions of ops whose result depends on attributes: n-grams of a pool, random numbers.
#include <set>

#include "eval/eval.h"
#include "passes/legalise/decompositions.h"

namespace rlxc::legalise {
namespace {

using enum OpKind;

// Evaluates the node with the reference evaluator; the result becomes a constant.
std::vector<ValueId> random(Expansion& e) {
  std::vector<eval::HostValue> results;
  std::string reason;
  if (!num_elements(e.g.type(e.g.result(e.n)))) return {};
  if (!eval::evaluate_node(e.g.module(), e.g, e.n, {}, &results, &reason)) return {};
  return {e.b.constant(std::move(results[0].tensor))};
}

struct Grams {
  std::vector<std::vector<int64_t>> words;  // of equal length
  std::vector<int64_t> ids;                 // in the pool
};

std::optional<Grams> grams_of_length(const NgramAttrs& a, int64_t length) {
  const auto n = static_cast<size_t>(length - 1), pool = a.pool_ints.size();
  Grams out;
  std::set<std::vector<int64_t>> seen;
  int64_t id = 0;
  for (size_t k = 0; k < a.counts.size() && k <= n; ++k) {
    const int64_t from = a.counts[k], to = k + 1 < a.counts.size() ? a.counts[k + 1] : static_cast<int64_t>(pool);
    if (from < 0 || to < from || to > static_cast<int64_t>(pool)) return std::nullopt;
    const auto words = static_cast<int64_t>(k) + 1;
    for (int64_t at = from; at + words <= to; at += words, ++id) {
      std::vector<int64_t> word(a.pool_ints.begin() + at, a.pool_ints.begin() + at + words);
      if (k != n || !seen.insert(word).second) continue;
      if (id >= static_cast<int64_t>(a.indexes.size())) return std::nullopt;
      out.words.push_back(std::move(word)), out.ids.push_back(id);
    }
  }
  return out;
}

// Counts of each n-gram of one length in each row of x [..,C]: [..,grams].
ValueId count_grams(Expansion& e, ValueId x, const Grams& grams, int64_t length, int64_t max_skip) {
  const int64_t width = e.dim(x, -1).size();
  const int last = e.g.rank(x) - 1;
  std::vector<Dim> sizes = e.dims(x);
  sizes.insert(sizes.end() - 1, Dim(1));
  ValueId sum;
  for (int64_t skip = 0; skip <= (length > 1 ? max_skip : 0); ++skip) {
    const int64_t positions = width - (length - 1) * (skip + 1);
    if (positions <= 0) break;
    sizes.back() = Dim(positions);
    ValueId match;
    for (int64_t k = 0; k < length; ++k) {
      std::vector<int64_t> column;
      for (const auto& word : grams.words) column.push_back(word[static_cast<size_t>(k)]);
      const auto count = static_cast<int64_t>(column.size());
      const ValueId want = e.b.constant(make_data(DType::I64, {count, 1}, column));
      const ValueId hit = e.b.create(Eq, {e.b.reshape(e.b.narrow(x, last, Dim(k * (skip + 1)), Dim(positions)), sizes), want});
      match = match.valid() ? e.b.create(And, {match, hit}) : hit;
    }
    const ValueId found = e.b.reduce(ReduceOp::Sum, e.b.cast(match, DType::F32), {last + 1}, false);
    sum = sum.valid() ? e.b.add(sum, found) : found;
  }
  return sum;
}

std::vector<ValueId> ngram(Expansion& e) {
  const NgramAttrs a = e.attrs<NgramAttrs>();
  const ValueId x = e.b.cast(e.in(0), DType::I64);
  constexpr int64_t kMost = 64;  // limit on lengths and skips, each of which becomes nodes of its own
  if (!x.valid() || !e.dim(x, -1).is_static() || a.min_length < 1 || a.max_length > kMost || a.max_skip < 0 || a.max_skip > kMost)
    return {};
  const auto columns = static_cast<size_t>(e.result_dims().back().size());
  std::vector<ValueId> parts;
  std::vector<float> weights;
  std::vector<int64_t> source(columns, -1);  // by column: index of its n-gram in the concatenated counts
  for (int64_t length = a.min_length; length <= a.max_length; ++length) {
    const auto grams = grams_of_length(a, length);
    if (!grams) return {};
    const ValueId counts = grams->ids.empty() ? ValueId() : count_grams(e, x, *grams, length, a.max_skip);
    if (!counts.valid()) continue;
    parts.push_back(counts);
    for (int64_t id : grams->ids) {
      int64_t& from = source[static_cast<size_t>(a.indexes[static_cast<size_t>(id)])];
      if (from >= 0) return {};  // two n-grams share a column
      from = static_cast<int64_t>(weights.size());
      weights.push_back(static_cast<size_t>(id) < a.weights.size() ? static_cast<float>(a.weights[static_cast<size_t>(id)]) : 1);
    }
  }
  const auto count = static_cast<int64_t>(weights.size());
  std::vector<Dim> sizes = e.dims(x);
  sizes.back() = Dim(1);
  parts.push_back(e.b.expand(e.b.scalar(DType::F32, 0), sizes));  // zeros for columns without n-gram
  for (int64_t& from : source) from = from < 0 ? count : from;
  weights.push_back(1);
  ValueId y = e.b.concat(parts, e.g.rank(x) - 1);
  const ValueId weight = e.b.constant(make_data(DType::F32, {count + 1}, weights)), zero = e.b.scalar(DType::F32, 0);
  if (a.mode == NgramWeight::Idf) y = e.b.create(Where, {e.b.create(Gt, {y, zero}), weight, zero});
  if (a.mode == NgramWeight::TfIdf) y = e.b.mul(y, weight);
  return {e.b.cast(e.b.create(Gather, {y, e.b.ints(source)}, AxisAttrs{e.g.rank(x) - 1}), e.result_dtype())};
}

}  // namespace

std::span<const DecompositionEntry> dynamic_decompositions() {
  static constexpr DecompositionEntry kTable[] = {{Random, random}, {Ngram, ngram}};
  return kTable;
}

}  // namespace rlxc::legalise
