// An ordered set in sorted blocks. Sweeps over live ranges insert and erase at every step. A node a key, as in std::set, would
// cost several cache misses each time; few keys are in one block here, and many in blocks of bounded length.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace rlxc::plan {

// Keys are small and trivially copyable. Insertion and removal invalidate cursors.
template <class Key>
class BlockSet {
 public:
  struct Cursor {
    size_t block = 0, index = 0;
    bool operator==(const Cursor&) const = default;
  };

  Cursor begin() const { return {}; }
  Cursor end() const { return {blocks_.size(), 0}; }
  const Key& at(Cursor c) const { return blocks_[c.block][c.index]; }
  Cursor next(Cursor c) const { return ++c.index < blocks_[c.block].size() ? c : Cursor{c.block + 1, 0}; }
  Cursor prev(Cursor c) const {
    return c.index > 0 ? Cursor{c.block, c.index - 1} : Cursor{c.block - 1, blocks_[c.block - 1].size() - 1};
  }

  // The first key that is not below `key`. O(log n).
  Cursor lower_bound(const Key& key) const {
    const auto block = std::partition_point(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.back() < key; });
    if (block == blocks_.end()) return end();
    const auto index = std::lower_bound(block->begin(), block->end(), key) - block->begin();
    return {static_cast<size_t>(block - blocks_.begin()), static_cast<size_t>(index)};
  }

  // `key` must not be in the set. O(kLongest + n / kLongest).
  void insert(const Key& key) {
    Cursor c = lower_bound(key);
    if (blocks_.empty()) blocks_.emplace_back();
    if (c.block == blocks_.size()) c = {blocks_.size() - 1, blocks_.back().size()};
    Block& block = blocks_[c.block];
    block.insert(block.begin() + static_cast<std::ptrdiff_t>(c.index), key);
    if (block.size() <= kLongest) return;
    Block upper(block.begin() + kLongest / 2, block.end());
    block.resize(kLongest / 2);
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(c.block) + 1, std::move(upper));
  }

  // Does nothing if `key` is not in the set. As expensive as insertion.
  void erase(const Key& key) {
    const Cursor c = lower_bound(key);
    if (c != end() && !(key < at(c))) erase_at(c);
  }
  void erase_at(Cursor c) {
    Block& block = blocks_[c.block];
    block.erase(block.begin() + static_cast<std::ptrdiff_t>(c.index));
    if (block.empty()) blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(c.block));
  }

  // `key` must lie between the neighbours of the key at `c`. Cursors stay valid.
  void replace(Cursor c, const Key& key) { blocks_[c.block][c.index] = key; }

 private:
  static constexpr size_t kLongest = 512;
  using Block = std::vector<Key>;
  std::vector<Block> blocks_;  // none is empty
};

}  // namespace rlxc::plan
