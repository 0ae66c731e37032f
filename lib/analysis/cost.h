// Estimated work, memory traffic and time of nodes, for reports and for fusion decisions. A fusion that recomputes, copies or
// serialises work is formed if its estimated time is not larger than that of the separate kernels.
#pragma once
#include "ir/graph.h"

namespace rlxc {

struct Cost {
  double flops = 0;  // a multiply-add counts as 2
  int64_t bytes_read = 0, bytes_written = 0;

  Cost& operator+=(const Cost& o) {
    flops += o.flops;
    bytes_read += o.bytes_read;
    bytes_written += o.bytes_written;
    return *this;
  }
};

// At the given sizes of symbols; symbolic dims count as 0 where there are none. Views, leaves and terminators cost nothing.
// O(operands).
Cost node_cost(const Graph&, NodeId, const DimBindings* sizes = nullptr);

// Flops per element of an elementwise op, norm or reduction: 1 for one or two instructions, more for the rest.
double element_flops(OpKind);
double steps_flops(std::span<const RegionStep>);  // sum over all steps
// Flops of a reduce region over `elements` elements in `rows` rows. Steps of a walk count once per element, the others once per
// row. `varying`: see ir/region.h.
double reduce_region_flops(std::span<const RegionStep>, const std::vector<bool>& varying, double elements, double rows);

// Peak rates of a target.
struct Machine {
  double launch_ns = 50;     // per kernel launch
  double memory_gbps = 50;   // 1e9 bytes per second = bytes per nanosecond
  double peak_gflops = 200;  // 1e9 flops per second = flops per nanosecond
  double units = 8;          // parallel units; work with fewer independent rows leaves some idle
  double wait_ns = 0;        // host wait for a data-dependent dim; infinite: the host cannot wait
  double unit_bytes = 0;     // a unit takes part in a launch of at least so much memory traffic (or work) for it; 0: of any
};

// Nanoseconds by the roofline model (Williams, Waterman, Patterson: Roofline, CACM 2009), without and with the launch. `rows`:
// number of independent parts of the work.
double work_time_ns(const Cost&, const Machine&, double rows = 1e9);
double launch_time_ns(const Cost&, const Machine&, double rows = 1e9);

}  // namespace rlxc
