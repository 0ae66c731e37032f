#include "kernel/fold.h"

namespace rlxc::kernel {

int64_t wrap_int(DType t, int64_t v) {
  switch (t) {
    case DType::Bool: return v != 0;
    case DType::I8: return static_cast<int8_t>(v);
    case DType::I16: return static_cast<int16_t>(v);
    case DType::I32: return static_cast<int32_t>(v);
    case DType::U8: return static_cast<uint8_t>(v);
    case DType::U16: return static_cast<uint16_t>(v);
    case DType::U32: return static_cast<uint32_t>(v);
    default: return v;
  }
}

std::optional<int64_t> fold_int(ExprOp op, DType type, int64_t a, int64_t b) {
  using U = uint64_t;
  U ua = static_cast<U>(a), ub = static_cast<U>(b);
  bool wide = type == DType::U64;  // narrower unsigned values are never negative as int64
  U shift = ub & static_cast<U>(rlxc::bits(type) - 1);
  auto result = [&](U v) { return wrap_int(type, static_cast<int64_t>(v)); };
  switch (op) {
    case ExprOp::Neg: return result(0 - ua);
    case ExprOp::Abs: return result(!wide && a < 0 ? 0 - ua : ua);
    case ExprOp::Not: return a == 0;
    case ExprOp::BitNot: return type == DType::Bool ? a == 0 : result(~ua);
    case ExprOp::Add: return result(ua + ub);
    case ExprOp::Sub: return result(ua - ub);
    case ExprOp::Mul: return result(ua * ub);
    case ExprOp::Div: return b == 0 ? 0 : wide ? result(ua / ub) : b == -1 ? result(0 - ua) : result(static_cast<U>(a / b));
    case ExprOp::Mod: return b == 0 ? 0 : wide ? result(ua % ub) : b == -1 ? 0 : result(static_cast<U>(a % b));
    case ExprOp::Min: return (wide ? ua < ub : a < b) ? a : b;
    case ExprOp::Max: return (wide ? ua > ub : a > b) ? a : b;
    case ExprOp::Lt: return wide ? ua < ub : a < b;
    case ExprOp::Le: return wide ? ua <= ub : a <= b;
    case ExprOp::Eq: return a == b;
    case ExprOp::Ne: return a != b;
    case ExprOp::And: return result(ua & ub);
    case ExprOp::Or: return result(ua | ub);
    case ExprOp::Xor: return result(ua ^ ub);
    case ExprOp::Shl: return result(ua << shift);
    case ExprOp::Shr: return wide ? result(ua >> shift) : result(static_cast<U>(a >> shift));
    default: return std::nullopt;
  }
}

int64_t evaluate(const Kernel& k, ExprId root, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> value(root.raw + 1, 0);
  for (uint32_t i = 0; i <= root.raw; ++i) {
    const ExprNode& e = k.exprs[i];
    auto arg = [&](int n) { return value[e.args[n].raw]; };
    switch (e.op) {
      case ExprOp::Const: value[i] = e.payload; break;
      case ExprOp::Var:
        for (size_t s = 0; s < k.symbols.size(); ++s)
          if (k.symbols[s].raw == e.payload) value[i] = symbols[s];
        break;
      case ExprOp::Add:
      case ExprOp::Sub:
      case ExprOp::Mul: value[i] = fold_int(e.op, DType::I64, arg(0), arg(1)).value_or(0); break;
      case ExprOp::Div: value[i] = arg(1) > 0 ? arg(0) / arg(1) : 0; break;
      case ExprOp::Mod: value[i] = arg(1) > 0 ? arg(0) % arg(1) : 0; break;
      case ExprOp::Cast: value[i] = arg(0); break;
      case ExprOp::Min: value[i] = std::min(arg(0), arg(1)); break;
      case ExprOp::Max: value[i] = std::max(arg(0), arg(1)); break;
      default: break;
    }
  }
  return value[root.raw];
}

}  // namespace rlxc::kernel
