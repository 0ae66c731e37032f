#include "ir/dim_range.h"

#include <algorithm>
#include <vector>

#include "ir/dim_postfix.h"

namespace rlxc {
namespace {

using Bound = std::optional<Dim>;
using Combine = Dim (DimTable::*)(Dim, Dim);

Bound both(DimTable& t, Combine f, const Bound& a, const Bound& b) { return a && b ? Bound((t.*f)(*a, *b)) : std::nullopt; }

// The smaller (larger) of two bounds that both hold.
Bound tighter(DimTable& t, Combine f, const Bound& a, const Bound& b) { return a && b ? both(t, f, a, b) : a ? a : b; }

bool is_at_least(DimTable& t, const Bound& a, int64_t bound) { return a && t.at_least(*a, bound); }

bool exact(const DimRange& a, const DimRange& b) { return exact_value(a) && exact_value(b); }

using Operator = DimRange (*)(DimTable&, const DimRange&, const DimRange&);
constexpr std::pair<std::string_view, Operator> kOperators[] = {{"+", add},      {"*", multiply},  {"floordiv", floor_divide},
                                                                {"mod", modulo}, {"min", minimum}, {"max", maximum}};

const Operator* range_operator(std::string_view name) {
  const auto op = std::ranges::find(kOperators, name, &std::pair<std::string_view, Operator>::first);
  return op == std::end(kOperators) ? nullptr : &op->second;
}

// The ranges of an expression and of the named sizes in it.
struct RangeOf {
  DimTable& t;
  const SymbolRanges& ranges;
  std::map<int64_t, DimRange> known;

  DimRange part(Dim d) {
    if (const auto it = known.find(d.raw()); it != known.end()) return it->second;
    const DimRange made = computed(d);
    known.emplace(d.raw(), made);
    return made;
  }

  DimRange computed(Dim d) {
    std::vector<DimRange> stack;
    for (const std::string& item : terms_postfix(t, d)) {
      if (const Operator* op = range_operator(item)) {
        const DimRange b = stack.back();
        stack.pop_back();
        stack.back() = (*op)(t, stack.back(), b);
      } else if (item[0] == '$') {
        const auto it = ranges.find(item.substr(1));
        stack.push_back(it == ranges.end() ? exactly(t.symbol(item.substr(1))) : it->second);
      } else if (item[0] == '#') {
        stack.push_back(part(*t.size_named(item)));
      } else {
        stack.push_back(exactly(t.constant(std::stoll(item))));
      }
    }
    return stack.back();
  }
};

}  // namespace

DimRange exactly(Dim d) { return {d, d}; }

std::optional<Dim> exact_value(const DimRange& r) { return r.low && r.high && *r.low == *r.high ? r.low : std::nullopt; }

DimRange add(DimTable& t, const DimRange& a, const DimRange& b) {
  return {both(t, &DimTable::add, a.low, b.low), both(t, &DimTable::add, a.high, b.high)};
}

DimRange subtract(DimTable& t, const DimRange& a, const DimRange& b) {
  return {both(t, &DimTable::sub, a.low, b.high), both(t, &DimTable::sub, a.high, b.low)};
}

DimRange multiply(DimTable& t, const DimRange& a, const DimRange& b) {
  if (exact(a, b)) return exactly(t.mul(*a.low, *b.low));
  for (const auto& [factor, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    const auto constant = factor->low ? t.constant_value(*factor->low) : std::nullopt;
    if (!exact_value(*factor) || !constant || *constant >= 0) continue;
    return {both(t, &DimTable::mul, factor->low, other->high), both(t, &DimTable::mul, factor->low, other->low)};
  }
  if (is_at_least(t, a.low, 0) && is_at_least(t, b.low, 0))
    return {both(t, &DimTable::mul, a.low, b.low), both(t, &DimTable::mul, a.high, b.high)};
  if (!a.low || !a.high || !b.low || !b.high) return {};
  DimRange corners = exactly(t.mul(*a.low, *b.low));  // over all sign combinations
  for (Dim corner : {t.mul(*a.low, *b.high), t.mul(*a.high, *b.low), t.mul(*a.high, *b.high)})
    corners = join(t, corners, exactly(corner));
  return corners;
}

DimRange floor_divide(DimTable& t, const DimRange& a, const DimRange& b) {
  if (exact(a, b)) return exactly(t.floor_div(*a.low, *b.low));
  if (!is_at_least(t, b.low, 1)) return {};
  if (exact_value(b)) return {both(t, &DimTable::floor_div, a.low, b.low), both(t, &DimTable::floor_div, a.high, b.low)};
  if (!is_at_least(t, a.low, 0)) return {};
  return {Dim(0), both(t, &DimTable::floor_div, a.high, b.low)};
}

DimRange modulo(DimTable& t, const DimRange& a, const DimRange& b) {
  if (exact(a, b)) return exactly(t.mod(*a.low, *b.low));
  if (!is_at_least(t, b.low, 1)) return {};
  return {Dim(0), both(t, &DimTable::sub, b.high, Dim(1))};
}

DimRange minimum(DimTable& t, const DimRange& a, const DimRange& b) {
  return {both(t, &DimTable::min, a.low, b.low), tighter(t, &DimTable::min, a.high, b.high)};
}

DimRange maximum(DimTable& t, const DimRange& a, const DimRange& b) {
  return {tighter(t, &DimTable::max, a.low, b.low), both(t, &DimTable::max, a.high, b.high)};
}

DimRange join(DimTable& t, const DimRange& a, const DimRange& b) {
  return {both(t, &DimTable::min, a.low, b.low), both(t, &DimTable::max, a.high, b.high)};
}

DimRange range_of(DimTable& t, Dim d, const SymbolRanges& ranges) {
  if (ranges.empty() || t.constant_value(d)) return exactly(d);
  const auto used = t.symbols_of(d);
  if (std::none_of(used.begin(), used.end(), [&](const std::string& s) { return ranges.contains(s); })) return exactly(d);
  RangeOf walk{t, ranges, {}};
  for (Dim f : t.deep_functions_of(d)) walk.part(f);
  return walk.part(d);
}

Dim substitute(DimTable& t, Dim d, const SymbolValues& values) {
  SymbolRanges ranges;
  for (const auto& [name, value] : values) ranges.emplace(name, exactly(value));
  return *range_of(t, d, ranges).low;
}

}  // namespace rlxc
