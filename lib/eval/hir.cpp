#include "eval/context.h"
namespace rlxc::eval {
std::span<const Entry> hir_evaluators() { return {}; }
}  // namespace rlxc::eval
