// What a builder needs to know of the machine that a kernel is for. Builders read these numbers and never a target's name.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "kernel/matrix.h"

namespace rlxc::kernel {

struct Mapping {
  bool workgroups = false;  // true: a grid of workgroups with shared memory; false: loops, shared out over CPU threads
  int vector_bytes = 64;    // width of a register to compute with (1 scalar: the size of the element)
  int load_bytes = 64;      // widest memory access worth making
  int vector_registers = 32;
  int max_vector_lanes = 64;
  // grids of workgroups
  int workgroup_size = 256;  // threads, where a builder has no better number
  int max_workgroup_size = 1024;
  int warp = 1;  // threads that shuffle_xor reaches; 1 where there is no shuffle
  std::span<const MatrixUnit> matrix_units;
  std::span<const DotUnit> dot_units;
  int64_t shared_bytes = 48 << 10;
  std::array<int64_t, 3> max_grid = {int64_t{1} << 31, 65535, 65535};
  // loops on CPU threads
  int threads = 1;
  int64_t parallel_bytes = 256 << 10;  // a thread is worth starting for this much traffic

  int vector_lanes(int element_bytes) const { return lanes_of(vector_bytes, element_bytes); }
  int load_lanes(int element_bytes) const { return lanes_of(load_bytes, element_bytes); }

 private:
  int lanes_of(int width, int element_bytes) const { return std::clamp(width / element_bytes, 1, max_vector_lanes); }
};

}  // namespace rlxc::kernel
