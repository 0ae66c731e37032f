#include "ir/mesh.h"

#include <algorithm>
#include <cctype>

#include "support/number.h"
#include "support/text.h"

namespace rlxc {
namespace {

bool is_axis_name(std::string_view s) {
  return !s.empty() && s.size() <= 64 && std::isalpha(static_cast<unsigned char>(s[0])) &&
         std::ranges::all_of(s, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::optional<int64_t> axis_size(std::string_view s) {
  int64_t n = 0;
  for (char c : s) {
    if (c < '0' || c > '9') return std::nullopt;
    n = std::min<int64_t>(n * 10 + (c - '0'), Mesh::kMaxDevices + 1);
  }
  return s.empty() || n < 1 ? std::nullopt : std::optional(n);
}

}  // namespace

std::optional<Mesh> Mesh::parse(std::string_view s, std::string* message) {
  const auto fail = [&](std::string why) {
    *message = std::move(why);
    return std::nullopt;
  };
  Mesh m;
  for (size_t at = 0; at <= s.size();) {
    const size_t end = std::min(s.find(',', at), s.size());
    const std::string_view item = s.substr(at, end - at);
    const size_t equals = item.find('=');
    if (equals == item.npos || !is_axis_name(item.substr(0, equals)))
      return fail("a mesh is a list of axes and sizes, as data=2,model=4");
    const std::string name(item.substr(0, equals));
    const auto size = axis_size(item.substr(equals + 1));
    if (!size) return fail("the size of mesh axis " + name + " must be a positive number");
    if (m.find(name)) return fail("the mesh has two axes " + name);
    m.axes.push_back({name, *size});
    if (m.axes.size() > kMaxAxes) return fail("a mesh has at most " + std::to_string(kMaxAxes) + " axes");
    if (*size > kMaxDevices || m.devices() > kMaxDevices)
      return fail("a mesh has at most " + std::to_string(kMaxDevices) + " devices");
    at = end + 1;
  }
  return m;
}

std::string Mesh::text() const {
  std::string s;
  for (const MeshAxis& a : axes) s += (s.empty() ? "" : ",") + a.name + "=" + std::to_string(a.size);
  return s;
}

int64_t Mesh::devices() const {
  int64_t n = 1;
  for (const MeshAxis& a : axes) n *= a.size;
  return n;
}

std::optional<size_t> Mesh::find(std::string_view name) const {
  const auto it = std::ranges::find(axes, name, &MeshAxis::name);
  return it == axes.end() ? std::nullopt : std::optional(static_cast<size_t>(it - axes.begin()));
}

int64_t Mesh::group_size(std::span<const size_t> along) const {
  int64_t n = 1;
  for (size_t a : along) n *= axes[a].size;
  return n;
}

int64_t Mesh::position(int64_t rank, std::span<const size_t> along) const {
  std::vector<int64_t> at(axes.size());
  for (size_t a = axes.size(); a-- > 0; rank /= axes[a].size) at[a] = rank % axes[a].size;
  int64_t position = 0;
  for (size_t a : along) position = position * axes[a].size + at[a];
  return position;
}

std::vector<int64_t> Mesh::members(int64_t rank, std::span<const size_t> along) const {
  std::vector<int64_t> stride(axes.size(), 1);
  for (size_t a = axes.size(); a-- > 1;) stride[a - 1] = stride[a] * axes[a].size;
  int64_t first = rank;
  for (size_t a : along) first -= rank / stride[a] % axes[a].size * stride[a];
  std::vector<int64_t> out{first};
  for (size_t a : along) {
    std::vector<int64_t> wider;
    for (int64_t base : out)
      for (int64_t i = 0; i < axes[a].size; ++i) wider.push_back(base + i * stride[a]);
    out = std::move(wider);
  }
  return out;
}

std::optional<CollectiveGroup> group_of(const CollectiveAttrs& a, std::string* message) {
  auto mesh = Mesh::parse(a.mesh, message);
  if (!mesh) return std::nullopt;
  CollectiveGroup group{std::move(*mesh), {}};
  for (const std::string& name : a.along) {
    const auto axis = group.mesh.find(name);
    if (!axis || std::ranges::find(group.along, *axis) != group.along.end()) {
      *message = (axis ? "repeats mesh axis " : "the mesh has no axis ") + quote(name);
      return std::nullopt;
    }
    group.along.push_back(*axis);
  }
  return group;
}

std::optional<Mesh> mesh_of(const Module& m) {
  const Graph& g = m.main();
  std::string message;
  for (NodeId n : g.nodes())
    if (has_trait(g.op(n), kCollective)) return Mesh::parse(g.attrs<CollectiveAttrs>(n).mesh, &message);
  return std::nullopt;
}

bool is_weight_slice(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::DeviceSlice) return false;
  const NodeId param = g.def(g.operand(n, 0));
  if (g.op(param) != OpKind::Param) return false;
  const DataId data = g.attrs<DataAttrs>(param).data;
  return g.attrs<CollectiveAttrs>(n).padding == 0 || !data.valid() || !g.module().data[data].splat;
}

}  // namespace rlxc
