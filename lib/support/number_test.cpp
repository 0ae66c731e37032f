#include "support/number.h"

#include <doctest/doctest.h>

#include <bit>
#include <charconv>
#include <limits>
#include <random>

using namespace rlxc;

TEST_CASE("numbers print shortest and read back") {
  CHECK(shortest(1.0) == "1");
  CHECK(shortest(0.1) == "0.1");
  CHECK(shortest(0.1f) == "0.1");
  CHECK(shortest(static_cast<double>(0.1f)) == "0.10000000149011612");
  CHECK(shortest(1e-5) == "1e-05");
  CHECK(shortest(-0.0) == "-0");
  CHECK(shortest(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(shortest(-std::numeric_limits<float>::infinity()) == "-inf");
  CHECK(shortest(-std::numeric_limits<double>::quiet_NaN()) == "nan");

  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto d = std::bit_cast<double>(random());
    const auto f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    double d2 = 0;
    float f2 = 0;
    const std::string ds = shortest(d), fs = shortest(f);
    REQUIRE(ds.size() <= kNumberChars);
    std::from_chars(ds.data(), ds.data() + ds.size(), d2);
    std::from_chars(fs.data(), fs.data() + fs.size(), f2);
    if (is_finite(d)) REQUIRE(std::bit_cast<uint64_t>(d2) == std::bit_cast<uint64_t>(d));
    if (is_finite(f)) REQUIRE(std::bit_cast<uint32_t>(f2) == std::bit_cast<uint32_t>(f));
  }
}

TEST_CASE("byte counts for people") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.0 KiB");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(15000000) == "14.3 MiB");
  CHECK(human_bytes(1024 * 1024 - 1) == "1.0 MiB");
  CHECK(human_bytes(uint64_t{32} << 30) == "32.0 GiB");
  CHECK(human_bytes(std::numeric_limits<uint64_t>::max()) == "16.0 EiB");
}
