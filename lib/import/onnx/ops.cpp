#include <algorithm>
#include <array>
#include <cstdint>

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
#define ONNX_DOMAIN "ai.rlxc"
        ONNX_OP_ANY_KIND("StopGradient", 1, 1, unary, nullptr, StopGradient)
#undef ONNX_DOMAIN
#undef ONNX_OP
#undef ONNX_OP_ANY
#undef ONNX_OP_MOVES
#undef ONNX_OP_ANY_KIND
#undef ONNX_OP_GAPS
#undef ONNX_OP_REFUSED
};

constexpr size_t kSlots = 1024;  // a power of two
static_assert(std::size(kRows) < kSlots * 2 / 3);

constexpr size_t slot_of(std::string_view domain, std::string_view name) {
  uint32_t hash = static_cast<uint32_t>(domain.size());  // FNV-1a; few names are in several domains
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return (hash ^ hash >> 16) % kSlots;
}

// Hash table of indices of rows plus 1, or 0. Of rows of one name, the first is found.
constexpr auto kTable = [] {
  std::array<uint16_t, kSlots> table{};
  for (size_t i = 0; i < std::size(kRows); ++i) {
    size_t slot = slot_of(kRows[i].domain, kRows[i].name);
    while (table[slot] != 0) slot = (slot + 1) % kSlots;
    table[slot] = static_cast<uint16_t>(i + 1);
  }
  return table;
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
  domain = canonical(domain);
  for (size_t slot = slot_of(domain, name); kTable[slot] != 0; slot = (slot + 1) % kSlots)
    if (const OpRow& row = kRows[kTable[slot] - 1]; row.name == name && row.domain == domain) return &row;
  return nullptr;
}

}  // namespace rlxc::onnx_import
