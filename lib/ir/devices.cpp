#include "ir/devices.h"

#include "support/json_reader.h"
#include "support/json_writer.h"

namespace rlxc {
namespace {

void write_list(const std::vector<int64_t>& list, JsonWriter& out) {
  out.begin_array(JsonLayout::Line);
  for (int64_t v : list) out.integer(v);
  out.end_array();
}

bool read_list(JsonReader& r, std::vector<int64_t>* out) {
  for (r.begin_array(); r.next_item();) r.integer(&out->emplace_back());
  return r.ok();
}

void write_axis(const ShardedAxis& a, JsonWriter& out) {
  out.begin_object(JsonLayout::Line).key("axis").integer(a.axis).key("parts").begin_array(JsonLayout::Line);
  for (const ShardedAxis::Part& p : a.parts) {
    out.begin_object(JsonLayout::Line).key("shards").integer(p.shards);
    if (p.size) out.key("size").integer(*p.size);
    else if (!p.symbol.empty()) out.key("size").string(p.symbol);
    out.end_object();
  }
  out.end_array().end_object();
}

bool read_part(JsonReader& r, ShardedAxis::Part* out) {
  r.begin_object();
  for (std::string_view key; r.next_key(&key);)
    if (key == "shards") r.integer(&out->shards);
    else if (key == "size" && r.peek() == JsonReader::Kind::Number) r.integer(&out->size.emplace());
    else if (key == "size") r.string(&out->symbol);
    else r.skip();
  return r.ok();
}

bool read_axis(JsonReader& r, ShardedAxis* out) {
  r.begin_object();
  for (std::string_view key; r.next_key(&key);) {
    if (key == "axis") r.integer(&out->axis);
    else if (key != "parts") r.skip();
    else
      for (r.begin_array(); r.next_item();) read_part(r, &out->parts.emplace_back());
  }
  return r.ok();
}

void write_sharding(const TensorSharding& t, JsonWriter& out) {
  out.begin_object(JsonLayout::Line).key("tensor").string(t.tensor).key("devices");
  write_list(t.devices, out);
  if (!t.groups.empty()) {
    out.key("groups").begin_array(JsonLayout::Line);
    for (const auto& [id, devices] : t.groups) {
      out.begin_object(JsonLayout::Line).key("id").integer(id).key("devices");
      write_list(devices, out);
      out.end_object();
    }
    out.end_array();
  }
  out.key("axes").begin_array(JsonLayout::Line);
  for (const ShardedAxis& a : t.axes) write_axis(a, out);
  out.end_array().end_object();
}

bool read_group(JsonReader& r, std::pair<int64_t, std::vector<int64_t>>* out) {
  r.begin_object();
  for (std::string_view key; r.next_key(&key);)
    if (key == "id") r.integer(&out->first);
    else if (key == "devices") read_list(r, &out->second);
    else r.skip();
  return r.ok();
}

bool read_sharding(JsonReader& r, TensorSharding* out) {
  r.begin_object();
  for (std::string_view key; r.next_key(&key);) {
    if (key == "tensor") {
      r.string(&out->tensor);
    } else if (key == "devices") {
      read_list(r, &out->devices);
    } else if (key == "groups") {
      for (r.begin_array(); r.next_item();) read_group(r, &out->groups.emplace_back());
    } else if (key == "axes") {
      for (r.begin_array(); r.next_item();) read_axis(r, &out->axes.emplace_back());
    } else {
      r.skip();
    }
  }
  return r.ok();
}

bool read_configuration(JsonReader& r, DeviceConfiguration* out) {
  r.begin_object();
  for (std::string_view key; r.next_key(&key);) {
    if (key == "name") r.string(&out->name);
    else if (key == "devices") r.integer(&out->devices);
    else if (key != "device_names") r.skip();
    else
      for (r.begin_array(); r.next_item();) r.string(&out->device_names.emplace_back());
  }
  return r.ok();
}

bool read_node(JsonReader& r, DeviceConfigurations* out) {
  std::string name;
  NodeDevices node;
  r.begin_object();
  for (std::string_view key; r.next_key(&key);) {
    if (key == "node") r.string(&name);
    else if (key == "configuration") r.string(&node.configuration);
    else if (key == "stage") r.integer(&node.stage.emplace());
    else if (key != "tensors") r.skip();
    else
      for (r.begin_array(); r.next_item();) read_sharding(r, &node.tensors.emplace_back());
  }
  if (r.ok()) out->nodes[name].push_back(std::move(node));
  return r.ok();
}

}  // namespace

void write_json(const DeviceConfigurations& d, JsonWriter& out) {
  out.begin_object(JsonLayout::Line).key("configurations").begin_array(JsonLayout::Line);
  for (const DeviceConfiguration& c : d.all) {
    out.begin_object(JsonLayout::Line).key("name").string(c.name).key("devices").integer(c.devices);
    if (!c.device_names.empty()) {
      out.key("device_names").begin_array(JsonLayout::Line);
      for (const std::string& s : c.device_names) out.string(s);
      out.end_array();
    }
    out.end_object();
  }
  out.end_array().key("nodes").begin_array(JsonLayout::Line);
  for (const auto& [name, list] : d.nodes)
    for (const NodeDevices& n : list) {
      out.begin_object(JsonLayout::Line).key("node").string(name).key("configuration").string(n.configuration);
      if (n.stage) out.key("stage").integer(*n.stage);
      out.key("tensors").begin_array(JsonLayout::Line);
      for (const TensorSharding& t : n.tensors) write_sharding(t, out);
      out.end_array().end_object();
    }
  out.end_array().end_object();
}

bool read_json(JsonReader& r, DeviceConfigurations* out) {
  r.begin_object();
  for (std::string_view key; r.next_key(&key);) {
    if (key == "configurations") {
      for (r.begin_array(); r.next_item();) read_configuration(r, &out->all.emplace_back());
    } else if (key == "nodes") {
      for (r.begin_array(); r.next_item();) read_node(r, out);
    } else {
      r.skip();
    }
  }
  return r.ok();
}

}  // namespace rlxc
