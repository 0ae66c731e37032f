// launch.json: the program of a package as data, which the host of every device target reads and carries out.
//
// A size is an integer, or the text of an expression that "sizes" gives in postfix form (numbers, "$symbol", + * floordiv mod
// min max). A place is an array: its memory, [the number of a weight, input or output,] and an offset in bytes. Memories are
//   W weights   P packed: made when the weights are loaded   A arena: of the graph that is run   S scratch
//   H held: what loops keep   C cells: counter and condition of a loop, 64 bytes each   I, O buffers of the graph
// One allocation of a run holds arena, held, scratch and cells in this order. "load" runs once; "graphs" are run by number, 0
// first. The steps of a graph:
//   {"kernel", "places", "sizes"}   a launch; places and sizes are the arguments of the kernel, in order. The grid of a kernel is
//                                   three sizes over "$0", "$1", ..., the sizes of the launch; nothing is launched where one is 0
//   {"copy": [to, from], "bytes"}
//   {"if", "then", "else", "in", "out", "arena"}   "arena": where the arena of the body begins in that of the graph
//   {"loop", "cells", "trips", "go", "in", "results", "carries", "held", "bytes", "lengths", "arena"}   as in ONNX: the body
//   reads
//       counter, condition, in..., writes condition, carried values (to one of two held places in turn), rows of scan results
//   {"scan", "states", "in", "in_bytes", "in_reverse", "results", "held", "bytes", "out_reverse", "length", "arena"}
#pragma once
#include <span>
#include <string>

#include "driver/cpu_package.h"

namespace rlxc {

class JsonWriter;

// `kernel_files`: the file of each kernel's source.
void write_launch_json(const codegen::Package&, std::string_view target, std::span<const std::string> kernel_files,
                       const CpuPackageOptions&, JsonWriter&);

}  // namespace rlxc
