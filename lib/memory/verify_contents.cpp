#include "memory/verify_contents.h"

#include <algorithm>
#include <optional>

namespace rlxc {
namespace {

constexpr int64_t kNever = INT64_MIN;

// A read of a value, by itself or a view: the bytes of the region. nullopt: any of them.
struct Read {
  std::optional<std::pair<int64_t, int64_t>> bytes;
  int64_t step;
};

class Contents {
 public:
  Contents(const Graph& g, const GraphPlan& plan) : g_(g), plan_(plan), reads_(g.value_capacity()) {
    for (NodeId n : plan.schedule) {
      if (g.result_count(n) > 0 && slot(g.result(n)).view) continue;
      for (ValueId v : g.operands(n))
        if (v.valid()) read(v, plan.step[n.raw]);
    }
    for (ValueId v : g.outputs()) read(v, static_cast<int64_t>(plan.schedule.size()));
  }

  bool verify(Diagnostics& d) const {
    std::vector<Content> live;
    for (const Content& after : written()) {
      if (const ValueId root = slot(after.value).root; slot(root).root != root)
        d.error(Code::PlanInvalid, "the owner of its bytes has an owner", "value " + g_.label(g_.def(after.value)).quoted());
      std::erase_if(live, [&](const Content& c) { return c.last < after.step; });
      for (const Content& before : live) {
        const int64_t last = last_read(before.value, after.value);
        const NodeId maker = g_.def(before.value), writer = g_.def(after.value);
        const bool joins =
            slot(before.value).part && std::ranges::find(g_.operands(writer), before.value) != g_.operands(writer).end();
        if (joins || last < after.step || (last == after.step && slot(after.value).in_place)) continue;
        d.error(Code::PlanInvalid,
                (g_.op(maker) == OpKind::Input ? "a state" : "a value") + std::string(" is read after it was overwritten by ") +
                    g_.label(writer).quoted(),
                "value " + g_.label(maker).quoted());
      }
      live.push_back(after);
    }
    return d.ok();
  }

 private:
  struct Content {
    ValueId value;
    int64_t step, last;  // in which it is written, and read for the last time
  };

  const Slot& slot(ValueId v) const { return plan_.slot[v.raw]; }

  std::optional<std::pair<int64_t, int64_t>> bytes_of(ValueId v) const {
    const Slot& s = slot(v);
    if (!s.offset.is_static() || !s.size.is_static()) return std::nullopt;
    return std::pair(s.offset.size(), s.offset.size() + s.size.size());
  }

  void read(ValueId v, int64_t step) {
    const bool dense = !plan_.layouts.of(v) && bits(g_.dtype(v)) % 8 == 0;
    const auto bytes = dense ? bytes_of(v) : std::nullopt;
    while (slot(v).view) v = g_.operand(g_.def(v), 0);
    reads_[v.raw].push_back({bytes, step});
  }

  // Values of the arena and of the buffers of states, in the order of their steps.
  std::vector<Content> written() const {
    std::vector<Content> out;
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        if (slot(v).view || (slot(v).region != Region::Activations && slot(v).region != Region::State)) continue;
        int64_t last = kNever;
        for (const Read& read : reads_[v.raw]) last = std::max(last, read.step);
        out.push_back({v, g_.op(n) == OpKind::Input ? -1 : int64_t{plan_.step[n.raw]}, last});
      }
    std::ranges::stable_sort(out, {}, &Content::step);
    return out;
  }

  // The last step that reads bytes of `before` to which `after` is written; kNever if there is none.
  int64_t last_read(ValueId before, ValueId after) const {
    const Slot &x = slot(before), &y = slot(after);
    if (x.region != y.region || (x.region == Region::State && x.index != y.index) || x.size == Dim(0) || y.size == Dim(0))
      return kNever;
    const auto there = bytes_of(after), here = bytes_of(before);
    const bool known = there && here;
    if (known ? here->first >= there->second || there->first >= here->second : x.offset != y.offset) return kNever;
    int64_t last = kNever;
    for (const Read& r : reads_[before.raw])
      if (!known || !r.bytes || (r.bytes->first < there->second && there->first < r.bytes->second)) last = std::max(last, r.step);
    return last;
  }

  const Graph& g_;
  const GraphPlan& plan_;
  std::vector<std::vector<Read>> reads_;  // by value that is no view
};

}  // namespace

bool verify_contents(const Graph& g, const GraphPlan& plan, Diagnostics& d) { return Contents(g, plan).verify(d); }

}  // namespace rlxc
