#include "plan/schedule.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

#include "plan/mix.h"

namespace rlxc::plan {
namespace {

constexpr uint64_t kWords = 8'000'000;    // limit on copied words of task sets
constexpr uint64_t kEffects = 1'000'000;  // limit on visited tasks
constexpr uint64_t kLast = kEffects / 8;  // reserve to complete the best order
constexpr uint64_t kWidest = 4096;
constexpr uint64_t kPause = 2;  // visits of the search for each one of an attempt to complete an order early
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

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

Pairs reversed(const Pairs& all) {
  Pairs out(all);
  for (auto& [a, b] : out) std::swap(a, b);
  return out;
}

// Lists of numbers by index, one list after another in memory: the second numbers of pairs by the first ones.
class Lists {
 public:
  Lists() = default;
  Lists(size_t count, const Pairs& pairs) : begin_(count + 1), items_(pairs.size()) {
    for (const auto& [i, item] : pairs) ++begin_[i + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<uint32_t> end(begin_.begin(), begin_.end() - 1);
    for (const auto& [i, item] : pairs) items_[end[i]++] = item;
  }
  size_t size() const { return begin_.size() - 1; }
  std::span<const uint32_t> operator[](size_t i) const { return {items_.data() + begin_[i], items_.data() + begin_[i + 1]}; }

 private:
  std::vector<uint32_t> begin_, items_;
};

// Tasks of one word of State::done.
struct TaskWord {
  uint32_t word = 0;
  uint64_t bits = 0;

  uint64_t left(const State& s) const { return bits & ~s.done[word]; }
};

// Sets of tasks by index. Most have one word, since neighbours in a graph are close in the given order.
class TaskSets {
 public:
  TaskSets() = default;
  explicit TaskSets(const Lists& lists) : begin_(1) {
    for (size_t i = 0; i < lists.size(); ++i) {
      for (uint32_t t : lists[i]) {
        if (words_.size() == begin_.back() || words_.back().word != t / 64) words_.push_back({t / 64, 0});
        words_.back().bits |= uint64_t{1} << (t % 64);
      }
      begin_.push_back(static_cast<uint32_t>(words_.size()));
    }
  }
  std::span<const TaskWord> operator[](size_t i) const { return {words_.data() + begin_[i], words_.data() + begin_[i + 1]}; }

 private:
  std::vector<uint32_t> begin_;
  std::vector<TaskWord> words_;
};

class Scheduler {
 public:
  explicit Scheduler(const TaskGraph& g) : g_(g), n_(g.tasks.size()), known_(n_), defining_op_(g.bytes.size(), kNone) {
    for (uint32_t t = 0; t < n_; ++t)
      for (uint32_t b : g.tasks[t].makes) defining_op_[b] = t;
    Pairs reads, shared, links;
    std::vector<uint32_t> reader(g.bytes.size(), kNone), follower(n_, kNone);  // the last one so far
    std::vector<uint32_t> readers(g.bytes.size());                             // number of them
    for (uint32_t t = 0; t < n_; ++t)
      for (uint32_t b : g.tasks[t].reads) {
        if (std::exchange(reader[b], t) == t) continue;
        ++readers[b];
        reads.emplace_back(t, b);
        const uint32_t a = defining_op_[b];
        if (a != kNone && std::exchange(follower[a], t) != t) links.emplace_back(a, t);
      }
    if (!g.before.empty()) {
      links.insert(links.end(), g.before.begin(), g.before.end());
      std::ranges::sort(links);
      links.erase(std::unique(links.begin(), links.end()), links.end());
    }
    std::ranges::copy_if(reads, std::back_inserter(shared),
                         [&](const auto& p) { return readers[p.second] > 1 && !g.kept[p.second]; });
    reads_ = Lists(n_, reads);
    shared_ = Lists(n_, shared);
    next_ = Lists(n_, links);
    readers_ = TaskSets(Lists(g.bytes.size(), reversed(reads)));
    waits_ = TaskSets(Lists(n_, reversed(links)));
    State nothing;
    nothing.done.resize(words());
    for (uint32_t t = 0; t < n_; ++t) known_[t] = known(nothing, readers, t);
  }

  State start() const {
    State s;
    s.done.resize(words());
    for (uint32_t t = 0; t < n_; ++t)
      if (waits_[t].empty()) s.ready.push_back(effect(s, t));
    return s;
  }

  Ready effect(const State& s, uint32_t t) const {
    const Known& k = known_[t];
    if (k.always) return {t, k.most, k.after};
    uint64_t freed = 0;
    for (uint32_t b : shared_[t])
      if (dies(s, b, t)) freed += g_.bytes[b];
    return {t, k.made - overwritten(s, t) + g_.tasks[t].scratch, k.after - freed};
  }

  // No order has a lower peak: while a task runs, what it reads and makes is live.
  uint64_t least_peak() const {
    State end;
    end.done.assign(words(), ~uint64_t{0});
    uint64_t least = 0;
    for (uint32_t t = 0; t < n_; ++t) {
      uint64_t bytes = effect(end, t).most;
      for (uint32_t b : reads_[t])
        if (defining_op_[b] != kNone) bytes += g_.bytes[b];
      least = std::max(least, bytes);
    }
    return least;
  }

  void run(State& s, uint32_t t) { run(s, find(s, t)); }
  void run(State& s, std::vector<Ready>::iterator self) {
    const uint32_t t = self->task;
    s.peak = std::max(s.peak, s.live + self->most);
    s.live += self->after;
    s.ready.erase(self);
    s.done[t / 64] |= uint64_t{1} << (t % 64);
    s.hash ^= mix(uint64_t{t} + 1);
    for (uint32_t b : shared_[t]) note_last_reader(s, b);
    for (uint32_t u : next_[t])
      if (std::ranges::all_of(waits_[u], [&](const TaskWord& w) { return w.left(s) == 0; }))
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
        run(s, free);
      }
    }
  }

  // Runs the rest of the tasks, each time the one that leaves the fewest bytes. Returns false if that would raise the peak.
  bool complete(State& s) {
    while (s.count < n_ && effects_ > s.ready.size()) {
      effects_ -= s.ready.size();
      auto best = s.ready.end();
      for (auto r = s.ready.begin(); r != s.ready.end(); ++r)
        if (s.live + r->most <= s.peak && (best == s.ready.end() || s.live + r->after < s.live + best->after)) best = r;
      if (best == s.ready.end()) return false;
      run(s, best);
    }
    return s.count == n_;
  }

  uint64_t peak(std::span<const uint32_t> order) {
    State s = start();
    for (uint32_t t : order) run(s, t);
    return s.peak;
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
    uint64_t at_next_try = effects_;
    for (HashSet seen; count > 0; seen.clear()) {
      choices.clear();
      for (uint32_t i = 0; i < count; ++i) {
        const State& s = states[i];
        if (s.count == n_) {
          if (s.peak >= best.peak) continue;
          note_order(s, &best);
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
      // The first state has the lowest peak, and none leads to a lower one.
      if (count < 2 || effects_ > at_next_try) continue;
      const uint64_t before = effects_;
      State first = states[0];
      if (complete(first)) {
        note_order(first, &best);
        return best;
      }
      at_next_try = effects_ - std::min(effects_, kPause * (before - effects_));
    }
    return best;
  }

 private:
  // The effect of a task as far as it is the same whatever is done: `always` if that is all.
  struct Known {
    uint64_t made = 0, most = 0;
    uint64_t after = 0;  // without the buffers that other tasks read, too
    bool always = false;
  };

  size_t words() const { return (n_ + 63) / 64; }

  void note_order(const State& s, Order* order) const {
    order->peak = s.peak;
    order->tasks.clear();
    for (uint32_t h = s.history; h != kNone; h = history_[h].first) order->tasks.push_back(history_[h].second);
    std::reverse(order->tasks.begin(), order->tasks.end());
  }

  // `readers`: their number, by buffer.
  Known known(const State& nothing, std::span<const uint32_t> readers, uint32_t t) const {
    const Task& task = g_.tasks[t];
    Known k;
    uint64_t gone = 0;
    for (uint32_t b : task.makes) {
      k.made += g_.bytes[b];
      if (readers[b] == 0 && !g_.kept[b]) gone += g_.bytes[b];
    }
    for (uint32_t b : reads_[t])
      if (readers[b] == 1 && !g_.kept[b]) gone += g_.bytes[b];
    k.after = k.made - gone;
    k.most = k.made - overwritten(nothing, t) + task.scratch;
    k.always =
        shared_[t].empty() && std::ranges::all_of(task.overwrites, [&](uint32_t b) { return g_.kept[b] || readers[b] < 2; });
    return k;
  }

  // The bytes of results that reuse those of operands.
  uint64_t overwritten(const State& s, uint32_t t) const {
    const Task& task = g_.tasks[t];
    uint64_t bytes = 0;
    size_t taken = 0;
    for (uint32_t b : task.overwrites)
      if (taken < task.makes.size() && g_.bytes[b] == g_.bytes[task.makes[taken]] && dies(s, b, t)) {
        bytes += g_.bytes[b];
        ++taken;
      }
    return bytes;
  }

  static std::vector<Ready>::iterator find(State& s, uint32_t t) {
    return std::lower_bound(s.ready.begin(), s.ready.end(), t, [](const Ready& r, uint32_t task) { return r.task < task; });
  }
  // Updates the effect of the task that has become the last reader of the buffer.
  void note_last_reader(State& s, uint32_t b) const {
    uint32_t last = kNone;
    for (const TaskWord& w : readers_[b]) {
      const uint64_t left = w.left(s);
      if (left == 0) continue;
      if (last != kNone || !std::has_single_bit(left)) return;
      last = w.word * 64 + static_cast<uint32_t>(std::countr_zero(left));
    }
    if (last == kNone) return;
    if (const auto at = find(s, last); at != s.ready.end() && at->task == last) *at = effect(s, last);
  }
  // Returns whether `t` is the last reader of the buffer.
  bool dies(const State& s, uint32_t b, uint32_t t) const {
    if (g_.kept[b]) return false;
    return std::ranges::all_of(
        readers_[b], [&](const TaskWord& w) { return (w.left(s) & ~(w.word == t / 64 ? uint64_t{1} << (t % 64) : 0)) == 0; });
  }

  const TaskGraph& g_;
  const size_t n_;
  uint64_t effects_ = kEffects;                         // remaining visits
  Lists reads_;                                         // by task: the buffers that it reads, each once
  Lists shared_;                                        // by task: those that others read, too, and that are not kept
  Lists next_;                                          // by task
  TaskSets readers_;                                    // by buffer
  TaskSets waits_;                                      // by task: those that it follows
  std::vector<Known> known_;                            // by task
  std::vector<uint32_t> defining_op_;                   // by buffer
  std::vector<std::pair<uint32_t, uint32_t>> history_;  // previous state, and the task that was run
};

}  // namespace

uint64_t peak_bytes(const TaskGraph& g, std::span<const uint32_t> order) { return Scheduler(g).peak(order); }

Order schedule(const TaskGraph& g) {
  Scheduler scheduler(g);
  Order given;
  given.tasks.resize(g.tasks.size());
  std::iota(given.tasks.begin(), given.tasks.end(), 0u);
  given.peak = scheduler.peak(given.tasks);
  Order found = scheduler.search(given.peak);
  if (!found.tasks.empty()) return found;
  given.exact = found.exact;
  return given;
}

}  // namespace rlxc::plan
