// Device configurations of a model file: how its author would run it on several devices (DeviceConfigurationProto and
// NodeDeviceConfigurationProto of ONNX). They are hints and never change results. They refer to nodes and values by the names of
// the file, so they survive passes, which keep names.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rlxc {

class JsonReader;
class JsonWriter;

// An axis that is cut into equal shards. More than one part: the axis combines axes of a tensor that was reshaped.
struct ShardedAxis {
  struct Part {
    std::optional<int64_t> size;  // of the axis that is cut; a symbol if it is open
    std::string symbol;
    int64_t shards = 1;
    bool operator==(const Part&) const = default;
  };
  int64_t axis = 0;  // negative: from the end
  std::vector<Part> parts;
  bool operator==(const ShardedAxis&) const = default;
};

// The shards of a tensor lie on the devices in row-major order. A device number that is a key of `groups` stands for the devices
// of the group, each with a copy of the shard.
struct TensorSharding {
  std::string tensor;  // an input or output of the node
  std::vector<int64_t> devices;
  std::vector<std::pair<int64_t, std::vector<int64_t>>> groups;
  std::vector<ShardedAxis> axes;
  bool operator==(const TensorSharding&) const = default;
};

struct NodeDevices {
  std::string configuration;
  std::optional<int64_t> stage;  // of a pipeline
  std::vector<TensorSharding> tensors;
  bool operator==(const NodeDevices&) const = default;
};

struct DeviceConfiguration {
  std::string name;
  int64_t devices = 0;
  std::vector<std::string> device_names;  // may be empty
  bool operator==(const DeviceConfiguration&) const = default;
};

struct DeviceConfigurations {
  std::vector<DeviceConfiguration> all;
  std::map<std::string, std::vector<NodeDevices>, std::less<>> nodes;  // by name of the node

  bool empty() const { return all.empty() && nodes.empty(); }
  bool operator==(const DeviceConfigurations&) const = default;
};

// The object "devices" of graph.schema.json, on one line. O(members).
void write_json(const DeviceConfigurations&, JsonWriter&);
bool read_json(JsonReader&, DeviceConfigurations*);  // false after an error, which the reader holds

}  // namespace rlxc
