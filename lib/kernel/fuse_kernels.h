// Fuses several grid kernels into one launch. Only threads of one workgroup can synchronise, therefore one workgroup does all the
// work. This pays for kernels that take less time than their launch.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "kernel/language.h"
#include "kernel/mapping.h"

namespace rlxc::kernel {

// Runs the kernels one after another in one workgroup, with a global barrier between them. The workgroups of each kernel are
// iterated, several at a time if threads and shared memory allow it. Arguments: the buffers of all parts in order, then their
// symbols in order. A buffer that one part writes and another reads must be passed to both and be marked may_alias. Returns
// nullopt and a reason if threads or shared memory do not suffice or matrix units differ. O(statements + expressions).
std::optional<Kernel> fuse_kernels(std::string name, std::span<const Kernel* const> parts, const Mapping&, std::string* reason);

// Returns whether `fuse_kernels` can succeed, without building the result. Leaves room for kernels that take more shared memory
// when the alignment of their operands is known. O(buffers + statements).
bool fits_one_workgroup(std::span<const Kernel* const> parts, const Mapping&, std::string* reason);

}  // namespace rlxc::kernel
