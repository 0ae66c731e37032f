#include "support/line_diff.h"

#include <doctest/doctest.h>

#include <random>

#include "support/text.h"

using namespace rlxc;

namespace {

// Applies a unified diff: the result must equal the new text.
std::string patched(const std::string& before, const std::string& diff) {
  std::vector<std::string_view> from;
  if (!before.empty()) from = split(std::string_view(before).substr(0, before.size() - 1), '\n');
  std::string out;
  size_t at = 0;
  bool ok = true;
  for (std::string_view line : split(diff, '\n')) {
    if (line.starts_with("---") || line.starts_with("+++") || line.empty()) continue;
    if (line.starts_with("@@ -")) {
      const size_t comma = line.find_first_of(", ", 4);
      size_t first = std::stoul(std::string(line.substr(4, comma - 4)));
      if (!line.substr(comma).starts_with(",0")) --first;
      for (; at < first; ++at) out += std::string(from.at(at)) + "\n";
      continue;
    }
    if (line[0] == '+') {
      out += std::string(line.substr(1)) + "\n";
      continue;
    }
    ok = ok && from.at(at) == line.substr(1);
    if (line[0] == ' ') out += std::string(from[at]) + "\n";
    ++at;
  }
  CHECK(ok);
  for (; at < from.size(); ++at) out += std::string(from[at]) + "\n";
  return out;
}

}  // namespace

TEST_CASE("a unified diff shows a change with three lines around it") {
  CHECK(unified_diff("a\nb\n", "a\nb\n", "x", "y").empty());
  CHECK(unified_diff("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nfive\n6\n", "x", "y") ==
        "--- x\n+++ y\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n");
  CHECK(unified_diff("", "a\n", "x", "y") == "--- x\n+++ y\n@@ -0,0 +1 @@\n+a\n");
}

TEST_CASE("a unified diff of random texts gives the second text when it is applied to the first") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string a, b;
    const unsigned kinds = 2 + random() % 30;
    for (unsigned i = 0, n = random() % 60; i < n; ++i) {
      const std::string line = std::to_string(random() % kinds) + "\n";
      if (random() % 5) a += line;
      if (random() % 5) b += line;
    }
    CHECK(patched(a, unified_diff(a, b, "a", "b")) == b);
  }
}
