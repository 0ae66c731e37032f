// Devices in a grid with named axes. The rank of a device is its row-major number. A group is the set of devices that differ in
// some axes alone; the position of a device in its group is row-major in these axes.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

struct MeshAxis {
  std::string name;  // letters, digits, '_'; begins with a letter
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

struct Mesh {
  static constexpr size_t kMaxAxes = 8;
  static constexpr int64_t kMaxDevices = 65536;
  static constexpr int64_t kMaxPadding = int64_t{1} << 40;  // elements of an axis

  std::vector<MeshAxis> axes;

  // Reads "data=2,model=4". Nullopt, with a message, for other text, repeated names and more than kMaxDevices devices.
  static std::optional<Mesh> parse(std::string_view, std::string* message);
  std::string text() const;
  bool operator==(const Mesh&) const = default;

  int64_t devices() const;
  std::optional<size_t> find(std::string_view name) const;

  // Groups along axes given by number.
  int64_t group_size(std::span<const size_t> along) const;
  int64_t position(int64_t rank, std::span<const size_t> along) const;
  std::vector<int64_t> members(int64_t rank, std::span<const size_t> along) const;  // ranks, by position
};

// The mesh and group of a collective.
struct CollectiveGroup {
  Mesh mesh;
  std::vector<size_t> along;
  int64_t size() const { return mesh.group_size(along); }
};
// Nullopt, with a message, if the attributes name no valid mesh or an axis that it does not have.
std::optional<CollectiveGroup> group_of(const CollectiveAttrs&, std::string* message);

// The mesh of the collectives of the main graph; nullopt if it has none. O(nodes).
std::optional<Mesh> mesh_of(const Module&);

// Whether the node is the part of a Param that belongs to the device. A host reads this part alone from the weights, unless it
// would have to fill it: with one element, repeated, and padding.
bool is_weight_slice(const Graph&, NodeId);

}  // namespace rlxc
