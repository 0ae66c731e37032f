#include "driver/undivided_model.h"

#include "backend/target_traits.h"
#include "driver/compile.h"
#include "driver/pass_options.h"
#include "driver/transform_stage.h"
#include "passes/shard/divide.h"
#include "shard/annotations.h"

namespace rlxc {

std::optional<UndividedModel> undivided_model(LoadedModel model, const CompileOptions& o, const std::string& target,
                                              Diagnostics& d) {
  const TargetTraits* traits = find_target(target);
  const auto pass_opts = pass_options(o, d);
  if (!traits || !pass_opts) return std::nullopt;
  CompileOptions first = o;
  first.stop_before = "shard";
  Compiled begun;
  if (!optimise(*model.module, *traits, first, *pass_opts, {}, &begun, d)) return std::nullopt;
  PassContext context{*traits, *pass_opts, d, begun.decisions, begun.precision};
  const auto division = division_of(*model.module, context);
  if (!division) return std::nullopt;
  auto stages = stages_of_nodes(model.module->main(), *division, context, d);
  if (!stages) return std::nullopt;
  auto shardings = shardings_of(model.module->main(), *division, d);
  if (!shardings) return std::nullopt;
  return UndividedModel{std::move(model), std::move(*shardings), std::move(*stages)};
}

bool annotate_shardings(LoadedModel& model, const CompileOptions& o, const std::string& target, Diagnostics& d) {
  if (o.mesh.empty() && o.shards.empty() && o.shard_rules.empty() && o.parallel.empty()) return true;
  LoadedModel copy = model.copy();
  Module& m = *model.module;
  if (!lower_to_tensors(m, o, d)) return false;
  Diagnostics inner;  // a compile reports the other warnings
  const auto undivided = undivided_model(std::move(copy), o, target, inner);
  for (const Diagnostic& item : inner.items())
    if (item.severity == Severity::Error || item.code == Code::ShardingConflict) d.add(item);
  if (undivided) shard::annotate(m, undivided->shardings.mesh(), shard::named_shardings(undivided->shardings), undivided->stages);
  return d.ok();
}

}  // namespace rlxc
