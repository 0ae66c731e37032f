// launch.json (schemas/launch.schema.json): the program of a package as data, which the host of every device target reads and
// carries out.
//
// A size is an integer, or the text of an expression that "sizes" gives in postfix form (numbers, "$symbol", + * floordiv mod
// min max). A place is an array: its memory, [the number of a weight, input or output,] and an offset in bytes. Memories are
//   W weights   P packed: made when the weights are loaded   A arena: of the graph that is run   S scratch
//   H held: what loops keep   C cells: counter and condition of a loop, 64 bytes each   I, O buffers of the graph
// One allocation of a run holds arena, held, scratch and cells in this order. "load" runs once; "graphs" are run by number, 0
// first.
//
// "extents" are symbols of data-dependent dims: {"name", "bound"}. Number i is an i64 at byte 8 i of the cells. The host
// takes its value when a step says so, before it evaluates the sizes of what follows; less than 0 or more than the bound ends the
// run.
//
// "bytes" of an input or output are those of its value, "room" those of its largest value. The steps of a graph:
//   {"kernel", "places", "sizes"[, "extents"]}   a launch; places and sizes are the arguments of the kernel, in order. The grid
//   of
//       a kernel is three sizes over "$0", "$1", ..., the sizes of the launch; nothing is launched where one is 0. Then the host
//       waits, and reads the numbered extents
//   {"copy": [to, from], "bytes"}
//   {"if", "then", "else", "in", "out", "extents", "arena"}   "arena": where the arena of the body begins in that of the graph.
//       Each extent is [number, size after "then", size after "else"]
//   {"loop", "cells", "trips", "go", "in", "results", "carries", "extents", "held", "bytes", "row_bytes", "stacked", "arena"} as
//       in ONNX: the body reads counter, condition, in..., writes condition, carried values (to one of two held places in turn),
//       rows of stacked results. Each extent is [number, first size, size after an iteration]
//   {"scan", "states", "in", "in_bytes", "in_reverse", "results", "held", "bytes", "row_bytes", "stacked", "out_reverse",
//       "length", "arena"}
// "bytes" of a loop or scan are those of the carried values at its end. "stacked" has [rows, extent or null, [extents...]] for
// each stacked result: how many rows it has, or at most has where an extent is their number; and extents that the shape of a row
// depends on and that change while the loop runs: then a row is written to the held place and copied. All rows have one shape.
#pragma once
#include <span>
#include <string>

#include "backend/c/cpu_package.h"

namespace rlxc {

class JsonWriter;

// `kernel_files`: the file of each kernel's source.
void write_launch_json(const codegen::Package&, std::string_view target, std::span<const std::string> kernel_files,
                       const CpuPackageOptions&, JsonWriter&);

}  // namespace rlxc
