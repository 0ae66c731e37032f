#include "backend/stablehlo/translate.h"

#include <algorithm>
#include <array>
#include <set>

#include "backend/graph_package.h"
#include "backend/stablehlo/translator.h"
#include "ir/mesh.h"
#include "ops/elementwise.h"

namespace rlxc::stablehlo {
namespace {

using TranslateFn = decltype(Translation::translate);

TranslateFn find(OpKind op) {
  static const auto functions = [] {
    std::array<TranslateFn, kOpCount> f{};
    for (size_t i = 0; i < f.size(); ++i)
      if (ops::has_meaning(static_cast<OpKind>(i))) f[i] = translate_elementwise;
    for (auto family : {elementwise_translations(), movement_translations(), index_translations(), linear_translations(),
                        reduce_translations(), control_translations(), collective_translations()})
      for (const Translation& t : family) f[static_cast<size_t>(t.op)] = t.translate;
    return f;
  }();
  return functions[static_cast<size_t>(op)];
}

constexpr size_t kNoWeight = ~size_t{0};

}  // namespace

bool has_translation(OpKind op) { return find(op) != nullptr; }

ModuleTranslator::ModuleTranslator(const Module& m, std::span<const DType> dtypes, Diagnostics& d)
    : m_(m), dtypes_(dtypes), d_(d), weight_of_(m.graph_count()) {
  for (size_t i = 0; i < m.graph_count(); ++i) weight_of_[i].resize(m.graph(GraphId(i)).node_capacity(), kNoWeight);
  for (const auto& [g, n] : weight_nodes(m)) {
    weight_of_[g->id().raw][n.raw] = weights_.size();
    Ints dims;
    for (Dim dim : g->dims(g->result(n))) dims.push_back(dim.size());
    weights_.push_back({"%w" + std::to_string(weights_.size()), g->dtype(g->result(n)), std::move(dims)});
  }
}

namespace {

constexpr std::string_view kUnknownSizes = "sizes must be known";

// How to make them known: the symbols of the inputs, bound.
std::string sizes_help(const std::string& reason, const Module& m) {
  if (!reason.starts_with(kUnknownSizes)) return {};
  std::set<std::string> symbols;
  for (NodeId n : m.main().inputs())
    for (Dim d : m.main().dims(m.main().result(n)))
      for (std::string& s : m.dims.symbols_of(d)) symbols.insert(std::move(s));
  std::string out;
  for (const std::string& s : symbols) out += (out.empty() ? "--bind " : ",") + ForeignText(s).line() + "=N";
  return out;
}

}  // namespace

bool ModuleTranslator::fits(const Graph& g, NodeId n, std::string* reason) {
  const auto check = [&](ValueId v) {
    if (!v.valid()) return;
    const Type& t = g.type(v);
    if (t.kind != TypeKind::Tensor || std::find(dtypes_.begin(), dtypes_.end(), t.dtype) == dtypes_.end())
      *reason = "StableHLO has no values of type " + text(t, m_.dims);
    else if (!t.is_static()) *reason = std::string(kUnknownSizes) + ": " + text(t, m_.dims);
  };
  for (ValueId v : g.operands(n)) check(v);
  for (size_t r = 0; r < g.result_count(n); ++r) check(g.result(n, r));
  return reason->empty();
}

std::vector<Hlo> ModuleTranslator::run(const Graph& g, const std::vector<Hlo>& inputs) {
  std::vector<Hlo> outer = std::exchange(value_, std::vector<Hlo>(g.value_capacity()));
  for (size_t i = 0; i < inputs.size(); ++i) value_[g.result(g.inputs()[i]).raw] = inputs[i];
  for (NodeId n : g.nodes()) {
    const size_t weight = weight_of_[g.id().raw][n.raw];
    if (weight != kNoWeight) value_[g.result(n).raw] = weights_[weight];
    if (weight != kNoWeight || has_trait(g.op(n), kLeaf | kTerminator)) continue;
    std::string reason;
    bool known = true;  // false: an earlier error is already reported
    for (ValueId v : g.operands(n)) known &= !v.valid() || !value_[v.raw].name.empty();
    const std::string kind(kind_name(g.op(n)));
    b_.comment(g.label(n), kind);
    const TranslateFn translate = find(g.op(n));
    if (!translate) reason = "no translation of " + kind;
    else if (known && fits(g, n, &reason) && !translate(*this, g, n, &reason) && reason.empty())
      known = false;  // the error is in a body
    if (!reason.empty())
      d_.error(Code::UnsupportedOnTarget, "the tpu target: " + reason, "node " + g.label(n).quoted() + " (" + kind + ")",
               sizes_help(reason, m_));
  }
  std::vector<Hlo> outputs;
  for (ValueId v : g.outputs()) outputs.push_back(value_[v.raw]);
  value_ = std::move(outer);
  return outputs;
}

std::string translate(const Module& m, std::string_view name, std::span<const DType> dtypes, Diagnostics& d,
                      const Annotations* annotations) {
  ModuleTranslator t(m, dtypes, d);
  const Graph& g = m.main();
  std::string parameters, results, names;
  const auto annotation = [&](bool output, Symbol of) {
    if (!annotations || !of.valid()) return std::string();
    const auto& known = output ? annotations->outputs : annotations->inputs;
    const auto it = known.find(m.bytes(of));
    return it == known.end() ? std::string() : " {sdy.sharding = " + it->second + "}";
  };
  const auto parameter = [&](const Hlo& v, Symbol of) {
    parameters += (parameters.empty() ? "" : ", ") + v.name + ": " + HloBuilder::type(v) + annotation(false, of);
  };
  std::vector<Hlo> inputs;
  for (NodeId n : g.inputs()) {
    Ints dims;
    for (Dim dim : g.dims(g.result(n))) dims.push_back(dim.is_static() ? dim.size() : 0);
    inputs.push_back({"%i" + std::to_string(inputs.size()), g.dtype(g.result(n)), std::move(dims)});
    parameter(inputs.back(), g.value_name(g.result(n)));
  }
  const auto weights = weight_nodes(m);
  for (size_t i = 0; i < weights.size(); ++i)
    parameter(t.weights()[i], weights[i].first->value_name(weights[i].first->result(weights[i].second)));
  for (size_t i = 0; const Hlo& v : t.run(g, inputs)) {
    results += (results.empty() ? "" : ", ") + HloBuilder::type(v) + annotation(true, g.output_name(i++));
    names += (names.empty() ? "" : ", ") + v.name;
  }
  const auto mesh = mesh_of(m);
  const std::string partitions =
      mesh ? " attributes {mhlo.num_partitions = " + std::to_string(mesh->devices()) + " : i32, mhlo.num_replicas = 1 : i32}"
           : "";
  const std::string annotated = annotations ? "  sdy.mesh @mesh = " + annotations->mesh + "\n" : "";
  return "module @" + std::string(name) + partitions + " {\n" + annotated + "  func.func public @main(" + parameters + ") -> (" +
         results + ") {\n" + t.take() + "    \"func.return\"(" + names + ") : (" + results + ") -> ()\n  }\n}\n";
}

Hlo NodeTranslator::taken(const Hlo& x, const Hlo& index, size_t axis) {
  Ints offset, slices = x.dims, dims = x.dims;
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (i != axis) offset.push_back(static_cast<int64_t>(i < axis ? i : i - 1 + index.dims.size()));
  slices[axis] = 1;
  dims.erase(dims.begin() + static_cast<int64_t>(axis));
  dims.insert(dims.begin() + static_cast<int64_t>(axis), index.dims.begin(), index.dims.end());
  const std::string a = std::to_string(axis);
  return b_.op("gather", {x, index}, x.dtype, dims,
               "dimension_numbers = #stablehlo.gather<offset_dims = " + HloBuilder::list(offset) + ", collapsed_slice_dims = [" +
                   a + "], start_index_map = [" + a + "], index_vector_dim = " + std::to_string(index.dims.size()) +
                   ">, slice_sizes = " + HloBuilder::ints(slices) + ", indices_are_sorted = false");
}

Hlo NodeTranslator::lowest(DType t) {
  if (is_float(t)) return b_.constant(t, -INFINITY);
  if (t == DType::Bool || !is_signed(t)) return b_.constant_int(t, 0);
  return b_.constant_int(t, rlxc::bits(t) == 64 ? INT64_MIN : -(int64_t{1} << (rlxc::bits(t) - 1)));
}

Hlo NodeTranslator::highest(DType t) {
  if (is_float(t)) return b_.constant(t, INFINITY);
  const int width = rlxc::bits(t) - (is_signed(t) ? 1 : 0);
  return b_.constant_int(t, t == DType::Bool ? 1 : width >= 63 ? INT64_MAX : (int64_t{1} << width) - 1);
}

}  // namespace rlxc::stablehlo
