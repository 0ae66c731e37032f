#include "eval/gemm_tile.h"

namespace rlxc::eval {

void multiply_strip_any(const double* a, int64_t a_stride, const double* strip, int64_t k, double* c, int64_t c_stride,
                        int64_t m) {
  multiply_strip<16, 1>(a, a_stride, strip, k, c, c_stride, m);
}

}  // namespace rlxc::eval
