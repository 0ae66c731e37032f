// Type rules of collectives. Types are those of one device.
#include "ir/infer.h"
#include "ir/mesh.h"

namespace rlxc {
namespace {

// The number of devices in the group; nullopt after an error.
std::optional<int64_t> devices_of(InferContext& c) {
  const auto& a = c.a<CollectiveAttrs>();
  std::string message;
  const auto group = group_of(a, &message);
  if (!group) {
    c.fail(message);
    return std::nullopt;
  }
  return group->size();
}

// Divides an axis by the devices of the group. Each block must divide.
bool cut(InferContext& c, int64_t axis, int64_t devices, std::vector<Dim>* dims) {
  const auto& a = c.a<CollectiveAttrs>();
  if (!check_axis(c, axis, static_cast<int>(dims->size()))) return false;
  if (a.blocks < 1 || a.blocks > Mesh::kMaxDevices) return c.fail("blocks must be 1 to " + std::to_string(Mesh::kMaxDevices));
  Dim& d = (*dims)[static_cast<size_t>(axis)];
  if (a.padding < 0 || a.padding > Mesh::kMaxPadding || (a.padding > 0 && a.blocks > 1))
    return c.fail("padding must be of one block, and 0 to " + std::to_string(Mesh::kMaxPadding));
  d = c.dims().add(d, Dim(a.padding));
  if (!c.dims().divides(Dim(devices * a.blocks), d))
    return c.fail("axis " + std::to_string(axis) + " of " + c.show(0) + " does not divide by " + std::to_string(devices) +
                  " devices" + (a.blocks > 1 ? " in " + std::to_string(a.blocks) + " blocks" : ""));
  d = c.dims().floor_div(d, Dim(devices));
  return true;
}

bool join(InferContext& c, int64_t axis, int64_t devices, std::vector<Dim>* dims) {
  const auto& a = c.a<CollectiveAttrs>();
  if (!check_axis(c, axis, static_cast<int>(dims->size()))) return false;
  Dim& d = (*dims)[static_cast<size_t>(axis)];
  if (a.blocks < 1 || !c.dims().divides(Dim(a.blocks), d))
    return c.fail("axis " + std::to_string(axis) + " of " + c.show(0) + " is not of " + std::to_string(a.blocks) + " blocks");
  d = c.dims().mul(d, Dim(devices));
  return true;
}

bool reduces(InferContext& c) {
  const ReduceOp op = c.a<CollectiveAttrs>().op;
  return op == ReduceOp::Sum || op == ReduceOp::Mean || op == ReduceOp::Max || op == ReduceOp::Min ||
         c.fail("reduces by sum, mean, max or min");
}

bool unpadded(InferContext& c) { return c.a<CollectiveAttrs>().padding == 0 || c.fail("padding is for device_slice alone"); }

}  // namespace

bool infer_all_reduce(InferContext& c) { return devices_of(c) && reduces(c) && c.result(c.t(0)); }

bool infer_all_gather(InferContext& c) {
  const auto devices = devices_of(c);
  std::vector<Dim> out = c.t(0).dims;
  return devices && join(c, c.a<CollectiveAttrs>().axis, *devices, &out) && c.result(c.t(0).dtype, std::move(out));
}

bool infer_device_slice(InferContext& c) {
  const auto devices = devices_of(c);
  std::vector<Dim> out = c.t(0).dims;
  return devices && cut(c, c.a<CollectiveAttrs>().axis, *devices, &out) && c.result(c.t(0).dtype, std::move(out));
}

bool infer_reduce_scatter(InferContext& c) { return reduces(c) && unpadded(c) && infer_device_slice(c); }

bool infer_all_to_all(InferContext& c) {
  const auto& a = c.a<CollectiveAttrs>();
  const auto devices = devices_of(c);
  std::vector<Dim> out = c.t(0).dims;
  if (a.blocks != 1) return c.fail("the axis must have one block");
  if (!unpadded(c)) return false;
  return devices && cut(c, a.axis, *devices, &out) && join(c, a.to, *devices, &out) && c.result(c.t(0).dtype, std::move(out));
}

bool infer_collective_permute(InferContext& c) {
  const auto& source = c.a<CollectiveAttrs>().source;
  const auto devices = devices_of(c);
  if (!devices) return false;
  if (static_cast<int64_t>(source.size()) != *devices)
    return c.fail("source has " + std::to_string(source.size()) + " entries for " + std::to_string(*devices) + " devices");
  for (int64_t s : source)
    if (s < -1 || s >= *devices) return c.fail("source has " + std::to_string(s) + ", which is no position in the group");
  return c.result(c.t(0));
}

bool infer_device_index(InferContext& c) { return devices_of(c).has_value() && c.result(DType::I64, {}); }

}  // namespace rlxc
