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

// Constants that are written into the program, where XLA folds them.
bool is_literal(const TensorData& d) {
  constexpr int64_t kFew = 16;
  if (d.bytes.empty() || (!d.splat && d.elements() > kFew)) return false;
  return d.dtype == DType::F32 || d.dtype == DType::F64 || is_low_float(d.dtype) || d.dtype == DType::Bool ||
         (is_integer(d.dtype) && bits(d.dtype) >= 8);
}

}  // namespace

bool has_translation(OpKind op) { return find(op) != nullptr; }

ModuleTranslator::ModuleTranslator(const LirModule& lir, std::span<const DType> dtypes, HloBuilder builder, Diagnostics& d)
    : lir_(lir), m_(*lir.module), dtypes_(dtypes), d_(d), b_(std::move(builder)), weight_of_(m_.graph_count()) {
  for (size_t i = 0; i < m_.graph_count(); ++i) weight_of_[i].resize(m_.graph(GraphId(i)).node_capacity(), kNoWeight);
  for (const auto& [g, n] : weight_nodes(m_)) {
    weight_of_[g->id().raw][n.raw] = weights_.size();
    Ints dims;
    for (Dim dim : g->dims(g->result(n))) dims.push_back(dim.size());
    weights_.push_back({"%w" + std::to_string(weights_.size()), g->dtype(g->result(n)), std::move(dims)});
    b_.add_weight(weights_.back());
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
    if (weight != kNoWeight) {
      const TensorData* data = g.op(n) == OpKind::Constant ? &m_.data[g.attrs<DataAttrs>(n).data] : nullptr;
      value_[g.result(n).raw] = data && b_.prepares() && is_literal(*data) ? b_.literal(*data) : weights_[weight];
    }
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

namespace {

std::string upper(std::string s) {
  for (char& c : s) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return s;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string s;
  for (const std::string& p : parts) s += (s.empty() ? "" : ", ") + p;
  return s;
}

std::string module_text(const std::string& name, const std::string& head, const std::vector<std::string>& parameters,
                        const std::vector<std::string>& results, const std::string& body, const std::vector<Hlo>& returned) {
  std::string names, types;
  for (const Hlo& v : returned) {
    names += (names.empty() ? "" : ", ") + v.name;
    types += (types.empty() ? "" : ", ") + HloBuilder::type(v);
  }
  return "module @" + name + " {\n" + head + "  func.func public @main(" + joined(parameters) + ") -> (" + joined(results) +
         ") {\n" + body + "    \"func.return\"(" + names + ") : (" + types + ") -> ()\n  }\n}\n";
}

}  // namespace

Program translate(const LirModule& lir, std::string_view name, std::span<const DType> dtypes, const CpuPackageOptions& options,
                  Diagnostics& d, const Annotations* annotations) {
  const Module& m = *lir.module;
  const auto mesh = mesh_of(m);
  const bool prepares = options.prepare_weights && !annotations && !mesh;
  ModuleTranslator t(lir, dtypes, HloBuilder(upper(options.tpu_precision), prepares), d);
  HloBuilder& b = t.builder();
  const Graph& g = m.main();
  const auto annotation = [&](bool output, Symbol of) {
    if (!annotations || !of.valid()) return std::string();
    const auto& known = output ? annotations->outputs : annotations->inputs;
    const auto it = known.find(m.bytes(of));
    return it == known.end() ? std::string() : "sdy.sharding = " + it->second;
  };
  std::vector<std::string> parameters;
  const auto parameter = [&](const Hlo& v, const std::string& attributes = "") {
    parameters.push_back(v.name + ": " + HloBuilder::type(v) + (attributes.empty() ? "" : " {" + attributes + "}"));
  };
  std::vector<Hlo> inputs;
  for (NodeId n : g.inputs()) {
    Ints dims;
    for (Dim dim : g.dims(g.result(n))) dims.push_back(dim.is_static() ? dim.size() : 0);
    inputs.push_back({"%i" + std::to_string(inputs.size()), g.dtype(g.result(n)), std::move(dims)});
  }
  const std::vector<Hlo> outputs = t.run(g, inputs);
  for (const Hlo& v : outputs) b.use(v);
  std::vector<std::string> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string of = annotation(true, g.output_name(i));
    results.push_back(HloBuilder::type(outputs[i]) + (of.empty() ? "" : " {" + of + "}"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string attributes = annotation(false, g.value_name(g.result(g.inputs()[i])));
    for (const State& s : lir.states)
      if (s.input == i && HloBuilder::type(inputs[i]) == HloBuilder::type(outputs[s.output]))
        attributes +=
            (attributes.empty() ? "" : ", ") + std::string("tf.aliasing_output = ") + std::to_string(s.output) + " : i32";
    parameter(inputs[i], attributes);
  }
  Program out;
  const auto weights = weight_nodes(m);
  for (size_t i = 0; i < weights.size(); ++i) {
    const Hlo& v = t.weights()[i];
    if (b.prepares_from(v)) out.prepared.push_back(i);
    if (prepares && !b.is_used(v)) continue;
    out.parameters.push_back(i);
    parameter(v, annotation(false, weights[i].first->value_name(weights[i].first->result(weights[i].second))));
  }
  std::vector<Hlo> made;
  for (const Hlo& v : b.prepared()) {
    if (!b.is_used(v)) continue;
    out.parameters.push_back(weights.size() + made.size());
    parameter(v);
    made.push_back(v);
  }
  const std::string partitions =
      mesh ? " attributes {mhlo.num_partitions = " + std::to_string(mesh->devices()) + " : i32, mhlo.num_replicas = 1 : i32}"
           : "";
  const std::string annotated = annotations ? "  sdy.mesh @mesh = " + annotations->mesh + "\n" : "";
  out.module = module_text(std::string(name) + partitions, annotated, parameters, results, b.take(), outputs);
  if (made.empty()) return out;
  parameters.clear();
  results.clear();
  for (size_t i : out.prepared) parameter(t.weights()[i]);
  for (const Hlo& v : made) results.push_back(HloBuilder::type(v));
  out.preparation = module_text(std::string(name) + "_weights", "", parameters, results, b.take_preparation(), made);
  return out;
}

// 16-bit sums of matrix units are f32 before they are rounded, which costs nothing where that is what is read.
DType NodeTranslator::exact_dtype(size_t r) const {
  const DType t = result_dtype(r);
  const ValueId v = g_.result(n_, r);
  if (!is_low_float(t) || g_.is_output(v)) return t;
  for (Graph::Use use : g_.uses(v))
    if (g_.op(use.user) != OpKind::Cast || g_.attrs<CastAttrs>(use.user).to != DType::F32) return t;
  return DType::F32;
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
