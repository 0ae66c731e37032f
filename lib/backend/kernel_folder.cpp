#include "backend/kernel_folder.h"

#include "backend/backend.h"
#include "backend/weight_files.h"

namespace rlxc {

void write_kernel_folder(const LirModule& lir, std::string_view target, const CpuPackageOptions& options,
                         codegen::LoweringCache* lowerings, const MakeFile& make_file, Diagnostics& d) {
  const auto package = find_backend(target)->emit(lir, options, d, lowerings);
  if (!package) return;
  for (const TextFile& f : package->files) make_file(f.name, [&](OutputFile& out) { out.write(f.content); });
  const codegen::Package& p = package->program;
  make_file(weights_file(p), [&](OutputFile& out) {
    write_weights(p, options, [&](std::span<const std::byte> bytes) { return out.write(bytes); });
  });
}

}  // namespace rlxc
