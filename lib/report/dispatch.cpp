#include "report/dispatch.h"

#include <array>
#include <map>

#include "report/table.h"

namespace rlxc::report {
namespace {

constexpr std::array<std::string_view, 4> kPaths = {"native", "common-ir", "rewritten", "unsupported"};
using PathCounts = std::array<int64_t, kPaths.size()>;

struct Summary {
  PathCounts all{};
  std::map<std::string_view, PathCounts> kinds;

  explicit Summary(std::span<const DispatchNode> nodes) {
    std::array<PathCounts, kOpCount> by_kind{};
    for (const DispatchNode& n : nodes) {
      ++all[static_cast<size_t>(n.path)];
      ++by_kind[static_cast<size_t>(n.op)][static_cast<size_t>(n.path)];
    }
    for (size_t k = 0; k < by_kind.size(); ++k)
      if (by_kind[k] != PathCounts{}) kinds[kind_name(static_cast<OpKind>(k))] = by_kind[k];
  }
  bool ready() const { return all[static_cast<size_t>(DispatchPath::Unsupported)] == 0; }
};

void write_counts(const PathCounts& counts, JsonWriter& out) {
  for (size_t p = 0; p < kPaths.size(); ++p) out.key(kPaths[p]).integer(counts[p]);
}

ForeignText label(const Module& names, const DispatchNode& n) {
  return ForeignText(n.name.valid() ? names.bytes(n.name) : "node " + std::to_string(n.id.raw));
}

}  // namespace

std::string_view name(DispatchPath p) { return kPaths[static_cast<size_t>(p)]; }

void write_dispatch(const Module& names, std::span<const DispatchNode> nodes, JsonWriter& out, const ReportContext& context) {
  const Summary summary(nodes);
  out.begin_object();
  write_header(out, "dispatch", context);
  out.key("compile_ready").boolean(summary.ready());
  out.key("summary").begin_object(JsonLayout::Line);
  write_counts(summary.all, out);
  out.end_object();
  out.key("kinds").begin_array();
  for (const auto& [kind, counts] : summary.kinds) {
    out.begin_object(JsonLayout::Line).key("op").string(kind);
    write_counts(counts, out);
    out.end_object();
  }
  out.end_array();
  out.key("nodes").begin_array();
  for (const DispatchNode& n : nodes) {
    out.begin_object(JsonLayout::Line).key("id").unsigned_integer(n.id.raw);
    if (n.graph.raw) out.key("graph").unsigned_integer(n.graph.raw);
    if (n.name.valid()) out.key("node").string(names.bytes(n.name));
    out.key("op").string(kind_name(n.op)).key("path").string(name(n.path));
    if (!n.detail.empty()) out.key("detail").string(n.detail);
    out.end_object();
  }
  out.end_array();
  out.end_object().finish();
}

void write_dispatch_text(const Module& names, std::span<const DispatchNode> nodes, std::string* out,
                         const ReportContext& context) {
  const Summary summary(nodes);
  *out += "Dispatch of " + ForeignText(context.input_name).line() + " for " + context.target + "\n\n";
  Table table({"operation", std::string(kPaths[0]), std::string(kPaths[1]), std::string(kPaths[2]), std::string(kPaths[3])});
  const auto add = [&](std::string_view first, const PathCounts& c) {
    std::vector<std::string> row{std::string(first)};
    for (int64_t n : c) row.push_back(n ? std::to_string(n) : "-");
    table.add(std::move(row));
  };
  for (const auto& [kind, counts] : summary.kinds) add(kind, counts);
  add("all", summary.all);
  table.print(out);
  if (summary.ready()) {
    *out += "\nEvery operation runs on " + context.target + ".\n";
    return;
  }
  *out += "\nUnsupported on " + context.target + "\n";
  for (const DispatchNode& n : nodes) {
    if (n.path != DispatchPath::Unsupported) continue;
    *out += "  " + label(names, n).line() + " (" + std::string(kind_name(n.op)) + ")";
    if (!n.detail.empty()) *out += ": " + ForeignText(n.detail).line();
    *out += '\n';
  }
}

}  // namespace rlxc::report
