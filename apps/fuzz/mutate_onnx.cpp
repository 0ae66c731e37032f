#include "fuzz/mutate_onnx.h"

#include <cstdint>
#include <random>
#include <vector>

namespace rlxc {
namespace {

// A field of a message: a number, bytes, or a message if the bytes parse as one.
struct Field {
  uint32_t tag = 0;
  uint64_t number = 0;
  std::string bytes;
  std::vector<Field> fields;
  bool message = false;
};

bool read_varint(const std::string& s, size_t* at, uint64_t* out) {
  *out = 0;
  for (int shift = 0; shift < 64 && *at < s.size(); shift += 7) {
    const auto b = static_cast<unsigned char>(s[(*at)++]);
    *out |= static_cast<uint64_t>(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

bool parse(const std::string& s, int depth, std::vector<Field>* out) {
  size_t at = 0;
  while (at < s.size()) {
    Field f;
    uint64_t tag = 0;
    if (!read_varint(s, &at, &tag) || tag < 8 || tag >> 32) return false;
    f.tag = static_cast<uint32_t>(tag);
    const size_t width = (tag & 7) == 1 ? 8 : 4;
    switch (tag & 7) {
      case 0:
        if (!read_varint(s, &at, &f.number)) return false;
        break;
      case 1:
      case 5:
        if (s.size() - at < width) return false;
        f.bytes = s.substr(at, width);
        at += width;
        break;
      case 2: {
        uint64_t n = 0;
        if (!read_varint(s, &at, &n) || n > s.size() - at) return false;
        f.bytes = s.substr(at, n);
        at += n;
        f.message = depth < 12 && n > 1 && n < 1 << 20 && parse(f.bytes, depth + 1, &f.fields);
        if (!f.message) f.fields.clear();
        break;
      }
      default: return false;
    }
    out->push_back(std::move(f));
  }
  return true;
}

void write_varint(uint64_t v, std::string* out) {
  for (; v > 127; v >>= 7) *out += static_cast<char>(v | 128);
  *out += static_cast<char>(v);
}

std::string print(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& f : fields) {
    write_varint(f.tag, &out);
    if ((f.tag & 7) == 0) {
      write_varint(f.number, &out);
    } else if ((f.tag & 7) == 2) {
      const std::string body = f.message ? print(f.fields) : f.bytes;
      write_varint(body.size(), &out);
      out += body;
    } else {
      out += f.bytes;
    }
  }
  return out;
}

void collect(std::vector<Field>& fields, std::vector<std::pair<std::vector<Field>*, size_t>>* out) {
  for (size_t i = 0; i < fields.size(); ++i) {
    out->emplace_back(&fields, i);
    collect(fields[i].fields, out);
  }
}

// Collects names and operators of the model. Exchanging them creates cycles, other operators and other types.
void words_of(const std::vector<Field>& fields, std::vector<std::string>* out) {
  for (const Field& f : fields) {
    if (f.message) words_of(f.fields, out);
    else if ((f.tag & 7) == 2 && f.bytes.size() < 40) out->push_back(f.bytes);
  }
}

}  // namespace

std::optional<std::string> mutate_onnx(const std::string& model, uint64_t seed) {
  std::vector<Field> root;
  if (!parse(model, 0, &root) || root.empty()) return {};
  std::vector<std::string> words;
  words_of(root, &words);
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const int changes = 1 + static_cast<int>(pick(4));
  for (int c = 0; c < changes; ++c) {
    std::vector<std::pair<std::vector<Field>*, size_t>> all;
    collect(root, &all);
    if (all.empty()) break;
    auto [list, index] = all[pick(all.size())];
    Field& f = (*list)[index];
    switch (pick(7)) {
      case 0: list->erase(list->begin() + static_cast<std::ptrdiff_t>(index)); break;
      case 1: {
        const Field copy = f;
        list->insert(list->begin() + static_cast<std::ptrdiff_t>(pick(list->size() + 1)), copy);
        break;
      }
      case 2: std::swap((*list)[index], (*list)[pick(list->size())]); break;
      case 3: {
        constexpr int64_t kNumbers[] = {0,  1,   -1, 2, 3, 7, 16, 100, 1 << 20, INT32_MAX, INT64_MAX, INT64_MIN, int64_t{1} << 40,
                                        -2, -100};
        f.number = static_cast<uint64_t>(kNumbers[pick(std::size(kNumbers))]);
        break;
      }
      case 4:
        if (!f.message && !f.bytes.empty()) f.bytes[pick(f.bytes.size())] = static_cast<char>(random());
        break;
      case 5:
        if (!f.message && (f.tag & 7) == 2 && !words.empty()) f.bytes = words[pick(words.size())];
        break;
      default: {
        const Field other = *(all[pick(all.size())].first->begin() + 0);
        if ((other.tag & 7) == (f.tag & 7)) {
          const uint32_t tag = f.tag;
          f = other;
          f.tag = tag;
        }
      }
    }
  }
  return print(root);
}

}  // namespace rlxc
