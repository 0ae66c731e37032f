// Operations of a file with a kernel for the target: the kernel language provides arguments and launch geometry, the file the
// text between them.
#include <algorithm>

#include "codegen/lowerings.h"

namespace rlxc::codegen {
namespace {

struct SourceKernel {
  const CustomAttrs& attrs;
  size_t at;
  Dim grid(size_t axis) const { return attrs.grids[3 * at + axis]; }
  int64_t threads(size_t axis) const { return attrs.threads[3 * at + axis]; }
};

bool fits_limits(Node& node, const SourceKernel& k) {
  const kernel::Mapping& m = node.mapping();
  int64_t threads = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    threads *= std::min(k.threads(axis), int64_t{1} << 20);
    if (node.table().constant_value(k.grid(axis)).value_or(0) > m.max_grid[axis])
      return node.fail("the grid of its kernel has more than " + std::to_string(m.max_grid[axis]) + " workgroups along an axis");
  }
  return threads <= m.max_workgroup_size ||
         node.fail("its kernel has " + std::to_string(threads) + " threads in a workgroup, of at most " +
                   std::to_string(m.max_workgroup_size));
}

// Names are those that the source knows, so the builder must not have changed them.
bool add_arguments(Node& node, Scope& s, const CustomAttrs& a) {
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    const kernel::Expr size = s.parameter(a.size_names[i], a.sizes[i]).in(s.kernel());
    if (s.kernel()->var(kernel::VarId(s.kernel()->expr(size.id).payload)).name != a.size_names[i])
      return node.fail("kernels cannot have a size named \"" + a.size_names[i] + "\"");
  }
  const size_t operands = node.graph.operands(node.id).size();
  for (size_t i = 0; i < a.ports.size(); ++i) {
    const bool is_input = i < operands;
    const Operand o = is_input ? s.in(i) : s.out(i - operands);
    const Buf b = is_input ? s.builder().input(a.ports[i], o.dtype, o.extent) : s.builder().output(a.ports[i], o.dtype, o.extent);
    if (s.kernel()->buffer(b.id()).name != a.ports[i])
      return node.fail("kernels cannot have an argument named \"" + a.ports[i] + "\"");
  }
  return true;
}

}  // namespace

bool lower_custom_op(Node& node) {
  const auto& a = node.attrs<CustomAttrs>();
  const auto found = std::ranges::find(a.targets, node.row.name);
  if (found == a.targets.end()) return node.fail("the operation has no kernel for this target");
  const SourceKernel k{a, static_cast<size_t>(found - a.targets.begin())};
  Scope s(node);
  if (!add_arguments(node, s, a)) return false;
  const std::string& source = a.sources[k.at];
  if (!node.mapping().workgroups) {
    s.builder().parallel("group_x", s.size(k.grid(0)), 1, [&](const Expr&) { s.builder().source(source); });
  } else {
    if (!fits_limits(node, k)) return false;
    constexpr std::string_view kAxes[] = {"x", "y", "z"};
    for (size_t axis = 3; axis-- > 0;)
      s.builder().grid("group_" + std::string(kAxes[axis]), static_cast<int>(axis), s.size(k.grid(axis)));
    for (size_t axis = 3; axis-- > 0;)
      s.builder().threads("thread_" + std::string(kAxes[axis]), static_cast<int>(axis), k.threads(axis));
    s.builder().source(source);
  }
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
