// Runs launch.json: reads weights, allocates memory, and runs the steps of a graph on a device. C++17, no libraries.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rlxc {

[[noreturn]] inline void fail(const std::string& message) { throw std::runtime_error(message); }

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("can't read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Json {
  enum class Kind { Null, Bool, Number, String, Array, Object } kind = Kind::Null;
  int64_t number = 0;  // all numbers of launch.json are integers
  std::string string;
  std::vector<Json> items;
  std::vector<std::string> keys;  // of items, in an object

  const Json* find(const std::string& key) const {
    for (size_t i = 0; i < keys.size(); ++i)
      if (keys[i] == key) return &items[i];
    return nullptr;
  }
  const Json& operator[](const char* key) const {
    const Json* j = find(key);
    if (!j) fail(std::string("launch.json: no \"") + key + "\"");
    return *j;
  }
  bool null() const { return kind == Kind::Null; }
};

class JsonParser {
 public:
  explicit JsonParser(const std::string& text) : at_(text.c_str()) {}

  Json value() {
    Json j;
    space();
    if (*at_ == '{' || *at_ == '[') {
      const char close = *at_++ == '{' ? '}' : ']';
      j.kind = close == '}' ? Json::Kind::Object : Json::Kind::Array;
      for (space(); *at_ != close; space()) {
        if (!j.items.empty()) expect(',');
        if (close == '}') {
          space();
          j.keys.push_back(text());
          expect(':');
        }
        j.items.push_back(value());
      }
      ++at_;
    } else if (*at_ == '"') {
      j.kind = Json::Kind::String;
      j.string = text();
    } else if (*at_ == '-' || (*at_ >= '0' && *at_ <= '9')) {
      char* end = nullptr;
      j.kind = Json::Kind::Number;
      j.number = std::strtoll(at_, &end, 10);
      at_ = end;
    } else {
      for (const char* word : {"null", "true", "false"})
        if (std::strncmp(at_, word, std::strlen(word)) == 0) {
          at_ += std::strlen(word);
          j.kind = word[0] == 'n' ? Json::Kind::Null : Json::Kind::Bool;
          j.number = word[0] == 't';
          return j;
        }
      fail("launch.json is malformed");
    }
    return j;
  }

 private:
  void space() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r') ++at_;
  }
  void expect(char c) {
    space();
    if (*at_++ != c) fail("launch.json is malformed");
  }
  std::string text() {
    std::string s;
    for (expect('"'); *at_ != '"'; ++at_) {
      if (!*at_) fail("launch.json is malformed");
      if (*at_ != '\\') {
        s += *at_;
        continue;
      }
      ++at_;
      const char* escapes = "n\nt\tr\rb\bf\f";
      const char* found = std::strchr(escapes, *at_);
      if (*at_ != 'u') {
        s += found && *at_ ? found[1] : *at_;
        continue;
      }
      const std::string digits(at_ + 1, strnlen(at_ + 1, 4));
      s += static_cast<char>(std::strtol(digits.c_str(), nullptr, 16));  // only control characters are escaped
      at_ += digits.size();
    }
    ++at_;
    return s;
  }

  const char* at_;
};

// A location in device memory: a buffer that the device allocated, and a byte offset.
struct Address {
  int buffer = -1;
  size_t offset = 0;
};

struct Kernel {
  std::string name, file;
  uint32_t group[3];
  uint32_t shared_bytes;
  std::vector<bool> narrow;  // symbols that are i32, not i64
};

// The device interface of programs, which may share a device. Operations run in order; `read` and `wait` wait for earlier ones.
class Device {
 public:
  virtual ~Device() = default;
  virtual int allocate(size_t bytes) = 0;
  // A buffer for memory of the application on the device, which `release` leaves to the application.
  virtual int adopt(void*) { fail("the device can't use memory of the application"); }
  virtual void release(int buffer) = 0;
  virtual void write(Address to, const void* from, size_t bytes) = 0;
  virtual void read(void* to, Address from, size_t bytes) = 0;
  virtual void copy(Address to, Address from, size_t bytes) = 0;
  virtual void wait() = 0;
  virtual void submit() {}  // starts what the device has collected
  // Returns the number of the first of these kernels.
  virtual int load(const std::vector<Kernel>& kernels, const std::string& folder) = 0;
  virtual void launch(int kernel, const std::vector<Address>& places, const std::vector<int64_t>& sizes, const uint32_t grid[3]) = 0;
  virtual void* pointer(Address) const { fail("the device has no addresses for a link"); }
  // Launches and copies between `record` and `end_record` are not run but kept for `replay`. False: the device can't.
  virtual bool record() { return false; }
  virtual int end_record() { return -1; }  // the number of the recording
  virtual void replay(int) {}
  virtual void forget(int) {}
};

// Exchange of data with the devices that run the program together. All members of a group call a function with equal arguments;
// data is in the order of their positions. Pointers are those of devices, and operations run in order with those of the device.
class Link {
 public:
  struct Member {
    int first_rank, position, devices;  // of the group: its lowest rank, the place of this process, its size
  };
  struct Message {
    int device;  // its position in the group
    void* at;
    size_t bytes;
  };
  virtual ~Link() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual void open(const std::vector<Member>& groups) = 0;
  virtual void all_reduce(int group, const void* in, void* out, size_t count, const std::string& dtype, const std::string& op) = 0;
  virtual void reduce_scatter(int group, const void* in, void* out, size_t count, const std::string& dtype, const std::string& op) = 0;
  virtual void all_gather(int group, const void* in, void* out, size_t bytes) = 0;
  virtual void exchange(int group, const std::vector<Message>& sent, const std::vector<Message>& received) = 0;
};
// device.hpp: the device of this number. Operations go to the stream of the application (CUstream, hipStream_t), or to one of the
// device's own.
std::unique_ptr<Device> make_device(int number = 0, void* stream = nullptr);

// Several programs may share a device, which must outlive them. Not for several threads at once.
class Program {
 public:
  // `package`: the folder of launch.json and the compiled kernels; `weights`: the folder of the weight files. `link`: to the other
  // devices of a mesh; null for one device.
  Program(Device& device, const std::string& package, const std::string& weights, Link* link = nullptr)
      : device_(device), link_(link), json_(JsonParser(read_text(package + "/launch.json")).value()) {
    join_mesh();
    std::vector<Kernel> kernels;
    for (const Json& k : json_["kernels"].items) {
      Kernel kernel{k["name"].string, k["file"].string, {1, 1, 1}, static_cast<uint32_t>(k["shared_bytes"].number), {}};
      for (int a = 0; a < 3; ++a) kernel.group[a] = static_cast<uint32_t>(k["group"].items[a].number);
      for (const Json& s : k["symbols"].items) kernel.narrow.push_back(s.string == "i32");
      kernels.push_back(std::move(kernel));
    }
    first_kernel_ = device_.load(kernels, package);
    check_weights_file(weights);
    load_weights(weights);
    if (json_["symbols"].items.empty()) set_sizes({});
  }
  ~Program() {
    try {
      forget_recording();
      for (int b : weights_) release(b);
      for (int b : io_) release(b);
      for (int b : {packed_, arena_.buffer, spare_}) release(b);
    } catch (const std::exception&) {  // the device is lost
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  size_t inputs() const { return json_["inputs"].items.size(); }
  size_t outputs() const { return json_["outputs"].items.size(); }
  std::string input_name(size_t i) const { return json_["inputs"].items[i]["name"].string; }
  size_t input_bytes(size_t i) const { return bytes(json_["inputs"].items[i]["bytes"]); }
  size_t output_room(size_t i) const { return bytes(json_["outputs"].items[i]["room"]); }  // for its largest value
  // Of the last run, if there are data-dependent dims.
  size_t output_bytes(size_t i) const { return bytes(json_["outputs"].items[i]["bytes"]); }
  std::vector<int64_t> output_shape(size_t i) const {
    std::vector<int64_t> shape;
    for (const Json& d : json_["outputs"].items[i]["shape"].items) shape.push_back(size(d));
    return shape;
  }

  void set_sizes(const std::map<std::string, int64_t>& symbols) {
    for (const Json& s : json_["symbols"].items)
      if (!symbols.count(s.string) || symbols.at(s.string) < 0) fail("the size \"" + s.string + "\" is needed: " + s.string + "=N");
    for (const auto& [name, value] : symbols) {
      const std::vector<Json>& known = json_["symbols"].items;
      if (std::none_of(known.begin(), known.end(), [&n = name](const Json& s) { return s.string == n; })) fail("the model has no size \"" + name + "\"");
    }
    for (const Json& range : json_["ranges"].items) {
      const auto given = symbols.find(range.items[0].string);
      if (given != symbols.end() && (given->second < range.items[1].number || given->second > range.items[2].number))
        fail("the size \"" + given->first + "\" is outside the range that memory was planned for");
    }
    sizes_.clear(), open_sizes_.clear();
    const Json& expressions = json_["sizes"];  // each after those that it names
    for (size_t i = 0; i < expressions.keys.size(); ++i) {
      const std::vector<Json>& items = expressions.items[i].items;
      const bool known = std::all_of(items.begin(), items.end(), [&](const Json& j) {
        return j.string[0] == '#' ? sizes_.count(j.string) > 0 : j.string[0] != '$' || symbols.count(j.string.substr(1));
      });
      if (known) sizes_[expressions.keys[i]] = evaluate(expressions.items[i], [&](const std::string& name) { return symbols.at(name); }, [&](const std::string& name) { return sizes_.at(name); });
      else open_sizes_[expressions.keys[i]] = &expressions.items[i];
    }
    symbols_ = symbols;
    forget_recording();
    check_equal(json_["equal"]);
    const Json& memory = json_["memory"];
    release(arena_.buffer);
    const size_t arena = bytes(memory["arena"]), held = bytes(memory["held"]), scratch = bytes(memory["scratch"]);
    arena_ = {device_.allocate(arena + held + scratch + bytes(memory["cells"])), 0};
    held_ = {arena_.buffer, arena}, scratch_ = {arena_.buffer, arena + held}, cells_ = {arena_.buffer, arena + held + scratch};
    for (int b : io_) release(b);
    io_.clear();
    for (size_t i = 0; i < inputs(); ++i) io_.push_back(place_of_input(i) == i ? device_.allocate(input_bytes(i)) : -1);
    for (size_t i = 0; i < outputs(); ++i) io_.push_back(device_.allocate(output_room(i)));
  }

  // Null leaves an input unchanged and an output on the device: a state stays there from run to run. The run can still be under
  // way if no output is read.
  void run(const std::vector<const void*>& inputs_given, const std::vector<void*>& outputs_wanted) {
    for (size_t i = 0; i < inputs(); ++i) check_indices(json_["inputs"].items[i], inputs_given[i]);
    const Frame frame = own_frame();
    for (size_t i = 0; i < inputs(); ++i)
      if (inputs_given[i]) device_.write(frame.in[i], inputs_given[i], input_bytes(i));
    run_checked(frame, {});
    for (size_t i = 0; i < outputs(); ++i)
      if (outputs_wanted[i]) device_.read(outputs_wanted[i], frame.out[i], output_bytes(i));
  }

  // The same on memory of the device, of input_bytes and output_room, that kernels read and write in place: nothing is copied, and
  // the call returns while the run is under way. Null: the program's own buffer, as for a state. Indices in such inputs are clamped,
  // or counted by hardened packages. Runs on the same memory are recorded and replayed as others are.
  void run_on_device(const std::vector<void*>& inputs_given, const std::vector<void*>& outputs_given) {
    Frame frame = own_frame();
    std::vector<int> adopted;
    const auto adopt = [&](void* memory, Address* at) {
      if (memory) adopted.push_back(device_.adopt(memory)), *at = {adopted.back(), 0};
    };
    try {
      for (size_t i = 0; i < inputs(); ++i) {
        if (inputs_given[i] && place_of_input(i) != i) fail("the input \"" + input_name(i) + "\" is a state, whose memory is the program's");
        adopt(inputs_given[i], &frame.in[i]);
      }
      for (size_t i = 0; i < outputs(); ++i) {
        if (outputs_given[i] && is_state(i)) fail("output " + std::to_string(i) + " is a state, whose memory is the program's");
        adopt(outputs_given[i], &frame.out[i]);
      }
      std::vector<void*> memory = inputs_given;
      memory.insert(memory.end(), outputs_given.begin(), outputs_given.end());
      run_checked(frame, memory);
      device_.submit();
    } catch (...) {
      for (int b : adopted) device_.release(b);
      throw;
    }
    for (int b : adopted) device_.release(b);
  }

  // False: each run launches its kernels on the stream, as an application needs that records the stream itself.
  void set_recording(bool on) {
    forget_recording();
    records_ = on;
  }

 private:
  // The memory of a running graph.
  struct Frame {
    Address arena;
    std::vector<Address> in, out;
  };

  // Checks the elements of an input of indices.
  void check_indices(const Json& input, const void* given) const {
    const Json* largest = input.find("largest");
    if (!largest || !given) return;
    const int64_t most = size(*largest);
    for (size_t at = 0; at < bytes(input["bytes"]); at += sizeof(int64_t)) {
      int64_t index = 0;
      std::memcpy(&index, static_cast<const char*>(given) + at, sizeof index);
      if (index < 0 || index > most) fail("the input \"" + input["name"].string + "\" holds " + std::to_string(index) + ", which is not within 0.." + std::to_string(most));
    }
  }

  // Returns the buffer of an input, or of the output that shares its state.
  size_t place_of_input(size_t i) const {
    for (const Json& s : json_["states"].items)
      if (static_cast<size_t>(s.items[0].number) == i) return inputs() + static_cast<size_t>(s.items[1].number);
    return i;
  }

  bool is_state(size_t output) const {
    const std::vector<Json>& states = json_["states"].items;
    return std::any_of(states.begin(), states.end(), [&](const Json& s) { return static_cast<size_t>(s.items[1].number) == output; });
  }
  Frame own_frame() const {
    Frame frame;
    frame.arena = arena_;
    for (size_t i = 0; i < inputs(); ++i) frame.in.push_back({io_[place_of_input(i)], 0});
    for (size_t i = 0; i < outputs(); ++i) frame.out.push_back({io_[inputs() + i], 0});
    return frame;
  }

  void run_checked(const Frame& frame, const std::vector<void*>& memory) {
    const Json& bad_indices = json_["bad_indices"];
    int64_t bad = 0;
    if (!bad_indices.null()) device_.write(moved(cells_, bytes(bad_indices)), &bad, sizeof bad);
    run_graph(frame, memory);
    if (!bad_indices.null()) device_.read(&bad, moved(cells_, bytes(bad_indices)), sizeof bad);
    if (bad > 0) fail(std::to_string(bad) + " indices that the inputs give are out of range");
  }

  // The second run on the same memory of the application records the steps, if the host decides nothing between them; this run and
  // later ones replay them.
  void run_graph(const Frame& frame, const std::vector<void*>& memory) {
    if (memory != memory_) forget_recording();
    memory_ = memory;
    const bool records = runs_ == 1 && records_ && all_recordable() && device_.record();
    if (recording_ < 0) graph(0, frame);
    if (records) recording_ = device_.end_record();
    if (recording_ >= 0) device_.replay(recording_);
    runs_ = std::min(runs_ + 1, 2);
  }
  void forget_recording() {
    if (recording_ >= 0) device_.forget(recording_);
    recording_ = -1;
    runs_ = 0;
  }
  void release(int buffer) {
    if (buffer >= 0) device_.release(buffer);
  }
  bool all_recordable() const {
    const std::vector<Json>& steps = json_["graphs"].items[0].items;
    return std::all_of(steps.begin(), steps.end(), [](const Json& s) { return s.keys[0] == "copy" || (s.keys[0] == "kernel" && !s.find("extents")); });
  }

  // Finds the place of this device in the groups of the mesh.
  void join_mesh() {
    const Json* mesh = json_.find("mesh");
    if (!mesh) return;
    int devices = 1;
    for (const Json& axis : mesh->items) devices *= static_cast<int>(axis["size"].number);
    const int ranks = link_ ? link_->ranks() : 1;
    if (ranks != devices) fail("runs on " + std::to_string(devices) + " ranks, has " + std::to_string(ranks) + ": mpirun -n " + std::to_string(devices) + " ./run ...");
    struct Coordinate {
      int at, stride, size;
    };
    std::vector<Coordinate> coordinates;
    int stride = devices, rest = link_->rank();
    for (const Json& axis : mesh->items) {
      const int size = static_cast<int>(axis["size"].number);
      stride /= size;
      coordinates.push_back({rest / stride, stride, size});
      rest %= stride;
    }
    for (const Json& along : json_["groups"].items) {
      Link::Member m{link_->rank(), 0, 1};
      for (const Json& axis : along.items) {
        const Coordinate& c = coordinates[static_cast<size_t>(axis.number)];
        m.position = m.position * c.size + c.at;
        m.devices *= c.size;
        m.first_rank -= c.at * c.stride;
      }
      groups_.push_back(m);
    }
    link_->open(groups_);
  }
  // Whether this device computes or reads it: all do, but for the stages of a pipeline.
  bool is_here(const Json& j) const {
    const Json* stages = j.find("stages");
    return !stages || (stages->number >> groups_[static_cast<size_t>(json_["pipeline"].number)].position & 1);
  }

  // Checks the fingerprint at the start of the package's weight file.
  void check_weights_file(const std::string& folder) const {
    const std::string &name = json_["weights_file"].string, &header = json_["weights_header"].string;
    const bool used = std::any_of(json_["weights"].items.begin(), json_["weights"].items.end(), [&](const Json& w) { return w["bytes"].number > 0 && w["file"].string == name; });
    if (!used) return;
    std::ifstream file(folder + "/" + name, std::ios::binary);
    std::string found(header.size(), '\0');
    if (!file.read(&found[0], static_cast<std::streamsize>(found.size()))) fail("can't read the weights from " + folder + "/" + name);
    if (found != header) fail(folder + "/" + name + " belongs to another model");
  }

  // Calls f(i) for each weight that a step reads, also in its bodies.
  template <class F>
  static void each_weight(const Json& step, const F& f) {
    if (step.items.size() == 3 && step.items[0].string == "W" && step.items[1].kind == Json::Kind::Number) return f(static_cast<size_t>(step.items[1].number));
    for (const Json& item : step.items) each_weight(item, f);
  }

  // Runs the load steps. A weight that only they read is on the device from the first to the last of them: the most memory is that of
  // what stays there and of the weights of one step.
  void load_weights(const std::string& folder) {
    const std::vector<Json>& load = json_["load"].items;
    const Json& memory = json_["memory"];
    packed_ = device_.allocate(static_cast<size_t>(memory["packed"].number));
    scratch_ = {device_.allocate(static_cast<size_t>(memory["load_scratch"].number)), 0};
    weights_.assign(json_["weights"].items.size(), -1);
    std::vector<size_t> last(weights_.size(), load.size());
    for (size_t i = 0; i < load.size(); ++i) each_weight(load[i], [&](size_t w) { last[w] = i; });
    each_weight(json_["graphs"], [&](size_t w) { last[w] = load.size(); });
    for (size_t w = 0; w < weights_.size(); ++w)
      if (last[w] == load.size()) load_weight(w, folder);
    for (size_t i = 0; i < load.size(); ++i) {
      each_weight(load[i], [&](size_t w) { if (weights_[w] < 0) load_weight(w, folder); });
      step(load[i], Frame());
      each_weight(load[i], [&](size_t w) {
        if (last[w] != i || weights_[w] < 0) return;
        device_.release(weights_[w]);
        weights_[w] = -1;
      });
    }
    device_.release(scratch_.buffer);
  }

  void load_weight(size_t i, const std::string& folder) {
    const Json& w = json_["weights"].items[i];
    const size_t n = is_here(w) ? bytes(w["bytes"]) : 0;
    weights_[i] = device_.allocate(n);
    if (n == 0) return;
    if (const Json* slice = w.find("slice")) return load_slice(weights_[i], w, *slice, folder);
    std::ifstream file(folder + "/" + w["file"].string, std::ios::binary);
    const size_t stored = bytes(w["stored"]);  // fewer than n: one element, repeated
    std::vector<char> data(n);
    file.seekg(w["offset"].number);
    if (!file.read(data.data(), static_cast<std::streamsize>(stored))) fail("can't read the weight \"" + w["name"].string + "\" from " + folder + "/" + w["file"].string);
    for (size_t i = stored; stored && i < n; ++i) data[i] = data[i - stored];
    device_.write({weights_[i], 0}, data.data(), n);
  }

  // Reads the runs of a weight that belong to this device.
  void load_slice(int to, const Json& w, const Json& slice, const std::string& folder) {
    std::ifstream file(folder + "/" + w["file"].string, std::ios::binary);
    const Link::Member& group = groups_.at(bytes(slice["group"]));
    const size_t runs = bytes(slice["runs"]), run = bytes(slice["run"]), whole = bytes(slice["whole"]);
    const size_t first = static_cast<size_t>(group.position) * run, own = first < whole ? std::min(run, whole - first) : 0;
    std::vector<char> data(runs * run);  // zeros where the part has padding
    for (size_t r = 0; own > 0 && r < runs; ++r) {
      file.seekg(w["offset"].number + static_cast<int64_t>(r * whole + first));
      if (!file.read(data.data() + r * run, static_cast<std::streamsize>(own))) fail("can't read the weight \"" + w["name"].string + "\" from " + folder + "/" + w["file"].string);
    }
    device_.write({to, 0}, data.data(), data.size());
  }

  template <class Symbol, class Named>
  static int64_t evaluate(const Json& postfix, Symbol symbol, Named named) {
    if (postfix.kind == Json::Kind::Number) return postfix.number;
    std::vector<int64_t> stack;
    for (const Json& item : postfix.items) {
      if (item.kind == Json::Kind::Number) stack.push_back(item.number);
      else if (item.string[0] == '$') stack.push_back(symbol(item.string.substr(1)));
      else if (item.string[0] == '#') stack.push_back(named(item.string));
      else {
        if (stack.size() < 2) fail("launch.json: a size is malformed");
        const int64_t b = stack.back(), a = stack[stack.size() - 2];
        const std::string& op = item.string;
        const int64_t quotient = b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
        stack.pop_back();
        bool bad = false;
        if (op == "+") bad = __builtin_add_overflow(a, b, &stack.back());
        else if (op == "-") bad = __builtin_sub_overflow(a, b, &stack.back());
        else if (op == "*") bad = __builtin_mul_overflow(a, b, &stack.back());
        else if (op == "floordiv") stack.back() = quotient;
        else if (op == "mod") stack.back() = b == 0 ? 0 : a - quotient * b;
        else if (op == "min") stack.back() = std::min(a, b);
        else if (op == "max") stack.back() = std::max(a, b);
        else fail("launch.json: unknown operator " + op);
        if (bad) fail("a size is too large");
      }
    }
    if (stack.size() != 1) fail("launch.json: a size is malformed");
    return stack[0];
  }
  int64_t size(const Json& j) const {
    if (j.kind == Json::Kind::Number) return j.number;
    std::map<std::string, int64_t> named;
    return size(j.string, named);
  }
  int64_t size(const std::string& text, std::map<std::string, int64_t>& named) const {
    if (const auto it = sizes_.find(text); it != sizes_.end()) return it->second;
    if (const auto it = named.find(text); it != named.end()) return it->second;
    const auto open = open_sizes_.find(text);
    if (open == open_sizes_.end()) fail("sizes are not set");
    const auto symbol = [&](const std::string& name) {
      const auto it = symbols_.find(name);
      if (it == symbols_.end()) fail("the size \"" + name + "\" is not known yet");
      return it->second;
    };
    return named[text] = evaluate(*open->second, symbol, [&](const std::string& name) { return size(name, named); });
  }

  // Data-dependent dims.
  int64_t& extent(const Json& number) { return symbols_[json_["extents"].items[bytes(number)]["name"].string]; }
  void set_extent(const Json& number, int64_t n) {
    const Json& e = json_["extents"].items[bytes(number)];
    const int64_t bound = size(e["bound"]);
    if (n < 0 || n > bound) fail("dynamic size: \"" + e["name"].string + "\" is " + std::to_string(n) + ", memory was planned for 0.." + std::to_string(bound));
    symbols_[e["name"].string] = n;
  }
  size_t bytes(const Json& j) const { return static_cast<size_t>(size(j)); }

  static Address moved(Address a, size_t offset) { return {a.buffer, a.offset + offset}; }

  Address place(const Json& p, const Frame& f) const {
    const size_t offset = bytes(p.items.back());
    const size_t i = p.items.size() > 2 ? static_cast<size_t>(p.items[1].number) : 0;
    switch (p.items[0].string[0]) {
      case 'W': return {weights_[i], offset};
      case 'P': return {packed_, offset};
      case 'A': return moved(f.arena, offset);
      case 'S': return moved(scratch_, offset);
      case 'H': return moved(held_, offset);
      case 'C': return moved(cells_, offset);
      case 'I': return moved(f.in[i], offset);
      case 'O': return moved(f.out[i], offset);
      default: fail("launch.json: unknown memory " + p.items[0].string);
    }
  }
  std::vector<Address> places(const Json& list, const Frame& f) const {
    std::vector<Address> out;
    for (const Json& p : list.items) out.push_back(p.null() ? Address() : place(p, f));
    return out;
  }

  void graph(int64_t number, const Frame& f) { steps(json_["graphs"].items[static_cast<size_t>(number)], f); }

  void steps(const Json& list, const Frame& f) {
    for (const Json& s : list.items) step(s, f);
  }

  void step(const Json& s, const Frame& f) {
    const std::string& kind = s.keys[0];
    if (!is_here(s)) return;
    if (const Json* equal = s.find("equal")) check_equal(*equal);
    if (kind == "kernel") launch(s, f);
    else if (kind == "copy") device_.copy(place(s["copy"].items[0], f), place(s["copy"].items[1], f), bytes(s["bytes"]));
    else if (kind == "collective") collective(s, f);
    else if (kind == "if") branch(s, f);
    else if (kind == "loop") loop(s, f);
    else scan(s, f);
  }

  // Memory for an exchange that is not in place.
  Address spare(size_t bytes) {
    if (spare_bytes_ < bytes) {
      release(spare_);
      spare_ = device_.allocate(bytes);
      spare_bytes_ = bytes;
    }
    return {spare_, 0};
  }

  void collective(const Json& s, const Frame& f) {
    const std::string &kind = s["collective"].string;
    const int group = static_cast<int>(s["group"].number);
    const Link::Member& own = groups_.at(static_cast<size_t>(group));
    const auto devices = static_cast<size_t>(own.devices), position = static_cast<size_t>(own.position);
    const Address to = place(s["to"], f);
    if (kind == "device_index") return device_.write(to, std::vector<int64_t>{own.position}.data(), sizeof(int64_t));
    const Address from = place(s["from"], f);
    const size_t count = bytes(s["count"]), run = bytes(s["run"]);  // elements and bytes of one, or runs and bytes of one
    if (kind == "device_slice") {
      const size_t whole = bytes(s["whole"]), first = position * run, own = first < whole ? std::min(run, whole - first) : 0;
      for (size_t r = 0; own > 0 && r < count; ++r) device_.copy(moved(to, r * run), moved(from, r * whole + first), own);
      const std::vector<char> padding(run - own);
      for (size_t r = 0; own < run && r < count; ++r) device_.write(moved(to, r * run + own), padding.data(), run - own);
      return;
    }
    const void* in = device_.pointer(from);
    void* out = device_.pointer(to);
    if (kind == "all_reduce") link_->all_reduce(group, in, out, count, s["dtype"].string, s["op"].string);
    else if (kind == "reduce_scatter") link_->reduce_scatter(group, in, out, count / devices, s["dtype"].string, s["op"].string);
    else if (kind == "all_gather" && count == 1) link_->all_gather(group, in, out, run);
    else if (kind == "all_gather") {
      const Address all = spare(count * run * devices);
      link_->all_gather(group, in, device_.pointer(all), count * run);
      for (size_t r = 0; r < count; ++r)
        for (size_t p = 0; p < devices; ++p) device_.copy(moved(to, (r * devices + p) * run), moved(all, (p * count + r) * run), run);
    } else if (kind == "all_to_all") {
      std::vector<Link::Message> sent, received;
      const size_t part = count * run / devices;
      for (size_t p = 0; p < devices; ++p) {
        sent.push_back({static_cast<int>(p), device_.pointer(moved(from, p * part)), part});
        received.push_back({static_cast<int>(p), device_.pointer(moved(to, p * part)), part});
      }
      link_->exchange(group, sent, received);
    } else permute(s["source"], group, from, to, count * run);
  }

  // The device at position p gets the value of the one at source[p], or zeros for -1.
  void permute(const Json& source, int group, Address from, Address to, size_t n) {
    const int own = groups_[static_cast<size_t>(group)].position, from_device = static_cast<int>(source.items[static_cast<size_t>(own)].number);
    std::vector<Link::Message> sent, received;
    for (size_t p = 0; p < source.items.size(); ++p)
      if (static_cast<int>(p) != own && source.items[p].number == own) sent.push_back({static_cast<int>(p), nullptr, n});
    if (from_device >= 0 && from_device != own) received.push_back({from_device, device_.pointer(to), n});
    const bool in_place = device_.pointer(from) == device_.pointer(to);
    const Address kept = in_place && !sent.empty() && from_device != own ? spare(n) : from;
    if (kept.buffer != from.buffer) device_.copy(kept, from, n);
    for (Link::Message& m : sent) m.at = device_.pointer(kept);
    link_->exchange(group, sent, received);
    if (from_device < 0) device_.write(to, std::vector<char>(n).data(), n);
    else if (from_device == own && !in_place) device_.copy(to, from, n);
  }

  void launch(const Json& s, const Frame& f) {
    const int kernel = static_cast<int>(s["kernel"].number);
    std::vector<int64_t> sizes;
    for (const Json& d : s["sizes"].items) sizes.push_back(size(d));
    uint32_t grid[3];
    bool empty = false;
    for (int a = 0; a < 3; ++a) {
      const Json& extent = json_["kernels"].items[static_cast<size_t>(kernel)]["grid"].items[a];
      grid[a] = static_cast<uint32_t>(evaluate(extent, [&](const std::string& i) { return sizes.at(std::stoul(i)); }, [](const std::string&) { return int64_t{0}; }));
      empty |= grid[a] == 0;
    }
    if (!empty) device_.launch(first_kernel_ + kernel, places(s["places"], f), sizes, grid);
    if (const Json* found = s.find("extents"))
      for (const Json& e : found->items) {
        int64_t n = 0;
        device_.read(&n, moved(cells_, 8 * bytes(e)), sizeof n);
        set_extent(e, n);
      }
  }

  template <class T>
  T value(const Json& p, const Frame& f, T otherwise) {
    if (!p.null()) device_.read(&otherwise, place(p, f), sizeof otherwise);
    return otherwise;
  }

  // Checks pairs of sizes that the model requires to be equal.
  void check_equal(const Json& pairs) const {
    const auto text = [](const Json& d) { return d.string.empty() ? std::to_string(static_cast<int64_t>(d.number)) : d.string; };
    for (size_t i = 0; i < pairs.items.size(); i += 2)
      if (const Json &a = pairs.items[i], &b = pairs.items[i + 1]; size(a) != size(b))
        fail("the model needs " + text(a) + " = " + text(b));
  }

  void branch(const Json& s, const Frame& f) {
    const bool yes = value<uint8_t>(s["if"], f, 0) != 0;
    check_equal(s[yes ? "then_equal" : "else_equal"]);
    graph(s[yes ? "then" : "else"].number, {moved(f.arena, bytes(s["arena"])), places(s["in"], f), places(s["out"], f)});
    for (const Json& e : s["extents"].items) set_extent(e.items[0], size(e.items[yes ? 1 : 2]));
  }

  // A stacked result of a loop: each iteration writes a row. A row with a data-dependent shape is written to a buffer and copied.
  struct Stacked {
    const Json &json, &row_bytes;
    Address to, held;
    bool turned;
    std::vector<int64_t> shape;  // the extents of the rows written before

    bool varies() const { return !json.items[2].items.empty(); }
  };
  std::vector<Stacked> stacked(const Json& s, const std::vector<Address>& results, const std::vector<Address>& held) {
    std::vector<Stacked> list;
    const Json& rows = s["stacked"];
    const size_t count = rows.items.size(), first = results.size() - count;
    const Json* reverse = s.find("out_reverse");
    for (size_t k = 0; k < count; ++k) {
      for (const Json& e : rows.items[k].items[2].items) extent(e) = 0;
      list.push_back({rows.items[k], s["row_bytes"].items[k], results[first + k], held[held.size() - 2 * (count - k)], reverse && reverse->items[k].number, {}});
    }
    return list;
  }
  Address row(const Stacked& k, int64_t i) const {
    return moved(k.to, static_cast<size_t>(k.turned ? size(k.json.items[0]) - 1 - i : i) * bytes(k.row_bytes));
  }
  void end_rows(std::vector<Stacked>& list, int64_t i) {
    for (Stacked& k : list) {
      if (!k.varies()) continue;
      std::vector<int64_t> shape;
      for (const Json& e : k.json.items[2].items) shape.push_back(extent(e));
      if (i > 0 && shape != k.shape) fail("dynamic size: rows of one result differ in shape");
      k.shape = std::move(shape);
      device_.copy(row(k, i), k.held, bytes(k.row_bytes));
    }
  }

  void loop(const Json& s, const Frame& f) {
    const Address counter = moved(cells_, bytes(s["cells"])), condition = moved(counter, 64);
    const int64_t trips = value<int64_t>(s["trips"], f, INT64_MAX);
    uint8_t go = value<uint8_t>(s["go"], f, 1);
    const size_t carries = bytes(s["carries"]);
    const std::vector<Address> results = places(s["results"], f), held = places(s["held"], f);
    Frame body;
    body.arena = moved(f.arena, bytes(s["arena"]));
    body.in = places(s["in"], f);
    body.in.insert(body.in.begin(), {counter, condition});
    std::vector<Stacked> rows = stacked(s, results, held);
    for (const Json& e : s["extents"].items) set_extent(e.items[0], size(e.items[1]));
    int64_t i = 0;
    for (; i < trips && go; ++i) {
      device_.write(counter, &i, sizeof i);
      device_.write(condition, &go, sizeof go);
      body.out = {held[0]};
      for (size_t k = 0; k < carries; ++k) body.out.push_back(held[2 * (k + 1) + static_cast<size_t>(i % 2)]);
      for (const Stacked& k : rows) {
        if (i >= size(k.json.items[0])) fail("dynamic size: a loop runs more often than its result has room for");
        body.out.push_back(k.varies() ? k.held : row(k, i));
      }
      graph(s["loop"].number, body);
      device_.read(&go, held[0], sizeof go);
      end_rows(rows, i);
      for (size_t k = 0; k < carries; ++k) body.in[k + 2] = body.out[k + 1];
      std::vector<int64_t> next;
      for (const Json& e : s["extents"].items) next.push_back(size(e.items[2]));
      for (size_t e = 0; e < next.size(); ++e) set_extent(s["extents"].items[e].items[0], next[e]);
    }
    for (const Stacked& k : rows) {
      if (!k.json.items[1].null()) set_extent(k.json.items[1], i);
      else if (size(k.json.items[0]) != i) fail("dynamic size: a loop runs less often than its result is long");
    }
    for (size_t k = 0; k < carries; ++k) device_.copy(results[k], body.in[k + 2], bytes(s["bytes"].items[k]));
  }

  void scan(const Json& s, const Frame& f) {
    const size_t states = bytes(s["states"]), inputs = s["in_bytes"].items.size(), length = bytes(s["length"]);
    const std::vector<Address> results = places(s["results"], f), held = places(s["held"], f), in = places(s["in"], f);
    Frame body;
    body.arena = moved(f.arena, bytes(s["arena"]));
    body.in = in;
    std::vector<Stacked> rows = stacked(s, results, held);
    for (size_t i = 0; i < length; ++i) {
      body.out.clear();
      for (size_t k = 0; k < states; ++k) body.out.push_back(held[2 * k + i % 2]);
      for (size_t k = 0; k < inputs; ++k)
        body.in[states + k] = moved(in[states + k], (s["in_reverse"].items[k].number ? length - 1 - i : i) * bytes(s["in_bytes"].items[k]));
      for (const Stacked& k : rows) body.out.push_back(k.varies() ? k.held : row(k, static_cast<int64_t>(i)));
      graph(s["scan"].number, body);
      end_rows(rows, static_cast<int64_t>(i));
      for (size_t k = 0; k < states; ++k) body.in[k] = body.out[k];
    }
    for (size_t k = 0; k < states; ++k) device_.copy(results[k], body.in[k], bytes(s["bytes"].items[k]));
  }

  Device& device_;
  Link* link_;
  Json json_;
  std::vector<Link::Member> groups_;
  int spare_ = -1;
  size_t spare_bytes_ = 0;
  int first_kernel_ = 0;
  int runs_ = 0;  // with these sizes on this memory, up to 2
  std::vector<void*> memory_;  // of the application, that the last run was on
  bool records_ = true;
  int recording_ = -1;
  std::vector<int> weights_, io_;
  int packed_ = -1;
  Address arena_, held_, scratch_, cells_;
  std::map<std::string, int64_t> symbols_, sizes_;    // sizes by their text
  std::map<std::string, const Json*> open_sizes_;  // data-dependent ones
};

}  // namespace rlxc
