#include "report/fact_names.h"

#include <algorithm>
#include <vector>

#include "ir/lir.h"
#include "ir/opkind.h"
#include "report/snapshot.h"
#include "report/words.h"
#include "support/dtype.h"
#include "support/text.h"

namespace rlxc::report {
namespace {

using Words = std::vector<std::string>;

Words patterns() {
  Words all;
  for (const PatternWord& p : pattern_words()) all.emplace_back(p.name);
  return all;
}
Words reasons() {
  Words all;
  for (const ReasonWord& r : reason_words()) all.emplace_back(r.code);
  return all;
}
Words ops() {
  Words all;
  for (size_t k = 0; k < kOpCount; ++k) all.emplace_back(kind_name(static_cast<OpKind>(k)));
  return all;
}
Words regions() {
  Words all;
  for (size_t r = 0; r < kRegionCount; ++r) all.emplace_back(rlxc::name(static_cast<Region>(r)));
  return all;
}

// Facts with a name in them, and where that name comes from. The second is optional.
struct Family {
  std::string_view prefix, what;
  Words (*first)();
  Words (*second)() = nullptr;
};
constexpr Family kFamilies[] = {
    {"fusion.misses.", "pattern", patterns, reasons}, {"fusion.declined.", "pattern", patterns, reasons},
    {"fusion.formed.", "pattern", patterns},          {"ops.", "operation", ops},
    {"dispatch.native.", "operation", ops},           {"dispatch.common_ir.", "operation", ops},
    {"dispatch.rewritten.", "operation", ops},        {"dispatch.unsupported.", "operation", ops}};

std::string unknown(std::string_view what, std::string_view word, std::string_view before, const Words& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  const auto near = closest(word, views);
  return "there is no " + std::string(what) + " " + quote(word) +
         (near ? "; did you mean " + std::string(before) + std::string(*near) + "?" : "");
}

bool is_dtype(std::string_view s) { return dtype_from_name(s).has_value(); }

}  // namespace

std::string fact_name_fault(std::string_view name) {
  if (const size_t slash = name.find('/'); slash != name.npos && !name.starts_with("kernels.")) name.remove_prefix(slash + 1);
  for (const Family& f : kFamilies) {
    if (!name.starts_with(f.prefix)) continue;
    const std::string_view rest = name.substr(f.prefix.size()), word = rest.substr(0, rest.find('.'));
    const Words first = f.first();
    if (std::ranges::find(first, word) == first.end()) return unknown(f.what, word, f.prefix, first);
    if (word.size() == rest.size()) return {};
    const std::string_view second = rest.substr(word.size() + 1);
    const Words known = f.second ? f.second() : Words();
    if (std::ranges::find(known, second) != known.end()) return {};
    return unknown(f.second ? "reason" : "fact", second, std::string(f.prefix) + std::string(word) + ".", known);
  }
  if (name.starts_with("precision.casts.")) {
    const std::string_view types = name.substr(16);
    for (size_t at = types.find('_'); at != types.npos; at = types.find('_', at + 1))
      if (is_dtype(types.substr(0, at)) && is_dtype(types.substr(at + 1))) return {};
    return "there is no pair of types " + quote(types) + ", such as precision.casts.f32_f16";
  }
  if (name.starts_with("precision.bytes."))
    return is_dtype(name.substr(16)) ? std::string() : "there is no type " + quote(name.substr(16));
  if (name.starts_with("kernels.")) return {};  // a text, which the facts say
  Words known = scalar_names();
  for (const std::string& r : regions()) known.push_back("plan." + r);
  known.emplace_back("fusion.misses");
  return std::ranges::find(known, name) != known.end() ? std::string() : unknown("fact", name, "", known);
}

}  // namespace rlxc::report
