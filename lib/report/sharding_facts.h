// Weights and exchanges of the devices of a mesh, for the sharding reports.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/cost.h"
#include "analysis/exchange.h"
#include "ir/lir.h"
#include "ir/mesh.h"
#include "support/foreign_text.h"

namespace rlxc::report {

struct Exchange {
  std::string node, op;
  std::vector<std::string> along;
  int64_t devices = 1;
  uint64_t bytes = 0;  // that each device sends
  double ns = 0;
};

struct ExchangeSum {
  uint64_t count = 0, bytes = 0;
  double ns = 0;
};

struct HeldWeight {
  ForeignText name;
  uint64_t bytes = 0, whole_bytes = 0;
};

struct ShardingFacts {
  ShardingFacts(Mesh m, const Graph& g) : mesh(std::move(m)), clock(g) {}
  Mesh mesh;
  std::vector<Exchange> exchanges;  // of a run, in execution order
  std::vector<HeldWeight> weights;
  std::vector<uint64_t> weight_bytes;  // by stage of a pipeline
  uint64_t whole_weight_bytes = 0;
  uint64_t attentions = 0;
  RunClock clock;
  size_t stage_axis = 0;  // of a pipeline

  uint64_t device_weight_bytes() const { return std::ranges::max(weight_bytes); }
  uint64_t sent() const { return std::ranges::max(clock.stages(), {}, &RunClock::Stage::sent).sent; }
  bool pipeline() const { return weight_bytes.size() > 1; }
  // The longest part of a run. Waits are those of a pipeline for its slowest stage.
  std::string_view limit() const;
  // The exchanges of a kind along the same axes, by a text such as "all_reduce over model".
  std::map<std::string, ExchangeSum> sums() const;
};

// The module has collectives (mesh_of). O(nodes).
ShardingFacts sharding_facts(const LirModule&, const Machine&, const Link&);

std::string activations_text(const LirModule&);  // bytes of the arena of a device
std::string milliseconds(double ns);

}  // namespace rlxc::report
