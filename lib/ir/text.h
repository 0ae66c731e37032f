// The text form of modules, for dumps and pass tests. It prints and parses back.
//
//   module "name" mir {
//   equal "batch" "2*n"
//   devices {"configurations": [...], "nodes": [...]}
//   graph @main {
//     %0 = input "x" : f32[batch,4]
//     %1 = constant {data = dense [0.5, 1]} : f32[2]
//     %2, %3 = topk(%0) {k = 2, axis = 1} "top" : f32[batch,2], i64[batch,2]
//     %4 = if(%0, _) [@then, @else] : f32[1]
//     return %2 "values", %3
//   }
//   }
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

struct LirModule;

struct TextOptions {
  bool full_data =
      false;  // print all bytes of constants, required to parse them back; otherwise constants over 16 elements are elided
  bool origins = false;            // append "// from a, b; by pass"
  const LirModule* lir = nullptr;  // append "// view of %3 at byte 96, layout [2@120][3@24]" to views and other layouts
};

std::string print(const Module&, const TextOptions& = {});
std::string print(const Graph&, const TextOptions& = {});
void print_node(const Graph&, NodeId, const TextOptions&, std::string* out);  // one line without a newline

// Returns null on errors, which carry line and column. Types are read as written; run `verify` to check them. `folder`: where
// files of external data are, if it is known. Constants whose data is elided or missing become parameters without data, named
// constant_N, with a warning. Depth and size are bounded by the text.
std::unique_ptr<Module> parse_text(std::string_view, Diagnostics&, const std::optional<std::string>& folder = {});

std::string value_text(const AttrValue&);  // true, 3, 0.5, "x", [1, 2]

}  // namespace rlxc
