#include "eval/context.h"
namespace rlxc::eval {
std::span<const Entry> resize_evaluators() { return {}; }
}  // namespace rlxc::eval
