// Sorts and the largest elements. A comparison of one operand, as JAX writes it, becomes TopK of all elements; any other one
// counts, for each element, those that come before it.
#include <algorithm>
#include <array>
#include <cmath>

#include "import/stablehlo/importer.h"

namespace rlxc::stablehlo_import {
namespace {

constexpr int64_t kMostPairs = int64_t{1} << 24;  // of elements that are compared with each other

// The argument behind selections that make all zeros and all NaNs equal.
std::string_view canonical(const Region& r, std::string_view name) {
  for (int step = 0; step < 2; ++step) {
    const Operation* o = definition(r, name);
    if (!o || o->name != "stablehlo.select" || o->operands.size() != 3) break;
    const Operation *condition = definition(r, o->operands[0].name), *constant = definition(r, o->operands[1].name);
    if (!condition || condition->name != "stablehlo.compare" || condition->operands.size() != 2 || !constant ||
        constant->name != "stablehlo.constant")
      break;
    const std::string_view direction = condition->direction();
    const Operation* zero = definition(r, condition->operands[1].name);
    const bool of_zero = direction == "EQ" && zero && zero->name == "stablehlo.constant";
    const bool of_nan = direction == "NE" && condition->operands[0].name == condition->operands[1].name;
    if (!of_zero && !of_nan) break;
    name = o->operands[2].name;
  }
  return name;
}

struct Order {
  size_t key = 0;
  bool descending = false, total = false, made_equal = false;
};

std::optional<Order> order_of_region(const Region& r) {
  if (r.operations.empty() || r.operations.back().operands.size() != 1) return std::nullopt;
  const Operation* test = definition(r, r.operations.back().operands[0].name);
  if (!test || test->name != "stablehlo.compare" || test->operands.size() != 2) return std::nullopt;
  const std::string_view direction = test->direction(), a = canonical(r, test->operands[0].name),
                         b = canonical(r, test->operands[1].name);
  if (direction != "LT" && direction != "GT") return std::nullopt;
  Order out;
  out.descending = direction == "GT";
  out.total = test->is_total_order();
  out.made_equal = a != test->operands[0].name;
  if (out.made_equal != (b != test->operands[1].name)) return std::nullopt;
  for (size_t i = 0; i + 1 < r.arguments.size(); i += 2)
    if (r.arguments[i].name == a && r.arguments[i + 1].name == b) {
      out.key = i / 2;
      return out;
    }
  return std::nullopt;
}

void by_key(Op& op, const Order& order, int64_t axis) {
  const Value& key = op.in(order.key);
  Value keys = key;
  if (is_float(key.dtype) && order.total) {
    if (order.made_equal) {
      keys = op.select(op.elementwise(OpKind::Eq, {key, op.scalar_like(key, 0)}), op.scalar_like(key, 0), key);
      keys = op.select(op.elementwise(OpKind::IsNan, {key}), op.scalar_like(key, NAN), keys);
    }
    keys = ordered_keys(op, keys);
  } else if (key.dtype == DType::Bool) {
    keys = op.cast(key, DType::I32);
  }
  const NodeId n = op.b().create_node(OpKind::TopK, std::array{op.whole(keys)},
                                      TopKAttrs{key.dims[static_cast<size_t>(axis)], axis, order.descending, true});
  if (!n.valid()) return;
  const ValueId index = op.im.block().graph->result(n, 1);
  for (size_t i = 0; i < op.inputs(); ++i) {
    if (i == order.key && keys.id == key.id) {
      op.set(i, op.made(op.im.block().graph->result(n, 0)));
      continue;
    }
    op.set(i, op.made(op.b().create(OpKind::GatherElements, {op.whole(op.in(i)), index}, AxisAttrs{axis})));
  }
}

void by_counting(Op& op, int64_t axis) {
  const auto own = op.sizes(op.in(0));
  if (!own) return;
  const auto at = static_cast<size_t>(axis);
  int64_t pairs = (*own)[at];
  for (const int64_t n : *own) pairs = n == 0 ? 0 : std::min(kMostPairs + 1, pairs > kMostPairs / n ? kMostPairs + 1 : pairs * n);
  if (pairs > kMostPairs) return (void)op.unsupported("with this region, it would compare too many pairs");
  // Element i of the axis is at axis `at`, the other one at the axis behind it.
  Dims square = op.in(0).dims;
  square.insert(square.begin() + axis + 1, square[at]);
  Ints first, second;
  for (int64_t i = 0; i < static_cast<int64_t>(own->size()); ++i) {
    first.push_back(i <= axis ? i : i + 1);
    second.push_back(i < axis ? i : i + 1);
  }
  std::vector<Value> forward, backward;
  for (const Value& v : op.all()) {
    const Value a = op.made(op.whole(op.broadcast(v, square, first))), b = op.made(op.whole(op.broadcast(v, square, second)));
    forward.insert(forward.end(), {b, a});
    backward.insert(backward.end(), {a, b});
  }
  const auto before = op.im.region(op.text.regions[0], forward, true), behind = op.im.region(op.text.regions[0], backward, true);
  if (before.size() != 1 || behind.size() != 1 || !before[0].valid() || !behind[0].valid() || before[0].dtype != DType::Bool)
    return;
  const Value i = op.iota(DType::I64, square, axis), j = op.iota(DType::I64, square, axis + 1);
  const Value tie = op.elementwise(OpKind::And, {op.elementwise(OpKind::Not, {behind[0]}), op.elementwise(OpKind::Lt, {j, i})});
  Value is_before = op.elementwise(OpKind::Or, {before[0], tie});
  is_before.dims = square;
  const Value place = op.made(op.b().reduce(ReduceOp::Sum, op.whole(op.cast(is_before, DType::I64)), {axis + 1}, false));
  for (size_t k = 0; k < op.inputs(); ++k) {
    const ValueId x = op.whole(op.in(k));
    op.set(k, op.made(op.b().create(OpKind::ScatterElements, {x, op.whole(place), x}, ScatterAttrs{axis, Reduction::None})));
  }
}

void sort(Op& op) {
  if (op.inputs() == 0 || op.outputs() != op.inputs() || op.text.regions.size() != 1 ||
      op.text.regions[0].arguments.size() != 2 * op.inputs())
    return (void)op.fail(Code::BadArity, "it gives as many values as it takes, and compares two elements of each");
  for (const Value& v : op.all())
    if (v.dims != op.in(0).dims) return (void)op.fail(Code::BadShape, "its operands differ in shape");
  const auto rank = static_cast<int64_t>(op.in(0).dims.size());
  int64_t axis = op.integer("dimension", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return (void)op.fail(Code::BadAttribute, "there is no such dimension");
  if (const auto order = order_of_region(op.text.regions[0]); order && order->key < op.inputs()) return by_key(op, *order, axis);
  by_counting(op, axis);
}

// chlo.top_k. NaN is larger than all numbers.
void top_k(Op& op) {
  const int64_t k = op.integer("k", -1);
  if (!op.needs(1) || op.outputs() != 2) return (void)op.fail(Code::BadArity, "it gives values and places");
  const Value& x = op.in(0);
  const auto axis = static_cast<int64_t>(x.dims.size()) - 1;
  if (axis < 0 || k < 0 || x.dtype == DType::Bool)
    return (void)op.fail(Code::BadAttribute, "it needs k, and numbers along an axis");
  const Value keys = is_float(x.dtype) ? ordered_keys(op, x) : x;
  const NodeId n = op.b().create_node(OpKind::TopK, std::array{op.whole(keys)}, TopKAttrs{Dim(k), axis, true, true});
  if (!n.valid()) return;
  const ValueId index = op.im.block().graph->result(n, 1);
  op.set(0, op.made(op.b().create(OpKind::GatherElements, {op.whole(x), index}, AxisAttrs{axis})));
  op.set(1, op.cast(op.made(index), op.declared(1)));
}

constexpr OpRow kSortRows[] = {{"sort", sort}, {"top_k", top_k}};

}  // namespace

std::span<const OpRow> sort_rows() { return kSortRows; }

}  // namespace rlxc::stablehlo_import
