#include "eval/context.h"
namespace rlxc::eval {
std::span<const Entry> sequence_evaluators() { return {}; }
}  // namespace rlxc::eval
