// Kernels know numbers only. Here strings become rows of bytes of one width, zeros behind the text: string[n] is u8[n,w], and
// what normalises, joins or compares strings is arithmetic on bytes. Widths of inputs are symbols that a call binds; those of
// results follow from them. A string that itself ends with a zero byte has no such form.
#pragma once
#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

// Rewrites the main graph, its inputs and outputs included. False, and nothing changes, when there are no strings, or when an
// operation on strings has no such form: those stay for the report of what the target cannot run. A constant without one is named
// in a warning. O(nodes + characters).
bool strings_as_bytes(Module&, Diagnostics* = nullptr);
bool has_byte_form(OpKind);  // may it have strings as operands and results?

}  // namespace rlxc
