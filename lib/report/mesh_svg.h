// mesh.svg: the devices of a mesh, what each holds, and what they exchange along the axes.
#pragma once
#include <string>

#include "analysis/cost.h"
#include "analysis/exchange.h"
#include "ir/lir.h"

namespace rlxc::report {

// Draws a box per device in a grid: the last axis of the mesh from left to right, the one before it from top to bottom, the
// others as blocks of such grids. A box says rank, position, weights, bytes sent, and the times of computation and exchange; a
// pipeline has a colour for each stage. Lines join devices along the axes that have collectives, and a list below sums these up.
// The first 8 of an axis are drawn. The module has collectives (mesh_of). O(nodes).
std::string mesh_svg(const LirModule&, const Machine&, const Link&);

}  // namespace rlxc::report
