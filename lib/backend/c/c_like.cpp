#include "backend/c/c_like.h"

#include <bit>
#include <charconv>
#include <cmath>

namespace rlxc::target {

std::string Helpers::text() const {
  std::string all;
  for (const std::string& t : texts_) all += t;
  return all;
}

std::string suffix(Type t) {
  std::string s(rlxc::name(t.dtype));
  if (t.lanes > 1) s += "x" + std::to_string(t.lanes);
  return s;
}

std::string expand(std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string out;
  while (!text.empty()) {
    size_t at = text.find('$');
    out += text.substr(0, at);
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
    for (const auto& [key, value] : values)
      if (text.substr(0, key.size()) == key) {
        out += value;
        text.remove_prefix(key.size());
        break;
      }
  }
  return out;
}

std::string CLike::literal(const ExprNode& e) const {
  DType t = e.type.dtype;
  if (t == DType::Bool) return e.payload ? "true" : "false";
  if (!is_float(t)) {
    if (t == DType::U64 || t == DType::U32)
      return std::to_string(static_cast<uint64_t>(e.payload)) + (t == DType::U64 ? "ull" : "u");
    if (e.payload == INT64_MIN) return "(-9223372036854775807 - 1)";
    if (t == DType::I32 && e.payload == INT32_MIN) return "(-2147483647 - 1)";
    return std::to_string(e.payload);
  }
  double v = kernel::const_double(e);
  if (std::isnan(v)) return "NAN";
  if (std::isinf(v)) return v > 0 ? "INFINITY" : "-INFINITY";
  char buffer[40];
  auto end = t == DType::F64 ? std::to_chars(buffer, buffer + sizeof buffer, v)
                             : std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(v));
  std::string s(buffer, end.ptr);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return t == DType::F64 ? s : s + "f";
}

bool CLike::infix(ExprOp op, Type t) const {
  switch (op) {
    case ExprOp::Div: return is_float(t.dtype);
    case ExprOp::Add:
    case ExprOp::Sub:
    case ExprOp::Mul:
    case ExprOp::And:
    case ExprOp::Or:
    case ExprOp::Xor: return t.lanes > 1 || rlxc::bits(t.dtype) >= 32 || t.dtype == DType::Bool;
    case ExprOp::Lt:
    case ExprOp::Le:
    case ExprOp::Eq:
    case ExprOp::Ne: return true;
    default: return false;
  }
}

std::string CLike::select(Type, Type, const std::string& c, const std::string& a, const std::string& b, Helpers&) const {
  return "(" + c + " ? " + a + " : " + b + ")";
}

std::string CLike::load_if(const std::string& load, const std::string& c, const std::string& otherwise, Helpers&) const {
  return "(" + c + " ? " + load + " : " + otherwise + ")";
}

std::string CLike::loop_head(const std::string& i, Type t, const std::string& extent, Helpers& h) const {
  return "for (" + type(t, h) + " " + i + " = 0; " + i + " < " + extent + "; ++" + i + ") {";
}

std::string CLike::shuffle_xor(Type, const std::string& value, int64_t, Helpers&) const { return value; }

std::string CLike::atomic_add(Type, const kernel::Buffer&, const std::string&, const std::string&, Helpers&) const { return ""; }

std::string CLike::shared(const kernel::Buffer& b, int64_t extent, Helpers& h) const {
  return std::string(shared_qualifier()) + element(b.type.dtype, h) + " " + b.name + "[" + std::to_string(extent) + "];";
}

std::string CLike::registers(const kernel::Buffer& b, int64_t extent, const std::string& value, Helpers& h) const {
  std::string start = value.empty() ? ";" : " = " + value + ";";
  return type(b.type, h) + " " + b.name + (extent == 1 ? start : "[" + std::to_string(extent) + "];");
}

std::string CLike::declare(Type t, const std::string& name, const std::string& value, Helpers& h) const {
  return "const " + type(t, h) + " " + name + " = " + value + ";";
}

}  // namespace rlxc::target
