#include "support/inflate.h"

#include <doctest/doctest.h>

#include "support/text.h"

using namespace rlxc;

namespace {

std::vector<std::byte> bytes(std::initializer_list<int> v) {
  std::vector<std::byte> out;
  for (int b : v) out.push_back(static_cast<std::byte>(b));
  return out;
}

// "abc" 16 times by gzip -9: a fixed code with copies.
std::vector<std::byte> packed() {
  return bytes({31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 75, 76, 74, 78, 36, 5, 1, 0, 210, 115, 192, 208, 48, 0, 0, 0});
}

}  // namespace

TEST_CASE("gzip files are unpacked") {
  const auto b = packed();
  CHECK(is_gzip(b));
  std::string want;
  for (int i = 0; i < 16; ++i) want += "abc";
  CHECK(gunzip(b, 1000) == want);
  CHECK(gunzip(b, 48) == want);
  CHECK_FALSE(gunzip(b, 47));  // too long
  auto two = b;
  two.insert(two.end(), b.begin(), b.end());
  CHECK(gunzip(two, 1000) == want + want);
}

TEST_CASE("damaged streams are refused") {
  const auto b = packed();
  for (size_t cut = 0; cut < b.size(); ++cut) CHECK_FALSE(gunzip(std::span(b).first(cut), 1000));
  for (size_t i = 10; i < b.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      auto damaged = b;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      const auto got = gunzip(damaged, 1000);
      CHECK((!got || got == gunzip(b, 1000)));  // some bits are never read
    }
  CHECK_FALSE(inflate(bytes({7}), 10));              // block kind 3
  CHECK_FALSE(inflate(bytes({1, 5, 0, 0, 0}), 10));  // a stored length without its complement
  CHECK(inflate(bytes({1, 2, 0, 253, 255, 'h', 'i'}), 10) == "hi");
  CHECK_FALSE(inflate(bytes({3, 2}), 10));  // a copy from before the start
}

TEST_CASE("zip archives list and give their files") {
  const auto b =
      bytes({80,  75, 3,  4,   20,  0,   0,  0,   0,   0,   0,   0,   33,  0,   134, 166, 16,  54,  5,   0,  0,  0,   5,
             0,   0,  0,  5,   0,   0,   0,  97,  46,  116, 120, 116, 104, 101, 108, 108, 111, 80,  75,  3,  4,  20,  0,
             0,   0,  8,  0,   0,   0,   33, 0,   210, 115, 192, 208, 8,   0,   0,   0,   48,  0,   0,   0,  5,  0,   0,
             0,   98, 46, 116, 120, 116, 75, 76,  74,  78,  36,  5,   1,   0,   80,  75,  1,   2,   20,  3,  20, 0,   0,
             0,   0,  0,  0,   0,   33,  0,  134, 166, 16,  54,  5,   0,   0,   0,   5,   0,   0,   0,   5,  0,  0,   0,
             0,   0,  0,  0,   0,   0,   0,  0,   128, 1,   0,   0,   0,   0,   97,  46,  116, 120, 116, 80, 75, 1,   2,
             20,  3,  20, 0,   0,   0,   8,  0,   0,   0,   33,  0,   210, 115, 192, 208, 8,   0,   0,   0,  48, 0,   0,
             0,   5,  0,  0,   0,   0,   0,  0,   0,   0,   0,   0,   0,   128, 1,   40,  0,   0,   0,   98, 46, 116, 120,
             116, 80, 75, 5,   6,   0,   0,  0,   0,   2,   0,   2,   0,   102, 0,   0,   0,   83,  0,   0,  0,  0,   0});
  REQUIRE(is_zip(b));
  const auto entries = zip_entries(b);
  REQUIRE(entries);
  REQUIRE(entries->size() == 2);
  CHECK((*entries)[0].name == "a.txt");
  CHECK(unzip((*entries)[0], 100) == "hello");
  std::string want;
  for (int i = 0; i < 16; ++i) want += "abc";
  CHECK((*entries)[1].method == 8);
  CHECK(unzip((*entries)[1], 100) == want);
  CHECK_FALSE(unzip((*entries)[1], 10));
  for (size_t cut = 0; cut < b.size(); ++cut) zip_entries(std::span(b).first(cut));
}
