// dispatch.json and dispatch.txt: how each op of the model runs on the target.
#pragma once
#include <span>
#include <string>

#include "ir/graph.h"
#include "report/context.h"

namespace rlxc::report {

enum class DispatchPath : uint8_t {
  Native,       // a kernel of the target
  CommonIr,     // a kernel in the common kernel language, without a target-specific form
  Rewritten,    // decomposed into supported ops
  Unsupported,  // none of these; the model does not compile for the target
};
std::string_view name(DispatchPath);  // "native", "common-ir", "rewritten", "unsupported"

struct DispatchNode {
  OpKind op{};
  DispatchPath path = DispatchPath::Native;
  GraphId graph{0};
  NodeId id;           // id in lir.json; for a rewritten node, in the graph before the rewrite
  Symbol name;         // may be invalid
  std::string detail;  // reason, if unsupported
};

// Writes nodes in the given order, kinds by name. O(nodes).
void write_dispatch(const Module&, std::span<const DispatchNode>, JsonWriter&, const ReportContext&);
void write_dispatch_text(const Module&, std::span<const DispatchNode>, std::string* out, const ReportContext&);

}  // namespace rlxc::report
