#include "ir/op_rules.h"

#include <array>
#include <iterator>

namespace rlxc {
namespace {

struct RulesRow {
  OperandDomain domain;
  CostRule cost;
  PrecisionRule precision;
  LayoutRule layout;
};

namespace precision_rules {
constexpr PrecisionRule Fixed{}, Contraction{PrecisionClass::Contraction, ~0u}, Norm{PrecisionClass::Norm, ~0u},
    Sensitive{PrecisionClass::Sensitive, ~0u}, Elementwise{PrecisionClass::Elementwise, ~0u},
    Movement{PrecisionClass::Movement, ~0u};
}  // namespace precision_rules

constexpr std::array<RulesRow, kOpCount> kRules = {{
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) \
  {OperandDomain::domain, CostRule::cost, precision_rules::precision, LayoutRule::layout},
#include "ir/ops.def"
#undef OP
}};

const RulesRow& rules_of(OpKind k) { return kRules[static_cast<size_t>(k)]; }

constexpr std::string_view kPrecisionClasses[] = {"fixed", "contraction", "norm", "sensitive", "elementwise", "movement"};

}  // namespace

std::string_view name(PrecisionClass c) { return kPrecisionClasses[static_cast<size_t>(c)]; }

std::optional<PrecisionClass> precision_class_from_name(std::string_view s) {
  for (size_t i = 0; i < std::size(kPrecisionClasses); ++i)
    if (kPrecisionClasses[i] == s) return static_cast<PrecisionClass>(i);
  return std::nullopt;
}

OperandDomain operand_domain(OpKind k) { return rules_of(k).domain; }
CostRule cost_rule(OpKind k) { return rules_of(k).cost; }
PrecisionRule precision_rule(OpKind k) { return rules_of(k).precision; }
LayoutRule layout_rule(OpKind k) { return rules_of(k).layout; }

}  // namespace rlxc
