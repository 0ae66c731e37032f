// Literals: dense<1>, dense<[[1.5, 0x7FC00000], [-2.0, 3.0]]>, dense<"0x0000803F...">.
#include <bit>
#include <charconv>
#include <cstring>

#include "import/stablehlo/importer.h"
#include "support/checked.h"
#include "support/saturate.h"
#include "support/text.h"

namespace rlxc::stablehlo_import {
namespace {

constexpr int64_t kMostRepeated = 4096;  // integers of an attribute that a literal of one number gives

std::optional<uint64_t> hexadecimal(std::string_view digits) {
  uint64_t v = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v, 16);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  return v;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// One element, each in whole bytes: 4-bit integers have a byte.
bool append_element(std::string_view s, DType t, std::vector<std::byte>* out) {
  if (s == "true" || s == "false") {
    if (t != DType::Bool) return false;
    out->push_back(static_cast<std::byte>(s == "true"));
    return true;
  }
  const size_t width = static_cast<size_t>(std::max(bits(t), 8)) / 8;
  const auto append_bits = [&](uint64_t v) {
    for (size_t i = 0; i < width; ++i) out->push_back(static_cast<std::byte>(v >> (8 * i)));
  };
  if (is_float(t)) {
    if (s.starts_with("0x") || s.starts_with("0X")) {
      const auto v = hexadecimal(s.substr(2));
      if (!v || (width < 8 && *v >> (8 * width)) != 0) return false;
      append_bits(*v);
      return true;
    }
    double v = 0;
    if (s.starts_with('+')) s.remove_prefix(1);
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (end != s.data() + s.size() || s.empty() || error == std::errc::invalid_argument) return false;
    if (error == std::errc::result_out_of_range) v = 0;  // a subnormal that is too small
    if (t == DType::F32) {                               // rounded once
      float f = 0;
      if (std::from_chars(s.data(), s.data() + s.size(), f).ec == std::errc()) v = static_cast<double>(f);
    }
    const auto bytes = element_bytes(t, v);
    out->insert(out->end(), bytes.begin(), bytes.end());
    return true;
  }
  uint64_t v = 0;
  if (s.starts_with("0x")) {
    const auto given = hexadecimal(s.substr(2));
    if (!given) return false;
    v = *given;
  } else if (s.starts_with('-')) {
    int64_t n = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
    if (error != std::errc() || end != s.data() + s.size()) return false;
    v = static_cast<uint64_t>(n);
  } else {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (error != std::errc() || end != s.data() + s.size()) return false;
  }
  if (t == DType::Bool) v = v != 0;
  const int n = bits(t);
  const auto top = static_cast<int64_t>(v);
  if (n < 64) {
    const bool fits = s.starts_with('-') ? top >= -(int64_t{1} << (n - 1)) : (v >> n) == 0;
    if (!fits) return false;
  }
  append_bits(v);
  return true;
}

std::vector<std::byte> packed(std::span<const std::byte> wide, DType t) {
  const auto n = static_cast<size_t>(bits(t)), per = 8 / n;
  std::vector<std::byte> out((wide.size() + per - 1) / per);
  for (size_t i = 0; i < wide.size(); ++i)
    out[i / per] |= (wide[i] & static_cast<std::byte>((1U << n) - 1)) << static_cast<int>(n * (i % per));
  return out;
}

TensorData made(DType t, const Ints& dims, std::vector<std::byte> wide, bool splat) {
  if (bits(t) < 8) wide = packed(wide, t);
  return splat ? make_splat(t, dims, wide) : make_data(t, dims, wide);
}

}  // namespace

std::optional<TensorData> read_literal(std::string_view text, DType t, const Ints& dims, std::string* message) {
  const auto bad = [&](std::string why) {
    *message = std::move(why);
    return std::nullopt;
  };
  const auto count = checked_product(dims);
  if (!count || *count > Dim::kMax) return bad("the type is too large");
  if (is_complex(t) || t == DType::String) return bad("literals of complex numbers and strings are not read");
  text = trim(text);
  std::vector<std::byte> bytes;
  if (text.starts_with('"')) {  // a string of bytes
    text = text.substr(1, text.size() < 2 ? 0 : text.size() - 2);
    if (!text.starts_with("0x") || text.size() % 2) return bad("the string is not \"0x\" and pairs of digits");
    text.remove_prefix(2);
    bytes.reserve(text.size() / 2);
    for (size_t i = 0; i < text.size(); i += 2) {
      const int high = digit(text[i]), low = digit(text[i + 1]);
      if (high < 0 || low < 0) return bad("the string has a character that is no digit");
      bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
    const auto n = static_cast<uint64_t>(*count), width = static_cast<uint64_t>(std::max(bits(t), 8)) / 8;
    if (t == DType::Bool && n != 1 && bytes.size() != n && bytes.size() == (n + 7) / 8) {  // a bit each
      std::vector<std::byte> wide;
      for (uint64_t i = 0; i < n; ++i) wide.push_back((bytes[i / 8] >> static_cast<int>(i % 8)) & std::byte{1});
      bytes = std::move(wide);
    }
    const bool splat = bytes.size() == width && n != 1;
    if (!splat && bytes.size() / width != n) return bad("it has " + std::to_string(bytes.size()) + " bytes");
    if (!splat && bytes.size() % width) return bad("it has " + std::to_string(bytes.size()) + " bytes");
    if (t == DType::Bool)
      for (std::byte& x : bytes) x = static_cast<std::byte>(x != std::byte{0});
    return made(t, dims, std::move(bytes), splat);
  }
  if (text.empty())
    return *count == 0 ? std::optional(make_data(t, dims, std::span<const std::byte>())) : bad("it has no element");
  const bool list = text.starts_with('[');
  int64_t elements = 0;
  int depth = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '[' || c == ']') {
      depth += c == '[' ? 1 : -1;
      if (depth < 0) return bad("its brackets do not match");
      ++at;
    } else if (c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at;
    } else {
      const size_t end = std::min(text.find_first_of(",[] \n\t\r", at), text.size());
      const std::string_view element = text.substr(at, end - at);
      if (!append_element(element, t, &bytes))
        return bad(quote(element.substr(0, 40)) + " is no element of type " + std::string(name(t)));
      ++elements;
      at = end;
    }
  }
  if (depth != 0) return bad("its brackets do not match");
  const bool splat = !list && elements == 1;
  if (!splat && elements != *count)
    return bad("it has " + std::to_string(elements) + " elements, and its type has " + std::to_string(*count));
  return made(t, dims, std::move(bytes), splat && *count != 1);
}

std::optional<Ints> integers(const Attr& a) {
  Ints out;
  if (a.kind == Attr::Kind::Dense) {
    if (!a.type || !a.type->dtype || !(is_integer(*a.type->dtype) || a.type->dtype == DType::Bool)) return std::nullopt;
    std::string message;
    const auto data = read_literal(a.text, *a.type->dtype, a.type->dims, &message);
    if (!data || data->elements() > kMostRepeated) return std::nullopt;
    for (int64_t i = 0; i < data->elements(); ++i) out.push_back(element_as_int(*data, i));
    return out;
  }
  if (a.kind == Attr::Kind::Int) return Ints{a.integer};
  if (a.kind != Attr::Kind::List) return std::nullopt;
  for (const Attr& item : a.items) {
    if (item.kind == Attr::Kind::Int) {
      out.push_back(item.integer);
      continue;
    }
    const auto inner = item.kind == Attr::Kind::List ? integers(item) : std::nullopt;
    if (!inner) return std::nullopt;
    out.insert(out.end(), inner->begin(), inner->end());
  }
  return out;
}

}  // namespace rlxc::stablehlo_import
