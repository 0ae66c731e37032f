// The current stage of the process, for the message of a crash or of an exceeded limit.
#pragma once
#include <string_view>

namespace rlxc {

// Copies at most the first 96 bytes. What several threads note replaces each other.
void note_stage(std::string_view);  // clears the node
void note_node(std::string_view);

// `stage constant_folding, node "conv_3"`, null-terminated; bytes that are not printable ASCII become '?'. Does not allocate;
// callable from any thread and from signal handlers.
struct ProgressText {
  char text[256];
};
ProgressText progress_text();

}  // namespace rlxc
