#include "driver/annotated_module.h"

#include <algorithm>

#include "driver/load.h"
#include "driver/undivided_model.h"

namespace rlxc {
namespace {

// A dim that is split within blocks, or a weight's dim that no one splits, is open: XLA may split it.
std::string annotation(const shard::Sharding& s, const Mesh& mesh, bool open) {
  std::string dims;
  for (const shard::DimSharding& d : s) {
    std::string axes;
    for (size_t a : d.axes) axes += (axes.empty() ? "\"" : ", \"") + mesh.axes[a].name + "\"";
    if (d.blocks > 1 || (!d.split() && open)) axes = "?";
    dims += (dims.empty() ? "{" : ", {") + axes + "}";
  }
  return "#sdy.sharding<@mesh, [" + dims + "]>";
}

stablehlo::Annotations annotations_of(const Module& m, const shard::Shardings& s) {
  const Graph& g = m.main();
  stablehlo::Annotations out;
  for (const MeshAxis& a : s.mesh().axes)
    out.mesh += (out.mesh.empty() ? "<[\"" : ", \"") + a.name + "\"=" + std::to_string(a.size);
  out.mesh += "]>";
  for (NodeId n : g.nodes())
    if (g.op(n) == OpKind::Input || g.op(n) == OpKind::Param)
      out.inputs.emplace(m.bytes(g.value_name(g.result(n))), annotation(s.of(g.result(n)), s.mesh(), g.op(n) == OpKind::Param));
  for (size_t i = 0; i < g.outputs().size(); ++i)
    out.outputs.emplace(m.bytes(g.output_name(i)), annotation(s.of(g.outputs()[i]), s.mesh(), false));
  return out;
}

std::optional<AnnotatedModel> make(const CompileOptions& o, const std::string& target, Diagnostics& d) {
  auto model = load_model(o, d);
  if (!model) return std::nullopt;
  auto undivided = undivided_model(std::move(*model), o, target, d);
  if (!undivided) return std::nullopt;
  if (!undivided->stages.empty()) {
    d.error(Code::BadSharding, "the stages of a pipeline have no annotations");
    return std::nullopt;
  }
  stablehlo::Annotations annotations = annotations_of(*undivided->model.module, undivided->shardings);
  CompileOptions whole = o;
  whole.mesh.clear();
  whole.shards.clear();
  whole.shard_rules.clear();
  whole.parallel.clear();
  auto compiled = compile(std::move(undivided->model), target, whole, {}, d);
  if (!compiled) return std::nullopt;
  return AnnotatedModel{std::move(*compiled), std::move(annotations)};
}

}  // namespace

std::optional<AnnotatedModel> annotated_model(const CompileOptions& o, const std::string& target, Diagnostics& d) {
  Diagnostics inner;  // the compile of the divided model reports its warnings
  auto made = make(o, target, inner);
  const auto error = std::ranges::find_if(inner.items(), [](const Diagnostic& each) { return each.severity == Severity::Error; });
  if (!made)
    d.warning(Code::UnsupportedOnTarget,
              "the module with annotations is not written" + (error == inner.items().end() ? "" : ": " + error->message));
  return made;
}

}  // namespace rlxc
