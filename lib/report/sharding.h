// sharding.json and sharding.txt: what the devices of a mesh hold, exchange and compute. Times are predictions
// (analysis/exchange.h); computation is estimated as in fusion decisions (analysis/cost.h).
#pragma once
#include <string>

#include "analysis/cost.h"
#include "analysis/exchange.h"
#include "ir/lir.h"
#include "report/context.h"

namespace rlxc::report {

// The module has collectives (mesh_of). O(nodes).
void write_sharding(const LirModule&, const Machine&, const Link&, JsonWriter&, const ReportContext&);
std::string sharding_text(const LirModule&, const Machine&, const Link&);

}  // namespace rlxc::report
