// How much of a kernel's data a task keeps in the caches. The sizes follow from the processor's caches (backend/c/cpu_models.h)
// or from measurements (codegen/tuning.h). They do not change which values a kernel reads or how weights are packed.
#pragma once
#include <cstdint>
#include <string_view>

namespace rlxc::kernel {

struct Blocking {
  int64_t gemm_rows = 192;               // rows of a matmul per task and panel
  int64_t gemm_depth = 256;              // steps of k per chunk of a panel that a task packs
  int64_t packed_depth = 768;            // the same of a prepacked panel
  int64_t conv_image_bytes = 256 << 10;  // of the image that a task of a convolution of channel blocks reads
  int64_t window_bytes = 64 << 10;       // of the rows of f32 that a task of a depthwise convolution or pooling copies
  int64_t attention_queries = 256;       // most queries per task
  int64_t attention_keys = 64;           // keys per block, rounded up to tiles
  bool operator==(const Blocking&) const = default;
};

// `least` and `most` bound what a file may ask for: a task's copies are on the stack.
struct BlockingField {
  std::string_view name;
  int64_t Blocking::*field;
  int64_t least, most;
};
inline constexpr BlockingField kBlockingFields[] = {
    {"gemm_rows", &Blocking::gemm_rows, 16, 512},
    {"gemm_depth", &Blocking::gemm_depth, 64, 512},
    {"packed_depth", &Blocking::packed_depth, 64, 4096},
    {"conv_image_bytes", &Blocking::conv_image_bytes, 16 << 10, 16 << 20},
    {"window_bytes", &Blocking::window_bytes, 8 << 10, 256 << 10},
    {"attention_queries", &Blocking::attention_queries, 16, 512},
    {"attention_keys", &Blocking::attention_keys, 16, 256},
};

}  // namespace rlxc::kernel
