#include "passes/shard/choose_strategies.h"

#include <algorithm>

#include "passes/copy_graph.h"
#include "passes/shard/divide.h"
#include "passes/shard/pipeline.h"
#include "support/number.h"

namespace rlxc {
namespace {

constexpr size_t kMostAxes = 3;

struct Candidate {
  std::vector<shard::AxisStrategy> strategies;
  std::string refusal;  // why it cannot be; empty: it can
  uint64_t weights = 0, activations = 0;
  double ns = 0;
  uint64_t bytes() const { return weights + activations; }
};

std::string words(const std::vector<shard::AxisStrategy>& all, const Mesh& mesh) {
  std::string s;
  for (const shard::AxisStrategy& a : all)
    s += (s.empty() ? "" : ", ") + std::string(a.strategy) + " over " + mesh.axes[a.axis].name;
  return s;
}

// All assignments of different strategies to axes, but not that of none.
std::vector<Candidate> candidates(size_t axes) {
  std::vector<std::vector<shard::AxisStrategy>> all(1);
  for (size_t axis = 0; axis < axes; ++axis) {
    const std::vector<std::vector<shard::AxisStrategy>> before = all;
    for (const auto& chosen : before)
      for (std::string_view name : shard::kStrategies) {
        if (std::ranges::find(chosen, name, &shard::AxisStrategy::strategy) != chosen.end()) continue;
        all.push_back(chosen);
        all.back().push_back({name, axis});
      }
  }
  std::vector<Candidate> out;
  for (size_t i = 1; i < all.size(); ++i) out.emplace_back().strategies = std::move(all[i]);
  return out;
}

void predict_divided(Module& m, const Mesh& mesh, const std::vector<shard::Request>& requests, const PassContext& context,
                     Candidate* c) {
  Graph& g = copy_graph(m.main(), "candidate");
  Diagnostics d;
  bool changed = false;
  const bool good = divide(g, {mesh, requests, c->strategies}, context, d, &changed);
  if (good) {
    c->weights = device_weight_bytes(g) + load_time_bytes(g);
    c->activations = live_bytes(g);
    c->ns = predicted_run(g, context).end_ns();
  }
  for (const Diagnostic& each : d.items())
    if (!good && c->refusal.empty() && each.severity == Severity::Error) c->refusal = each.message;
  g.clear();
}

}  // namespace

std::optional<std::vector<shard::AxisStrategy>> choose_strategies(Module& m, const Mesh& mesh,
                                                                  const std::vector<shard::Request>& requests,
                                                                  PassContext& context) {
  const uint64_t limit = context.options.device_memory;
  if (mesh.axes.size() > kMostAxes) {
    context.diagnostics.error(Code::BadFlag, "--parallel auto: the mesh " + mesh.text() + " has more than 3 axes");
    return std::nullopt;
  }
  std::vector<Candidate> all = candidates(mesh.axes.size());
  const Candidate* best = nullptr;
  std::string reasons;
  for (Candidate& c : all) {
    predict_divided(m, mesh, requests, context, &c);
    const bool fits = c.refusal.empty() && (limit == 0 || c.bytes() <= limit);
    if (fits && (!best || c.ns < best->ns)) best = &c;
    reasons += (reasons.empty() ? "" : "; ") + words(c.strategies, mesh) +
               (c.refusal.empty()
                    ? " needs " + human_bytes(c.weights) + " of weights and " + human_bytes(c.activations) + " of activations"
                    : ": " + c.refusal);
  }
  if (best) return best->strategies;
  const uint64_t whole = device_weight_bytes(m.main());
  context.diagnostics.error(
      Code::BadSharding,
      limit ? "no strategy fits " + std::to_string(limit) + " bytes a device on the mesh " + mesh.text() + ": " + reasons
            : "no strategy divides the model over the mesh " + mesh.text() + ": " + reasons,
      "--parallel auto",
      limit ? "the weights alone take " + human_bytes(whole) + ", the memory of " +
                  std::to_string(whole / limit + (whole % limit != 0)) + " such devices"
            : "--shard NAME=AXIS:DIM splits values by name");
  return std::nullopt;
}

}  // namespace rlxc
