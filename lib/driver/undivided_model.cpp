#include "driver/undivided_model.h"

#include <algorithm>

#include "backend/target_traits.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/pass_options.h"
#include "driver/transform_stage.h"
#include "passes/shard/divide.h"
#include "shard/annotations.h"

namespace rlxc {

std::optional<UndividedModel> undivided_model(const CompileOptions& o, const std::string& target, Diagnostics& d) {
  auto model = load_model(o, d);
  const TargetTraits* traits = find_target(target);
  const auto pass_opts = pass_options(o, d);
  if (!model || !traits || !pass_opts) return std::nullopt;
  CompileOptions first = o;
  first.stop_before = "shard";
  Compiled begun;
  if (!optimise(*model->module, *traits, first, *pass_opts, {}, &begun, d)) return std::nullopt;
  PassContext context{*traits, *pass_opts, d, begun.decisions, begun.precision};
  const auto division = division_of(*model->module, context);
  if (!division) return std::nullopt;
  auto stages = stages_of_nodes(model->module->main(), *division, context, d);
  if (!stages) return std::nullopt;
  auto shardings = shardings_of(model->module->main(), *division, d);
  if (!shardings) return std::nullopt;
  return UndividedModel{std::move(*model), std::move(*shardings), std::move(*stages)};
}

bool annotate_shardings(Module& m, const CompileOptions& o, const std::string& target, Diagnostics& d) {
  if (o.mesh.empty() && o.shards.empty() && o.shard_rules.empty() && o.parallel.empty()) return true;
  if (!lower_to_tensors(m, o, d)) return false;
  Diagnostics inner;  // reading the model has reported its warnings
  const auto model = undivided_model(o, target, inner);
  for (const Diagnostic& item : inner.items())
    if (item.severity == Severity::Error || item.code == Code::ShardingConflict) d.add(item);
  if (model) shard::annotate(m, model->shardings.mesh(), shard::named_shardings(model->shardings), model->stages);
  return d.ok();
}

}  // namespace rlxc
