// An MLP with a residual as IR text, for tests that divide a model over devices.
#pragma once
#include <string_view>

namespace rlxc::testing {

inline constexpr std::string_view kMlp = R"(module "mlp" mir {
graph @main {
  %0 = input "x" : f32[4,8]
  %1 = param {data = splat 0.25} "w1" : f32[8,16]
  %2 = param {data = splat 0.5} "w2" : f32[16,8]
  %3 = matmul(%0, %1) "up" : f32[4,16]
  %4 = gelu(%3) : f32[4,16]
  %5 = matmul(%4, %2) "down" : f32[4,8]
  %6 = add(%0, %5) : f32[4,8]
  return %6 "y"
}
}
)";

}  // namespace rlxc::testing
