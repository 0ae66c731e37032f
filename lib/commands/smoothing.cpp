#include "commands/smoothing.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "eval/value.h"
#include "eval/weight_value.h"
#include "passes/match.h"
#include "passes/quantize/scalable_norms.h"
#include "passes/quantize/tensor_names.h"
#include "support/progress.h"

namespace rlxc {
namespace {

uint64_t value_key(GraphId g, ValueId v) { return uint64_t{g.raw} << 32 | v.raw; }

}  // namespace

std::optional<ChannelScales> smoothing(const Module& m, std::span<const DataSet> samples, double share,
                                       const eval::Options& limits, Diagnostics& d) {
  std::vector<std::pair<GraphId, ScalableNorm>> norms;
  std::unordered_map<uint64_t, std::vector<double>> largest;  // of each channel of a norm
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    for (ScalableNorm& s : scalable_norms(g)) {
      largest[value_key(g.id(), g.result(s.norm))].resize(static_cast<size_t>(*match::size_at(g, g.result(s.norm), -1)));
      norms.emplace_back(g.id(), std::move(s));
    }
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    note_stage("calibrate: ranges of channels, sample " + std::to_string(i + 1) + " of " + std::to_string(samples.size()));
    eval::Options options = limits;
    options.observe = [&](const Graph& g, ValueId v, const eval::HostValue& value) {
      const auto found = largest.find(value_key(g.id(), v));
      if (found == largest.end()) return;
      const std::vector<double> x = eval::numbers(value);
      for (size_t k = 0; k < x.size(); ++k) {
        double& most = found->second[k % found->second.size()];
        if (std::isfinite(x[k])) most = std::max(most, std::fabs(x[k]));
      }
    };
    if (!eval::evaluate(m, samples[i].inputs, d, options)) return std::nullopt;
  }
  std::unordered_map<uint64_t, std::vector<double>> scales;
  for (const auto& [id, s] : norms) {
    const Graph& g = m.graph(id);
    const std::vector<double>& x = largest[value_key(g.id(), g.result(s.norm))];
    std::vector<double> w(x.size());
    bool known = true;
    for (NodeId n : s.matmuls) {
      const auto data = eval::weight_value(m, g, g.operand(n, 1));
      known = known && data;
      const bool rows_of_k = g.attrs<MatMulAttrs>(n).trans_b;
      for (int64_t e = 0; known && e < data->elements(); ++e) {
        double& most = w[static_cast<size_t>(rows_of_k ? e % data->dims[1] : e / data->dims[1])];
        most = std::max(most, std::fabs(element_as_double(*data, e)));
      }
    }
    if (!known) continue;
    std::vector<double> each(x.size(), 1);
    for (size_t k = 0; k < x.size(); ++k) {
      const double v = std::pow(x[k], share) / std::pow(w[k], 1 - share);
      if (v > 0 && std::isfinite(v)) each[k] = static_cast<double>(static_cast<float>(v));
    }
    scales.emplace(value_key(g.id(), g.result(s.norm)), std::move(each));
  }
  ChannelScales out;
  each_tensor(m, [&](GraphId g, ValueId v, const std::string& name) {
    if (const auto found = scales.find(value_key(g, v)); found != scales.end()) out.emplace_back(name, std::move(found->second));
  });
  return out;
}

}  // namespace rlxc
