#include "ir/dim_bounds.h"

#include <algorithm>

#include "ir/dim_postfix.h"

namespace rlxc {
namespace {

struct Interval {
  int64_t low, high;
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// Least and most of f over the corners: enough for functions that are monotone in each argument.
template <class F>
std::optional<Interval> corners(Interval a, Interval b, F f) {
  Interval out{INT64_MAX, INT64_MIN};
  for (int64_t x : {a.low, a.high})
    for (int64_t y : {b.low, b.high}) {
      int64_t r;
      if (!f(x, y, &r)) return std::nullopt;
      out = {std::min(out.low, r), std::max(out.high, r)};
    }
  return out;
}

std::optional<Interval> combine(std::string_view op, Interval a, Interval b) {
  if (op == "+") return corners(a, b, [](int64_t x, int64_t y, int64_t* r) { return !__builtin_add_overflow(x, y, r); });
  if (op == "*") return corners(a, b, [](int64_t x, int64_t y, int64_t* r) { return !__builtin_mul_overflow(x, y, r); });
  if (op == "min") return Interval{std::min(a.low, b.low), std::min(a.high, b.high)};
  if (op == "max") return Interval{std::max(a.low, b.low), std::max(a.high, b.high)};
  if (b.low <= 0) return std::nullopt;  // divisors of sizes are positive
  if (op == "floordiv") return corners(a, b, [](int64_t x, int64_t y, int64_t* r) { return *r = floor_div(x, y), true; });
  if (op == "mod") return Interval{0, a.low >= 0 ? std::min(a.high, b.high - 1) : b.high - 1};
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> upper_bound(const DimTable& dims, Dim d, const DimRanges& ranges) {
  if (d.is_static()) return d.size();
  std::vector<Interval> stack;
  for (const std::string& item : dim_postfix(dims, d)) {
    if (item[0] == '$') {
      const auto range = ranges.find(std::string_view(item).substr(1));
      if (range == ranges.end()) return std::nullopt;
      stack.push_back({range->second.first, range->second.second});
    } else if (item[0] == '-' || (item[0] >= '0' && item[0] <= '9')) {
      const int64_t n = std::stoll(item);
      stack.push_back({n, n});
    } else {
      const Interval b = stack.back();
      stack.pop_back();
      const auto r = combine(item, stack.back(), b);
      if (!r) return std::nullopt;
      stack.back() = *r;
    }
  }
  return stack.back().high;
}

}  // namespace rlxc
