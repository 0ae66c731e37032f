#include "commands/weight_search.h"

#include <algorithm>
#include <iterator>

#include "commands/layer_search.h"
#include "driver/config_files.h"
#include "passes/match.h"

namespace rlxc {
namespace {

// The matmuls that a compile with these weights makes DequantMatMul.
std::vector<std::string> weight_layers(const Module& m) {
  std::vector<std::string> names;
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::MatMul && g.rank(g.operand(n, 1)) == 2 && match::is_weight(g, g.operand(n, 1)))
        names.emplace_back(g.label(n).bytes());
  }
  return names;
}

constexpr int64_t kGroupSizes[] = {128, 64, 32, 16};

}  // namespace

std::optional<Calibrated> accurate_weights(const Module& m, const CompileOptions& o, const CalibrateRequest& request,
                                           Trials& trials, size_t samples, Diagnostics& d) {
  const auto given = weight_cast_from(o.weights);
  const std::vector<std::string> layers = weight_layers(m);
  std::vector<int64_t> sizes(std::begin(kGroupSizes), std::end(kGroupSizes));
  if (given->block != 0) sizes = {given->block};
  if (request.accuracy == 0 && request.check.empty()) {
    d.error(Code::BadFlag, "--weights of a record needs --accuracy or --check", {},
            "rlxc compile --weights quantizes all layers");
    return std::nullopt;
  }
  const auto candidate = [&](int64_t size, const std::vector<bool>& kept) {
    Calibrated c;
    c.record.weights = given;
    c.record.weights->block = size;
    c.weights = o.weights.substr(0, o.weights.find(':')) + ":" + std::to_string(size);
    for (size_t i = 0; i < layers.size(); ++i) {
      if (kept[i]) c.record.float_layers.push_back(layers[i]);
      c.layers.push_back({layers[i], {}, {}, {}, kept[i]});
    }
    return c;
  };
  const std::vector<bool> none(layers.size());
  std::optional<Calibrated> best;
  for (int64_t size : sizes) {
    Calibrated c = candidate(size, none);
    const auto good = trials.good(c);
    if (!good) return std::nullopt;
    if (*good) {
      best = std::move(c);
      break;
    }
  }
  if (!best) {
    const auto alone =
        trials.each_alone(layers.size(), [&](const std::vector<bool>& kept) { return candidate(sizes.back(), kept).record; });
    if (!alone) return std::nullopt;
    const auto kept =
        layers_to_keep(cosines(*alone), [&](const std::vector<bool>& k) { return trials.good(candidate(sizes.back(), k)); });
    if (!kept) return std::nullopt;
    best = candidate(sizes.back(), *kept);
    for (size_t i = 0; i < layers.size(); ++i) best->layers[i].alone = (*alone)[i];
  }
  best->accuracy = trials.accuracy(best->record, samples);
  return best->accuracy ? std::move(best) : std::nullopt;
}

}  // namespace rlxc
