#include "support/inflate.h"

#include <zlib.h>

#include <algorithm>

namespace rlxc {
namespace {

using Packed = std::span<const std::byte>;

constexpr int kRaw = -MAX_WBITS, kGzip = MAX_WBITS + 16;  // window bits of zlib: the format

// Unpacks one stream. The output grows as it is written, so that a short stream takes little whatever the limit.
std::optional<std::string> unpack(Packed packed, int format, size_t limit, size_t* used) {
  z_stream z{};
  if (inflateInit2(&z, format) != Z_OK) return std::nullopt;
  constexpr size_t kPart = size_t{1} << 30;  // zlib counts in 32 bits
  std::string out;
  size_t read = 0, written = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (z.avail_in == 0) {
      z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
      z.avail_in = static_cast<uInt>(std::min(packed.size() - read, kPart));
      read += z.avail_in;
    }
    if (written == out.size()) out.resize(std::min(limit, std::max<size_t>(4096, 2 * out.size())));
    z.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    z.avail_out = static_cast<uInt>(std::min(out.size() - written, kPart));
    const uInt room = z.avail_out;
    status = ::inflate(&z, Z_NO_FLUSH);  // Z_BUF_ERROR: the input is cut, or the output beyond the limit
    written += room - z.avail_out;
  }
  if (used) *used = read - z.avail_in;
  inflateEnd(&z);
  out.resize(written);
  return status == Z_STREAM_END ? std::optional(std::move(out)) : std::nullopt;
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
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::optional<std::string> inflate(Packed packed, size_t limit, size_t* used) { return unpack(packed, kRaw, limit, used); }

bool is_gzip(Packed b) { return b.size() >= 18 && little(b, 0, 2) == 0x8b1f && b[2] == std::byte{8}; }

std::optional<std::string> gunzip(Packed b, size_t limit) {
  std::string all;
  while (is_gzip(b)) {
    size_t used = 0;
    const auto member = unpack(b, kGzip, limit - all.size(), &used);
    if (!member) return std::nullopt;
    all += *member;
    b = b.subspan(used);
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
  std::vector<std::pair<uint64_t, uint64_t>> places;
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
    places.emplace_back(local, begin + packed);
    out.push_back(std::move(e));
    at += 46 + name + little(b, at + 30, 2) + little(b, at + 32, 2);
  }
  std::ranges::sort(places);  // entries that share bytes would unpack to any size
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].first < places[i - 1].second) return std::nullopt;
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
