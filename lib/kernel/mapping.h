// The properties of a machine that kernel builders use. Builders read these numbers and never a target's name.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "kernel/blocking.h"
#include "kernel/matrix.h"

namespace rlxc::kernel {

struct Mapping {
  bool workgroups = false;  // true: a grid of workgroups with shared memory; false: loops split among CPU threads
  int vector_bytes = 64;    // width of a vector register (1, scalar: the size of the element)
  int load_bytes = 64;      // widest memory access
  int vector_registers = 32;
  int max_vector_lanes = 64;
  // Grids of workgroups.
  int workgroup_size = 256;  // threads, unless the builder chooses
  int max_workgroup_size = 1024;
  int busy_workgroups = 96;   // so many occupy a device
  int warp = 1;               // threads that shuffle_xor reaches; 1 without shuffles
  bool warp_reduces = false;  // has one function for the sum, maximum or minimum of a warp
  std::span<const MatrixUnit> matrix_units;
  std::span<const MatrixUnit> tile_units;
  std::span<const DotUnit> dot_units;
  bool whole_vectors = false;  // reads vectors of shared memory at once only where it is written by whole vectors
  int64_t shared_bytes = 48 << 10;
  int64_t shared_bytes_of_several = 0;  // so many leave room for other workgroups beside it; 0: shared_bytes
  int64_t pipeline_bytes = 0;           // of shared memory for deferred stores; 0: stores are not deferred
  int warp_tile = 32;                   // rows and columns of a result that a warp can hold
  std::array<int64_t, 3> max_grid = {int64_t{1} << 31, 65535, 65535};
  // Loops on CPU threads.
  int threads = 1;
  int64_t parallel_bytes = 256 << 10;  // least memory traffic that justifies a thread
  int64_t last_cache = 0;              // bytes of the last cache; results as large are written past the caches; 0: none are
  int dot_instructions = 0;            // of a dot product of bytes in a vector; 0: known where the kernels are compiled
  int pair_dot_instructions = 0;       // of one of pairs of 16-bit integers; 0: not known, or slow
  Blocking blocking;

  int64_t most_shared_bytes() const { return shared_bytes + pipeline_bytes; }  // of kernels in one launch
  // With few registers, compilers keep sums in memory where a step of a tile adds several terms.
  bool has_many_registers() const { return vector_registers >= 32; }
  int vector_lanes(int element_bytes) const { return lanes_of(vector_bytes, element_bytes); }
  int load_lanes(int element_bytes) const { return lanes_of(load_bytes, element_bytes); }

 private:
  int lanes_of(int width, int element_bytes) const { return std::clamp(width / element_bytes, 1, max_vector_lanes); }
};

}  // namespace rlxc::kernel
