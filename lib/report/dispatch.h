// dispatch.json and dispatch.txt: how each operation of the model runs on the target.
#pragma once
#include <span>
#include <string>

#include "ir/graph.h"
#include "report/context.h"

namespace rlxc::report {

enum class DispatchPath : uint8_t {
  Native,       // a kernel of the target
  CommonIr,     // a kernel made from the common kernel language, without a form of its own for the target
  Rewritten,    // decomposed into operations that the target has
  Unsupported,  // none of these: the model does not compile for the target
};
std::string_view name(DispatchPath);  // "native", "common-ir", "rewritten", "unsupported"

struct DispatchNode {
  OpKind op{};
  DispatchPath path = DispatchPath::Native;
  GraphId graph{0};
  NodeId id;           // in lir.json; of a rewritten node, in the graph before the rewrite
  Symbol name;         // may be invalid
  std::string detail;  // why it is unsupported
};

// Nodes in the order given, kinds by name. O(nodes).
void write_dispatch(const Module&, std::span<const DispatchNode>, JsonWriter&, const ReportContext&);
void write_dispatch_text(const Module&, std::span<const DispatchNode>, std::string* out, const ReportContext&);

}  // namespace rlxc::report
