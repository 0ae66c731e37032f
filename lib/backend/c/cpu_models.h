// The processors for which the cpu target makes kernels (--cpu).
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "kernel/mapping.h"

namespace rlxc::target {

inline constexpr std::string_view kGenericCpu = "generic";

// The vectors, registers, caches and dot products of a processor. Tiles and blocks follow from them (Low et al., "Analytical
// Modeling Is Enough for High-Performance BLIS", 2016). The sums of a tile, a row of weights and an element of the other operand
// fill the registers. Blocks stay in the second cache.
struct CpuModel {
  std::string_view name;
  int vector_bytes, vector_registers;
  int64_t second_cache;           // bytes of a core
  int64_t last_cache;             // bytes that cores share
  bool bf16 = false;              // dot products
  int dot_instructions = 3;       // of a dot product of bytes below 128 in a vector; 0: not known
  int pair_dot_instructions = 0;  // of one of pairs of 16-bit integers; 0: not known, or several
  bool matrices = false;          // matrix units
};

// The row of this name; of the processor that runs this program for "native". Null for any other name.
const CpuModel* find_cpu(std::string_view name);
std::string cpu_names();  // "generic, native, ..."
kernel::Mapping cpu_mapping(const CpuModel&);

}  // namespace rlxc::target
