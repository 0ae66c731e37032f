// String interning: each distinct name is stored once and represented by a 32-bit Symbol.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "support/ids.h"

namespace rlxc {

using Symbol = Id<struct SymbolTag>;

// Symbols are numbered from 0 in order of first occurrence, independent of the hash. Views remain valid while the interner
// exists, also after a move. Not thread-safe. The hash seed is random, so that names in a hostile file cannot be chosen to
// collide.
class Interner {
 public:
  Interner();
  Interner(const Interner&);  // shares the text of the names
  Interner(Interner&&) = default;
  Interner& operator=(Interner&&) = default;

  Symbol intern(std::string_view);                                 // O(length) expected
  Symbol append(std::string_view);                                 // a new symbol that intern and find never return
  Symbol find(std::string_view) const;                             // invalid if not interned
  std::string_view view(Symbol s) const { return names_[s.raw]; }  // `s` must come from this interner
  size_t size() const { return names_.size(); }

 private:
  struct Slot {
    uint32_t hash = 0, symbol = Symbol::kNone;
  };

  size_t slot(std::string_view, uint32_t hash) const;
  std::string_view store(std::string_view);
  void grow();

  std::vector<std::string_view> names_;
  std::vector<Slot> table_;  // open addressing, power-of-two size
  size_t used_ = 0;          // number of used slots
  std::vector<std::shared_ptr<char[]>> chunks_;
  char* free_ = nullptr;  // in the last chunk that no other interner fills
  size_t free_size_ = 0;
  uint64_t seed_ = 0;
};

}  // namespace rlxc
