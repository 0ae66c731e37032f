// A back end turns a planned module into a package: text files to read, build and run. A target is one row (TargetInfo) in the
// folder of its family and one line of backends.def. Other rooms read the row, never the name.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/cost.h"
#include "backend/package_options.h"
#include "codegen/capability.h"
#include "codegen/package.h"

namespace rlxc {

namespace target {
class CLike;
}

// How a package runs on a machine without the target's device.
struct HostRun {
  enum class How : uint8_t {
    Native,    // built by the C compiler with AddressSanitizer
    Emulated,  // sources built as C++ with the headers of runtime/emulation.h
    Script,    // an interpreter runs the package's host program
  };
  How how = How::Native;
  std::string_view compiler = {};      // of emulated sources
  bool msl_arguments = false;          // kernels take their arguments in MSL's form
  std::string_view interpreter = {};   // of a script
  std::string_view script = {};        // in the package
  std::string_view script_named = {};  // environment variable that overrides the interpreter
};

struct TargetInfo {
  std::string_view name;                           // as on the command line
  std::string_view emits;                          // language of its kernels or graph, for messages
  std::string_view extension;                      // of its kernel sources
  const target::CLike& (*language)() = nullptr;    // null: emitted as a graph, without kernels
  bool (*supports)(OpKind) = nullptr;              // op kinds that the target supports in some form
  std::span<const DType> dtypes = {};              // element types of buffers
  kernel::Mapping mapping = {};                    // of kernels
  uint32_t region_steps = 32, region_inputs = 16;  // limits of an elementwise region
  Machine machine = {};                            // typical device, for the cost model
  uint64_t alignment = 64;                         // of arena slots, in bytes
  uint64_t max_binding = 0;                        // most bytes of a buffer that one binding can cover; 0: unlimited
  size_t max_arguments = 0;    // per kernel; with max_binding all memory but the weights counts as one. 0: unlimited
  bool collectives = false;    // its hosts exchange data between devices
  bool annotations = false;    // the target's compiler divides a model by the shardings of its values (dialect sdy)
  bool primitive_ops = false;  // the target's compiler fuses and packs sub-byte types itself
  DType half = DType::F16;     // the 16-bit float that its matrix units multiply: the one of --precision automixed
  bool static_sizes = false;   // a program is specialised to one set of sizes
  size_t claims = 0;           // column of claims.def
  HostRun host_run = {};
};

// Buffer types that every kernel language here supports.
inline constexpr DType kKernelTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::I16, DType::I32,
                                         DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool};
inline constexpr DType kKernelTypesAndF64[] = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8,
                                               DType::I16, DType::I32, DType::I64,  DType::U8,  DType::U16,
                                               DType::U32, DType::U64, DType::Bool};

// Returns the capabilities that code generation reads; nullopt for a graph target.
std::optional<codegen::CapabilityRow> capability(const TargetInfo&);
bool has_kernels(OpKind);  // `supports` of kernel targets

struct KernelFile {
  std::string name;
  std::vector<uint32_t> kernels;  // by number in the program
};

struct EmittedPackage {
  codegen::Package program;
  std::vector<TextFile> files;
};

// All members report Code::UnsupportedOnTarget for every node that the target cannot run, and Code::MissingWeights.
class Backend {
 public:
  explicit Backend(const TargetInfo& i) : info(i) {}
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Returns kernels, weights and the commands that run them; for a graph target weights, inputs and outputs only. `lowerings`: of
  // the module for this target; may be null. O(nodes).
  std::optional<codegen::Package> program(const LirModule&, Diagnostics&, codegen::LoweringCache* lowerings = nullptr) const;
  // Applies the target's integer types and bindings to the program.
  virtual std::optional<codegen::Package> adapt(codegen::Package program, Diagnostics&) const { return program; }
  // Returns the package's text files. The weights are written separately (write_weights).
  virtual std::optional<std::vector<TextFile>> write(const codegen::Package& adapted, const CpuPackageOptions&,
                                                     Diagnostics&) const = 0;
  // Returns the kernel sources among those files, for targets that compile them separately.
  virtual std::vector<KernelFile> kernel_files(const codegen::Package&) const { return {}; }

  // Runs program(), adapt() and write().
  std::optional<EmittedPackage> emit(const LirModule&, const CpuPackageOptions&, Diagnostics&,
                                     codegen::LoweringCache* lowerings = nullptr) const;

  const TargetInfo info;
};

std::span<const Backend* const> backends();            // in the order of backends.def
const Backend* find_backend(std::string_view target);  // null for an unknown name

}  // namespace rlxc
