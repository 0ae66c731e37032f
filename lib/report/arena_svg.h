// arena.svg: the activation arena as a picture, steps from left to right, offsets from bottom to top.
#pragma once
#include <string>

#include "ir/lir.h"

namespace rlxc::report {

// One rectangle for each slot of the main graph, with name, type, bytes and life as its tooltip; the live bytes as a curve; lines
// at the height of the arena, at the lower bound and at the peak step. The 6,000 largest slots are drawn one by one, the others
// together by place, so the file stays below 4 MB. A symbolic plan is drawn for all symbols = 128 and says so. O(values).
std::string arena_svg(const LirModule&);

}  // namespace rlxc::report
