#include "support/interner.h"

#include <cstring>

#include "support/system_calls.h"

namespace rlxc {
namespace {

constexpr size_t kChunk = 64 * 1024;

uint64_t fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint32_t hash_of(std::string_view s, uint64_t seed) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15u, kB = 0xD6E8FEB86659FD93u;
  uint64_t h = seed ^ fold(s.size() ^ kA, kB);
  const char* p = s.data();
  size_t n = s.size();
  for (; n > 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = fold(h ^ word, kB ^ seed);
  }
  uint64_t word = 0;
  if (n) std::memcpy(&word, p, n);
  h = fold(fold(h ^ word, kB ^ seed), kA);
  return static_cast<uint32_t>(h ^ h >> 32);
}

}  // namespace

Interner::Interner() : table_(64) {
  if (!random_bytes(&seed_, sizeof seed_)) seed_ = 0x243F6A8885A308D3u;
}

Interner::Interner(const Interner& o) : names_(o.names_), table_(o.table_), used_(o.used_), chunks_(o.chunks_), seed_(o.seed_) {}

// Index of the slot with this name, or of the free slot for it.
size_t Interner::slot(std::string_view s, uint32_t hash) const {
  const size_t mask = table_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& at = table_[i];
    if (at.symbol == Symbol::kNone || (at.hash == hash && names_[at.symbol] == s)) return i;
  }
}

Symbol Interner::find(std::string_view s) const {
  const uint32_t symbol = table_[slot(s, hash_of(s, seed_))].symbol;
  return symbol == Symbol::kNone ? Symbol() : Symbol(symbol);
}

Symbol Interner::intern(std::string_view s) {
  const uint32_t hash = hash_of(s, seed_);
  size_t i = slot(s, hash);
  if (table_[i].symbol != Symbol::kNone) return Symbol(table_[i].symbol);
  if ((used_ + 1) * 2 > table_.size()) {
    grow();
    i = slot(s, hash);
  }
  const Symbol symbol = append(s);
  table_[i] = {hash, symbol.raw};
  ++used_;
  return symbol;
}

Symbol Interner::append(std::string_view s) {
  names_.push_back(store(s));
  return Symbol(names_.size() - 1);
}

void Interner::grow() {
  std::vector<Slot> old(table_.size() * 2);
  old.swap(table_);
  const size_t mask = table_.size() - 1;
  for (const Slot& s : old) {
    if (s.symbol == Symbol::kNone) continue;
    size_t i = s.hash & mask;
    while (table_[i].symbol != Symbol::kNone) i = (i + 1) & mask;
    table_[i] = s;
  }
}

std::string_view Interner::store(std::string_view s) {
  if (s.empty()) return {};
  if (s.size() > free_size_) {
    const bool own_chunk = s.size() >= kChunk / 4;  // keeps the current chunk for small names
    chunks_.push_back(std::make_shared_for_overwrite<char[]>(own_chunk ? s.size() : kChunk));
    if (own_chunk) {
      std::memcpy(chunks_.back().get(), s.data(), s.size());
      return {chunks_.back().get(), s.size()};
    }
    free_ = chunks_.back().get();
    free_size_ = kChunk;
  }
  std::memcpy(free_, s.data(), s.size());
  const std::string_view stored(free_, s.size());
  free_ += s.size();
  free_size_ -= s.size();
  return stored;
}

}  // namespace rlxc
