// launch.json (schemas/launch.schema.json): the program of a package as data, which the host of every device target runs.
//
// A size is an integer, or an expression whose postfix form is in "sizes" (numbers, "$symbol", "#0" of a size in "sizes" before
// it, + * floordiv mod min max). A place is an array: memory, [number of the weight, input or output,] and byte offset. Memories
// are
//   W weights   P packed: written at load time   A arena of the running graph   S scratch
//   H held: double buffers of loops   C cells: counter and condition of a loop, 64 bytes each   I, O buffers of the graph
// One allocation per run has arena, held, scratch and cells in this order. "load" runs once; "graphs" run by number, 0 first.
//
// "extents" are symbols of data-dependent dims: {"name", "bound"}. Number i is an i64 at byte 8 i of the cells. The host reads it
// when a step lists it, before it evaluates later sizes. A negative value, or one above the bound, ends the run.
//
// "bytes" of an input or output are those of its value, "room" those of its largest value. The steps of a graph:
//   {"kernel", "places", "sizes"[, "extents"]}   a launch; places and sizes are the kernel's arguments in order. The grid of a
//       kernel is three sizes over "$0", "$1", ..., the launch's sizes; if one is 0, nothing is launched. Then the host waits and
//       reads the listed extents
//   {"copy": [to, from], "bytes"}
//   {"if", "then", "else", "in", "out", "extents", "arena"}   "arena": offset of the body's arena in the graph's arena. Each
//       extent is [number, size after "then", size after "else"]
//   {"loop", "cells", "trips", "go", "in", "results", "carries", "extents", "held", "bytes", "row_bytes", "stacked", "arena"}
//       as in ONNX: the body reads counter, condition, in..., and writes condition, carried values (alternating between two held
//       places) and rows of stacked results. Each extent is [number, first size, size after an iteration]
//   {"scan", "states", "in", "in_bytes", "in_reverse", "results", "held", "bytes", "row_bytes", "stacked", "out_reverse",
//       "length", "arena"}
// "bytes" of a loop or scan are those of the carried values at its end. "stacked" has [rows, extent or null, [extents...]] per
// stacked result: its number of rows, an upper bound if an extent is the number; and the extents of the body that the shape of a
// row depends on: if there are any, a row is written to the held place and copied. All rows have one shape.
#pragma once
#include <span>
#include <string>

#include "backend/c/cpu_package.h"

namespace rlxc {

class JsonWriter;

// `kernel_files`: the source file of each kernel. `f16_files`: that for devices with f16, or empty; none if no kernel has one.
void write_launch_json(const codegen::Package&, std::string_view target, std::span<const std::string> kernel_files,
                       const CpuPackageOptions&, JsonWriter&, std::span<const std::string> f16_files = {});

}  // namespace rlxc
