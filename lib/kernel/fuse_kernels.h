// One launch in place of several. Only the threads of one workgroup can wait for each other, so the work of all groups of all
// kernels is done by one group: right for kernels so small that starting them takes longer than their work.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "kernel/language.h"
#include "kernel/mapping.h"

namespace rlxc::kernel {

// Kernels for a grid, one after another. The groups of each take turns, side by side where there are lanes and shared memory for
// several; between kernels stands a barrier for all memory. Arguments: the buffers of the parts, in order, then their symbols in
// order. What one part writes and another reads must be in memory that both are given; the caller marks such buffers may_alias.
// Nullopt and why not: more lanes or shared memory than a group has, matrix units of two kinds. O(statements + expressions).
std::optional<Kernel> fuse_kernels(std::string name, std::span<const Kernel* const> parts, const Mapping&, std::string* reason);

// Whether `fuse_kernels` can. Checks what the kernels need of a workgroup without building the result. O(buffers + statements).
bool fits_one_workgroup(std::span<const Kernel* const> parts, const Mapping&, std::string* reason);

}  // namespace rlxc::kernel
