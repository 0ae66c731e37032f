#include "shard/sharding.h"

#include <regex.h>

#include <algorithm>
#include <charconv>

#include "support/text.h"

namespace rlxc::shard {
namespace {

constexpr size_t kMaxPattern = 256;  // bytes

std::optional<int64_t> count_of(std::string_view s) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  return error == std::errc() && end == s.data() + s.size() && n >= 0 && n <= Mesh::kMaxDevices ? std::optional(n) : std::nullopt;
}

// Reads "data+model:1/3".
std::optional<Request::Part> parse_part(std::string_view s, const Mesh& mesh, std::string* why) {
  const size_t colon = s.find(':');
  if (colon == s.npos) {
    *why = "\"" + std::string(s) + "\" is not AXIS:DIM";
    return std::nullopt;
  }
  Request::Part part;
  for (std::string_view name : split(s.substr(0, colon), '+')) {
    const auto axis = mesh.find(name);
    if (!axis) {
      *why = "the mesh " + mesh.text() + " has no axis \"" + std::string(name) + "\"";
      return std::nullopt;
    }
    part.axes.push_back(*axis);
  }
  const std::string_view numbers = s.substr(colon + 1);
  const size_t slash = std::min(numbers.find('/'), numbers.size());
  const auto dim = count_of(numbers.substr(0, slash));
  const auto blocks = slash == numbers.size() ? std::optional<int64_t>(1) : count_of(numbers.substr(slash + 1));
  if (!dim || !blocks || *blocks < 1) {
    *why = "\"" + std::string(numbers) + "\" is not DIM or DIM/BLOCKS";
    return std::nullopt;
  }
  part.dim = *dim;
  part.blocks = *blocks;
  return part;
}

}  // namespace

bool is_whole(const Sharding& s) {
  return std::ranges::none_of(s, [](const DimSharding& d) { return d.split(); });
}

bool uses_axis(const Sharding& s, size_t axis) {
  return std::ranges::any_of(s, [&](const DimSharding& d) { return std::ranges::find(d.axes, axis) != d.axes.end(); });
}

std::string text(const Sharding& s, const Mesh& mesh) {
  std::string out;
  for (size_t d = 0; d < s.size(); ++d) {
    if (!s[d].split()) continue;
    out += out.empty() ? "" : ",";
    for (size_t i = 0; i < s[d].axes.size(); ++i) out += (i ? "+" : "") + mesh.axes[s[d].axes[i]].name;
    out += ":" + std::to_string(d) + (s[d].blocks > 1 ? "/" + std::to_string(s[d].blocks) : "");
    if (s[d].padding > 0) out += " and " + std::to_string(s[d].padding) + " of padding";
  }
  return out.empty() ? "whole" : out;
}

std::optional<Request> parse_request(const std::string& s, const Mesh& mesh, Diagnostics& d) {
  const auto fail = [&](const std::string& why) {
    d.error(Code::BadFlag, "--shard " + ForeignText(s).quoted() + ": " + why, {}, "for example --shard w1=model:0");
    return std::nullopt;
  };
  const size_t equals = s.rfind('=');
  if (equals == s.npos || equals == 0) return fail("needs NAME=AXIS:DIM");
  Request r{s, s.substr(0, equals), {}, false};
  const std::string_view parts = std::string_view(s).substr(equals + 1);
  if (parts == "whole") return r;
  std::vector<size_t> used;
  for (std::string_view item : split(parts, ',')) {
    std::string why;
    auto part = parse_part(item, mesh, &why);
    if (!part) return fail(why);
    for (size_t a : part->axes) {
      if (std::ranges::find(used, a) != used.end()) return fail("uses mesh axis " + mesh.axes[a].name + " twice");
      used.push_back(a);
    }
    for (const Request::Part& other : r.parts)
      if (other.dim == part->dim) return fail("splits dim " + std::to_string(other.dim) + " twice");
    r.parts.push_back(std::move(*part));
  }
  return r;
}

std::vector<bool> matches(const std::string& pattern, const std::vector<std::string>& names) {
  std::vector<bool> out(names.size());
  for (size_t i = 0; i < names.size(); ++i) out[i] = names[i] == pattern;
  bool plain = pattern.size() > kMaxPattern || pattern.find('{') != pattern.npos;
  for (size_t i = 0; i + 1 < pattern.size(); ++i) plain |= pattern[i] == '\\' && pattern[i + 1] >= '0' && pattern[i + 1] <= '9';
  regex_t compiled;
  if (plain || regcomp(&compiled, ("^(" + pattern + ")$").c_str(), REG_EXTENDED | REG_NOSUB) != 0) return out;
  for (size_t i = 0; i < names.size(); ++i)
    if (!out[i] && names[i].find('\0') == std::string::npos) out[i] = regexec(&compiled, names[i].c_str(), 0, nullptr, 0) == 0;
  regfree(&compiled);
  return out;
}

std::optional<Type> local_type(const Type& t, const Sharding& s, const Mesh& mesh) {
  Type local = t;
  for (size_t d = 0; d < s.size(); ++d) {
    if (!s[d].split()) continue;
    const int64_t parts = mesh.group_size(s[d].axes);
    if (!t.dims[d].is_static() || (s[d].padding > 0 && s[d].blocks > 1)) return std::nullopt;
    const int64_t padded = t.dims[d].size() + s[d].padding;
    if (padded % (parts * s[d].blocks) != 0) return std::nullopt;
    local.dims[d] = Dim(padded / parts);
  }
  return local;
}

}  // namespace rlxc::shard
