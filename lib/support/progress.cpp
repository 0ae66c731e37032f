#include "support/progress.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace rlxc {
namespace {

// A text that threads write and read. A reader may see a mix of two texts.
class SharedText {
 public:
  void set(std::string_view s) {
    std::array<uint64_t, kWords> words{};
    s.copy(reinterpret_cast<char*>(words.data()), sizeof words - 1);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }
  void append_to(char* out, size_t room) const {
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    const char* c = reinterpret_cast<const char*>(words.data());
    size_t at = std::strlen(out);
    for (size_t i = 0; i + 1 < sizeof words && c[i] && at + 1 < room; ++i) out[at++] = c[i] < ' ' || c[i] > '~' ? '?' : c[i];
    out[at] = 0;
  }
  bool empty() const { return words_[0].load(std::memory_order_relaxed) == 0; }

 private:
  static constexpr size_t kWords = 12;
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

SharedText stage, node;

void append(ProgressText* out, const char* s) {
  const size_t at = std::strlen(out->text);
  std::strncat(out->text, s, sizeof out->text - at - 1);
}

}  // namespace

void note_stage(std::string_view s) {
  stage.set(s);
  node.set({});
}

void note_node(std::string_view s) { node.set(s); }

ProgressText progress_text() {
  ProgressText out{};
  append(&out, "stage ");
  if (stage.empty()) append(&out, "start");
  stage.append_to(out.text, sizeof out.text);
  if (node.empty()) return out;
  append(&out, ", node \"");
  node.append_to(out.text, sizeof out.text);
  append(&out, "\"");
  return out;
}

}  // namespace rlxc
