// plan.txt: the memory plan to read.
#include <algorithm>

#include "report/module_terms.h"
#include "report/plan_json.h"
#include "report/slots.h"
#include "report/table.h"
#include "support/number.h"

namespace rlxc::report {
namespace {

constexpr size_t kTensorsShown = 20;

std::string bytes_of(const DimTable& dims, Dim size) {
  if (size.is_static()) return human_bytes(static_cast<uint64_t>(size.size()));
  return ForeignText(dims.text(size)).line() + " bytes";
}

std::string bytes_at(const DimTable& dims, Dim size, const DimBindings& sizes) {
  const auto n = dims.evaluate(size, sizes);
  return n && *n >= 0 ? human_bytes(static_cast<uint64_t>(*n)) : "unknown";
}

std::string sizes_text(const DimBindings& sizes) {
  std::string out;
  for (const auto& [name, size] : sizes) out += (out.empty() ? "" : ", ") + ForeignText(name).line() + "=" + std::to_string(size);
  return out;
}

std::string step_text(const Graph& g, const GraphPlan& plan, uint32_t step) {
  std::string out = "step " + std::to_string(step) + " of " + std::to_string(plan.schedule.size());
  if (step < plan.schedule.size())
    out += ", " + std::string(kind_name(g.op(plan.schedule[step]))) + " " + g.label(plan.schedule[step]).line();
  return out;
}

constexpr int64_t kMostSamples = 1 << 20;  // that a size without a range is raised to

// The sizes of buffers that depend on symbols.
std::vector<Dim> symbolic_sizes(const LirModule& lir) {
  std::vector<Dim> sizes;
  for (const Slot& s : lir.plans[0].slot)
    if (s.region == Region::Activations && !s.size.is_static()) sizes.push_back(s.size);
  return sizes;
}

// Raises a symbol without a range until no buffer has a negative size: a signal must be longer than the window that slides over
// it.
void raise_to_valid(const LirModule& lir, DimBindings* sizes) {
  const std::vector<Dim> buffers = symbolic_sizes(lir);
  const auto valid = [&](const DimBindings& at) {
    return std::ranges::all_of(buffers, [&](Dim d) { return lir.module->dims.evaluate(d, at).value_or(0) >= 0; });
  };
  if (valid(*sizes)) return;
  for (const auto& [symbol, start] : DimBindings(*sizes)) {
    if (lir.ranges.contains(symbol)) continue;
    DimBindings raised = *sizes;
    while (raised[symbol] < kMostSamples && !valid(raised)) raised[symbol] *= 2;
    if (valid(raised)) return *sizes = std::move(raised), void();
  }
}

}  // namespace

std::vector<DimBindings> corner_sizes(const LirModule& lir) {
  DimBindings low, high;
  for (const std::string& s : symbols_of_plan(lir)) {
    const auto range = lir.ranges.find(s);
    low[s] = range != lir.ranges.end() ? range->second.low->size() : 1;
  }
  if (low.empty()) return {};
  raise_to_valid(lir, &low);
  for (const auto& [s, size] : low) {
    const auto range = lir.ranges.find(s);
    high[s] = range != lir.ranges.end() ? range->second.high->size() : std::max<int64_t>(128, size > 1 ? 8 * size : 0);
  }
  return low == high ? std::vector{low} : std::vector{low, high};
}

std::vector<std::string> symbols_of_plan(const LirModule& lir) {
  const DimTable& dims = lir.module->dims;
  std::vector<std::string> out = dims.symbols_of(lir.plans[0].arena_size);
  for (const Slot& s : lir.plans[0].slot)
    if (s.region == Region::Activations)
      for (std::string& name : dims.symbols_of(s.size)) out.push_back(std::move(name));
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

LivePeak live_peak(const LirModule& lir, const DimBindings& sizes) {
  const Graph& g = lir.module->main();
  const GraphPlan& plan = lir.plans[0];
  std::vector<RootSlot> slots = root_slots(g, plan);
  std::erase_if(slots, [](const RootSlot& s) { return s.region != Region::Activations; });
  std::vector<int64_t> change(plan.schedule.size() + 2);
  const auto bytes = [&](const RootSlot& s) { return lir.module->dims.evaluate(s.size, sizes).value_or(0); };
  for (const RootSlot& s : slots) {
    change[std::min<size_t>(s.first_step, plan.schedule.size())] += bytes(s);
    change[std::min<size_t>(s.last_step, plan.schedule.size()) + 1] -= bytes(s);
  }
  LivePeak out;
  int64_t live = 0;
  for (size_t i = 0; i < plan.schedule.size(); ++i) {
    live += change[i];
    if (live <= out.bytes) continue;
    out.bytes = live;
    out.step = static_cast<uint32_t>(i);
  }
  for (const RootSlot& s : slots)
    if (s.first_step <= out.step && out.step <= s.last_step && bytes(s) > 0)
      out.slots.push_back({s.root, bytes(s), s.first_step, s.last_step});
  std::ranges::stable_sort(out.slots, std::greater(), &LivePeak::Slot::bytes);
  return out;
}

void write_plan_text(const LirModule& lir, std::string* out, const ReportContext& context) {
  const Graph& g = lir.module->main();
  const GraphPlan& plan = lir.plans[0];
  const DimTable& dims = lir.module->dims;
  *out += "Memory of " + ForeignText(context.input_name).line() + " for " + context.target + "\n\n";
  Dim packed(0);
  for (const GraphPlan& each : lir.plans) packed = lir.module->dims.add(packed, each.packed_size);
  *out += "activations: " + bytes_of(dims, plan.arena_size) + " (" + plan.method + ")\n";
  *out += "prepacked weights: " + bytes_of(dims, packed) + "\n";
  const std::vector<DimBindings> corners = corner_sizes(lir);
  for (const DimBindings& at : corners)
    *out += "  with " + sizes_text(at) + ": " + bytes_at(dims, plan.arena_size, at) + " of activations\n";
  if (!plan.symbolic) {
    *out += "lower bound: " + human_bytes(plan.lower_bound) + "\n";
    *out += "without sharing of bytes: " + human_bytes(plan.without_reuse) + "; saved by views " +
            human_bytes(plan.saved_by_views) + ", in place " + human_bytes(plan.saved_in_place) + ", by concatenation in place " +
            human_bytes(plan.saved_by_concat_alias) + ", by reuse " + human_bytes(plan.saved_by_reuse) + "\n";
  }
  for (const PatchedSegment& p : plan.patched) {
    const double again = p.flops > 0 ? 100 * static_cast<double>(p.flops_again) / static_cast<double>(p.flops) : 0;
    *out += "in " + std::to_string(p.parts) + " parts of their rows: " + std::to_string(p.nodes) + " nodes from " +
            p.first.line() + " to " + p.last.line() + "; computed again " + fixed(again, 1) + " %, copied " +
            human_bytes(p.bytes_copied) + "\n";
  }
  const DimBindings sizes = corners.empty() ? DimBindings() : corners.back();
  const LivePeak peak = live_peak(lir, sizes);
  *out += "\nMost bytes are live at " + step_text(g, plan, peak.step) + ": " + human_bytes(static_cast<uint64_t>(peak.bytes));
  *out += sizes.empty() ? "\n" : " with " + sizes_text(sizes) + "\n";
  Table table({"live there", "type", "bytes", "from step", "to step"});
  for (size_t i = 0; i < std::min(peak.slots.size(), kTensorsShown); ++i) {
    const LivePeak::Slot& s = peak.slots[i];
    table.add({value_label(g, s.root).line(), text(g.type(s.root), dims), human_bytes(static_cast<uint64_t>(s.bytes)),
               std::to_string(s.first_step), std::to_string(s.last_step)});
  }
  table.print(out);
  std::vector<Dim> used = {plan.arena_size};
  for (size_t i = 0; i < std::min(peak.slots.size(), kTensorsShown); ++i)
    for (Dim d : g.dims(peak.slots[i].root)) used.push_back(d);
  if (peak.slots.size() > kTensorsShown)
    *out += "and " + std::to_string(peak.slots.size() - kTensorsShown) + " smaller ones; plan.json has all\n";
  const std::vector<size_t> named = dims.named_sizes_of(used);
  if (!named.empty()) *out += "\nNamed sizes:\n";
  for (size_t i : named) *out += "  " + dims.text(dims.named_size(i)) + " = " + ForeignText(dims.definition(i)).line() + "\n";
}

}  // namespace rlxc::report
