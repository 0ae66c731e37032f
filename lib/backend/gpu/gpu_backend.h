// Targets with a launch geometry: kernels in the target's language, the program as launch.json, and a host that runs it.
#pragma once
#include <array>

#include "backend/backend.h"
#include "backend/registry.h"

namespace rlxc {

struct HostPart {
  std::string_view from, to;  // name in a host folder, name in the package
  std::string_view content;   // for the README
};

// The parts of a package other than its kernels.
struct GpuPackaging {
  size_t kernels_in_file = 64;             // 0: one file per kernel, named after it
  std::span<const HostPart> host;          // model-independent files
  std::string_view link = {};              // the file that exchanges data between devices, link.hpp; empty: none
  std::string_view object_extension = {};  // of compiled kernel sources
  std::string_view makefile = {};          // $FILES: the compiled kernel sources; empty: no build step
  std::string_view command;                // runs the package; arguments follow
  std::string_view how;                    // for the README: how to build and run
  std::vector<TextFile> (*model_files)(const codegen::Package&) = nullptr;  // further files, with the names of inputs and outputs
  std::string (*example)(const codegen::Package&) = nullptr;                // for the README: an example call, markdown
  // Applied before rendering; null: narrow_indices (kernel/simplify.h). alignments: a power of two, at most 16, that divides the
  // address of an argument in bytes; empty: 16 for all.
  void (*prepare)(kernel::Kernel&, const std::vector<uint8_t>& alignments) = nullptr;
  // The language with 16-bit floats, which some devices have, and whether a kernel is written in it, too.
  const target::CLike& (*with_f16)() = nullptr;
  bool (*uses_f16)(const kernel::Kernel&) = nullptr;
  std::string (*refuses)(const kernel::Kernel&) = nullptr;  // the reason why a kernel cannot be emitted, or empty
};

// Host files of packages. `device`: the device's file.
constexpr std::array<HostPart, 3> cxx_host(std::string_view device) {
  return {{{"program.hpp", "program.hpp", "carries out `launch.json`; its class `Program` is the API"},
           {device, "device.hpp", "allocates, copies and launches by the calls of the device's library"},
           {"main.cc", "main.cpp", "a runner on raw files, and an example of the API"}}};
}

std::string cxx_example(const codegen::Package&);

inline constexpr std::string_view kMakeRun =
    "Build with `make`. Then, in this folder, `./run [--repeat N] WEIGHTS [SIZE=VALUE...] INPUT...` runs the model on raw "
    "files, little-endian, and writes output_<i>.bin; `--repeat N` also measures N more runs.";

// Sums of four products of bytes and an i32: of any signedness (PTX's dp4a), or of operands of one (V_DOT4 of CDNA, WGSL).
constexpr kernel::DotUnit byte_dots(DType a, DType b) { return {1, 4, a, b, DType::I32}; }
inline constexpr kernel::DotUnit kByteDots[] = {byte_dots(DType::I8, DType::I8), byte_dots(DType::U8, DType::U8),
                                                byte_dots(DType::U8, DType::I8), byte_dots(DType::I8, DType::U8)};
inline constexpr auto kByteDotsOfOneSign = std::span(kByteDots).first<2>();

// Workgroups of `workgroup_size` threads with shared memory, and vectors of 16 bytes.
constexpr kernel::Mapping grid_mapping(int workgroup_size, int max_workgroup_size, int warp, int64_t shared_bytes,
                                       int max_vector_lanes, std::span<const kernel::MatrixUnit> matrix_units = {},
                                       std::span<const kernel::DotUnit> dot_units = {}) {
  kernel::Mapping m;
  m.workgroups = true;
  m.load_bytes = m.vector_bytes = 16;
  m.max_vector_lanes = max_vector_lanes;
  m.workgroup_size = workgroup_size;
  m.max_workgroup_size = max_workgroup_size;
  m.warp = warp;
  m.shared_bytes = shared_bytes;
  m.vector_registers = 64;
  m.matrix_units = matrix_units;
  m.dot_units = dot_units;
  return m;
}

class GpuBackend : public Backend {
 public:
  GpuBackend(const TargetInfo& i, const GpuPackaging& p) : Backend(i), packaging(p) {}

  // Narrows kernels to the target's integer types, and assigns bindings on targets that bind weights separately (bind_memory.h).
  std::optional<codegen::Package> adapt(codegen::Package, Diagnostics&) const override;
  // kernels_*.<language>, launch.json, host sources, Makefile, README.md.
  std::optional<std::vector<TextFile>> write(const codegen::Package&, const CpuPackageOptions&, Diagnostics&) const override;
  std::vector<KernelFile> kernel_files(const codegen::Package&) const override;

  const GpuPackaging packaging;

 private:
  std::string readme(const codegen::Package&, const CpuPackageOptions&) const;
};

}  // namespace rlxc
