#include "plan/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "support/random.h"

using namespace rlxc::plan;
using rlxc::test::Random;

namespace {

// Each task makes one buffer and reads some earlier ones.
TaskGraph random_tasks(Random& random, uint32_t n, uint64_t fan_in) {
  TaskGraph g;
  for (uint32_t t = 0; t < n; ++t) {
    Task task;
    task.makes = {t};
    if (t > 0)
      for (uint64_t k = random.below(fan_in + 1); k > 0; --k) task.reads.push_back(static_cast<uint32_t>(random.below(t)));
    if (!task.reads.empty() && random.below(3) == 0) task.overwrites = {task.reads[0]};
    if (random.below(4) == 0) task.scratch = random.below(20);
    g.tasks.push_back(std::move(task));
    g.bytes.push_back(random.below(30));
    g.kept.push_back(random.below(8) == 0);
  }
  return g;
}

bool keeps_order(const TaskGraph& g, const std::vector<uint32_t>& order) {
  std::vector<size_t> at(order.size());
  for (size_t i = 0; i < order.size(); ++i) at[order[i]] = i;
  for (uint32_t t = 0; t < g.tasks.size(); ++t)
    for (uint32_t b : g.tasks[t].reads)
      if (at[b] >= at[t]) return false;
  return std::all_of(g.before.begin(), g.before.end(), [&](auto pair) { return at[pair.first] < at[pair.second]; });
}

}  // namespace

TEST_CASE("orders of few tasks are as good as the best of all") {
  Random random{3};
  for (int round = 0; round < 60; ++round) {
    TaskGraph g = random_tasks(random, static_cast<uint32_t>(2 + random.below(6)), 3);
    if (round % 3 == 0 && g.tasks.size() > 3) g.before.emplace_back(1, 3);
    std::vector<uint32_t> order(g.tasks.size());
    std::iota(order.begin(), order.end(), 0u);
    uint64_t best = UINT64_MAX;
    do
      if (keeps_order(g, order)) best = std::min(best, peak_bytes(g, order));
    while (std::next_permutation(order.begin(), order.end()));
    const Order found = schedule(g);
    CHECK(keeps_order(g, found.tasks));
    CHECK(found.peak == best);
    CHECK(peak_bytes(g, found.tasks) == found.peak);
    CHECK(found.exact);
  }
}

TEST_CASE("two branches run one after the other") {
  // Each branch widens to 100 and narrows to 1; if the branches alternate, both wide buffers are live at once.
  TaskGraph g;
  g.tasks = {{{}, {0}, {}, 0}, {{0}, {1}, {}, 0}, {{0}, {2}, {}, 0}, {{1}, {3}, {}, 0}, {{2}, {4}, {}, 0}, {{3, 4}, {5}, {}, 0}};
  g.bytes = {10, 100, 100, 1, 1, 1};
  g.kept = {false, false, false, false, false, true};
  const Order found = schedule(g);
  CHECK(peak_bytes(g, std::vector<uint32_t>{0, 1, 2, 3, 4, 5}) == 210);
  CHECK(found.peak == 111);
  CHECK(found.tasks == std::vector<uint32_t>{0, 1, 3, 2, 4, 5});
}

TEST_CASE("an order whose peak comes early is exact, however many orders the rest has") {
  constexpr uint32_t kCells = 60, kBranches = 14;
  TaskGraph g;
  const auto add = [&](std::vector<uint32_t> reads, uint64_t bytes) {
    const auto b = static_cast<uint32_t>(g.bytes.size());
    g.tasks.push_back({std::move(reads), {b}, {}, 0});
    g.bytes.push_back(bytes);
    g.kept.push_back(false);
    return b;
  };
  uint32_t last = add({}, 10);
  for (uint32_t cell = 0; cell < kCells; ++cell) {
    std::vector<uint32_t> wide, narrow;
    const uint32_t branches = cell == 0 ? 2 : kBranches;
    for (uint32_t i = 0; i < branches; ++i) wide.push_back(add({last}, cell == 0 ? 100 : 3 + i % 3));
    for (uint32_t b : wide) narrow.push_back(add({b}, 2));
    last = add(narrow, 1);
  }
  const Order found = schedule(g);
  CHECK(keeps_order(g, found.tasks));
  CHECK(found.peak == 112);
  CHECK(peak_bytes(g, found.tasks) == found.peak);
  CHECK(found.exact);
}

TEST_CASE("large graphs are ordered in bounded work and never worse than given") {
  Random random{5};
  for (uint32_t n : {300u, 3000u, 20000u}) {
    const TaskGraph g = random_tasks(random, n, 2);
    std::vector<uint32_t> given(n);
    std::iota(given.begin(), given.end(), 0u);
    const Order found = schedule(g);
    CHECK(keeps_order(g, found.tasks));
    CHECK(found.peak <= peak_bytes(g, given));
    CHECK(peak_bytes(g, found.tasks) == found.peak);
  }
}

TEST_CASE("a large gradient of weights waits until what later steps need is gone, in graphs too wide to be searched") {
  constexpr uint32_t kLayers = 48;
  Random random{7};
  TaskGraph g;
  const auto add = [&](std::vector<uint32_t> reads, uint64_t bytes, bool kept = false) {
    const auto b = static_cast<uint32_t>(g.bytes.size());
    g.tasks.push_back({std::move(reads), {b}, {}, 0});
    g.bytes.push_back(bytes), g.kept.push_back(kept);
    return b;
  };
  std::vector<uint32_t> made{add({}, 40)};
  for (uint32_t i = 0; i < kLayers; ++i) made.push_back(add({made.back()}, 20 + random.below(20)));
  uint32_t gradient = add({made.back()}, 1);
  for (uint32_t i = kLayers; i > 0; --i) {
    const uint32_t whole = add({made[i - 1], gradient}, i == kLayers ? 1000 : random.below(40));
    add({whole}, 0, true);
    gradient = add({made[i], gradient}, 1 + random.below(3));
  }
  std::vector<uint32_t> given(g.tasks.size());
  std::iota(given.begin(), given.end(), 0u);
  const Order found = schedule(g);
  CHECK(keeps_order(g, found.tasks));
  CHECK(found.peak < peak_bytes(g, given) * 3 / 5);
}
