// A range of a vector by position. Unlike a span or an iterator, it stays valid while the vector grows.
#pragma once
#include <compare>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <vector>

namespace rlxc {

// Returns elements by value, since references would dangle. O(1) per step. The vector must not be destroyed or shortened while
// the range is in use.
template <class T>
class PoolRange {
 public:
  class Iterator {
   public:
    using value_type = T;
    using reference = T;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::random_access_iterator_tag;

    Iterator() = default;
    Iterator(const std::vector<T>* pool, size_t at) : pool_(pool), at_(at) {}

    T operator*() const { return (*pool_)[at_]; }
    T operator[](difference_type n) const { return *(*this + n); }
    Iterator& operator+=(difference_type n) {
      at_ += static_cast<size_t>(n);
      return *this;
    }
    Iterator& operator-=(difference_type n) { return *this += -n; }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this += -1; }
    Iterator operator++(int) { return Iterator(pool_, at_++); }
    Iterator operator--(int) { return Iterator(pool_, at_--); }
    friend Iterator operator+(Iterator i, difference_type n) { return i += n; }
    friend Iterator operator+(difference_type n, Iterator i) { return i += n; }
    friend Iterator operator-(Iterator i, difference_type n) { return i -= n; }
    friend difference_type operator-(Iterator a, Iterator b) { return static_cast<difference_type>(a.at_ - b.at_); }
    auto operator<=>(const Iterator&) const = default;

   private:
    const std::vector<T>* pool_ = nullptr;
    size_t at_ = 0;
  };

  PoolRange(const std::vector<T>& pool, size_t first, size_t count) : pool_(&pool), first_(first), count_(count) {}

  Iterator begin() const { return {pool_, first_}; }
  Iterator end() const { return {pool_, first_ + count_}; }
  std::vector<T> copy() const { return {begin(), end()}; }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  T operator[](size_t i) const { return (*pool_)[first_ + i]; }                            // requires i < size()
  T front() const { return (*this)[0]; }                                                   // requires !empty()
  T back() const { return (*this)[count_ - 1]; }                                           // requires !empty()
  PoolRange first(size_t n) const { return {*pool_, first_, n}; }                          // requires n <= size()
  PoolRange subspan(size_t from) const { return {*pool_, first_ + from, count_ - from}; }  // requires from <= size()

 private:
  const std::vector<T>* pool_;
  size_t first_, count_;
};

}  // namespace rlxc

template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<rlxc::PoolRange<T>> = true;
