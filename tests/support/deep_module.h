// A chain of small residual blocks of any length, with exporter-style names.
#pragma once
#include <memory>
#include <string>

#include "ir/builder.h"

namespace rlxc::test {

inline std::unique_ptr<Module> deep_module(size_t layers, bool named = true) {
  auto m = std::make_unique<Module>("deep");
  Builder b(m->main());
  ValueId x = b.input("x", tensor_type(DType::F32, {Dim(16), Dim(8)}));
  const auto made = [&](ValueId v, const std::string& name) {
    if (named) m->main().set_node_name(m->main().def(v), m->symbol(name));
    return v;
  };
  for (size_t i = 0; i < layers; ++i) {
    const std::string layer = "/model/layers." + std::to_string(i) + "/";
    const ValueId w = b.param(named ? layer + "w" : "w" + std::to_string(i), tensor_type(DType::F32, {Dim(8), Dim(8)}));
    const ValueId h = made(b.matmul(x, w), layer + "mlp/up/MatMul");
    const ValueId a = made(b.unary(OpKind::Silu, h), layer + "mlp/act/Silu");
    const ValueId r = made(b.reshape(b.mul(a, h), {Dim(8), Dim(16)}), layer + "mlp/Reshape");
    x = made(b.add(x, b.reshape(r, {Dim(16), Dim(8)})), layer + "Add");
  }
  m->main().add_output(x, m->symbol("y"));
  return m;
}

}  // namespace rlxc::test
