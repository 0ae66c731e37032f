#include "support/line_diff.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "support/text.h"

namespace rlxc {
namespace {

constexpr size_t kContext = 3;
constexpr size_t kFullCells = 1 << 20;  // limit on table cells of a full comparison

class LineDiff {
 public:
  LineDiff(std::string_view before, std::string_view after) : a_(lines(before)), b_(lines(after)) {
    keep_.assign(a_.size(), kNone);
    std::unordered_map<std::string_view, uint32_t> ids;
    for (auto* side : {&a_, &b_})
      for (std::string_view l : *side)
        (side == &a_ ? x_ : y_).push_back(ids.try_emplace(l, static_cast<uint32_t>(ids.size())).first->second);
    kinds_ = ids.size();
    compare(0, a_.size(), 0, b_.size());
  }

  std::string text(std::string_view before_name, std::string_view after_name) const {
    std::string out;
    size_t i = 0, j = 0;
    std::vector<Hunk> hunks;
    while (i < a_.size() || j < b_.size()) {
      if (i < a_.size() && keep_[i] == j) {
        ++i, ++j;
        continue;
      }
      Hunk h{i, i, j, j};
      while (h.a_end < a_.size() && keep_[h.a_end] == kNone) ++h.a_end;
      h.b_end = h.a_end < a_.size() ? keep_[h.a_end] : b_.size();
      i = h.a_end, j = h.b_end;
      if (!hunks.empty() && h.a - hunks.back().a_end <= 2 * kContext) hunks.back().a_end = h.a_end, hunks.back().b_end = h.b_end;
      else hunks.push_back(h);
    }
    if (hunks.empty()) return out;
    out = "--- " + std::string(before_name) + "\n+++ " + std::string(after_name) + "\n";
    for (const Hunk& h : hunks) print(h, &out);
    return out;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Hunk {
    size_t a, a_end, b, b_end;
  };

  static std::vector<std::string_view> lines(std::string_view text) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    return text.empty() ? std::vector<std::string_view>() : split(text, '\n');
  }

  void print(const Hunk& h, std::string* out) const {
    const size_t before = std::min({kContext, h.a, h.b}), after = std::min({kContext, a_.size() - h.a_end, b_.size() - h.b_end});
    const auto range = [](size_t from, size_t count) {
      return std::to_string(count ? from + 1 : from) + (count == 1 ? "" : "," + std::to_string(count));
    };
    const size_t a = h.a - before, b = h.b - before;
    *out += "@@ -" + range(a, h.a_end + after - a) + " +" + range(b, h.b_end + after - b) + " @@\n";
    size_t j = b;
    for (size_t i = a; i < h.a_end + after || j < h.b_end + after;) {
      if (i < h.a_end + after && keep_[i] == kNone) *out += "-" + std::string(a_[i++]) + "\n";
      else if (j < h.b_end + after && (i >= h.a_end + after || keep_[i] > j)) *out += "+" + std::string(b_[j++]) + "\n";
      else *out += " " + std::string(a_[i++]) + "\n", ++j;
    }
  }

  void keep(size_t i, size_t j) { keep_[i] = j; }

  // Explicit work list, because texts may be long.
  void compare(size_t a, size_t a_end, size_t b, size_t b_end) {
    std::vector<Hunk> work{{a, a_end, b, b_end}};
    while (!work.empty()) {
      Hunk h = work.back();
      work.pop_back();
      while (h.a < h.a_end && h.b < h.b_end && x_[h.a] == y_[h.b]) keep(h.a++, h.b++);
      while (h.a < h.a_end && h.b < h.b_end && x_[h.a_end - 1] == y_[h.b_end - 1]) keep(--h.a_end, --h.b_end);
      if (h.a == h.a_end || h.b == h.b_end) continue;
      const auto anchors = unique_common(h);
      if (anchors.empty()) {
        full(h);
        continue;
      }
      Hunk rest = h;
      for (const auto& [i, j] : anchors) {
        keep(i, j);
        work.push_back({rest.a, i, rest.b, j});
        rest.a = i + 1, rest.b = j + 1;
      }
      work.push_back(rest);
    }
  }

  // The longest increasing sequence of pairs of lines that occur once on each side.
  std::vector<std::pair<size_t, size_t>> unique_common(const Hunk& h) {
    count_.resize(kinds_);
    for (size_t i = h.a; i < h.a_end; ++i) ++count_[x_[i]].a, count_[x_[i]].at = i;
    for (size_t j = h.b; j < h.b_end; ++j) ++count_[y_[j]].b;
    std::vector<std::pair<size_t, size_t>> pairs;  // by j
    for (size_t j = h.b; j < h.b_end; ++j)
      if (const Count& c = count_[y_[j]]; c.a == 1 && c.b == 1) pairs.emplace_back(c.at, j);
    for (size_t i = h.a; i < h.a_end; ++i) count_[x_[i]] = {};
    for (size_t j = h.b; j < h.b_end; ++j) count_[y_[j]] = {};
    std::vector<size_t> tails, previous(pairs.size(), kNone);  // indices into pairs
    for (size_t p = 0; p < pairs.size(); ++p) {
      const auto at = std::ranges::lower_bound(tails, pairs[p].first, {}, [&](size_t q) { return pairs[q].first; });
      if (at != tails.begin()) previous[p] = *(at - 1);
      if (at == tails.end()) tails.push_back(p);
      else *at = p;
    }
    std::vector<std::pair<size_t, size_t>> out;
    for (size_t p = tails.empty() ? kNone : tails.back(); p != kNone; p = previous[p]) out.push_back(pairs[p]);
    std::ranges::reverse(out);
    return out;
  }

  // Longest common subsequence by dynamic programming.
  void full(const Hunk& h) {
    const size_t n = h.a_end - h.a, m = h.b_end - h.b;
    if (n > kFullCells / m) return;
    std::vector<uint32_t> longest((n + 1) * (m + 1));
    const auto at = [&](size_t i, size_t j) -> uint32_t& { return longest[i * (m + 1) + j]; };
    for (size_t i = n; i-- > 0;)
      for (size_t j = m; j-- > 0;)
        at(i, j) = x_[h.a + i] == y_[h.b + j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
    for (size_t i = 0, j = 0; i < n && j < m;) {
      if (x_[h.a + i] == y_[h.b + j]) keep(h.a + i++, h.b + j++);
      else if (at(i + 1, j) >= at(i, j + 1)) ++i;
      else ++j;
    }
  }

  struct Count {
    uint32_t a = 0, b = 0;
    size_t at = 0;
  };
  std::vector<std::string_view> a_, b_;
  std::vector<uint32_t> x_, y_;  // lines as numbers
  std::vector<size_t> keep_;     // by line of a: its line of b
  std::vector<Count> count_;
  size_t kinds_ = 0;
};

}  // namespace

std::string unified_diff(std::string_view before, std::string_view after, std::string_view before_name,
                         std::string_view after_name) {
  return before == after ? std::string() : LineDiff(before, after).text(before_name, after_name);
}

}  // namespace rlxc
