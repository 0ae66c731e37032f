#include "support/hash.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

using namespace rlxc;

static std::string murmur(std::string_view s) {
  Hash128 h;
  h.update(bytes_of(s));
  return h.hex();
}

static std::string sha(std::string_view s) {
  Sha256 h;
  h.update(bytes_of(s));
  return h.hex();
}

static std::string random_text(size_t n) {
  std::mt19937_64 random(3);
  std::string s(n, '\0');
  for (char& c : s) c = static_cast<char>(random());
  return s;
}

TEST_CASE("Hash128 is MurmurHash3 x64 128") {
  CHECK(murmur("") == "00000000000000000000000000000000");
  CHECK(murmur("hello") == "cbd8a7b341bd9b025b1e906a48ae1d19");
  CHECK(murmur("The quick brown fox jumps over the lazy dog") == "e34bbc7bbc071b6c7a433ca9c49a9347");
}

TEST_CASE("Sha256 agrees with the vectors of FIPS 180-4") {
  CHECK(sha("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha1_hex agrees with the vectors of FIPS 180-4") {
  CHECK(sha1_hex({}) == "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  CHECK(sha1_hex(bytes_of("abc")) == "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK(sha1_hex(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  CHECK(sha1_hex(bytes_of(std::string(1000000, 'a'))) == "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST_CASE("hashes do not depend on how the bytes arrive") {
  const std::string text = random_text(300);
  for (size_t step : {1, 3, 7, 15, 16, 17, 63, 64, 65, 128}) {
    Hash128 m;
    Sha256 s;
    for (size_t i = 0; i < text.size(); i += step) {
      const auto piece = bytes_of(std::string_view(text).substr(i, step));
      m.update(piece);
      s.update(piece);
      m.update({});
      s.update({});
    }
    CHECK(m.hex() == murmur(text));
    CHECK(s.hex() == sha(text));
  }
}

TEST_CASE("the digest of a prefix is that of the prefix alone, and every length differs") {
  const std::string text = random_text(200);
  Hash128 m;
  Sha256 s;
  for (size_t i = 0; i < text.size(); ++i) {
    CHECK(m.hex() == murmur(text.substr(0, i)));
    CHECK(s.hex() == sha(text.substr(0, i)));
    m.update(bytes_of(text.substr(i, 1)));
    s.update(bytes_of(text.substr(i, 1)));
  }
}

TEST_CASE("a 64-bit word is its eight bytes, lowest first, wherever it falls") {
  for (size_t before = 0; before < 17; ++before) {
    const std::string start(before, 'x');
    std::string all = start;
    Hash128 u;
    u.update(bytes_of(start));
    for (int i = 0; i < 5; ++i) {
      u.update_u64(0x0123456789ABCDEFu);
      all += "\xEF\xCD\xAB\x89\x67\x45\x23\x01";
      CHECK(u.hex() == murmur(all));
    }
  }
}

TEST_CASE("the SHA instructions compute what the portable code does") {
  const std::string text = random_text(64 * 9);
  std::array<uint32_t, 8> a{1, 2, 3, 4, 5, 6, 7, 8}, b = a;
  detail::sha256_blocks_portable(a.data(), bytes_of(text).data(), 9);
  detail::sha256_blocks(b.data(), bytes_of(text).data(), 9);
  CHECK(a == b);
}
