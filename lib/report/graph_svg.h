// graph.svg: the compiled graph as a picture, from inputs at the top to outputs at the bottom.
#pragma once
#include <string>

#include "ir/lir.h"

namespace rlxc::report {

// A box for each node or group with operation, name and type, and details as its tooltip; weights and constants are left out,
// views are drawn small, layers are wrapped into columns, edges that
// cross many layers or columns are marks at their target that name the source. Above 2,000 nodes boxes
// stand for parts of the graph (graph_boxes.h). The file stays below 3 MB. O(nodes log nodes).
std::string graph_svg(const LirModule&);

}  // namespace rlxc::report
