// Two programs on a device, by the C++ API of device packages. A recording holds addresses, as those of a device do.
#include <cmath>

#include "device.hpp"

struct Recorder : rlxc::EmulatedDevice {
  struct Launch {
    int kernel;
    std::vector<void*> memory;
    std::vector<int64_t> sizes;
    uint32_t grid[3];
  };
  bool record() override { return recording = true; }
  int end_record() override {
    recording = false;
    recordings.push_back(std::move(launches));
    return static_cast<int>(recordings.size()) - 1;
  }
  void launch(int kernel, const std::vector<rlxc::Address>& places, const std::vector<int64_t>& sizes,
              const uint32_t grid[3]) override {
    if (!recording) return ++direct, EmulatedDevice::launch(kernel, places, sizes, grid);
    Launch l{kernel, {}, sizes, {grid[0], grid[1], grid[2]}};
    for (rlxc::Address a : places) l.memory.push_back(pointer(a));
    launches.push_back(l);
  }
  void replay(int number) override {
    ++replayed;
    for (const Launch& l : recordings[static_cast<size_t>(number)]) {
      std::vector<rlxc::Address> places;
      for (void* m : l.memory) places.push_back({adopt(m), 0});
      EmulatedDevice::launch(l.kernel, places, l.sizes, l.grid);
      for (rlxc::Address a : places) release(a.buffer);
    }
  }
  void forget(int number) override { recordings[static_cast<size_t>(number)].clear(), ++forgotten; }

  bool recording = false;
  int direct = 0, replayed = 0, forgotten = 0;
  std::vector<Launch> launches;
  std::vector<std::vector<Launch>> recordings;
};

#define REQUIRE(x) \
  if (!(x)) return std::fprintf(stderr, "line %d: %s\n", __LINE__, #x), 1

int main() {
  constexpr size_t kCount = 3 * 32, kBytes = kCount * sizeof(float);
  Recorder device;
  {
    rlxc::Program first(device, ".", "."), second(device, ".", ".");
    first.set_sizes({{"rows", 3}}), second.set_sizes({{"rows", 3}});
    std::vector<float> x(kCount), y(kCount), z(kCount), found(kCount);
    for (size_t i = 0; i < kCount; ++i) x[i] = 0.01f * static_cast<float>(i % 17);
    first.run({x.data()}, {y.data()});
    second.run({y.data()}, {z.data()});
    const auto same = [&](rlxc::Address a) {
      device.read(found.data(), a, kBytes);
      return std::memcmp(found.data(), z.data(), kBytes) == 0 && std::isfinite(z[5]) && z[5] != y[5];
    };
    rlxc::Address in{device.allocate(kBytes), 0}, between{device.allocate(kBytes), 0},
        out[2] = {{device.allocate(kBytes), 0}, {device.allocate(kBytes), 0}};
    device.write(in, x.data(), kBytes);
    const std::vector<char> none(kBytes);
    for (rlxc::Address o : out)
      for (int run = 0; run < 3; ++run) {
        device.write(o, none.data(), kBytes);
        first.run_on_device({device.pointer(in)}, {device.pointer(between)});
        second.run_on_device({device.pointer(between)}, {device.pointer(o)});
        REQUIRE(same(o));
      }
    REQUIRE(device.replayed == 5 + 4);  // runs of the first after one on the same memory, and of the second
    REQUIRE(device.forgotten == 1);
    second.set_recording(false);
    const int replayed = device.replayed;
    for (int run = 0; run < 3; ++run) second.run_on_device({device.pointer(between)}, {device.pointer(out[0])});
    REQUIRE(device.replayed == replayed && same(out[0]));
    second.set_sizes({{"rows", 1}});
    second.run({y.data()}, {found.data()});
    REQUIRE(std::memcmp(found.data(), z.data(), kBytes / 3) == 0);
    for (rlxc::Address a : {in, between, out[0], out[1]}) device.release(a.buffer);
  }
  std::puts("done");
}
