// String ops: normalise, join, split, compare; n-grams of strings and integers.
#include "ops/strings.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "eval/broadcast.h"
#include "eval/context.h"
#include "eval/pattern.h"

namespace rlxc::eval {
namespace {

using ops::change_case;

bool put_strings(Context& c, std::vector<int64_t> dims, std::vector<std::string> values) {
  TensorData d;
  if (!c.make(DType::String, std::move(dims), &d)) return false;
  d.strings = std::move(values);
  return c.put(std::move(d));
}

bool eval_string_normalize(Context& c) {
  const auto& a = c.a<StringNormalizeAttrs>();
  const Cells<std::string> x(c.t(0));
  std::vector<std::string> stop = a.stopwords, out;
  if (!a.case_sensitive)
    for (auto& s : stop) s = change_case(s, LetterCase::Lower);
  std::sort(stop.begin(), stop.end());
  for (int64_t i = 0; i < c.t(0).elements(); ++i)
    if (!std::binary_search(stop.begin(), stop.end(), a.case_sensitive ? x[i] : change_case(x[i], LetterCase::Lower)))
      out.push_back(change_case(x[i], a.change));
  if (out.empty()) out.emplace_back();
  std::vector<int64_t> dims = c.dims(0);
  dims.back() = static_cast<int64_t>(out.size());
  return put_strings(c, std::move(dims), std::move(out));
}

// Applies f to each pair of elements with broadcasting.
template <class F>
bool pairs(Context& c, F f) {
  const auto dims = c.result_dims();
  if (!c.charge(static_cast<double>(product(dims)))) return false;
  const Cells<std::string> a(c.t(0)), b(c.t(1));
  const TensorData* operands[] = {&c.t(0), &c.t(1)};
  BroadcastRows(dims, operands).for_each([&](int64_t, int64_t length, const int64_t* offset, const int64_t* step) {
    for (int64_t i = 0; i < length; ++i) f(a[offset[0] + i * step[0]], b[offset[1] + i * step[1]]);
  });
  return true;
}

bool eval_string_concat(Context& c) {
  std::vector<std::string> out;
  return pairs(c, [&](const std::string& a, const std::string& b) { out.push_back(a + b); }) &&
         put_strings(c, c.result_dims(), std::move(out));
}

bool eval_string_equal(Context& c) {
  std::vector<Int> out;
  return pairs(c, [&](const std::string& a, const std::string& b) { out.push_back(a == b); }) && c.put_result(0, out);
}

bool eval_string_index(Context& c) {
  std::map<std::string_view, Int> position;
  const auto& strings = c.a<StringIndexAttrs>().strings;
  for (size_t i = 0; i < strings.size(); ++i) position.emplace(strings[i], Int(static_cast<int64_t>(i)));
  const Cells<std::string> x(c.t(0));
  std::vector<Int> out;
  for (int64_t i = 0; i < c.t(0).elements(); ++i) {
    const auto at = position.find(x[i]);
    out.push_back(at == position.end() ? Int(-1) : at->second);
  }
  return c.put_result(0, out);
}

bool eval_string_match(Context& c) {
  std::string message;
  const auto pattern = Pattern::parse(c.a<StringMatchAttrs>().pattern, &message);
  if (!pattern) return c.unsupported("the pattern: " + message);
  const Cells<std::string> x(c.t(0));
  std::vector<Int> out;
  for (int64_t i = 0; i < c.t(0).elements(); ++i) {
    if (!c.charge(static_cast<double>(pattern->size()) * static_cast<double>(x[i].size() + 1))) return false;
    out.push_back(pattern->matches(x[i]));
  }
  return c.put_result(0, out);
}

std::vector<std::string> pieces(const std::string& s, const StringSplitAttrs& a) {
  std::vector<std::string> out;
  const bool limited = a.max_splits >= 0;
  const auto full = [&] { return limited && static_cast<int64_t>(out.size()) >= a.max_splits; };
  if (!a.delimiter.empty()) {
    size_t at = 0;
    for (size_t next; !s.empty() && !full() && (next = s.find(a.delimiter, at)) != s.npos; at = next + a.delimiter.size())
      out.push_back(s.substr(at, next - at));
    if (!s.empty()) out.push_back(s.substr(at));
    return out;
  }
  constexpr const char* kSpace = " \t\n\r\v\f";
  size_t at = s.find_first_not_of(kSpace);
  while (at != s.npos) {
    const size_t end = full() ? s.find_last_not_of(kSpace) + 1 : std::min(s.find_first_of(kSpace, at), s.size());
    out.push_back(s.substr(at, end - at));
    at = s.find_first_not_of(kSpace, end);
  }
  return out;
}

bool eval_string_split(Context& c) {
  const Cells<std::string> x(c.t(0));
  const int64_t n = c.t(0).elements();
  std::vector<std::vector<std::string>> parts;
  size_t widest = 0;
  std::vector<Int> counts;
  for (int64_t i = 0; i < n; ++i) {
    parts.push_back(pieces(x[i], c.a<StringSplitAttrs>()));
    widest = std::max(widest, parts.back().size());
    counts.push_back(static_cast<int64_t>(parts.back().size()));
  }
  if (!c.charge(static_cast<double>(n) * static_cast<double>(widest))) return false;
  std::vector<int64_t> dims = c.dims(0);
  dims.push_back(static_cast<int64_t>(widest));
  std::vector<std::string> out;
  for (auto& p : parts) {
    p.resize(widest);
    out.insert(out.end(), p.begin(), p.end());
  }
  return put_strings(c, std::move(dims), std::move(out)) && c.put(DType::I64, c.dims(0), counts);
}

template <class K>
bool ngrams(Context& c, const std::vector<K>& x, const std::vector<K>& pool) {
  const auto& a = c.a<NgramAttrs>();
  const auto dims = c.result_dims();
  const int64_t width = c.dims(0).back(),
                rows = width > 0 ? static_cast<int64_t>(x.size()) / width : product(std::span(dims).first(dims.size() - 1)),
                size = dims.back();
  std::map<std::vector<K>, size_t> grams;  // n-gram -> index in the pool
  size_t id = 0;
  for (size_t n = 0; n < a.counts.size(); ++n) {
    const auto from = a.counts[n];
    const int64_t to = n + 1 < a.counts.size() ? a.counts[n + 1] : static_cast<int64_t>(pool.size());
    if (from < 0 || to < from || to > static_cast<int64_t>(pool.size())) return c.fail("the counts do not fit the pool");
    const auto length = static_cast<int64_t>(n) + 1;
    for (int64_t at = from; at + length <= to; at += length, ++id)
      if (length >= a.min_length && length <= a.max_length)
        grams.emplace(std::vector<K>(pool.begin() + at, pool.begin() + at + length), id);
  }
  if (id > a.indexes.size()) return c.fail("the pool has more n-grams than there are indexes");
  std::vector<double> y(static_cast<size_t>(rows * size), 0);
  for (int64_t r = 0; r < rows; ++r) {
    const K* row = x.data() + r * width;
    double* out = y.data() + r * size;
    for (int64_t skip = 0; skip <= a.max_skip; ++skip)
      for (int64_t length = a.min_length; length <= a.max_length; ++length) {
        if (length == 1 && skip > 0) continue;
        const int64_t reach = (length - 1) * (skip + 1);
        if (reach < 0 || reach >= width) continue;
        if (!c.charge(static_cast<double>((width - reach) * length))) return false;
        for (int64_t at = 0; at + reach < width; ++at) {
          std::vector<K> gram;
          for (int64_t k = 0; k < length; ++k) gram.push_back(row[at + k * (skip + 1)]);
          if (const auto it = grams.find(gram); it != grams.end()) out[a.indexes[it->second]] += 1;
        }
      }
  }
  for (const auto& [gram, i] : grams)
    for (int64_t r = 0; r < rows; ++r) {
      double& v = y[static_cast<size_t>(r * size + a.indexes[i])];
      const double weight = i < a.weights.size() ? a.weights[i] : 1;
      if (a.mode == NgramWeight::Idf) v = v > 0 ? weight : 0;
      if (a.mode == NgramWeight::TfIdf) v *= weight;
    }
  return c.put_result(0, y);
}

bool eval_ngram(Context& c) {
  const auto& a = c.a<NgramAttrs>();
  if (a.min_length < 1 || a.max_length < a.min_length || a.max_length > 1 << 16 || a.max_skip < 0 || a.max_skip > 1 << 16)
    return c.fail("lengths or skips are out of range");
  if (c.t(0).dtype != DType::String) return ngrams(c, c.ints(0), a.pool_ints);
  const Cells<std::string> x(c.t(0));
  return ngrams(c, std::vector<std::string>(x.data(), x.data() + c.t(0).elements()), a.pool_strings);
}

}  // namespace

std::span<const Entry> string_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::StringNormalize, eval_string_normalize},
                                     {OpKind::StringConcat, eval_string_concat},
                                     {OpKind::StringSplit, eval_string_split},
                                     {OpKind::StringEqual, eval_string_equal},
                                     {OpKind::StringIndex, eval_string_index},
                                     {OpKind::StringMatch, eval_string_match},
                                     {OpKind::Ngram, eval_ngram}};
  return kTable;
}

}  // namespace rlxc::eval
