// Control flow and calls. Regions become graphs, whose inputs are what they read of the graphs around them.
#include <algorithm>
#include <array>

#include "import/stablehlo/importer.h"
#include "support/checked.h"
#include "support/text.h"

namespace rlxc::stablehlo_import {
namespace {

Block body_block(Op& op, std::string_view name) {
  Module& m = op.im.module();
  return {m, m.make_graph(op.im.fresh_name(name)), &op.im.block(), op.im.diagnostics()};
}

// Makes the results outputs of the graph. Returns false after an error.
bool give(Op& op, Block& block, const std::vector<Value>& results, size_t count) {
  if (results.size() != count)
    return !op.im.diagnostics().ok() || op.im.full() ? false
                                                     : op.fail(Code::BadArity, "a region gives the wrong number of results");
  for (const Value& v : results) {
    if (v.is_complex()) return op.unsupported("its regions give complex numbers");
    const ValueId id = op.whole(v);
    if (!id.valid()) return false;
    block.graph->add_output(id, {});
  }
  return true;
}

bool same_type(Op& op, const Value& a, const Value& b) {
  return a.dtype == b.dtype && a.dims.size() == b.dims.size() &&
         std::ranges::equal(a.dims, b.dims, [&](Dim x, Dim y) { return x == y || op.dims().equal(x, y); });
}

// Runs regions that take nothing, one of which is chosen by a boolean.
template <class Then, class Else>
std::vector<Value> branch(Op& op, const Value& condition, size_t count, Then then_region, Else else_region) {
  const ValueId c = op.whole(condition);
  Block a = body_block(op, "then"), b = body_block(op, "else");
  bool good = true;
  op.im.inside(a, [&] { good = give(op, a, then_region(), count); });
  for (const Block::Capture& x : a.captures) {
    const ValueId inner = b.b.input(op.im.fresh_name("captured"), a.parent->graph->type(x.outer));
    b.inner_of[x.outer.raw] = inner;
    b.captures.push_back({x.outer, inner});
  }
  op.im.inside(b, [&] { good = give(op, b, else_region(), count) && good; });
  if (!good) return {};
  for (size_t i = a.captures.size(); i < b.captures.size(); ++i)
    a.b.input(op.im.fresh_name("captured"), b.parent->graph->type(b.captures[i].outer));
  for (size_t i = 0; i < count; ++i)
    if (a.graph->type(a.graph->outputs()[i]) != b.graph->type(b.graph->outputs()[i])) {
      op.fail(Code::BadType, "its regions give results of different types");
      return {};
    }
  std::vector<ValueId> operands{c};
  for (const Block::Capture& x : b.captures) operands.push_back(x.outer);
  const NodeId n = op.b().create_node(OpKind::If, operands, IfAttrs{}, std::array{a.graph->id(), b.graph->id()});
  std::vector<Value> out;
  for (size_t i = 0; n.valid() && i < count; ++i) out.push_back(op.made(op.im.block().graph->result(n, i)));
  return out;
}

void if_(Op& op) {
  if (!op.needs(1) || op.text.regions.size() != 2) return (void)op.fail(Code::BadArity, "it takes a condition and two regions");
  const Value& c = op.in(0);
  if (c.dtype != DType::Bool || !c.dims.empty()) return (void)op.fail(Code::BadType, "its condition is one boolean");
  const auto side = [&](size_t i) { return [&op, i] { return op.im.region(op.text.regions[i], {}); }; };
  std::vector<Value> out;
  if (const auto known = op.constant(c)) out = op.im.region(op.text.regions[*known ? 0 : 1], {});
  else out = branch(op, c, op.outputs(), side(0), side(1));
  op.set_all(out);
}

// The region of number `index`; the last one for numbers that are out of range.
std::vector<Value> choose(Op& op, const Value& index, size_t from) {
  const auto run = [&](size_t i) { return op.im.region(op.text.regions[i], {}); };
  if (from + 1 == op.text.regions.size()) return run(from);
  const Value here = op.elementwise(OpKind::Eq, {index, op.scalar(index.dtype, static_cast<double>(from))});
  if (!here.valid()) return {};
  return branch(
      op, here, op.outputs(), [&] { return run(from); }, [&] { return choose(op, index, from + 1); });
}

void case_(Op& op) {
  constexpr size_t kMost = 64;
  if (!op.needs(1)) return;
  if (op.text.regions.empty() || op.text.regions.size() > kMost)
    return (void)op.unsupported("it needs 1 to " + std::to_string(kMost) + " regions");
  if (!is_integer(op.in(0).dtype) || !op.in(0).dims.empty()) return (void)op.fail(Code::BadType, "its index is one integer");
  const std::vector<Value> out = choose(op, op.in(0), 0);
  op.set_all(out);
}

std::optional<int64_t> number(Op& op, const Region& r, const Operand& x) {
  if (const Operation* o = definition(r, x.name)) {
    const Attr* a = o->name == "stablehlo.constant" ? o->find("value") : nullptr;
    std::string message;
    if (!a || a->kind != Attr::Kind::Dense || o->result_types.size() != 1) return std::nullopt;
    const TensorType& t = o->result_types[0];
    if (!t.dtype || !is_integer(*t.dtype) || !t.dims.empty()) return std::nullopt;
    const auto data = read_literal(a->text, *t.dtype, {}, &message);
    return data ? std::optional(element_as_int(*data, 0)) : std::nullopt;
  }
  for (const Argument& a : r.arguments)
    if (a.name == x.name) return std::nullopt;
  const Value* v = op.im.find(x.name, x.index);
  return v ? op.constant(*v) : std::nullopt;
}

size_t argument_of(const Region& r, std::string_view name) {
  size_t i = 0;
  while (i < r.arguments.size() && r.arguments[i].name != name) ++i;
  return i;
}

// The number of iterations of a loop that counts a carried value from a start below an end, in steps of 1.
std::optional<int64_t> iterations(Op& op) {
  const Region &condition = op.text.regions[0], &body = op.text.regions[1];
  if (condition.operations.empty() || body.operations.empty() || condition.operations.back().operands.size() != 1)
    return std::nullopt;
  const Operation* test = definition(condition, condition.operations.back().operands[0].name);
  if (!test || test->name != "stablehlo.compare" || test->operands.size() != 2) return std::nullopt;
  const size_t k = argument_of(condition, test->operands[0].name);
  if (test->direction() != "LT" || k >= op.inputs() || k >= body.operations.back().operands.size() || !is_integer(op.in(k).dtype))
    return std::nullopt;
  for (const Operation& o : condition.operations)
    if (&o != test && o.name != "stablehlo.constant" && o.name != "stablehlo.return") return std::nullopt;
  auto end = number(op, condition, test->operands[1]);
  if (const size_t j = argument_of(condition, test->operands[1].name); !end && j < op.inputs()) {  // carried, and never changed
    if (j < body.operations.back().operands.size() && body.operations.back().operands[j].name == body.arguments[j].name)
      end = op.constant(op.in(j));
  }
  const auto start = op.constant(op.in(k));
  const Operation* step = definition(body, body.operations.back().operands[k].name);
  if (!end || !start || !step || step->name != "stablehlo.add" || step->operands.size() != 2) return std::nullopt;
  for (const size_t i : {0, 1})
    if (const auto count = checked_sub(*end, *start);
        count && step->operands[i].name == body.arguments[k].name && number(op, body, step->operands[1 - i]) == 1)
      return std::max<int64_t>(*count, 0);
  return std::nullopt;
}

void while_(Op& op) {
  const size_t n = op.inputs();
  if (op.text.regions.size() != 2 || op.outputs() != n || n == 0)
    return (void)op.fail(Code::BadArity, "it takes two regions, and gives as many values as it takes");
  for (const Region& r : op.text.regions)
    if (r.arguments.size() != n) return (void)op.fail(Code::BadArity, "its regions take as many values as it does");
  const auto trips = iterations(op);
  std::vector<ValueId> operands;
  if (trips) {
    operands = {op.whole(op.scalar(DType::I64, static_cast<double>(*trips))), op.whole(op.scalar(DType::Bool, 1))};
  } else {
    const std::vector<Value> first = op.im.region(op.text.regions[0], op.all());
    if (first.size() != 1 || !first[0].valid() || first[0].dtype != DType::Bool || !first[0].dims.empty()) {
      if (op.im.diagnostics().ok()) op.fail(Code::BadType, "its condition is one boolean");
      return;
    }
    operands = {ValueId(), op.whole(first[0])};
  }
  for (const Value& v : op.all()) operands.push_back(op.whole(v));
  Block body = body_block(op, "while");
  std::vector<Value> carried;
  body.b.input(op.im.fresh_name("iteration"), tensor_type(DType::I64, {}));
  body.b.input(op.im.fresh_name("going"), tensor_type(DType::Bool, {}));
  for (size_t i = 0; i < n; ++i) {
    Value v;
    v.block = &body;
    v.dtype = op.in(i).dtype;
    v.dims = op.in(i).dims;
    v.id = body.b.input(op.im.fresh_name("carried"), tensor_type(v.dtype, v.dims));
    carried.push_back(std::move(v));
  }
  bool good = true;
  op.im.inside(body, [&] {
    std::vector<Value> next = op.im.region(op.text.regions[1], carried);
    if (next.size() != n)
      return void(good = !op.im.diagnostics().ok() || op.im.full()
                             ? false
                             : op.fail(Code::BadArity, "its region gives the wrong number of results"));
    for (size_t i = 0; i < n; ++i) {
      if (!next[i].valid()) return void(good = false);
      if (!same_type(op, next[i], carried[i]))
        return void(good = op.fail(Code::BadType, "carried value " + std::to_string(i) + " changes its type"));
    }
    std::vector<Value> results;
    if (trips) results.push_back(op.scalar(DType::Bool, 1));
    else results = op.im.region(op.text.regions[0], next);
    if (results.size() != 1) return void(good = false);
    results.insert(results.end(), next.begin(), next.end());
    good = give(op, body, results, n + 1);
  });
  if (!good) return;
  for (const Block::Capture& c : body.captures) operands.push_back(c.outer);
  for (size_t i = 2; i < operands.size(); ++i)
    if (!operands[i].valid()) return;
  const NodeId node =
      op.b().create_node(OpKind::Loop, operands, LoopAttrs{static_cast<int64_t>(n)}, std::array{body.graph->id()});
  for (size_t i = 0; node.valid() && i < n; ++i) op.set(i, op.made(op.im.block().graph->result(node, i)));
}

void identity(Op& op) {
  if (op.needs(1) && op.outputs() == 1) op.set(0, op.in(0));
}

// JAX checks that sizes of arguments are what their names say.
void shape_assertion(Op& op) {
  if (op.inputs() == 0) return (void)op.fail(Code::BadArity, "it needs a condition");
  const Value& c = op.in(0);
  if (op.constant(c) == 1) return;
  if (op.constant(c) == 0) return (void)op.fail(Code::BadShape, "sizes of inputs do not fit the model");
  if (c.equal && op.dims().assume_equal(c.equal->first, c.equal->second)) return;
  op.unsupported("it checks sizes in a way that is not read");
}

void custom_call(Op& op) {
  const std::string_view target = op.text.symbol;
  if (target == "shape_assertion") return shape_assertion(op);
  for (const std::string_view same : {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"})
    if (target == same && op.inputs() == 1 && op.outputs() == 1) return identity(op);
  constexpr std::string_view kFunctions[] = {"erf", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "tan"};
  for (const OpRow& r : elementwise_rows())
    for (const std::string_view f : kFunctions)
      if (r.name == f && (target == "mhlo." + std::string(f) || target == "chlo." + std::string(f))) return r.handler(op);
  for (const OpRow& r : special_rows())
    if (target == "mhlo." + std::string(r.name) || target == "chlo." + std::string(r.name)) return r.handler(op);
  op.fail(Code::UnsupportedOp, "the function " + quote(target) + " of a library is not in the vocabulary");
}

// An operation with its definition by a function.
void composite(Op& op) {
  const Attr* f = op.attr("decomposition");
  if (!f) return (void)op.fail(Code::BadAttribute, "it needs a decomposition");
  const std::vector<Value> out = op.im.call(f->text, op.all());
  op.set_all(out);
}

constexpr OpRow kControlRows[] = {
    {"case", case_}, {"composite", composite}, {"custom_call", custom_call}, {"if", if_}, {"while", while_}};

}  // namespace

std::span<const OpRow> control_rows() { return kControlRows; }

}  // namespace rlxc::stablehlo_import
