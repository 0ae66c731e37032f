#include <algorithm>

#include "report/fusion.h"
#include "report/fusion_facts.h"
#include "report/table.h"
#include "support/number.h"

namespace rlxc::report {
namespace {

constexpr size_t kMembersShown = 8, kNodesShown = 10, kFormedShown = 100, kValuesShown = 10;

std::string count_text(int64_t n) { return std::to_string(n); }
std::string bytes_text(int64_t n) {
  return n < 0 ? "-" + human_bytes(static_cast<uint64_t>(-n)) : human_bytes(static_cast<uint64_t>(n));
}

void more(size_t count, size_t shown, std::string_view indent, std::string* out) {
  if (count > shown) *out += std::string(indent) + "and " + std::to_string(count - shown) + " more; fusion.json has all\n";
}

void write_changes(const FusionReport& report, std::string* out) {
  Table changes({"", "before", "after"});
  changes.add({"nodes", count_text(report.before.nodes), count_text(report.after.nodes)});
  changes.add({"launches", count_text(report.before.launches), count_text(report.after.launches)});
  changes.add({"memory traffic", bytes_text(report.before.traffic), bytes_text(report.after.traffic)});
  for (size_t k = 0; k < report.before.ops.size(); ++k)
    if (report.before.ops[k] != report.after.ops[k])
      changes.add(
          {std::string(kind_name(static_cast<OpKind>(k))), count_text(report.before.ops[k]), count_text(report.after.ops[k])});
  changes.print(out);
}

void write_patterns(const DecisionSummary& summary, std::string* out) {
  const DecisionTotals& all = summary.all;
  *out += "\nFusions formed: " + count_text(all.formed) + ", declined: " + count_text(all.declined) +
          "; estimated savings: " + count_text(all.launches) + " launches, " + bytes_text(all.bytes) + " of memory traffic\n";
  if (summary.patterns.empty()) return;
  *out += '\n';
  Table patterns({"pattern", "formed", "declined", "launches saved", "bytes saved"});
  for (const auto& [pattern, t] : summary.patterns)
    patterns.add(
        {std::string(pattern), count_text(t.formed), count_text(t.declined), count_text(t.launches), bytes_text(t.bytes)});
  patterns.print(out);
}

void write_declined(const FusionReport& report, const DecisionSummary& summary, std::string* out) {
  const auto label = [&](Symbol s) { return report.result.module->text(s).line(); };
  if (summary.declined.empty()) return;
  *out += "\nDeclined\n";
  for (const auto& [key, list] : summary.declined) {
    *out += "  " + std::string(std::get<0>(key)) + ": " + std::string(std::get<1>(key)) + ", " + std::to_string(list.size()) +
            (list.size() == 1 ? " time\n" : " times\n");
    std::string_view hint;
    for (size_t i = 0; i < list.size() && i < kNodesShown; ++i) {
      const Decision& d = *list[i];
      *out += "    " + label(d.node);
      if (!d.members.empty()) *out += " with " + label(d.members.front());
      if (!d.detail.empty()) *out += " (" + ForeignText(d.detail).line() + ")";
      *out += '\n';
      if (!d.hint.empty()) hint = d.hint;
    }
    more(list.size(), kNodesShown, "    ", out);
    if (!hint.empty()) *out += "    hint: " + ForeignText(hint).line() + "\n";
  }
}

void write_no_kernel(const FusionReport& report, std::string_view target, std::string* out) {
  if (report.no_kernel.empty()) return;
  *out += "\nNo kernel on " + std::string(target) + " for these, which are expanded or never formed: ";
  for (size_t i = 0; i < report.no_kernel.size(); ++i) *out += (i ? ", " : "") + std::string(kind_name(report.no_kernel[i]));
  *out += '\n';
}

void write_formed(const FusionReport& report, std::string* out) {
  const auto label = [&](Symbol s) { return report.result.module->text(s).line(); };
  size_t count = 0;
  for (const Decision& d : report.decisions) {
    if (!d.fused) continue;
    if (count == 0) *out += "\nFormed\n";
    if (++count > kFormedShown) continue;
    *out += "  " + d.pattern + " @ " + label(d.node);
    if (!d.detail.empty()) *out += " (" + ForeignText(d.detail).line() + ")";
    for (size_t i = 0; i < d.members.size() && i < kMembersShown; ++i) *out += (i ? ", " : " <- ") + label(d.members[i]);
    if (d.members.size() > kMembersShown) *out += " and " + std::to_string(d.members.size() - kMembersShown) + " more";
    *out += '\n';
  }
  more(count, kFormedShown, "  ", out);
}

std::string kind_and_name(const Graph& g, NodeId n) { return std::string(kind_name(g.op(n))) + " " + g.label(n).line(); }

// Largest values first.
void write_intermediates(const FusionReport& report, std::string* out) {
  const LaunchFacts facts(report.result, report.decisions);
  std::vector<const IntermediateValue*> order;
  for (const IntermediateValue& h : facts.intermediates)
    if (h.bytes > 0) order.push_back(&h);
  const size_t shown = std::min(order.size(), kValuesShown);
  std::stable_sort(order.begin(), order.end(),
                   [](const IntermediateValue* a, const IntermediateValue* b) { return a->bytes > b->bytes; });
  if (shown) *out += "\nLargest values between launches\n";
  for (size_t i = 0; i < shown; ++i) {
    const IntermediateValue& h = *order[i];
    const Graph& g = report.result.module->graph(h.graph);
    *out += "  " + bytes_text(h.bytes) + "  " + kind_and_name(g, h.from) + " -> " + kind_and_name(g, h.to.front());
    if (h.to.size() > 1) *out += " and " + std::to_string(h.to.size() - 1) + " more";
    for (size_t k = 0; k < h.decisions.size(); ++k)
      *out += (k ? ", " : " (") + h.decisions[k]->pattern + ": " + h.decisions[k]->reason;
    *out += h.decisions.empty() ? " (no pass fuses these)\n" : ")\n";
  }
}

}  // namespace

void write_fusion_text(const FusionReport& report, std::string* out, const ReportContext& context) {
  const DecisionSummary summary(report.decisions);
  *out += "Fusion of " + ForeignText(context.input_name).line() + " for " + context.target + "\n\n";
  write_changes(report, out);
  write_patterns(summary, out);
  write_declined(report, summary, out);
  write_no_kernel(report, context.target, out);
  write_formed(report, out);
  write_intermediates(report, out);
}

}  // namespace rlxc::report
