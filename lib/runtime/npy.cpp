#include "runtime/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "support/checked.h"
#include "support/inflate.h"
#include "support/mapped_file.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct ArrayKind {
  DType dtype;
  std::string_view descr;
};
constexpr ArrayKind kArrayKinds[] = {{DType::F32, "f4"}, {DType::F64, "f8"},   {DType::F16, "f2"}, {DType::I8, "i1"},
                                     {DType::I16, "i2"}, {DType::I32, "i4"},   {DType::I64, "i8"}, {DType::U8, "u1"},
                                     {DType::U16, "u2"}, {DType::U32, "u4"},   {DType::U64, "u8"}, {DType::Bool, "b1"},
                                     {DType::C64, "c8"}, {DType::C128, "c16"}, {DType::BF16, "V2"}};

std::string_view text_of(std::span<const std::byte> b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

// The value of a key of the header, a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
std::string_view header_value(std::string_view header, std::string_view key) {
  const size_t at = header.find("'" + std::string(key) + "'");
  const size_t colon = at == header.npos ? at : header.find(':', at);
  return colon == header.npos ? std::string_view() : trim(header.substr(colon + 1));
}

std::optional<std::vector<int64_t>> shape_of(std::string_view s) {
  if (!s.starts_with('(') || s.find(')') == s.npos) return std::nullopt;
  std::vector<int64_t> dims;
  for (std::string_view item : split(s.substr(1, s.find(')') - 1), ',')) {
    item = trim(item);
    if (item.empty()) continue;
    int64_t n = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), n);
    if (error != std::errc() || end != item.data() + item.size() || n < 0) return std::nullopt;
    dims.push_back(n);
  }
  return dims;
}

void append_utf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  *out += static_cast<char>((0xFF00u >> (more + 1) & 0xFF) | c >> (6 * more));
  for (int i = more - 1; i >= 0; --i) *out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}

// The number of code points of the elements of a type such as U12.
std::optional<size_t> characters_of(std::string_view descr) {
  constexpr size_t kMost = 1 << 20;
  size_t n = 0;
  if (!descr.starts_with('U')) return std::nullopt;
  const auto [end, error] = std::from_chars(descr.data() + 1, descr.data() + descr.size(), n);
  return error == std::errc() && end == descr.data() + descr.size() && n > 0 && n < kMost ? std::optional(n) : std::nullopt;
}

// Elements of `width` code points of 32 bits, padded by zeros.
std::vector<std::string> strings_of(std::span<const std::byte> b, size_t width, int64_t count) {
  std::vector<std::string> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t k = 0; k < width; ++k) {
      uint32_t c = 0;
      std::memcpy(&c, b.data() + 4 * (i * width + k), 4);
      if (c == 0 || c > 0x10FFFF) break;
      append_utf8(c, &out[i]);
    }
  return out;
}

// Elements in column-major order, moved to row-major order.
std::vector<std::byte> row_major(std::span<const std::byte> b, std::span<const int64_t> dims, size_t width) {
  std::vector<std::byte> out(b.size());
  std::vector<int64_t> index(dims.size());
  for (size_t to = 0; to + width <= b.size(); to += width) {
    int64_t from = 0;
    for (size_t a = dims.size(); a-- > 0;) from = from * dims[a] + index[a];
    std::memcpy(out.data() + to, b.data() + static_cast<size_t>(from) * width, width);
    for (size_t a = dims.size(); a-- > 0 && ++index[a] == dims[a];) index[a] = 0;
  }
  return out;
}

void append_number(std::string* out, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; ++i) *out += static_cast<char>(v >> (8 * i));
}

uint64_t number_at(std::span<const std::byte> b, size_t at, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; ++i) v |= static_cast<uint64_t>(b[at + static_cast<size_t>(i)]) << (8 * i);
  return v;
}

// A type that NumPy has, with the same values.
TensorData widened(const TensorData& t) {
  const auto known = [&](const ArrayKind& k) { return k.dtype == t.dtype && k.dtype != DType::BF16; };
  const bool splat = t.splat && t.dtype != DType::String;
  if (!splat && (t.dtype == DType::String || std::ranges::any_of(kArrayKinds, known))) return t;
  const DType to = std::ranges::any_of(kArrayKinds, known) ? t.dtype : is_float(t.dtype) ? DType::F32 : DType::I8;
  std::vector<std::byte> bytes;
  for (int64_t i = 0, n = t.elements(); i < n; ++i) {
    const std::vector<std::byte> element = splat && to == t.dtype ? std::vector<std::byte>(t.bytes.begin(), t.bytes.end())
                                                                  : element_bytes(to, element_as_double(t, i));
    bytes.insert(bytes.end(), element.begin(), element.end());
  }
  return make_data(to, t.dims, bytes);
}

// The bytes of an array: code points of 32 bits for strings, of which UTF-8 that is malformed becomes bytes.
std::string contents_of(const TensorData& t, size_t width) {
  if (t.dtype != DType::String) return std::string(text_of(t.bytes));
  std::string out;
  for (const std::string& s : t.strings) {
    size_t n = 0;
    for (std::string_view rest = s; !rest.empty(); ++n) {
      const int step = utf8_step(rest);
      uint32_t c = static_cast<unsigned char>(rest[0]);
      if (step > 1) c &= 0x7Fu >> step;
      for (int i = 1; i < step; ++i) c = c << 6 | (static_cast<unsigned char>(rest[static_cast<size_t>(i)]) & 0x3F);
      append_number(&out, c, 4);
      rest.remove_prefix(static_cast<size_t>(std::max(step, 1)));
    }
    out.append(4 * (width - n), '\0');
  }
  return out;
}

size_t code_points(const std::string& s) {
  size_t n = 0;
  for (std::string_view rest = s; !rest.empty(); ++n) rest.remove_prefix(static_cast<size_t>(std::max(utf8_step(rest), 1)));
  return n;
}

}  // namespace

std::optional<TensorData> parse_npy(std::span<const std::byte> file, const std::string& where, Diagnostics& d) {
  const auto bad = [&](const std::string& why, const std::string& help = {}) {
    d.error(Code::BadTensor, why, where, help);
    return std::nullopt;
  };
  if (file.size() < 12 || !text_of(file).starts_with(kMagic)) return bad("it is not an array of NumPy, or it is cut short");
  const int wide = number_at(file, 6, 1) > 1 ? 4 : 2;
  const uint64_t begin = 8 + static_cast<uint64_t>(wide), length = number_at(file, 8, wide);
  if (length > file.size() - begin) return bad("its header is cut short");
  const std::string_view header = text_of(file.subspan(begin, length));
  const auto dims = shape_of(header_value(header, "shape"));
  const int64_t count = dims ? checked_product(*dims).value_or(-1) : -1;
  std::string_view descr = header_value(header, "descr");
  if (count < 0 || !descr.starts_with('\'') || descr.find('\'', 1) == descr.npos || descr.size() < 4)
    return bad("its header is malformed", "arrays of records are not read");
  descr = descr.substr(1, descr.find('\'', 1) - 1);
  if (descr.empty()) return bad("its header is malformed", "the type of its elements is missing");
  if (descr.starts_with('>')) return bad("its elements are big-endian", "save array.astype(array.dtype.newbyteorder('<'))");
  descr.remove_prefix(1);
  const bool columns = header_value(header, "fortran_order").starts_with("True");
  const auto kind = std::ranges::find(kArrayKinds, descr, &ArrayKind::descr);
  size_t width = 0;
  if (kind != std::end(kArrayKinds)) width = static_cast<size_t>(bits(kind->dtype)) / 8;
  else if (const auto characters = characters_of(descr)) width = 4 * *characters;
  else return bad("elements of the type " + quote(descr) + " are not read", "save numbers, bools or strings");
  const std::span<const std::byte> body = file.subspan(begin + length);
  const auto bytes = checked_mul(count, static_cast<int64_t>(width));
  if (!bytes || static_cast<uint64_t>(*bytes) != body.size())
    return bad("it has " + std::to_string(body.size()) + " bytes of elements, its header another number");
  std::vector<std::byte> ordered;
  if (columns && dims->size() > 1) ordered = row_major(body, *dims, width);
  const std::span<const std::byte> elements = ordered.empty() ? body : std::span<const std::byte>(ordered);
  if (kind != std::end(kArrayKinds)) return make_data(kind->dtype, *dims, elements);
  TensorData out;
  out.dtype = DType::String;
  out.dims = *dims;
  out.strings = strings_of(elements, width / 4, count);
  return out;
}

std::optional<TensorData> read_npy(const std::string& path, Diagnostics& d) {
  const auto file = open_model_file(path, d);
  return file ? parse_npy(file->bytes(), quote(path), d) : std::nullopt;
}

std::optional<NamedArrays> read_npz(const std::string& path, Diagnostics& d) {
  const auto file = open_model_file(path, d);
  if (!file) return std::nullopt;
  const auto bad = [&](const std::string& why, const std::string& help = {}) {
    d.error(Code::BadTensor, why, quote(path), help);
    return std::nullopt;
  };
  const std::span<const std::byte> bytes = file->bytes();
  const auto entries = zip_entries(bytes);
  if (!entries)
    return bad("it is not an archive of NumPy, is damaged, has entries that overlap, or arrays of 4 GiB or more",
               "save large arrays with numpy.save");
  size_t left = most_unpacked(bytes.size());
  NamedArrays out;
  for (const ZipEntry& e : *entries) {
    if (!e.name.ends_with(".npy")) continue;
    const std::string name = e.name.substr(0, e.name.size() - 4);
    const auto contents = unzip(e, left);
    if (!contents) return bad("the array " + quote(name) + " is damaged, or unpacks to much more than the size of the archive");
    left -= contents->size();
    auto array = parse_npy(std::as_bytes(std::span(*contents)), quote(path) + ", array " + quote(name), d);
    if (!array) return std::nullopt;
    out.emplace_back(name, std::move(*array));
  }
  return out;
}

std::string npy_bytes(const TensorData& given) {
  const TensorData t = widened(given);
  size_t width = 1;
  for (const std::string& s : t.strings) width = std::max(width, code_points(s));
  const auto kind = std::ranges::find(kArrayKinds, t.dtype, &ArrayKind::dtype);
  const std::string descr =
      t.dtype == DType::String ? "<U" + std::to_string(width) : (bits(t.dtype) == 8 ? "|" : "<") + std::string(kind->descr);
  std::string shape;
  for (int64_t n : t.dims) shape += std::to_string(n) + (t.dims.size() == 1 ? "," : ", ");
  if (t.dims.size() > 1) shape.resize(shape.size() - 2);
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(64 - (kMagic.size() + 4 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string out(kMagic);
  out += {'\1', '\0'};
  append_number(&out, header.size(), 2);
  return out + header + contents_of(t, width);
}

std::string npz_bytes(const NamedArrays& arrays) {
  std::string out, directory;
  for (const auto& [array_name, data] : arrays) {
    const std::string body = npy_bytes(data), name = array_name + ".npy";
    const size_t local = out.size();
    std::string common;
    append_number(&common, 20, 2);          // version
    append_number(&common, 0x800, 2);       // names are UTF-8
    append_number(&common, 0, 2);           // stored
    append_number(&common, 0x00210000, 4);  // 1980-01-01
    append_number(&common, crc32(body), 4);
    append_number(&common, body.size(), 4);
    append_number(&common, body.size(), 4);
    append_number(&common, name.size(), 2);
    append_number(&common, 0, 2);
    out += "PK\3\4" + common + name + body;
    directory += "PK\1\2";
    append_number(&directory, 20, 2);
    directory += common;
    directory.append(10, '\0');
    append_number(&directory, local, 4);
    directory += name;
  }
  const size_t begin = out.size();
  out += directory + "PK\5\6";
  append_number(&out, 0, 4);
  append_number(&out, arrays.size(), 2);
  append_number(&out, arrays.size(), 2);
  append_number(&out, directory.size(), 4);
  append_number(&out, begin, 4);
  append_number(&out, 0, 2);
  return out;
}

}  // namespace rlxc
