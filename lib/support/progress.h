// What the process is doing, for the message of whatever ends it: a crash, or a limit of time or memory.
#pragma once
#include <string_view>

namespace rlxc {

// The first bytes are kept. Cheap: a copy of at most 96 bytes. Of one thread.
void note_stage(std::string_view);  // forgets the node
void note_node(std::string_view);

// `stage constant_folding, node "conv_3"`, with a null at the end; bytes that are not printable ASCII become '?'. Does not
// allocate, and may be called from any thread and from a signal handler.
struct ProgressText {
  char text[256];
};
ProgressText progress_text();

}  // namespace rlxc
