// Predicts the weights, live bytes and exchanges of one device of a mesh. Reports and --parallel auto use it.
//
// Model of a group of n devices joined in a ring, with `bandwidth` bytes per nanosecond between neighbours: an all_gather or
// reduce_scatter of n parts of b bytes sends (n-1)*b bytes a device, an all_reduce of b bytes 2*(n-1)/n*b, an all_to_all of b
// bytes (n-1)/n*b, and each takes 5 microseconds a step.
#pragma once
#include <optional>
#include <vector>

#include "ir/stages.h"

namespace rlxc {

struct Link {
  double bandwidth = 25;  // bytes per nanosecond
};

struct ExchangeCost {
  int64_t devices = 1;  // of the group
  uint64_t bytes = 0;   // that each device sends
  double ns = 0;
};

// Whether devices send data: all collectives but device_slice and device_index.
bool exchanges_data(OpKind);
// The cost of a collective. Symbolic sizes count as 0.
ExchangeCost exchange_cost(const Graph&, NodeId, const Link&);

// Nanoseconds to send bytes to one other device.
double send_ns(uint64_t bytes, const Link&);

// Follows a run on the devices of each stage of a pipeline, command by command; on all devices alike, if every device computes
// every node. Devices that exchange data wait for each other.
class RunClock {
 public:
  struct Stage {
    double compute_ns = 0, exchange_ns = 0;  // without waits
    double end_ns = 0;
    uint64_t sent = 0;  // bytes
  };
  explicit RunClock(const Graph&);
  void compute(NodeId, double ns);
  ExchangeCost exchange(NodeId, const Link&);

  const std::vector<Stage>& stages() const { return stages_; }
  double end_ns() const;
  const Stage& busiest() const;  // the stage that computes and exchanges longest

 private:
  const Graph& g_;
  std::optional<Stages> split_;
  std::vector<Stage> stages_;
};

// Whether devices read parts of a Param alone: none has it whole. O(uses).
bool is_only_sliced(const Graph&, NodeId);
// Bytes of the weights that the devices of each stage read (one stage: all devices alike): parts of those that are sliced, others
// whole. O(nodes + uses).
std::vector<uint64_t> stage_weight_bytes(const Graph&);
uint64_t device_weight_bytes(const Graph&);  // the most of a stage
// Bytes of what is computed from weights when they are loaded, and read in every run. O(nodes + uses).
uint64_t load_time_bytes(const Graph&);
// Most bytes of results that live at one time in execution order. Weights, what is made of them when they are loaded, inputs,
// outputs, views and symbolic sizes count as 0. An estimate: fusion and the memory planner need less. O(nodes + operands).
uint64_t live_bytes(const Graph&);

}  // namespace rlxc
