#include "passes/fuse/shared_input.h"

#include <algorithm>

#include "analysis/phases.h"
#include "analysis/views.h"
#include "passes/packed_weights.h"
#include "passes/provenance.h"
#include "support/checked.h"

namespace rlxc::fuse {

using namespace match;

namespace {

constexpr uint32_t kFar = 96;         // limit on the distance of members, which bounds the live ranges of their results
constexpr size_t kMostMembers = 256;  // of one merged matmul
constexpr size_t kMostKinds = 16;     // of matmuls of one value, that those behind are compared with

}  // namespace

SharedInput::SharedInput(Graph& g, PassContext& ctx, bool runs)
    : g_(g),
      ctx_(ctx),
      order_(g),
      place_(g.node_capacity()),
      phase_(derive_phases(g)),
      known_(g.node_capacity()),
      room_(packed_room(g, ctx)) {
  uint32_t place = 0;
  for (NodeId n : g.nodes()) place_[n.raw] = place += !runs || phase_[n.raw] != Phase::Prologue;
}

int64_t SharedInput::run() {
  for (NodeId n : g_.nodes())
    if (n.raw < known_ && candidate(n)) readers_of(g_.operand(n, 0));
  return merged_;
}

bool SharedInput::on_load(ValueId v) const {
  return is_weight(g_, v) || (g_.def(v).raw < known_ && is_known_on_load(g_, phase_, v));
}

// Collects the matmuls that read x, in execution order, and splits them where neighbours are distant.
void SharedInput::readers_of(ValueId x) {
  seen_.resize(g_.value_capacity());
  if (seen_[x.raw]) return;
  seen_[x.raw] = true;
  std::vector<NodeId> nodes;
  for (const auto use : g_.uses(x))
    if (use.index == 0 && use.user.raw < known_ && candidate(use.user)) nodes.push_back(use.user);
  std::ranges::sort(nodes, {}, [&](NodeId n) { return order_.at(n); });
  for (size_t i = 0, end; i < nodes.size(); i = end) {
    for (end = i + 1; end < nodes.size() && place_[nodes[end].raw] - place_[nodes[end - 1].raw] <= kFar;) ++end;
    const std::span near(nodes.begin() + static_cast<std::ptrdiff_t>(i), end - i);
    if (near.size() > 1) merge_alike(near, x);
  }
}

// Merges matmuls without conflicts.
void SharedInput::merge_alike(std::span<const NodeId> nodes, ValueId x) {
  const auto apart = [&](NodeId n, std::string_view reason) {
    ctx_.decisions.push_back(declined(g_, kSharedInput, n, reason, "reads " + g_.label(g_.def(x)).line() + " as others do",
                                      "give all matmuls of one value constant weights of one layout and type"));
  };
  std::vector<std::vector<NodeId>> alike;
  std::vector<size_t> open;  // groups that take more
  for (NodeId n : nodes) {
    if (!has_weights(n)) {
      apart(n, "runtime_weights");
      continue;
    }
    const auto own = std::ranges::find_if(open, [&](size_t c) { return !conflict(alike[c][0], n); });
    if (own != open.end()) {
      alike[*own].push_back(n);
      if (alike[*own].size() == kMostMembers) open.erase(own);
    } else if (open.size() == kMostKinds) {
      apart(n, conflict(alike[open[0]][0], n));
    } else {
      open.push_back(alike.size());
      alike.push_back({n});
    }
  }
  const auto most = std::ranges::max_element(alike, {}, &std::vector<NodeId>::size);
  for (const auto& c : alike)
    if (const char* reason = conflict((*most)[0], c[0])) apart(c[0], reason);
  for (const auto& c : alike)
    if (c.size() > 1) ctx_.rewrite([&] { return merge(c, x); });
}

bool SharedInput::merge(std::span<const NodeId> nodes, ValueId x) {
  std::vector<Member> members;
  for (NodeId n : nodes) members.push_back(member(n));
  if (!pays(members, x) || !prepare(members) || !fits(members)) return false;
  emit(members, x);
  merged_ += static_cast<int64_t>(members.size());
  return true;
}

Dim SharedInput::columns(const std::vector<Member>& members) const {
  Dim all(0);
  for (const Member& m : members) all = g_.module().dims.add(all, g_.dims(m.value).back());
  return all;
}

// Returns whether a user of the slice needs a contiguous copy.
bool SharedInput::is_copied(const Member& m, Dim columns) const {
  const auto d = g_.dims(m.value);
  if (std::ranges::all_of(d.first(d.size() - 1), [](Dim s) { return s == Dim(1); })) return false;
  std::vector<Dim> whole(d.begin(), d.end());
  whole.back() = columns;
  Layout slice = row_major(g_.module().dims, whole);
  if (!slice.axes.back().empty()) slice.axes.back() = {{d.back(), Dim(1)}};
  if (d.back() == Dim(1)) slice.axes.back().clear();
  return !all_accept_layout(g_, m.value, slice);
}

// Compares one matmul, copies of slices and lost epilogues with separate matmuls.
CostDecision SharedInput::time_of(const std::vector<Member>& members, ValueId x) const {
  const Machine& machine = ctx_.target.machine;
  CostDecision time;
  Cost shared;
  for (const Member& m : members) {
    const Cost own = node_cost(g_, m.matmul);
    time.separate_ns += launch_time_ns(own, machine);
    shared += own;
    if (const NodeId end = lost_end(m); end.valid()) time.fused_ns += launch_time_ns(node_cost(g_, end), machine);
    if (is_copied(m, columns(members))) time.fused_ns += launch_time_ns({0, bytes(g_, m.value), bytes(g_, m.value)}, machine);
  }
  shared.bytes_read -= static_cast<int64_t>(members.size() - 1) * bytes(g_, x);
  time.fused_ns += launch_time_ns(shared, machine);
  return time;
}

// Keeps all members if that is profitable, otherwise those without copies and lost epilogues.
bool SharedInput::pays(std::vector<Member>& members, ValueId x) {
  const auto time = time_of(members, x);
  if (time.pays()) return true;
  const Dim all = columns(members);
  const auto loses = [&](const Member& m) { return is_copied(m, all) || lost_end(m).valid(); };
  for (const Member& m : members)
    if (loses(m))
      ctx_.decisions.push_back(declined(g_, kSharedInput, m.matmul, "cost", time.detail(),
                                        is_copied(m, all) ? "its part of a shared matmul would be copied for its readers"
                                                          : "its part of a shared matmul would not end with what follows"));
  std::erase_if(members, loses);
  return members.size() > 1;
}

bool SharedInput::fits(const std::vector<Member>& members) {
  int64_t needed = 0;
  for (const Member& m : members) {
    for (ValueId v : g_.operands(m.matmul).subspan(1))
      if (v.valid()) needed = checked_add(needed, bytes(g_, v)).value_or(INT64_MAX);
    if (m.bias.valid()) needed = checked_add(needed, bytes(g_, m.bias)).value_or(INT64_MAX);
  }
  if (room_ >= needed) {
    room_ -= needed;
    return true;
  }
  for (const Member& m : members)
    ctx_.decisions.push_back(declined(g_, kSharedInput, m.matmul, "packed_limit",
                                      "the weights side by side take " + std::to_string(needed) + " bytes, " +
                                          std::to_string(std::max<int64_t>(room_, 0)) + " of --max-packed are left",
                                      "raise --max-packed"));
  return false;
}

void SharedInput::emit(std::vector<Member>& members, ValueId x) {
  DimTable& dims = g_.module().dims;
  const NodeId at = members[0].matmul;
  const ValueId y = merged(members, x);
  std::vector<NodeId> nodes;
  for (const Member& m : members) nodes.push_back(m.matmul);
  merge_origins(g_, g_.def(y), nodes);
  ctx_.decisions.push_back(fused(g_, kSharedInput, at, nodes, static_cast<int64_t>(members.size() - 1) * bytes(g_, x)));
  Builder b(g_, nullptr, at);
  std::vector<ValueId> parts;  // created before their insertion point is erased
  Dim start(0);
  for (const Member& m : members) {
    const Dim len = g_.dims(m.value).back();
    parts.push_back(b.narrow(y, g_.rank(y) - 1, start, len));
    start = dims.add(start, len);
  }
  for (size_t i = 0; i < parts.size(); ++i) replace(g_, members[i].value, parts[i]);
}

}  // namespace rlxc::fuse
