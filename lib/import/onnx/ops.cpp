#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {
namespace {

constexpr OpRow kRows[] = {
#define ONNX_OP(name, low, high, handler, fold, kind, alpha, a, beta, b) \
  {ONNX_DOMAIN,                                                          \
   name,                                                                 \
   low,                                                                  \
   high,                                                                 \
   handler,                                                              \
   fold,                                                                 \
   OpKind::kind,                                                         \
   alpha,                                                                \
   beta,                                                                 \
   static_cast<double>(a),                                               \
   static_cast<double>(b),                                               \
   AcceptedKinds::Numbers},
#define ONNX_OP_ANY(name, low, high, handler, fold) \
  {ONNX_DOMAIN, name, low, high, handler, fold, OpKind::Input, "", "", 0, 0, AcceptedKinds::Any},
#define ONNX_OP_MOVES(name, low, high, handler, fold) \
  {ONNX_DOMAIN, name, low, high, handler, fold, OpKind::Input, "", "", 0, 0, AcceptedKinds::Tensors},
#define ONNX_OP_ANY_KIND(name, low, high, handler, fold, kind) \
  {ONNX_DOMAIN, name, low, high, handler, fold, OpKind::kind, "", "", 0, 0, AcceptedKinds::Any},
#define ONNX_OP_GAPS(name, low, high, handler, kind, alpha, a, optional)                                                       \
  {ONNX_DOMAIN, name, low, high, handler, nullptr, OpKind::kind, alpha, "", static_cast<double>(a), 0, AcceptedKinds::Numbers, \
   optional},
#define ONNX_OP_REFUSED(name, reason) \
  {ONNX_DOMAIN, name, 0, -1, nullptr, nullptr, OpKind::Input, "", "", 0, 0, AcceptedKinds::Any, 0, reason},
#define ONNX_DOMAIN ""
#include "import/onnx/ops.def"
#undef ONNX_DOMAIN
#define ONNX_DOMAIN "ai.onnx.ml"
#include "import/onnx/ops_ml.def"
#undef ONNX_DOMAIN
#define ONNX_DOMAIN "com.microsoft"
#include "import/onnx/ops_microsoft.def"
#undef ONNX_DOMAIN
#define ONNX_DOMAIN "ai.onnx.preview"
    ONNX_OP("FlexAttention", 3, 3, flex_attention, nullptr, Attention, "", 0, "", 0)
#undef ONNX_DOMAIN
#define ONNX_DOMAIN "ai.onnx.preview.training"
#include "import/onnx/ops_training.def"
#undef ONNX_DOMAIN
#undef ONNX_OP
#undef ONNX_OP_ANY
#undef ONNX_OP_MOVES
#undef ONNX_OP_ANY_KIND
#undef ONNX_OP_GAPS
#undef ONNX_OP_REFUSED
};

constexpr std::pair<std::string_view, std::string_view> key(size_t i) { return {kRows[i].domain, kRows[i].name}; }

// Rows in order of domain and name. Of rows of one name, the first is found.
constexpr auto kOrder = [] {
  std::array<uint16_t, std::size(kRows)> order{};
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::ranges::sort(order, [](size_t a, size_t b) { return std::pair(key(a), a) < std::pair(key(b), b); });
  return order;
}();

std::string_view canonical(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

}  // namespace

std::vector<OperatorInfo> imported_operators() {
  std::vector<OperatorInfo> out;
  for (const OpRow& r : kRows)
    out.push_back(
        {r.domain, r.name, r.min_in, r.max_in, r.kind == OpKind::Input ? std::nullopt : std::optional(r.kind), r.refusal});
  std::ranges::sort(out, {}, [](const OperatorInfo& o) { return std::pair(o.domain, o.name); });
  return out;
}

const OpRow* find_row(std::string_view domain, std::string_view name) {
  const std::pair wanted(canonical(domain), name);
  const auto it = std::ranges::lower_bound(kOrder, wanted, {}, key);
  return it != kOrder.end() && key(*it) == wanted ? &kRows[*it] : nullptr;
}

}  // namespace rlxc::onnx_import
