#include "codegen/scope.h"

#include <algorithm>

#include "kernel/simplify.h"

namespace rlxc::codegen {

namespace {

constexpr size_t kMostInHead = 16;  // most operands, or results, whose types are listed

std::string kernel_name(Node& node, std::string_view part) {
  std::string s(name(node.op()));
  if (!part.empty()) s += "_" + std::string(part);
  return s;
}

}  // namespace

Scope::Scope(Node& node, std::string_view part)
    : node_(node), builder_(std::make_unique<kernel::Builder>(kernel_name(node, part))) {
  const Graph& g = node.graph;
  std::string head(name(node.op()));
  if (!part.empty()) head += " (" + std::string(part) + ")";
  head += ":";
  const auto list = [&](size_t count, std::string_view before, auto text_of) {
    for (size_t i = 0; i < std::min(count, kMostInHead); ++i) head += std::string(i ? ", " : before) + text_of(i);
    if (count > kMostInHead) head += ", .. (" + std::to_string(count) + " in all)";
  };
  list(g.operands(node.id).size(), " ",
       [&](size_t i) { return node.has(i) ? text(g.type(node.in(i)), node.table()) : std::string("-"); });
  list(g.result_count(node.id), " -> ", [&](size_t i) { return text(g.type(node.result(i)), node.table()); });
  builder_->head(std::move(head));
}

Index Scope::size(Dim d) {
  if (const auto v = node_.table().constant_value(d)) return *v;
  for (const auto& [dim, e] : sizes_)
    if (dim == d) return e;
  std::string name = node_.table().text(d);
  Expr e = builder_->symbol(name.size() > 24 || name[0] == '#' ? "n" : name);
  sizes_.push_back({d, e});
  launch_.sizes.push_back(d);
  return e;
}

Index Scope::parameter(std::string_view name, Dim d) {
  launch_.sizes.push_back(d);
  return builder_->symbol(std::string(name));
}

Dims Scope::shape(std::span<const Dim> dims) {
  Dims out;
  for (Dim d : dims) out.push_back(size(d));
  return out;
}

Operand Scope::dense(std::string name, ValueId v) {
  const DType t = node_.graph.dtype(v);
  Dims own = shape(node_.graph.dims(v));
  if (const int width = rlxc::bits(t); width > 0 && width < 8)
    own = {(kernel::product(kernel(), own) + (8 / width - 1)) / (8 / width)};
  return kernel::dense(kernel(), std::move(name), storage_dtype(t), own);
}

Operand Scope::in(size_t i) {
  bind({Binding::Kind::Operand, static_cast<uint32_t>(i)});
  Operand o = dense("x" + std::to_string(i), node_.in(i));
  step_over(node_.in(i), &o);
  return o;
}

Operand Scope::in(size_t i, std::span<const Dim> to) {
  bind({Binding::Kind::Operand, static_cast<uint32_t>(i)});
  const Dims own = shape(node_.dims(i)), wide = shape(to);
  Operand o = kernel::broadcast_operand(kernel(), "x" + std::to_string(i), node_.dtype(i), own, wide);
  step_over(node_.in(i), &o);
  return o;
}

// Sets the strides of an operand or result from its layout. Repeated axes have stride 0.
void Scope::step_over(ValueId v, Operand* o) {
  const Layout* layout = node_.layouts.of(v);
  if (!layout) return;
  const size_t leading = o->strides.size() - layout->axes.size();
  Expr last = kernel::constant_int(kernel(), DType::I64, 0);
  for (size_t axis = 0; axis < layout->axes.size(); ++axis) {
    const auto& factors = layout->axes[axis];
    for (const DimFactor& p : factors) last = last + (size(p.size).in(kernel()) - 1) * size(p.stride).in(kernel());
    if (factors.size() == 1) o->strides[leading + axis] = size(factors[0].stride);
    if (factors.size() < 2) continue;
    o->factors.resize(o->strides.size());
    for (const DimFactor& p : factors) o->factors[leading + axis].push_back({size(p.size), size(p.stride)});
    if (layout->starts.empty()) continue;
    o->starts.resize(o->strides.size(), 0);
    o->starts[leading + axis] = size(layout->starts[axis]);
  }
  o->extent = last + 1;
}

Operand Scope::out(size_t i) {
  bind({Binding::Kind::Result, static_cast<uint32_t>(i)});
  Operand o = dense("y" + std::to_string(i), node_.result(i));
  step_over(node_.result(i), &o);
  return o;
}

Operand Scope::scratch(uint32_t i) {
  bind({Binding::Kind::Scratch, i});
  const Scratch& s = node_.out.scratch[i];
  return {"s" + std::to_string(i), s.dtype, {}, size(s.elements), 0};
}

Operand Scope::extent(uint32_t i) {
  bind({Binding::Kind::Extent, i});
  return {"extent" + std::to_string(i), DType::I64, {}, 1, 0};
}

Operand Scope::bad_indices() {
  bind({Binding::Kind::BadIndices, 0});
  return {"bad_indices", DType::I64, {}, 1, 0};
}

kernel::Epilogue Scope::quantized_result(size_t scale, size_t axes, bool has_factor, size_t axis) {
  kernel::Epilogue e;
  if (!node_.has(scale)) return e;
  const bool back = node_.has(scale + 2);
  for (size_t i = scale - has_factor; i < scale + 2 + back; ++i) {
    e.inputs.push_back(in(i));
    e.inputs.back().strides.assign(axes, 0);
    if (num_elements(node_.graph.type(node_.in(i))) != 1) e.inputs.back().strides[axis] = 1;
  }
  e.body = [=](std::span<const Expr> roots, const kernel::LoadInput& load) -> std::vector<Expr> {
    return {kernel::quantized(has_factor ? roots[0] * load(0) : roots[0], load, has_factor, back)};
  };
  return e;
}

Buf Scope::in_buf(size_t i) {
  const Operand o = in(i);
  return builder_->input(o.name, o.dtype, o.extent);
}

Buf Scope::out_buf(size_t i) {
  const Operand o = out(i);
  return builder_->output(o.name, o.dtype, o.extent);
}

std::vector<std::pair<std::string, DType>> Scope::outputs() {
  std::vector<std::pair<std::string, DType>> names;
  for (size_t i = 0; i < node_.graph.result_count(node_.id); ++i) {
    bind({Binding::Kind::Result, static_cast<uint32_t>(i)});
    names.push_back({"y" + std::to_string(i), storage_dtype(node_.result_dtype(i))});
  }
  return names;
}

void Scope::may_alias() {
  for (kernel::Buffer& b : kernel()->buffers)
    if (b.space == kernel::Space::Global) b.may_alias = true;
}

void Scope::launch_if(Dim dim, bool is_one) {
  const Expr d = size(dim).in(kernel()), one = max(min(d, 2 - d), 0);
  launched_ = is_one ? one : 1 - one;
}

void Scope::finish(bool on_load, bool copies) {
  if (launched_) {  // hosts skip launches of empty grids
    kernel::Stmt& grid = kernel()->body.front();
    grid.index = (Expr{kernel(), grid.index} * *launched_).id;
  }
  kernel::Kernel k = builder_->finish();
  kernel::simplify(k);
  // A buffer that is bound twice and written aliases itself.
  for (size_t i = 0; i < launch_.buffers.size(); ++i)
    for (size_t j = 0; j < launch_.buffers.size(); ++j)
      if (i != j && launch_.buffers[i] == launch_.buffers[j] && k.buffers[j].access != kernel::Access::Read)
        k.buffers[i].may_alias = k.buffers[j].may_alias = true;
  launch_.kernel = static_cast<uint32_t>(node_.out.kernels.size());
  launch_.on_load = on_load;
  launch_.copies = copies;
  node_.out.kernels.push_back(std::move(k));
  node_.out.launches.push_back(std::move(launch_));
}

void start_at(kernel::Kernel* k, size_t axis, const Index& position, Operand* o) {
  if (!o->split(axis)) {
    o->offset = position.in(k)*o->strides[axis].in(k);
    return;
  }
  o->starts.resize(o->strides.size(), 0);
  o->starts[axis] = position;
}

}  // namespace rlxc::codegen
