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
        if (p.shards > 1) {
          count = p.shards;
          continue;
        }
        if (count > 1) {
          const auto rows = p.size && *p.size > 0 ? checked_mul(part.rows, *p.size) : std::nullopt;
          part.rows = rows.value_or(part.rows);
          continue;
        }
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
      do {
        if (choose(i + 1)) return true;
      } while (std::ranges::next_permutation(axes).found && ++tries_ < kMostTries);
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

std::vector<int64_t> sizes_of(const Graph& g, ValueId v) {
  std::vector<int64_t> out;
  for (Dim d : g.dims(v)) out.push_back(d.is_static() ? d.size() : 0);
  return out;
}

bool is_same_size(const NamedSharding& s, const std::vector<int64_t>& sizes) {
  if (s.sizes.size() != sizes.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (s.sharding[i].split() && s.sizes[i] != sizes[i]) return false;
  return true;
}

// The fewest rows that stay together if the dim has this padding: those of a head, say.
int64_t rows_together(int64_t size, const DimSharding& d, int64_t parts) {
  if (d.blocks > 1) return 1;
  int64_t rows = 1;
  while (rows < size && (size % rows != 0 || rows * padding_of(size / rows, parts) != d.padding)) ++rows;
  return rows;
}

// Shards in row-major order of the dims that are split. Several devices with one shard are a group, whose number is negative.
TensorSharding tensor_sharding(std::string name, const NamedSharding& s, const Mesh& mesh) {
  TensorSharding out{std::move(name), {}, {}, {}};
  std::vector<size_t> along;
  for (size_t i = 0; i < s.sharding.size(); ++i) {
    const DimSharding& d = s.sharding[i];
    if (!d.split()) continue;
    along.insert(along.end(), d.axes.begin(), d.axes.end());
    ShardedAxis& axis = out.axes.emplace_back(ShardedAxis{static_cast<int64_t>(i), {}});
    const int64_t rows = rows_together(s.sizes[i], d, mesh.group_size(d.axes));
    if (d.blocks > 1) axis.parts.push_back({d.blocks, {}, 1});
    axis.parts.push_back({s.sizes[i] / d.blocks / rows, {}, mesh.group_size(d.axes)});
    if (rows > 1) axis.parts.push_back({rows, {}, 1});
  }
  std::vector<std::vector<int64_t>> owners(static_cast<size_t>(mesh.group_size(along)));
  for (int64_t rank = 0; rank < mesh.devices(); ++rank) owners[static_cast<size_t>(mesh.position(rank, along))].push_back(rank);
  for (size_t shard = 0; shard < owners.size(); ++shard) {
    const bool alone = owners[shard].size() == 1;
    out.devices.push_back(alone ? owners[shard][0] : -1 - static_cast<int64_t>(shard));
    if (!alone) out.groups.emplace_back(out.devices.back(), std::move(owners[shard]));
  }
  return out;
}

// The one with the name of the mesh, or the first with as many devices; null if there is none.
const DeviceConfiguration* configuration_for(const DeviceConfigurations& all, const Mesh& mesh) {
  const DeviceConfiguration* first = nullptr;
  for (const DeviceConfiguration& c : all.all) {
    if (c.devices != mesh.devices()) continue;
    if (c.name == mesh.text()) return &c;
    if (!first) first = &c;
  }
  return first;
}

}  // namespace

NamedShardings named_shardings(const Shardings& s) {
  const Graph& g = s.graph();
  NamedShardings out;
  for (NodeId n : g.nodes())
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      if (!g.value_name(v).valid() || (is_whole(s.of(v)) && !s.keeps_whole(v))) continue;
      out.emplace(g.module().bytes(g.value_name(v)), NamedSharding{s.of(v), sizes_of(g, v)});
    }
  return out;
}

void annotate(Module& m, const Mesh& mesh, const NamedShardings& shardings, const NodeStages& stages) {
  DeviceConfigurations& all = m.devices;
  for (auto& [node, list] : all.nodes)
    std::erase_if(list, [&](const NodeDevices& d) {
      return std::ranges::any_of(
          all.all, [&](const DeviceConfiguration& c) { return c.name == d.configuration && c.devices == mesh.devices(); });
    });
  std::erase_if(all.nodes, [](const auto& node) { return node.second.empty(); });
  std::erase_if(all.all, [&](const DeviceConfiguration& c) { return c.devices == mesh.devices() || c.name == mesh.text(); });
  all.all.push_back({mesh.text(), mesh.devices(), {}});

  Graph& g = m.main();
  std::set<std::string, std::less<>> names;
  for (NodeId n : g.nodes())
    if (g.node_name(n).valid()) names.emplace(m.bytes(g.node_name(n)));
  for (NodeId n : g.nodes()) {
    std::vector<TensorSharding> tensors;
    const auto add = [&](ValueId v) {
      if (!v.valid() || !g.value_name(v).valid()) return;
      const std::string_view name = m.bytes(g.value_name(v));
      const auto at = shardings.find(name);
      if (at == shardings.end() || std::ranges::find(tensors, name, &TensorSharding::tensor) != tensors.end()) return;
      if (is_same_size(at->second, sizes_of(g, v))) tensors.push_back(tensor_sharding(std::string(name), at->second, mesh));
    };
    if (has_trait(g.op(n), kLeaf | kTerminator)) continue;
    for (ValueId v : g.operands(n)) add(v);
    for (size_t r = 0; r < g.result_count(n); ++r) add(g.result(n, r));
    const auto stage = stages.find(std::string_view(g.label(n).bytes()));
    if (tensors.empty() && stage == stages.end()) continue;
    if (!g.node_name(n).valid()) {
      std::string name = g.label(n).bytes();
      while (!names.insert(name).second) name += "_";
      g.set_node_name(n, m.symbol(name));
    }
    all.nodes[std::string(m.bytes(g.node_name(n)))].push_back(
        {mesh.text(), stage == stages.end() ? std::nullopt : std::optional(stage->second), std::move(tensors)});
  }
}

std::vector<Request> annotated_requests(const DeviceConfigurations& all, const Mesh& mesh, Diagnostics& d) {
  std::vector<Request> out;
  const DeviceConfiguration* configuration = configuration_for(all, mesh);
  if (!configuration) return out;
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

NodeStages annotated_stages(const DeviceConfigurations& all, const Mesh& mesh) {
  NodeStages out;
  const DeviceConfiguration* configuration = configuration_for(all, mesh);
  if (!configuration) return out;
  for (const auto& [name, list] : all.nodes)
    for (const NodeDevices& node : list)
      if (node.configuration == configuration->name && node.stage) out.emplace(name, *node.stage);
  return out;
}

}  // namespace rlxc::shard
