// The deflate format (RFC 1951) by zlib, and the gzip and zip files that hold it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlxc {

// Unpacks a deflate stream. Returns nullopt if it is damaged or longer than `limit` bytes. `used`: the length of the stream.
// Linear in the number of bytes unpacked.
std::optional<std::string> inflate(std::span<const std::byte> packed, size_t limit, size_t* used = nullptr);

// The most bytes to which a file of this size may unpack: a small file cannot take all memory. Weights hardly shrink, and text
// shrinks to a tenth or so.
size_t most_unpacked(size_t packed);

// The contents of a gzip file (RFC 1952) of one or more members, whose sums are checked.
bool is_gzip(std::span<const std::byte>);
std::optional<std::string> gunzip(std::span<const std::byte>, size_t limit);

// The files of a zip archive without encryption and of at most 4 GiB.
struct ZipEntry {
  std::string name;
  uint16_t method = 0;  // 0: stored, 8: deflate
  uint32_t sum = 0;     // CRC-32
  uint64_t size = 0;
  std::span<const std::byte> packed;
};
bool is_zip(std::span<const std::byte>);
std::optional<std::vector<ZipEntry>> zip_entries(std::span<const std::byte>);  // nullopt if damaged, or if entries overlap
std::optional<std::string> unzip(const ZipEntry&, size_t limit);
uint32_t crc32(std::string_view bytes);  // the sum that gzip and zip files have

}  // namespace rlxc
