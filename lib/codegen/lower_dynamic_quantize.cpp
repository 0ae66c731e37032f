// DynamicQuantize in three launches: the range of parts, scale and zero point, the elements.
#include "codegen/lowerings.h"
#include "kernel/builders/dynamic_quantize.h"

namespace rlxc::codegen {

bool lower_dynamic_quantize(Node& node) {
  const kernel::Mapping& m = node.mapping();
  const DType t = node.dtype(0);
  const Dim count = node.table().product(node.dims(0));
  const uint32_t range = node.scratch(DType::F32, Dim(2 * kernel::range_parts(m)));
  {
    Scope s(node, "range");
    s.bind({Binding::Kind::Operand, 0});
    s.bind({Binding::Kind::Scratch, range});
    kernel::build_range(s.builder(), t, s.size(count), m);
    s.finish();
  }
  {
    Scope s(node, "scale");
    s.bind({Binding::Kind::Scratch, range});
    s.bind({Binding::Kind::Result, 1});
    s.bind({Binding::Kind::Result, 2});
    kernel::build_range_quantization(s.builder(), m);
    s.finish();
  }
  Scope s(node);
  s.bind({Binding::Kind::Operand, 0});
  s.bind({Binding::Kind::Result, 1});
  s.bind({Binding::Kind::Result, 2});
  s.bind({Binding::Kind::Result, 0});
  kernel::build_quantize_by_range(s.builder(), t, s.size(count), m);
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
