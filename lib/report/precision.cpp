#include "report/precision.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <vector>

#include "ir/graphs.h"

namespace rlxc::report {
namespace {

constexpr std::array<std::string_view, 10> kPolicies = {
    "f32",      "f16",        "automixed", "automixed-conservative", "automixed-bf16", "custom", "fp8-e4m3",
    "fp8-e5m2", "mxfp8-e4m3", "mxfp8-e5m2"};

bool is_quantized(const PrecisionNote& n) {
  const auto t = dtype_from_name(n.to);
  return t && is_integer(*t);
}

// Counts of each conversion.
void write_summary(const PrecisionReport& report, bool quantized, JsonWriter& out) {
  std::map<std::pair<std::string_view, std::string_view>, int64_t> counts;
  for (const PrecisionNote& n : report.notes)
    if (is_quantized(n) == quantized) ++counts[{n.from, n.to}];
  out.key("summary").begin_array();
  for (const auto& [types, count] : counts) {
    out.begin_object(JsonLayout::Line).key("from").string(types.first).key("to").string(types.second);
    out.key("count").integer(count).end_object();
  }
  out.end_array();
}

void write_note(const PrecisionNote& n, std::string_view key, JsonWriter& out) {
  out.key("value").string(n.value).key("from").string(n.from).key("to").string(n.to).key(key).string(n.reason);
}

template <class T>
void write_list(std::string_view key, const std::vector<T>& list, JsonWriter& out) {
  out.key(key).begin_array(JsonLayout::Line);
  for (const T& v : list) {
    if constexpr (std::is_same_v<T, double>) out.number(v);
    else out.integer(v);
  }
  out.end_array();
}

// Results and weights by element type. Symbolic sizes count as 0 bytes.
void write_types(const Module& m, JsonWriter& out) {
  struct Count {
    int64_t values = 0, bytes = 0;
  };
  std::array<std::array<Count, kDTypeCount>, 2> counts{};
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    for (NodeId n : g.nodes())
      for (size_t r = 0; r < g.result_count(n); ++r) {
        const Type& t = g.type(g.result(n, r));
        if (t.kind != TypeKind::Tensor) continue;
        Count& c = counts[has_trait(g.op(n), kLeaf)][static_cast<size_t>(t.dtype)];
        ++c.values;
        c.bytes += static_cast<int64_t>(byte_size(t).value_or(0));
      }
  }
  for (const bool leaf : {false, true}) {
    out.key(leaf ? "leaves" : "results").begin_array();
    for (size_t t = 0; t < kDTypeCount; ++t) {
      const Count& c = counts[leaf][t];
      if (c.values == 0) continue;
      out.begin_object(JsonLayout::Line).key("dtype").string(rlxc::name(static_cast<DType>(t)));
      out.key("values").integer(c.values).key("bytes").integer(c.bytes).end_object();
    }
    out.end_array();
  }
}

constexpr OpKind kQuantized[] = {OpKind::Quantize,     OpKind::Dequantize, OpKind::QMatMul,    OpKind::QConv,
                                 OpKind::FusedQMatMul, OpKind::FusedQConv, OpKind::QAttention, OpKind::DequantMatMul};

// The quantized ops of the result, from the model or created by passes.
void write_operations(const Module& m, JsonWriter& out) {
  out.key("operations").begin_array();
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    for (NodeId n : g.nodes()) {
      const OpKind op = g.op(n);
      const bool coded = op == OpKind::DequantMatMul;  // the weight is quantized
      if (std::ranges::find(kQuantized, op) == std::end(kQuantized)) continue;
      out.begin_object(JsonLayout::Line).key("node").unsigned_integer(n.raw);
      if (id.raw) out.key("graph").unsigned_integer(id.raw);
      out.key("op").string(kind_name(op)).key("name").string(g.label(n));
      out.key("from").string(rlxc::name(g.dtype(g.operand(n, coded)))).key("to").string(rlxc::name(g.dtype(g.result(n))));
      const bool made = g.origin(n).valid() && !m.origin(g.origin(n)).passes.empty();
      out.key("by").string(made ? m.bytes(m.origin(g.origin(n)).passes.front()) : "model").end_object();
    }
  }
  out.end_array();
}

}  // namespace

std::string_view name(PrecisionPolicy p) { return kPolicies[static_cast<size_t>(p)]; }

std::optional<PrecisionPolicy> precision_policy_from_name(std::string_view s) {
  const auto it = std::ranges::find(kPolicies, s);
  if (it == kPolicies.end()) return std::nullopt;
  return static_cast<PrecisionPolicy>(it - kPolicies.begin());
}

void write_precision(const PrecisionReport& report, JsonWriter& out, const ReportContext& context) {
  out.begin_object();
  write_header(out, "precision", context);
  out.key("policy").string(name(report.policy));
  write_summary(report, false, out);
  write_types(report.result, out);
  out.key("casts").begin_array();
  for (const PrecisionNote& n : report.notes) {
    if (is_quantized(n)) continue;
    out.begin_object(JsonLayout::Line);
    write_note(n, "reason", out);
    out.end_object();
  }
  out.end_array();
  out.end_object().finish();
}

void write_quant(const PrecisionReport& report, JsonWriter& out, const ReportContext& context) {
  std::unordered_map<std::string_view, const CalibrationEntry*> entries;
  if (report.calibration)
    for (const auto& [tensor, entry] : report.calibration->entries) entries.emplace(tensor, &entry);
  out.begin_object();
  write_header(out, "quant", context);
  out.key("calibrated").boolean(report.calibration != nullptr);
  write_summary(report, true, out);
  out.key("pairs").begin_array();
  for (const PrecisionNote& n : report.notes) {
    if (!is_quantized(n)) continue;
    out.begin_object(JsonLayout::Line);
    write_note(n, "source", out);
    if (const auto it = entries.find(n.value); it != entries.end()) {
      if (it->second->axis) out.key("axis").integer(*it->second->axis);
      write_list("scales", it->second->scales, out);
      write_list("zero_points", it->second->zero_points, out);
    }
    out.end_object();
  }
  out.end_array();
  write_operations(report.result, out);
  out.end_object().finish();
}

}  // namespace rlxc::report
