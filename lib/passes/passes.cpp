#include "passes/passes.h"

namespace rlxc {

const std::vector<PassInfo>& all_passes() {
  static const std::vector<PassInfo> passes = {
#define PASS(name, group, doc) {#name, #group, &name, doc},
#include "passes/passes.def"
#undef PASS
  };
  return passes;
}

const PassInfo* find_pass(std::string_view name) {
  for (const PassInfo& p : all_passes())
    if (p.name == name) return &p;
  return nullptr;
}

}  // namespace rlxc
