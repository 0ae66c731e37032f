#include "eval/context.h"
namespace rlxc::eval {
std::span<const Entry> control_evaluators() { return {}; }
}  // namespace rlxc::eval
