// Golden files: reviewed output of the program. `scripts/bless` rewrites them.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/source_dir.h"

namespace rlxc::test {

inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t n = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return lines;
}

// Returns the differing middle of two texts, with three lines of context, as a unified diff of one hunk with at most 40 lines per
// side.
inline std::string small_diff(std::string_view expected, std::string_view actual) {
  constexpr size_t kContext = 3, kMost = 40;
  const std::vector<std::string_view> a = lines_of(expected), b = lines_of(actual);
  const size_t shorter = std::min(a.size(), b.size());
  size_t start = 0, end = 0;
  while (start < shorter && a[start] == b[start]) ++start;
  while (end < shorter - start && a[a.size() - 1 - end] == b[b.size() - 1 - end]) ++end;
  const size_t first = start - std::min(start, kContext);
  std::string out = "@@ line " + std::to_string(start + 1) + " @@\n";
  const auto add = [&](char mark, std::string_view line) {
    (out += mark) += line;
    if (!line.ends_with('\n')) out += "\n\\ no line feed at the end\n";
  };
  const auto add_side = [&](char mark, const std::vector<std::string_view>& side) {
    const size_t last = side.size() - end;
    for (size_t i = start; i < std::min(last, start + kMost); ++i) add(mark, side[i]);
    if (last > start + kMost) out += std::string(1, mark) + "... " + std::to_string(last - start - kMost) + " more lines\n";
  };
  for (size_t i = first; i < start; ++i) add(' ', a[i]);
  add_side('-', a);
  add_side('+', b);
  for (size_t i = a.size() - end; i < std::min(a.size(), a.size() - end + kContext); ++i) add(' ', a[i]);
  return out;
}

// Fails the test unless `text` equals the content of tests/golden/`path`. With RLXC_BLESS=1 in the environment, rewrites the file
// instead.
inline void check_golden(const std::string& path, std::string_view text) {
  const std::filesystem::path file = std::filesystem::path(source_dir()) / "tests/golden" / path;
  const char* bless = std::getenv("RLXC_BLESS");
  const bool rewrite = bless && std::string_view(bless) == "1";
  std::ifstream in(file, std::ios::binary);
  const bool exists = in.is_open();
  const std::string expected{std::istreambuf_iterator<char>(in), {}};
  if (exists && expected == text) return;
  if (rewrite) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.close();
    if (!out) FAIL_CHECK("cannot write " << file.string());
    return;
  }
  if (!exists) FAIL_CHECK("tests/golden/" << path << " does not exist; `scripts/bless` writes it");
  else FAIL_CHECK("tests/golden/" << path << " differs (- golden, + now):\n" << small_diff(expected, text));
}

}  // namespace rlxc::test
