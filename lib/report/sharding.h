// sharding.json and sharding.txt: what the devices of a mesh hold, exchange and compute. Times are predictions.
//
// Model of a group of n devices joined in a ring, with `bandwidth` bytes per nanosecond between neighbours: an all_gather or
// reduce_scatter of n parts of b bytes sends (n-1)*b bytes a device, an all_reduce of b bytes 2*(n-1)/n*b, an all_to_all of b
// bytes (n-1)/n*b, and each takes kLinkNs a step. Computation is estimated as in fusion decisions (analysis/cost.h).
#pragma once
#include <string>

#include "analysis/cost.h"
#include "ir/lir.h"
#include "report/context.h"

namespace rlxc::report {

struct Link {
  double bandwidth = 25;  // bytes per nanosecond
};

// The module has collectives (mesh_of). O(nodes).
void write_sharding(const LirModule&, const Machine&, const Link&, JsonWriter&, const ReportContext&);
std::string sharding_text(const LirModule&, const Machine&, const Link&);

}  // namespace rlxc::report
