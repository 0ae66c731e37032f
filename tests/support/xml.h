// Checks that a text is well-formed XML of the kind that reports use: elements, double-quoted attributes, escaped text.
#pragma once
#include <string_view>
#include <vector>

namespace rlxc::test {

inline bool is_well_formed(std::string_view s) {
  std::vector<std::string_view> open;
  bool had_root = false;
  for (size_t i = 0; i < s.size();) {
    if (s[i] == '&') {  // only XML's entities
      const std::string_view rest = s.substr(i, 6);
      if (!rest.starts_with("&amp;") && !rest.starts_with("&lt;") && !rest.starts_with("&gt;") && !rest.starts_with("&quot;"))
        return false;
    }
    if (s[i] == '>') return false;
    if (s[i] != '<') {
      ++i;
      continue;
    }
    size_t end = i + 1;
    bool quoted = false;
    for (; end < s.size() && (quoted || s[end] != '>'); ++end) {
      if (s[end] == '"') quoted = !quoted;
      if (s[end] == '<') return false;
    }
    if (end == s.size()) return false;
    const std::string_view tag = s.substr(i + 1, end - i - 1);
    const std::string_view name = tag.substr(tag.starts_with('/'), tag.find_first_of(" /", 1) - tag.starts_with('/'));
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      if (open.empty() && had_root) return false;
      had_root = true;
      open.push_back(name);
    }
    i = end + 1;
  }
  return open.empty() && had_root;
}

}  // namespace rlxc::test
