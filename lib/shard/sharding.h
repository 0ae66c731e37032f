// How values are divided over the devices of a mesh, and how users ask for it.
//
// A dim is split over mesh axes: the device at position p of their group has part p. A dim of several blocks (the columns of
// packed projections, say) is split within each block.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/mesh.h"
#include "support/diagnostics.h"

namespace rlxc::shard {

struct DimSharding {
  std::vector<size_t> axes;  // of the mesh; empty: every device has the whole dim
  int64_t blocks = 1;
  // Rows that follow those of a dim of one block, so that parts have equal sizes. Their content is undefined.
  int64_t padding = 0;
  bool split() const { return !axes.empty(); }
  bool operator==(const DimSharding&) const = default;
};

// The rows that `size` rows lack to be a multiple of `parts`.
constexpr int64_t padding_of(int64_t size, int64_t parts) { return (parts - size % parts) % parts; }

// One entry per dim of the value.
using Sharding = std::vector<DimSharding>;

inline Sharding whole(int rank) { return Sharding(static_cast<size_t>(rank)); }
bool is_whole(const Sharding&);
bool uses_axis(const Sharding&, size_t axis);
std::string text(const Sharding&, const Mesh&);  // "model:0,data:2/3", or "whole"

// "NAME=model:0,data:2", "NAME=data+model:1", "NAME=model:1/3" (3 blocks), "NAME=whole". NAME is a POSIX extended regular
// expression for whole names, without intervals and back-references, or the name itself.
struct Request {
  struct Part {
    std::vector<size_t> axes;
    int64_t dim = 0, blocks = 1;  // dim: negative from the end, in hints
    int64_t rows = 1;             // that stay together, as those of a head
  };
  std::string text, pattern;
  std::vector<Part> parts;
  bool hint = false;  // of the model: `pattern` is a name, and what cannot be is a warning
};
// Errors: Code::BadFlag for bad syntax, unknown or repeated mesh axes.
std::optional<Request> parse_request(const std::string&, const Mesh&, Diagnostics&);

// Returns, by name, whether the pattern matches it whole.
std::vector<bool> matches(const std::string& pattern, const std::vector<std::string>& names);

// The local type of a value. Nullopt if a split dim is symbolic, or does not divide with its padding.
std::optional<Type> local_type(const Type&, const Sharding&, const Mesh&);

}  // namespace rlxc::shard
