// Types of option values, and contents of files named by options.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/dtype.h"

namespace rlxc {

enum class PrecisionPolicy : uint8_t {
  F32,
  F16,
  AutoMixed,
  AutoMixedConservative,
  AutoMixedBf16,
  Custom,
  Fp8E4M3,  // operands of matmuls as 8-bit floats, with one scale per tensor or (Mx) per block of 32
  Fp8E5M2,
  MxFp8E4M3,
  MxFp8E5M2
};

// Lowering of HIR blocks: to primitive chains that fusion passes see whole, or directly to fused ops.
enum class FusionPolicy : uint8_t { Fusable, Direct };

// Native: kernels of the target. Common: decompose every op that has a decomposition.
enum class KernelDispatch : uint8_t { Native, Common };

// Which tiles of Winograd's algorithm f32 convolutions may use: those that the cost model chooses, none, or 2x2 only, whose
// rounding errors are below those of plain sums.
enum class Winograd : uint8_t { Auto, Off, Tile2 };

// What executes a model. Interpreter: runs the kernel language.
enum class Engine : uint8_t { Reference, Interpreter, Kernels };

enum class Emit : uint8_t {
  Lir,
  Plan,
  Fusion,
  Dispatch,
  Precision,
  Quant,
  Graph,
  Arena,
  Kernels,
  Transform,
  Training,
  Sharding,
  Onnx,
  Report
};

struct PrecisionClassMap {  // for --precision custom:FILE: class or op name -> dtype
  std::vector<std::pair<std::string, DType>> rules;
};

struct CalibrationEntry {
  std::optional<int64_t> axis;
  std::vector<double> scales;
  std::vector<int64_t> zero_points;
};
// Quantization to low-precision values and scales: the largest magnitude that shares a scale becomes the largest quantized value.
struct CastConfig {
  DType to = DType::I8;     // i8, i4 or an 8-bit float
  int64_t block = 0;        // group size along the contracted axis of a matmul; 0: the whole axis
  bool per_tensor = false;  // one scale per tensor
  bool power_of_two = false;
};

struct CalibrationRecord {
  std::vector<std::pair<std::string, CalibrationEntry>> entries;  // by tensor name
  std::vector<std::string> float_layers;                          // matmuls and convolutions that read unrounded values
  std::vector<std::pair<std::string, std::vector<double>>>
      channel_scales;                 // by name of a norm's result: divisors of its channels
  std::optional<CastConfig> weights;  // of matmuls with constant weights
};

}  // namespace rlxc
