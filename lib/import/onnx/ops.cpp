#include <unordered_map>

#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {
namespace {

constexpr OpRow kRows[] = {
#define ONNX_OP(name, low, high, handler, fold, kind, alpha, a, beta, b) \
  {"", name, low, high, handler, fold, OpKind::kind, alpha, beta, static_cast<double>(a), static_cast<double>(b), false},
#define ONNX_OP_ANY(name, low, high, handler, fold) {"", name, low, high, handler, fold, OpKind::Input, "", "", 0, 0, true},
#include "import/onnx/ops.def"
#undef ONNX_OP
#undef ONNX_OP_ANY
};

}  // namespace

const OpRow* find_row(std::string_view domain, std::string_view name) {
  static const std::unordered_map<std::string_view, const OpRow*> index = [] {
    std::unordered_map<std::string_view, const OpRow*> rows;
    for (const OpRow& r : kRows) rows.emplace(r.name, &r);
    return rows;
  }();
  const auto it = index.find(name);
  return it != index.end() && it->second->domain == domain ? it->second : nullptr;
}

}  // namespace rlxc::onnx_import
