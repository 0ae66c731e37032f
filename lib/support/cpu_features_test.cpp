#include "support/cpu_features.h"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

using namespace rlxc;

#if defined(__x86_64__) && defined(__linux__)
TEST_CASE("sets of instructions are those that the kernel lists") {
  std::ifstream in("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; flags.empty() && std::getline(in, line);)
    if (line.starts_with("flags")) {
      std::istringstream words(line);
      for (std::string word; words >> word;) flags.insert(word);
    }
  REQUIRE(flags.contains("sse2"));
  CHECK(has_avx2() == flags.contains("avx2"));
  CHECK(has_avx512f() == flags.contains("avx512f"));
  CHECK(has_avx512_bf16() == flags.contains("avx512_bf16"));
  CHECK(has_vnni() == flags.contains(flags.contains("avx512f") ? "avx512_vnni" : "avx_vnni"));
  CHECK(has_fma() == flags.contains("fma"));
  CHECK(has_sha() == (flags.contains("sha_ni") && flags.contains("sse4_1")));
}
#endif
