// Work and traffic of nodes, and how long they take at best: for reports, and for fusions that may lose. A fusion that
// recomputes, copies or serialises something is made when the time of what it makes is not larger than that of what it replaces.
#pragma once
#include "ir/graph.h"

namespace rlxc {

struct Cost {
  double flops = 0;  // multiplications and additions of contractions count 2
  int64_t bytes_read = 0, bytes_written = 0;

  Cost& operator+=(const Cost& o) {
    flops += o.flops, bytes_read += o.bytes_read, bytes_written += o.bytes_written;
    return *this;
  }
};

// Zero where a size is symbolic. O(operands).
Cost node_cost(const Graph&, NodeId);

// Of one element of an elementwise operation or a norm: 1 for what is one or two instructions, more for the rest.
double element_flops(OpKind);
double steps_flops(std::span<const RegionStep>);  // of all steps of a region
// Of a region around reductions of `elements` elements in `rows` rows: what each walk computes for every element, and the rest
// for every row. `varying`: ir/region.h.
double reduce_region_flops(std::span<const RegionStep>, const std::vector<bool>& varying, double elements, double rows);
// One or two instructions an element: cheaper to compute again than to store and load.
bool is_cheap(OpKind);

// What a target can do at most.
struct Machine {
  double launch_ns = 50;     // of one kernel
  double memory_gbps = 50;   // 1e9 bytes a second: bytes a nanosecond
  double peak_gflops = 200;  // 1e9 flops a second: flops a nanosecond
  double units = 8;          // parts that work side by side: fewer independent rows leave some idle
  double wait_ns = 0;        // of the host, for a data-dependent dim; infinite: no host waits
};

// Nanoseconds by the roofline model (Williams, Waterman, Patterson: Roofline, CACM 2009), without and with the launch. `rows` is
// into how many independent parts the work falls.
double work_time_ns(const Cost&, const Machine&, double rows = 1e9);
double launch_time_ns(const Cost&, const Machine&, double rows = 1e9);

}  // namespace rlxc
