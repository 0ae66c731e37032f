// arena.svg: the activation arena; steps from left to right, offsets from bottom to top.
#pragma once
#include <string>

#include "ir/lir.h"

namespace rlxc::report {

// Draws a rectangle per slot of the main graph, with name, type, bytes and live range as tooltip; a curve of live bytes; lines at
// the arena size, the lower bound and the peak step. The 6,000 largest slots are drawn individually, others aggregated, so the
// file stays below 4 MB. A symbolic plan is drawn for
// the upper ends of its symbols' ranges, or 128, and labelled accordingly. O(values).
std::string arena_svg(const LirModule&);

}  // namespace rlxc::report
