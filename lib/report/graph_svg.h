// graph.svg: the compiled graph, from inputs at the top to outputs at the bottom.
#pragma once
#include <string>

#include "ir/lir.h"

namespace rlxc::report {

// Draws a box per node or group with op, name and type, and details as tooltip. Omits weights and constants; views are small;
// layers wrap into columns; edges across many layers or columns are labelled arrows at their target. Above 2,000 nodes boxes are
// parts of the graph (graph_boxes.h). The file stays below 3 MB. O(nodes log nodes).
std::string graph_svg(const LirModule&);

}  // namespace rlxc::report
