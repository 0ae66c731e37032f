#include "ir/opkind.h"

#include <array>
#include <iterator>
#include <string>
#include <unordered_map>

namespace rlxc {
namespace {

struct OpRow {
  std::string_view text, kind, doc;
  int min_in, max_in, results;
};

constexpr std::array<OpRow, kOpCount> kRows = {{
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) \
  {text, #id, doc, min_in, max_in, results},
#include "ir/ops.def"
#undef OP
}};

const OpRow& row(OpKind k) { return kRows[static_cast<size_t>(k)]; }

}  // namespace

std::string_view name(OpKind k) { return row(k).text; }
std::string_view kind_name(OpKind k) { return row(k).kind; }
std::string_view doc(OpKind k) { return row(k).doc; }
int min_inputs(OpKind k) { return row(k).min_in; }
int max_inputs(OpKind k) { return row(k).max_in; }
int result_count(OpKind k) { return row(k).results; }

std::string_view claim_name(OpKind k) {
  if (has_trait(k, kActivation)) return "Activation";
  if (has_trait(k, kBinary)) return "Binary";
  if (has_trait(k, kCompare)) return "Compare";
  return kind_name(k);
}

std::optional<OpKind> op_from_name(std::string_view s) {
  static const auto index = [] {
    std::unordered_map<std::string_view, OpKind> m;
    for (size_t i = 0; i < kRows.size(); ++i) {
      m.emplace(kRows[i].text, static_cast<OpKind>(i));
      m.emplace(kRows[i].kind, static_cast<OpKind>(i));
    }
    return m;
  }();
  auto it = index.find(s);
  return it == index.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace rlxc
