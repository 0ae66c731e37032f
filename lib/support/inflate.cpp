#include "support/inflate.h"

#include <algorithm>
#include <array>

namespace rlxc {
namespace {

using Packed = std::span<const std::byte>;

// Bits of a stream, lowest first. Reads zeros beyond the end, and says so.
class BitReader {
 public:
  explicit BitReader(Packed b) : bytes_(b) {}

  uint32_t take(int count) {
    while (held_ < count) {
      if (at_ < bytes_.size()) word_ |= static_cast<uint64_t>(bytes_[at_]) << held_;
      else ++missing_;
      ++at_;
      held_ += 8;
    }
    const auto v = static_cast<uint32_t>(word_ & ((uint64_t{1} << count) - 1));
    word_ >>= count;
    held_ -= count;
    return v;
  }
  void to_byte() { take(held_ % 8); }
  bool beyond() const { return missing_ > static_cast<size_t>(held_ / 8); }
  size_t used() const { return std::min(at_ - static_cast<size_t>(held_ / 8), bytes_.size()); }

 private:
  Packed bytes_;
  size_t at_ = 0, missing_ = 0;
  uint64_t word_ = 0;
  int held_ = 0;
};

constexpr int kLongest = 15;

// A canonical Huffman code: the symbols by length and value.
class PrefixCode {
 public:
  // Returns false if the lengths are no code.
  bool set(std::span<const uint8_t> lengths) {
    count_.fill(0);
    for (uint8_t n : lengths) ++count_[n];
    count_[0] = 0;
    int left = 1;
    for (int n = 1; n <= kLongest; ++n) {
      left = 2 * left - count_[static_cast<size_t>(n)];
      if (left < 0) return false;
    }
    std::array<int, kLongest + 1> next{};
    for (size_t n = 1; n < kLongest; ++n) next[n + 1] = next[n] + count_[n];
    symbols_.assign(lengths.size(), 0);
    for (size_t s = 0; s < lengths.size(); ++s)
      if (lengths[s] != 0) symbols_[static_cast<size_t>(next[lengths[s]]++)] = static_cast<uint16_t>(s);
    return true;
  }

  // The next symbol, or -1.
  int read(BitReader& r) const {
    int code = 0, first = 0, index = 0;
    for (size_t n = 1; n <= kLongest; ++n) {
      code |= static_cast<int>(r.take(1));
      const int count = count_[n];
      if (code - count < first) return symbols_[static_cast<size_t>(index + code - first)];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    return -1;
  }

 private:
  std::array<int, kLongest + 1> count_{};
  std::vector<uint16_t> symbols_;
};

struct Codes {
  PrefixCode literals, distances;
};

bool fixed_codes(Codes* c) {
  std::array<uint8_t, 288> lengths{};
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  std::array<uint8_t, 30> distances;
  distances.fill(5);
  return c->literals.set(lengths) && c->distances.set(distances);
}

bool read_codes(BitReader& r, Codes* c) {
  const size_t literals = r.take(5) + 257, distances = r.take(5) + 1, count = r.take(4) + 4;
  constexpr std::array<uint8_t, 19> kOrder{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  std::array<uint8_t, 19> lengths{};
  for (size_t i = 0; i < count; ++i) lengths[kOrder[i]] = static_cast<uint8_t>(r.take(3));
  PrefixCode of_lengths;
  if (literals > 286 || !of_lengths.set(lengths)) return false;
  std::vector<uint8_t> all;
  while (all.size() < literals + distances) {
    const int symbol = of_lengths.read(r);
    if (symbol < 0 || r.beyond() || (symbol == 16 && all.empty())) return false;
    if (symbol < 16) {
      all.push_back(static_cast<uint8_t>(symbol));
      continue;
    }
    const uint8_t value = symbol == 16 ? all.back() : 0;
    const size_t repeat = symbol == 16 ? 3 + r.take(2) : symbol == 17 ? 3 + r.take(3) : 11 + r.take(7);
    all.insert(all.end(), repeat, value);
  }
  if (all.size() > literals + distances || all[256] == 0) return false;
  const std::span<const uint8_t> lengths_of(all);
  return c->literals.set(lengths_of.first(literals)) && c->distances.set(lengths_of.subspan(literals));
}

// Appends the literals and copies of a block.
bool read_block(BitReader& r, const Codes& c, size_t limit, std::string* out) {
  constexpr std::array<uint16_t, 29> kLength{3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                             31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  constexpr std::array<uint8_t, 29> kLengthBits{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  constexpr std::array<uint16_t, 30> kDistance{1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                               33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                               1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  while (true) {
    const int symbol = c.literals.read(r);
    if (symbol < 0 || r.beyond()) return false;
    if (symbol == 256) return true;
    if (symbol < 256) {
      if (out->size() == limit) return false;
      out->push_back(static_cast<char>(symbol));
      continue;
    }
    const auto row = static_cast<size_t>(symbol - 257);
    if (row >= kLength.size()) return false;
    const size_t length = kLength[row] + r.take(kLengthBits[row]);
    const int place = c.distances.read(r);
    if (place < 0 || place >= static_cast<int>(kDistance.size())) return false;
    const size_t distance = kDistance[static_cast<size_t>(place)] + r.take(place < 4 ? 0 : place / 2 - 1);
    if (r.beyond() || distance > out->size() || length > limit - out->size()) return false;
    for (size_t i = 0, from = out->size() - distance; i < length; ++i) out->push_back((*out)[from + i]);
  }
}

uint64_t little(Packed b, size_t at, size_t bytes) {
  uint64_t v = 0;
  for (size_t i = 0; i < bytes && at + i < b.size(); ++i) v |= static_cast<uint64_t>(b[at + i]) << (8 * i);
  return v;
}

}  // namespace

size_t most_unpacked(size_t packed) {
  constexpr size_t kLeast = size_t{1} << 30, kMost = size_t{1} << 34, kTimes = 100;
  return std::clamp(std::min(packed, kMost) * kTimes, kLeast, kMost);
}

uint32_t crc32(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int k = 0; k < 8; ++k) t[i] = t[i] & 1 ? 0xedb88320 ^ (t[i] >> 1) : t[i] >> 1;
    }
    return t;
  }();
  uint32_t sum = 0xffffffff;
  for (char c : bytes) sum = table[(sum ^ static_cast<uint8_t>(c)) & 255] ^ (sum >> 8);
  return ~sum;
}

std::optional<std::string> inflate(Packed packed, size_t limit, size_t* used) {
  BitReader r(packed);
  std::string out;
  for (bool last = false; !last;) {
    last = r.take(1) != 0;
    const uint32_t kind = r.take(2);
    if (kind == 0) {
      r.to_byte();
      const uint32_t length = r.take(16), inverse = r.take(16);
      if (length != (~inverse & 0xffff) || r.beyond() || length > limit - out.size()) return std::nullopt;
      for (uint32_t i = 0; i < length; ++i) out.push_back(static_cast<char>(r.take(8)));
      if (r.beyond()) return std::nullopt;
      continue;
    }
    Codes c;
    if (kind == 3 || !(kind == 1 ? fixed_codes(&c) : read_codes(r, &c)) || !read_block(r, c, limit, &out)) return std::nullopt;
  }
  r.to_byte();
  if (used) *used = r.used();
  return out;
}

bool is_gzip(Packed b) { return b.size() >= 18 && little(b, 0, 2) == 0x8b1f && b[2] == std::byte{8}; }

std::optional<std::string> gunzip(Packed b, size_t limit) {
  std::string all;
  while (is_gzip(b)) {
    const auto flags = static_cast<uint8_t>(b[3]);
    size_t at = 10;
    if (flags & 4) at += 2 + little(b, at, 2);
    for (const uint8_t text : {8, 16})  // name, comment
      if (flags & text) {
        while (at < b.size() && b[at] != std::byte{0}) ++at;
        ++at;
      }
    if (flags & 2) at += 2;
    if (at > b.size()) return std::nullopt;
    size_t used = 0;
    const auto member = inflate(b.subspan(at), limit - all.size(), &used);
    at += used;
    if (!member || b.size() - at < 8 || little(b, at, 4) != crc32(*member)) return std::nullopt;
    all += *member;
    b = b.subspan(at + 8);
  }
  return b.empty() && !all.empty() ? std::optional(std::move(all)) : std::nullopt;
}

bool is_zip(Packed b) { return b.size() >= 22 && little(b, 0, 4) == 0x04034b50; }

std::optional<std::vector<ZipEntry>> zip_entries(Packed b) {
  // The end of the directory is within the last 64 KiB, before a comment.
  size_t end = b.size();
  for (size_t back = 22; back <= std::min<size_t>(b.size(), 22 + 65535); ++back)
    if (little(b, b.size() - back, 4) == 0x06054b50) {
      end = b.size() - back;
      break;
    }
  if (end == b.size()) return std::nullopt;
  const uint64_t count = little(b, end + 10, 2);
  uint64_t at = little(b, end + 16, 4);
  std::vector<ZipEntry> out;
  for (uint64_t i = 0; i < count; ++i) {
    if (at + 46 > b.size() || little(b, at, 4) != 0x02014b50) return std::nullopt;
    const uint64_t packed = little(b, at + 20, 4), name = little(b, at + 28, 2), local = little(b, at + 42, 4);
    ZipEntry e;
    e.method = static_cast<uint16_t>(little(b, at + 10, 2));
    e.sum = static_cast<uint32_t>(little(b, at + 16, 4));
    e.size = little(b, at + 24, 4);
    if (at + 46 + name > b.size() || local + 30 > b.size() || (little(b, at + 8, 2) & 1) != 0) return std::nullopt;
    e.name.assign(reinterpret_cast<const char*>(b.data()) + at + 46, name);
    const uint64_t begin = local + 30 + little(b, local + 26, 2) + little(b, local + 28, 2);
    if (begin > b.size() || packed > b.size() - begin) return std::nullopt;
    e.packed = b.subspan(begin, packed);
    out.push_back(std::move(e));
    at += 46 + name + little(b, at + 30, 2) + little(b, at + 32, 2);
  }
  return out;
}

std::optional<std::string> unzip(const ZipEntry& e, size_t limit) {
  std::optional<std::string> out;
  if (e.method == 8) out = inflate(e.packed, limit);
  else if (e.method == 0 && e.packed.size() <= limit)
    out.emplace(reinterpret_cast<const char*>(e.packed.data()), e.packed.size());
  return out && out->size() == e.size && crc32(*out) == e.sum ? out : std::nullopt;
}

}  // namespace rlxc
