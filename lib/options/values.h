// The values that options take: policies, and what the files hold that options name.
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
  Fp8E4M3,  // operands of matmuls as 8-bit floats with one scale each, or with one for each block of 32
  Fp8E5M2,
  MxFp8E4M3,
  MxFp8E5M2
};

// How HIR blocks are lowered: into primitive chains that the fusion passes see whole, or into fused operations at once.
enum class FusionPolicy : uint8_t { Fusable, Direct };

// Native kernels where the target has them, or the decomposition of every operation that has one.
enum class KernelDispatch : uint8_t { Native, Common };

// What executes a model. Interpreter: of the kernel language.
enum class Engine : uint8_t { Reference, Interpreter, Kernels };

enum class Emit : uint8_t { Lir, Plan, Fusion, Dispatch, Precision, Quant, Graph, Arena, Kernels, Transform };

struct PrecisionClassMap {  // of --precision custom:FILE: class or op name -> dtype
  std::vector<std::pair<std::string, DType>> rules;
};

struct CalibrationEntry {
  std::optional<int64_t> axis;
  std::vector<double> scales;
  std::vector<int64_t> zero_points;
};
struct CalibrationRecord {
  std::vector<std::pair<std::string, CalibrationEntry>> entries;  // by tensor name
};

// Quantized values of few bits times scales: the largest absolute value that shares a scale becomes the largest quantized value.
struct CastConfig {
  DType to = DType::I8;     // i8, i4 or an 8-bit float
  int64_t block = 0;        // elements of the summed axis of a matmul that share a scale; 0: all
  bool per_tensor = false;  // one scale for all
  bool power_of_two = false;
};

}  // namespace rlxc
