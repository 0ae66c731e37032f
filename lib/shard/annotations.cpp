#include "shard/annotations.h"

#include <algorithm>
#include <set>

#include "support/checked.h"

namespace rlxc::shard {
namespace {

constexpr size_t kMostTries = 20000;  // sets of mesh axes for a tensor

// Devices of each shard, in row-major order of the shards. Empty if the file does not say so.
std::vector<std::vector<int64_t>> devices_of(const TensorSharding& t, const Mesh& mesh) {
  std::vector<std::vector<int64_t>> out;
  for (int64_t device : t.devices) {
    const auto group = std::ranges::find(t.groups, device, &std::pair<int64_t, std::vector<int64_t>>::first);
    out.push_back(group == t.groups.end() ? std::vector{device} : group->second);
    for (int64_t rank : out.back())
      if (rank < 0 || rank >= mesh.devices()) return {};
  }
  return out;
}

// Finds the mesh axes of the dims of one tensor.
class AxisChoice {
 public:
  AxisChoice(const TensorSharding& t, const Mesh& mesh) : mesh_(mesh), devices_(devices_of(t, mesh)) {}

  // Nullopt if no axes fit.
  std::optional<std::vector<Request::Part>> run(const TensorSharding& t) {
    int64_t shards = 1;
    for (const ShardedAxis& a : t.axes) {
      Request::Part part{{}, a.axis};
      int64_t count = 1;
      for (const ShardedAxis::Part& p : a.parts) {
        if (p.shards > 1 && count > 1) return std::nullopt;  // two parts of an axis are cut
        if (p.shards > 1) count = p.shards;
        if (count > 1) continue;
        const auto blocks = p.size && *p.size > 0 ? checked_mul(part.blocks, *p.size) : std::nullopt;
        if (!blocks && &p != &a.parts.back()) return std::nullopt;
        part.blocks = blocks.value_or(part.blocks);
        if (part.blocks > Mesh::kMaxDevices) return std::nullopt;
      }
      if (count <= 1) continue;
      shards = std::min(shards, Mesh::kMaxDevices) * std::min(count, Mesh::kMaxDevices);
      wanted_.push_back(count);
      parts_.push_back(std::move(part));
    }
    if (devices_.empty() || static_cast<int64_t>(devices_.size()) != shards || !choose(0)) return std::nullopt;
    return std::move(parts_);
  }

 private:
  bool choose(size_t i) {
    if (i == parts_.size()) return fits();
    for (size_t set = 1; set < size_t{1} << mesh_.axes.size() && tries_ < kMostTries; ++set, ++tries_) {
      std::vector<size_t>& axes = parts_[i].axes;
      axes.clear();
      bool free = true;
      for (size_t a = 0; a < mesh_.axes.size(); ++a)
        if (set >> a & 1) {
          axes.push_back(a);
          free &= !used_[a] && mesh_.axes[a].size > 1;
        }
      if (!free || mesh_.group_size(axes) != wanted_[i]) continue;
      const std::vector<size_t> chosen = axes;
      for (size_t a : chosen) used_[a] = true;
      if (choose(i + 1)) return true;
      for (size_t a : chosen) used_[a] = false;
    }
    return false;
  }

  bool fits() const {
    std::vector<size_t> along;
    for (const Request::Part& p : parts_) along.insert(along.end(), p.axes.begin(), p.axes.end());
    for (size_t shard = 0; shard < devices_.size(); ++shard)
      for (int64_t rank : devices_[shard])
        if (mesh_.position(rank, along) != static_cast<int64_t>(shard)) return false;
    return true;
  }

  const Mesh& mesh_;
  const std::vector<std::vector<int64_t>> devices_;
  std::vector<int64_t> wanted_;  // shards, by part
  std::vector<Request::Part> parts_;
  size_t tries_ = 0;
  bool used_[Mesh::kMaxAxes] = {};
};

}  // namespace

std::vector<Request> annotated_requests(const DeviceConfigurations& all, const Mesh& mesh, Diagnostics& d) {
  std::vector<Request> out;
  const auto configuration = std::ranges::find(all.all, mesh.devices(), &DeviceConfiguration::devices);
  if (configuration == all.all.end()) return out;
  std::set<std::string_view> seen;
  for (const auto& [name, list] : all.nodes)
    for (const NodeDevices& node : list)
      for (const TensorSharding& t : node.tensors) {
        if (node.configuration != configuration->name || !seen.insert(t.tensor).second) continue;
        auto parts = AxisChoice(t, mesh).run(t);
        if (parts) out.push_back({t.tensor, t.tensor, std::move(*parts), true});
        else
          d.warning(Code::ShardingConflict,
                    "the shards of " + ForeignText(t.tensor).quoted() + " do not lie as axes of the mesh " + mesh.text() +
                        " divide devices; its sharding is ignored",
                    "node " + ForeignText(name).quoted(), "--shard NAME=AXIS:DIM decides otherwise");
      }
  return out;
}

}  // namespace rlxc::shard
