#include "transform/coverage.h"

#include <algorithm>

#include "transform/batch_rules.h"
#include "transform/duals.h"
#include "transform/rules.h"

namespace rlxc::transform {
namespace {

// Results are truth values, positions, text or bits, which have no derivative.
bool gives_no_float(OpKind op) {
  static constexpr OpKind kOthers[] = {
      OpKind::Not,          OpKind::BitNot,
      OpKind::IsNan,        OpKind::IsInf,
      OpKind::BitCast,      OpKind::BitAnd,
      OpKind::BitOr,        OpKind::BitXor,
      OpKind::Shl,          OpKind::Shr,
      OpKind::And,          OpKind::Or,
      OpKind::Xor,          OpKind::ArgReduce,
      OpKind::NonZero,      OpKind::Iota,
      OpKind::DimValue,     OpKind::ImageDecode,
      OpKind::StringEqual,  OpKind::StringIndex,
      OpKind::StringMatch,  OpKind::StringSplit,
      OpKind::StringConcat, OpKind::StringNormalize,
      OpKind::Ngram,        OpKind::SequenceLength,
      OpKind::OptionalHas,  OpKind::NonMaxSuppression,
  };
  return has_trait(op, kCompare) || std::ranges::find(kOthers, op) != std::end(kOthers);
}

bool is_map(OpKind op) { return op == OpKind::MapOfRow || op == OpKind::MapLookup || op == OpKind::MapValues; }

}  // namespace

std::string_view coverage(OpKind op, Table table, bool has_expansion) {
  if (has_trait(op, kLeaf | kTerminator) || op == OpKind::Random) return "no operands";
  if (has_trait(op, kCollective)) return "made later";
  if (has_trait(op, kHir)) return "lowered";
  const bool batch = table == Table::Batch;
  if (!batch && gives_no_float(op)) return "not a float";
  if (!batch && op == OpKind::StopGradient) return "a constant";
  const bool own = table == Table::Gradient ? has_slope(op) || find_rule(op)
                   : table == Table::Tangent
                       ? has_slope(op) || find_dual(op)
                       : (has_trait(op, kElementwise) && op != OpKind::ElementwiseRegion) || find_batch_rule(op);
  if (own) return "rule";
  if (has_expansion) return "expansion";
  const bool of_sequence = op == OpKind::SequenceLength || op == OpKind::OptionalHas;
  const bool of_text = is_map(op) || (gives_no_float(op) && !of_sequence);
  if (has_trait(op, kSequenceOp) && !of_text) return "lowered";
  if (!batch && is_map(op)) return "a map";
  if (!batch) return "-";
  if (op == OpKind::DimValue) return "no operands";
  return has_own_sizes(op) ? "own sizes" : "loop";
}

}  // namespace rlxc::transform
