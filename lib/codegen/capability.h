// The properties of a target that kernel selection uses.
#pragma once
#include <bitset>
#include <memory>
#include <string>

#include "codegen/tuning.h"
#include "kernel/mapping.h"
#include "support/dtype.h"

namespace rlxc::codegen {

struct CapabilityRow {
  std::string name = "cpu";
  kernel::Mapping mapping;
  size_t max_arguments = 0;                           // most arguments of a kernel; 0: unlimited
  bool weights_apart = false;                         // weights are separate arguments, all other memory is one argument
  bool collectives = false;                           // hosts exchange data between devices
  int64_t winograd = 0;                               // largest tile of Winograd's algorithm for f32 convolutions: 4, 2, or none
  std::shared_ptr<const Tuning> tuning;               // replaces the block sizes of the mapping; null: none
  std::bitset<kDTypeCount> dtypes = kernel_dtypes();  // element types that kernels may read and write

  // The element types of the kernel language.
  static std::bitset<kDTypeCount> kernel_dtypes() {
    std::bitset<kDTypeCount> t;
    for (DType d : {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::I16, DType::I32, DType::I64, DType::U8,
                    DType::U16, DType::U32, DType::U64, DType::Bool})
      t.set(static_cast<size_t>(d));
    return t;
  }
};

}  // namespace rlxc::codegen
