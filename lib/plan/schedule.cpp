#include "plan/schedule.h"

#include <algorithm>
#include <numeric>

#include "plan/mix.h"

namespace rlxc::plan {
namespace {

constexpr uint64_t kWords = 8'000'000;    // limit on copied words of task sets
constexpr uint64_t kEffects = 1'000'000;  // limit on visited tasks
constexpr uint64_t kLast = kEffects / 8;  // reserve to complete the best order
constexpr uint64_t kWidest = 4096;
constexpr uint32_t kNone = ~uint32_t{0};

// A task that is ready, and its effect on the live bytes (modulo 2^64).
struct Ready {
  uint32_t task;
  uint64_t most;   // added while it runs
  uint64_t after;  // added after it
};

struct State {
  std::vector<uint64_t> done;  // one bit per task
  std::vector<Ready> ready;    // ascending by task
  uint64_t hash = 0, live = 0, peak = 0;
  uint32_t history = kNone;
  size_t count = 0;
};

// A set of hashes that keeps its memory when it is cleared.
class HashSet {
 public:
  bool insert(uint64_t hash) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    uint64_t& slot = find(hash);
    if (slot == hash + 1) return false;
    slot = hash + 1;
    ++used_;
    return true;
  }
  void clear() {
    std::ranges::fill(slots_, 0);
    used_ = 0;
  }

 private:
  uint64_t& find(uint64_t hash) {
    size_t i = hash & (slots_.size() - 1);
    while (slots_[i] != 0 && slots_[i] != hash + 1) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }
  void grow() {
    std::vector<uint64_t> old(slots_.size() * 2);
    old.swap(slots_);
    for (uint64_t s : old)
      if (s != 0) find(s - 1) = s;
  }

  std::vector<uint64_t> slots_ = std::vector<uint64_t>(64);  // a hash plus 1, or 0; the size is a power of two
  size_t used_ = 0;
};

class Scheduler {
 public:
  explicit Scheduler(const TaskGraph& g)
      : g_(g),
        n_(g.tasks.size()),
        reads_(n_),
        readers_(g.bytes.size()),
        next_(n_),
        waits_(n_),
        defining_op_(g.bytes.size(), kNone) {
    for (uint32_t t = 0; t < n_; ++t)
      for (uint32_t b : g.tasks[t].makes) defining_op_[b] = t;
    for (uint32_t t = 0; t < n_; ++t)
      for (uint32_t b : g.tasks[t].reads) {
        if (!readers_[b].empty() && readers_[b].back() == t) continue;
        readers_[b].push_back(t);
        reads_[t].push_back(b);
        if (defining_op_[b] != kNone) link(defining_op_[b], t);
      }
    for (const auto& [a, b] : g.before) link(a, b);
  }

  State start() const {
    State s;
    s.done.resize((n_ + 63) / 64);
    for (uint32_t t = 0; t < n_; ++t)
      if (waits_[t].empty()) s.ready.push_back(effect(s, t));
    return s;
  }

  Ready effect(const State& s, uint32_t t) const {
    const Task& task = g_.tasks[t];
    uint64_t made = 0, freed = 0;
    for (uint32_t b : task.makes) made += g_.bytes[b];
    for (uint32_t b : reads_[t])
      if (dies(s, b, t)) freed += g_.bytes[b];
    uint64_t more = made;
    size_t taken = 0;
    for (uint32_t b : task.overwrites)
      if (taken < task.makes.size() && g_.bytes[b] == g_.bytes[task.makes[taken]] && dies(s, b, t)) {
        more -= g_.bytes[b];
        ++taken;
      }
    uint64_t unread = 0;
    for (uint32_t b : task.makes)
      if (readers_[b].empty() && !g_.kept[b]) unread += g_.bytes[b];
    return {t, more + task.scratch, made - freed - unread};
  }

  // No order has a lower peak: while a task runs, what it reads and makes is live.
  uint64_t least_peak() const {
    State end;
    end.done.assign((n_ + 63) / 64, ~uint64_t{0});
    uint64_t least = 0;
    for (uint32_t t = 0; t < n_; ++t) {
      uint64_t bytes = effect(end, t).most;
      for (uint32_t b : reads_[t])
        if (defining_op_[b] != kNone) bytes += g_.bytes[b];
      least = std::max(least, bytes);
    }
    return least;
  }

  void run(State& s, uint32_t t) {
    const auto self = find(s, t);
    s.peak = std::max(s.peak, s.live + self->most);
    s.live += self->after;
    s.ready.erase(self);
    s.done[t / 64] |= uint64_t{1} << (t % 64);
    s.hash ^= mix(uint64_t{t} + 1);
    for (uint32_t b : reads_[t]) note_last_reader(s, b);
    for (uint32_t u : next_[t])
      if (std::all_of(waits_[u].begin(), waits_[u].end(), [&](uint32_t w) { return is_done(s, w); }))
        s.ready.insert(find(s, u), effect(s, u));
    history_.push_back({s.history, t});
    s.history = static_cast<uint32_t>(history_.size() - 1);
    ++s.count;
  }

  // Runs tasks that raise neither the peak nor the live bytes at once: delaying them cannot help.
  void run_free(State& s) {
    for (bool again = true; again && effects_ > s.ready.size();) {
      const auto free = std::find_if(s.ready.begin(), s.ready.end(),
                                     [&](const Ready& r) { return s.live + r.most <= s.peak && s.live + r.after <= s.live; });
      effects_ -= static_cast<uint64_t>(free - s.ready.begin());
      again = free != s.ready.end();
      if (again) {
        --effects_;
        run(s, free->task);
      }
    }
  }

  Order search(uint64_t limit) {
    Order best;
    best.peak = limit;
    best.exact = true;
    const uint64_t least = least_peak();
    if (limit <= least) return best;
    const uint64_t width = std::clamp<uint64_t>(kWords / (n_ * (n_ / 64 + 16) + 1), 1, kWidest);
    std::vector<State> states(1, start()), next;  // used up to `count` and `made`, so that states keep their memory
    size_t count = 1, made = 0;
    run_free(states[0]);
    struct Choice {
      uint64_t peak, live, hash;
      uint32_t state, task;
    };
    std::vector<Choice> choices;
    for (HashSet seen; count > 0; seen.clear()) {
      choices.clear();
      for (uint32_t i = 0; i < count; ++i) {
        const State& s = states[i];
        if (s.count == n_) {
          if (s.peak >= best.peak) continue;
          best.peak = s.peak;
          best.tasks.clear();
          for (uint32_t h = s.history; h != kNone; h = history_[h].first) best.tasks.push_back(history_[h].second);
          std::reverse(best.tasks.begin(), best.tasks.end());
          if (best.peak <= least) return best;
        }
        if (s.ready.size() >= effects_) {
          best.exact = false;
          return best;
        }
        effects_ -= s.ready.size();
        for (const auto& [t, most, after] : s.ready)
          choices.push_back({std::max(s.peak, s.live + most), s.live + after, s.hash ^ mix(uint64_t{t} + 1), i, t});
      }
      std::erase_if(choices, [&](const Choice& c) { return c.peak >= best.peak; });
      std::stable_sort(choices.begin(), choices.end(),
                       [](const Choice& a, const Choice& b) { return a.peak != b.peak ? a.peak < b.peak : a.live < b.live; });
      // Divides the remaining work evenly over the remaining rounds.
      const uint64_t rounds = n_ - states[0].count + 1;
      const uint64_t rest = effects_ - std::min(effects_, kLast);
      const uint64_t most = std::min(width, std::max<uint64_t>(1, rest / rounds * count / (choices.size() + 1)));
      made = 0;
      for (const Choice& c : choices) {
        if (!seen.insert(c.hash)) continue;
        if (made == most) {
          best.exact = false;
          break;
        }
        if (made == next.size()) next.emplace_back();
        State& s = next[made++];
        if (most == 1) std::swap(s, states[c.state]);
        else s = states[c.state];
        run(s, c.task);
        run_free(s);
        if (s.hash != c.hash && !seen.insert(s.hash)) --made;
      }
      states.swap(next);
      count = made;
    }
    return best;
  }

 private:
  static std::vector<Ready>::iterator find(State& s, uint32_t t) {
    return std::lower_bound(s.ready.begin(), s.ready.end(), t, [](const Ready& r, uint32_t task) { return r.task < task; });
  }
  // Updates the effect of the task that has become the last reader of the buffer.
  void note_last_reader(State& s, uint32_t b) const {
    uint32_t last = kNone;
    for (uint32_t u : readers_[b]) {
      if (is_done(s, u)) continue;
      if (last != kNone) return;
      last = u;
    }
    if (last == kNone) return;
    if (const auto at = find(s, last); at != s.ready.end() && at->task == last) *at = effect(s, last);
  }
  bool is_done(const State& s, uint32_t t) const { return s.done[t / 64] >> (t % 64) & 1; }
  // Returns whether `t` is the last reader of the buffer.
  bool dies(const State& s, uint32_t b, uint32_t t) const {
    if (g_.kept[b]) return false;
    return std::all_of(readers_[b].begin(), readers_[b].end(), [&](uint32_t r) { return r == t || is_done(s, r); });
  }
  void link(uint32_t a, uint32_t b) {
    if (std::find(waits_[b].begin(), waits_[b].end(), a) != waits_[b].end()) return;
    next_[a].push_back(b);
    waits_[b].push_back(a);
  }

  const TaskGraph& g_;
  const size_t n_;
  uint64_t effects_ = kEffects;                         // remaining visits
  std::vector<std::vector<uint32_t>> reads_;            // by task: the buffers that it reads, each once
  std::vector<std::vector<uint32_t>> readers_;          // by buffer
  std::vector<std::vector<uint32_t>> next_, waits_;     // by task: successors and predecessors
  std::vector<uint32_t> defining_op_;                   // by buffer
  std::vector<std::pair<uint32_t, uint32_t>> history_;  // previous state, and the task that was run
};

}  // namespace

uint64_t peak_bytes(const TaskGraph& g, std::span<const uint32_t> order) {
  Scheduler scheduler(g);
  State s = scheduler.start();
  for (uint32_t t : order) scheduler.run(s, t);
  return s.peak;
}

Order schedule(const TaskGraph& g) {
  Order given;
  given.tasks.resize(g.tasks.size());
  std::iota(given.tasks.begin(), given.tasks.end(), 0u);
  given.peak = peak_bytes(g, given.tasks);
  Order found = Scheduler(g).search(given.peak);
  if (!found.tasks.empty()) return found;
  given.exact = found.exact;
  return given;
}

}  // namespace rlxc::plan
