#include <cmath>
#include <cstdio>

#include "kernel/language.h"

namespace rlxc::kernel {
namespace {

std::string type_text(Type t) {
  std::string s(rlxc::name(t.dtype));
  return t.lanes == 1 ? s : s + "x" + std::to_string(t.lanes);
}

class Text {
 public:
  explicit Text(const Kernel& k) : k_(k) {}

  std::string run() {
    for (const Comment& c : k_.comments) out_ += c.line() + "\n";
    out_ += "kernel " + k_.name + "(";
    constexpr const char* kAccess[] = {"in", "out", "inout"};
    for (size_t i = 0; i < k_.argument_count(); ++i) {
      const Buffer& b = k_.buffers[i];
      out_ += (i ? ", " : "") + std::string(kAccess[static_cast<int>(b.access)]) + " " + b.name + ": " + type_text(b.type) + "[" +
              expr(b.extent) + "]";
    }
    for (VarId v : k_.symbols)
      out_ += ", " + k_.var(v).name + ": " + std::to_string(k_.var(v).min) + ".." + std::to_string(k_.var(v).max);
    out_ += ") {\n";
    block(k_.body, 1);
    return out_ + "}\n";
  }

 private:
  std::string expr(ExprId id) const {
    if (!id.valid()) return "?";
    const ExprNode& e = k_.expr(id);
    switch (e.op) {
      case ExprOp::Const: {
        if (!is_float(e.type.dtype))
          return std::to_string(e.payload) + (e.type.dtype == DType::I64 ? "" : std::string(rlxc::name(e.type.dtype)));
        char text[40];
        snprintf(text, sizeof text, "%.17g", const_double(e));
        return text + std::string(rlxc::name(e.type.dtype));
      }
      case ExprOp::Var: return k_.vars[e.payload].name;
      default: break;
    }
    std::string s(name(e.op));
    if (type_rule(e.op) == TypeRule::Memory) s += "<" + type_text(e.type) + ">(" + k_.buffers[e.payload].name + ", ";
    else if (e.op == ExprOp::Cast || e.op == ExprOp::Bitcast || e.op == ExprOp::Broadcast) s += "<" + type_text(e.type) + ">(";
    else s += "(";
    for (int n = 0; n < operand_count(e.op); ++n) s += (n ? ", " : "") + expr(e.args[n]);
    if (e.op == ExprOp::WarpReduce) {
      const WarpReduction r = warp_reduction(e.payload);
      s += ", " + std::string(name(r.combine)) + ", " + std::to_string(r.threads);
    }
    if (e.op == ExprOp::DotInstructions) s += std::to_string(e.payload);
    else if (e.op == ExprOp::Ramp || e.op == ExprOp::Lane || e.op == ExprOp::ShuffleXor) s += ", " + std::to_string(e.payload);
    else if ((moves_lanes(e.op) || e.op == ExprOp::Dot) && e.payload != 0) s += ", " + std::to_string(e.payload);
    return s + ")";
  }

  void line(int depth, const std::string& text) { out_ += std::string(2 * depth, ' ') + text + "\n"; }

  void block(const std::vector<Stmt>& body, int depth) {
    constexpr const char* kLoops[] = {"for", "unroll", "parallel", "grid", "lane"};
    for (const Stmt& s : body) switch (s.kind) {
        case StmtKind::For: {
          std::string kind = kLoops[static_cast<int>(s.loop)];
          if (s.loop == LoopKind::Grid || s.loop == LoopKind::Thread) kind += std::string(".") + "xyz"[s.axis % 3];
          line(depth, kind + " " + k_.var(s.var).name + " < " + expr(s.index) +
                          (s.value.valid() ? " grain " + expr(s.value) : "") + " {");
          block(s.body, depth + 1);
          line(depth, "}");
          break;
        }
        case StmtKind::If:
          line(depth, "if " + expr(s.value) + " {");
          block(s.body, depth + 1);
          if (!s.other.empty()) {
            line(depth, "} else {");
            block(s.other, depth + 1);
          }
          line(depth, "}");
          break;
        case StmtKind::Let: line(depth, k_.var(s.var).name + (s.held ? " = held " : " = ") + expr(s.value)); break;
        case StmtKind::Alloc: {
          const Buffer& b = k_.buffer(s.buffer);
          line(depth, std::string(b.space == Space::Shared ? "shared " : "register ") + b.name + ": " + type_text(b.type) + "[" +
                          expr(b.extent) + "]");
          break;
        }
        case StmtKind::Store:
          line(depth, (s.deferred ? "later " : "") + k_.buffer(s.buffer).name + "[" + expr(s.index) + "] = " + expr(s.value));
          break;
        case StmtKind::AtomicAdd:
          line(depth, "atomic " + k_.buffer(s.buffer).name + "[" + expr(s.index) + "] += " + expr(s.value));
          break;
        case StmtKind::Prefetch:
          line(depth,
               (s.cache == Cache::First ? "prefetch near " : "prefetch ") + k_.buffer(s.buffer).name + "[" + expr(s.index) + "]");
          break;
        case StmtKind::Barrier: line(depth, s.global ? "barrier global" : "barrier"); break;
        case StmtKind::Await: line(depth, "await all but " + std::to_string(s.pending)); break;
        case StmtKind::Settle: line(depth, "settle " + k_.buffer(s.buffer).name); break;
        case StmtKind::Comment: line(depth, s.comment.line()); break;
        case StmtKind::Source: line(depth, "source " + s.source); break;
      }
  }

  const Kernel& k_;
  std::string out_;
};

}  // namespace

std::string to_text(const Kernel& k) { return Text(k).run(); }

}  // namespace rlxc::kernel
