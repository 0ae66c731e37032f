#include "backend/c/render.h"

#include <set>

#include "kernel/math.h"
#include "kernel/rewrite.h"

namespace rlxc::target {
namespace {

using namespace kernel;

struct Infix {
  ExprOp op;
  std::string_view text;
  int precedence;  // higher binds tighter; 0: parenthesised as an operand
};
constexpr int kPrimary = 100;
constexpr Infix kInfix[] = {{ExprOp::Mul, "*", 3},  {ExprOp::Add, "+", 2}, {ExprOp::Sub, "-", 2}, {ExprOp::Lt, "<", 1},
                            {ExprOp::Le, "<=", 1},  {ExprOp::Div, "/", 3}, {ExprOp::Mod, "%", 3}, {ExprOp::Eq, "==", 0},
                            {ExprOp::Ne, "!=", 0},  {ExprOp::And, "&", 0}, {ExprOp::Or, "|", 0},  {ExprOp::Xor, "^", 0},
                            {ExprOp::Shl, "<<", 0}, {ExprOp::Shr, ">>", 0}};

const Infix* infix_of(ExprOp op) {
  for (const Infix& i : kInfix)
    if (i.op == op) return &i;
  return nullptr;
}

struct Text {
  std::string text;
  int precedence = kPrimary;
};

struct Uses {
  std::set<uint32_t> vars, buffers;
};

class Printer {
 public:
  Printer(const CLike& target, Helpers& helpers) : target_(target), helpers_(helpers) {}

  std::string kernel(const Kernel& k) {
    k_ = &k;
    out_.clear();
    outlined_.clear();
    std::string head;
    for (const Comment& c : k.comments) head += c.line() + "\n";
    Launch launch = launch_of(k);
    std::string open = target_.open(k, launch, helpers_);
    depth_ = 1;
    Uses used = uses(*launch.body);
    for (size_t b = 0; b < k.argument_count(); ++b)
      if (!used.buffers.count(static_cast<uint32_t>(b))) unused(k.buffers[b].name);
    for (VarId s : k.symbols)
      if (!used.vars.count(s.raw)) unused(k.var(s).name);
    launch_indices(k.body, used);
    const std::string pool = target_.shared_pool(kernel::shared_bytes(k), helpers_);
    line(pool);
    shared(*launch.body, !pool.empty());
    block(*launch.body);
    if (parallel_ == 0) end_streams(used);
    return outlined_ + head + open + out_ + target_.close(k);
  }

  // Prints the body of a function of kernel/math.h; its last store is the return value.
  std::string function_body(const Kernel& k) {
    k_ = &k;
    depth_ = 1;
    for (const Stmt& s : k.body) {
      if (s.kind == StmtKind::Let) statement(s, k.body);
      if (s.kind == StmtKind::Store) line("return " + value(s.value) + ";");
    }
    return out_;
  }

 private:
  void unused(const std::string& name) {
    if (target_.threads()) line("(void)" + name + ";");
  }

  void launch_indices(const std::vector<Stmt>& body, const Uses& used) {
    for (const std::vector<Stmt>* at = &body; at->size() == 1; at = &at->front().body) {
      const Stmt& s = at->front();
      if (s.kind != StmtKind::For || (s.loop != LoopKind::Grid && s.loop != LoopKind::Thread)) return;
      const Var& v = k_->var(s.var);
      if (used.vars.count(s.var.raw)) line(target_.declare(v.type, v.name, target_.launch_index(s.loop, s.axis), helpers_));
    }
  }

  // Declares Shared buffers first, because some languages require them outside of blocks.
  void shared(const std::vector<Stmt>& body, bool in_pool) {
    uint64_t offset = 0;
    kernel::for_each_stmt(body, [&](const Stmt& s) {
      if (s.kind != StmtKind::Alloc || k_->buffer(s.buffer).space != Space::Shared) return;
      const Buffer& b = k_->buffer(s.buffer);
      if (!in_pool) return line(target_.shared(b, extent(s.buffer), helpers_));
      line(target_.in_shared_pool(b, offset, helpers_));
      offset += kernel::shared_bytes(*k_, b);
    });
  }

  int64_t extent(BufferId b) const {
    int64_t n = 0;
    k_->constant_int(k_->buffer(b).extent, &n);
    return n;
  }

  void line(const std::string& text) {
    if (!text.empty()) out_ += std::string(2 * depth_, ' ') + text + "\n";
  }

  void block(const std::vector<Stmt>& body) {
    for (size_t i = 0; i < body.size(); ++i) {
      const Stmt& s = body[i];
      if (s.kind == StmtKind::Alloc && i + 1 < body.size() && starts(body[i + 1], s.buffer)) {
        line(target_.registers(k_->buffer(s.buffer), 1, value(body[i + 1].value), helpers_));
        ++i;
      } else statement(s, body);
    }
  }

  // Returns whether the store initialises a variable.
  bool starts(const Stmt& s, BufferId b) const {
    return s.kind == StmtKind::Store && s.buffer == b && is_variable(k_->buffer(b));
  }

  void statement(const Stmt& s, const std::vector<Stmt>& siblings) {
    switch (s.kind) {
      case StmtKind::Comment: return line(s.comment.line());
      case StmtKind::Barrier: return line(std::string(target_.barrier(s.global)));
      case StmtKind::Await: return line(target_.await(s.pending, helpers_));
      case StmtKind::Settle: return line(target_.settle(k_->buffer(s.buffer), helpers_));
      case StmtKind::Source: return source(s.source);
      case StmtKind::Let: {
        const Var& v = k_->var(s.var);
        const std::string initial = value(s.value);
        return line(target_.declare(v.type, v.name, s.held ? target_.hold(v.type, initial, helpers_) : initial, helpers_));
      }
      case StmtKind::Alloc: return alloc(s.buffer);
      case StmtKind::Store: return line(store(s));
      case StmtKind::AtomicAdd: {
        const Buffer& b = k_->buffer(s.buffer);
        const std::string index = value(s.index), added = value(s.value);
        return line(target_.atomic_add(k_->expr(s.value).type, b, index, added, helpers_));
      }
      case StmtKind::Prefetch: return line(target_.prefetch(k_->buffer(s.buffer), value(s.index), s.cache));
      case StmtKind::If: {
        line("if (" + value(s.value) + ") {");
        nested(s.body);
        if (!s.other.empty()) {
          line("} else {");
          nested(s.other);
        }
        return line("}");
      }
      case StmtKind::For: return loop(s, siblings);
    }
  }

  void source(std::string_view text) {
    target_.declare_accessors(*k_, helpers_);
    line("{");
    ++depth_;
    for (size_t b = 0; b < k_->argument_count(); ++b) unused(k_->buffers[b].name);
    for (VarId v : k_->symbols) unused(k_->var(v).name);
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      line(std::string(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    --depth_;
    line("}");
  }

  void nested(const std::vector<Stmt>& body) {
    ++depth_;
    block(body);
    --depth_;
  }

  void alloc(BufferId id) {
    const Buffer& b = k_->buffer(id);
    if (b.space == Space::Register) line(target_.registers(b, extent(id), "", helpers_));
  }

  bool is_variable(const Buffer& b) const {
    int64_t n = 0;
    return b.space == Space::Register && k_->constant_int(b.extent, &n) && n == 1;
  }

  std::string store(const Stmt& s) {
    const Buffer& b = k_->buffer(s.buffer);
    if (is_variable(b)) return b.name + " = " + value(s.value) + ";";
    if (s.deferred)
      if (std::string later = deferred(s); !later.empty()) return later;
    const std::string index = value(s.index), stored = value(s.value);
    if (b.space == Space::Register && b.type == k_->expr(s.value).type) return b.name + "[" + index + "] = " + stored + ";";
    const Type t = k_->expr(s.value).type;
    return b.streamed ? target_.stream(t, b, index, stored, helpers_) : target_.store(t, b, index, stored, helpers_);
  }

  void end_streams(const Uses& used) {
    for (size_t b = 0; b < k_->argument_count(); ++b)
      if (used.buffers.count(static_cast<uint32_t>(b)) && k_->buffers[b].streamed) return line(target_.end_streams(helpers_));
  }

  // Returns a store that the target can defer; else nothing.
  std::string deferred(const Stmt& s) {
    ExprId loaded = s.value;
    while (k_->expr(loaded).op == ExprOp::Bitcast) loaded = k_->expr(loaded).args[0];
    const ExprNode& e = k_->expr(loaded);
    if (e.op != ExprOp::Load && e.op != ExprOp::LoadIf) return {};
    const Buffer& from = k_->buffers[static_cast<size_t>(e.payload)];
    if (from.space != Space::Global || k_->expr(e.args[0]).type.lanes != 1) return {};
    const std::string to_index = value(s.index), index = value(e.args[0]),
                      condition = e.op == ExprOp::LoadIf ? value(e.args[1]) : "true";
    return target_.store_later(e.type, k_->buffer(s.buffer), to_index, from, index, condition, helpers_);
  }

  // Returns a pointer to the element that an expression loads.
  std::string place(ExprId load) {
    const ExprNode& e = k_->expr(load);
    const std::string index = value(e.args[0]);
    return k_->buffers[static_cast<size_t>(e.payload)].name + " + (" + index + ")";
  }

  void loop(const Stmt& s, const std::vector<Stmt>& siblings) {
    const std::string& i = k_->var(s.var).name;
    if (s.loop == LoopKind::Parallel && target_.threads()) return parallel(s, siblings);
    if (s.loop == LoopKind::Unroll && !target_.unroll().empty()) line(std::string(target_.unroll()));
    line(target_.loop_head(i, k_->var(s.var).type, value(s.index), helpers_));
    nested(s.body);
    line("}");
  }

  // Prints the body of a Parallel loop as a separate function, which takes the kernel's arguments by pointer and recomputes the
  // Lets that it needs.
  void parallel(const Stmt& s, const std::vector<Stmt>& siblings) {
    Uses used = uses(s.body);
    std::vector<const Stmt*> lets;
    size_t at = static_cast<size_t>(&s - siblings.data());
    while (at-- > 0) {
      const Stmt& let = siblings[at];
      if (let.kind != StmtKind::Let || !used.vars.count(let.var.raw)) continue;
      collect(let.value, &used);
      lets.insert(lets.begin(), &let);
    }
    std::string id = k_->name + "_" + std::to_string(parallel_++), fields, unpack, pack;
    auto field = [&](const std::string& declaration, const std::string& name, const std::string& local) {
      fields += "  " + declaration + name + ";\n";
      unpack += "  " + local + name + " = rlxc_args->" + name + ";\n";
      pack += (pack.empty() ? "" : ", ") + name;
    };
    for (size_t b = 0; b < k_->argument_count(); ++b) {
      const Buffer& buffer = k_->buffers[b];
      if (!used.buffers.count(static_cast<uint32_t>(b))) continue;
      std::string pointer = (buffer.access == Access::Read ? "const " : "") + target_.element(buffer.type.dtype, helpers_) + "* ";
      field(pointer, buffer.name, pointer + (buffer.may_alias ? "" : "restrict "));
    }
    for (VarId v : k_->symbols)
      if (used.vars.count(v.raw)) field("int64_t ", k_->var(v).name, "const int64_t ");
    if (fields.empty()) {
      fields = "  int unused;\n";
      pack = "0";
    }

    std::string saved = std::move(out_);
    int saved_depth = depth_;
    out_.clear();
    depth_ = 1;
    for (const Stmt* let : lets) statement(*let, siblings);
    const std::string& i = k_->var(s.var).name;
    line("for (int64_t " + i + " = rlxc_begin; " + i + " < rlxc_end; ++" + i + ") {");
    nested(s.body);
    line("}");
    end_streams(used);
    outlined_ += "struct " + id + "_args {\n" + fields + "};\n\nstatic void " + id +
                 "(const void* rlxc_data, int64_t rlxc_begin, int64_t rlxc_end) {\n";
    outlined_ += unpack.empty() ? "  (void)rlxc_data;\n" : "  const struct " + id + "_args* rlxc_args = rlxc_data;\n" + unpack;
    outlined_ += out_ + "}\n\n";
    out_ = std::move(saved);
    depth_ = saved_depth;
    line("const struct " + id + "_args " + id + "_a = {" + pack + "};");
    const std::string count = value(s.index), grain = s.value.valid() ? value(s.value) : "1";
    line("rlxc_parallel_for(" + count + ", " + grain + ", " + id + ", &" + id + "_a);");
  }

  std::string value(ExprId id) { return print(id).text; }

  std::string operand(ExprId id, int parent, bool right) {
    Text t = print(id);
    bool bare = t.precedence == kPrimary || (t.precedence > parent && parent > 0 && t.precedence > 1) ||
                (t.precedence == parent && !right && parent > 1);
    return bare ? t.text : "(" + t.text + ")";
  }

  // Operands are printed by statements of their own, because they add helpers: compilers evaluate arguments in different orders.
  Text print(ExprId id) { return print(k_->expr(id)); }

  Text print(const ExprNode& e) {
    auto arg_type = [&](int n) { return k_->expr(e.args[n]).type; };
    auto arg = [&](int n) { return value(e.args[n]); };
    switch (e.op) {
      case ExprOp::Const: {
        std::string s = target_.literal(e);
        return {s, s[0] == '-' ? 0 : kPrimary};
      }
      case ExprOp::Var: return {k_->vars[e.payload].name};
      case ExprOp::DotInstructions: return {target_.dot_instructions(static_cast<int>(e.payload), helpers_)};
      case ExprOp::Load: return {load(e)};
      case ExprOp::LoadIf: {
        const std::string loaded = load(e), condition = operand(e.args[1], 0, false), other = arg(2);
        return {target_.load_if(loaded, condition, other, helpers_)};
      }
      case ExprOp::Cast: {
        const ExprNode& inner = k_->expr(e.args[0]);
        if (inner.op == ExprOp::RoundEven)
          if (const std::string function = target_.rounding_cast(e.type, inner.type, helpers_); !function.empty())
            return {function + "(" + value(inner.args[0]) + ")"};
        if (inner.op == ExprOp::Cast)
          if (std::string s =
                  target_.cast_through(e.type, inner.type, k_->expr(inner.args[0]).type, value(inner.args[0]), helpers_);
              !s.empty())
            return {s};
        return {target_.cast(e.type, arg_type(0), arg(0), helpers_)};
      }
      case ExprOp::Bitcast: {
        if (std::string word = loaded_word(e); !word.empty()) return {word};
        return {target_.bitcast(e.type, arg_type(0), arg(0), helpers_)};
      }
      case ExprOp::Select: {
        if (const ExprNode& c = k_->expr(e.args[0]); c.op == ExprOp::Lt && c.args[0] == e.args[2] && c.args[1] == e.args[1])
          if (const std::string function = target_.larger(e.type, helpers_); !function.empty()) {
            const std::string a = arg(2), b = arg(1);
            return {function + "(" + a + ", " + b + ")"};
          }
        std::string c = operand(e.args[0], 0, false), a = operand(e.args[1], 0, false), b = operand(e.args[2], 0, false);
        return {target_.select(e.type, arg_type(0), c, a, b, helpers_)};
      }
      case ExprOp::Broadcast: return {target_.broadcast(e.type, arg(0), helpers_)};
      case ExprOp::Ramp: return {target_.ramp(e.type, arg(0), e.payload, helpers_)};
      case ExprOp::Lane: return {target_.lane(operand(e.args[0], 0, false), static_cast<int>(e.payload))};
      case ExprOp::ShuffleXor: return {target_.shuffle_xor(e.type, arg(0), e.payload, helpers_)};
      case ExprOp::WarpReduce: return {target_.warp_reduce(e.type, kernel::warp_reduction(e.payload), arg(0), helpers_)};
      case ExprOp::MatrixMultiply: {
        const kernel::MatrixUnit& u = *k_->units[static_cast<size_t>(e.payload)];
        const std::string name = target_.matrix_multiply(u, helpers_);
        if (!u.reads_tiles()) return call(name, e);
        const std::string a = u.a_from == kernel::Source::Lanes ? arg(0) : place(e.args[0]), b = place(e.args[1]), c = arg(2);
        return {name + "(" + a + ", " + b + ", " + c + ")"};
      }
      case ExprOp::Dot: {
        const Type of_a = arg_type(0), of_b = arg_type(1);
        const std::string name =
            e.payload ? target_.dot_of_small(of_a, of_b, e.type, helpers_) : target_.dot(of_a, of_b, e.type, helpers_);
        const std::string a = factor(e.args[0]), b = factor(e.args[1]), c = arg(2);
        return {name + "(" + a + ", " + b + ", " + c + ")"};
      }
      case ExprOp::Product:
        if (!target_.fuses_products()) return print({ExprOp::Mul, e.type, e.args, 0});
        break;
      case ExprOp::Divisor:
        if (!target_.splits_divisors()) return print(e.args[0]);
        break;
      case ExprOp::DivisorRest:
        if (!target_.splits_divisors()) return print({ExprOp::Sub, e.type, {e.args[0], e.args[0]}, 0});
        break;
      case ExprOp::Quotient:
        if (!target_.splits_divisors()) return print({ExprOp::Div, e.type, {e.args[0], e.args[1]}, 0});
        break;
      case ExprOp::Neg:
        if (is_float(e.type.dtype) || rlxc::bits(e.type.dtype) >= 32) return {"-" + operand(e.args[0], 0, false), 0};
        break;
      case ExprOp::Not:
        if (e.type.lanes == 1) return {"!" + operand(e.args[0], 0, false), 0};
        break;
      default: break;
    }
    if (kernel::moves_lanes(e.op)) return call(target_.move_lanes(e.op, e.type, static_cast<int>(e.payload), helpers_), e);
    if (const Infix* i = infix_of(e.op); i && (target_.infix(e.op, arg_type(0)) || plain_division(e))) {
      ExprId left = bare_scalar(e, 0), right = left == e.args[0] ? bare_scalar(e, 1) : e.args[1];
      const std::string a = operand(left, i->precedence, false), b = operand(right, i->precedence, true);
      return {a + " " + std::string(i->text) + " " + b, i->precedence};
    }
    if (e.op == ExprOp::Fma && target_.infix(e.op, e.type)) {
      const std::string a = operand(e.args[0], 3, false), b = operand(e.args[1], 3, true), c = operand(e.args[2], 2, true);
      return {a + " * " + b + " + " + c, 2};
    }
    return call(target_.function(e.op, arg_type(0), helpers_), e);
  }

  Text call(const std::string& function, const ExprNode& e) {
    const bool swapped = has_constant_bound(e);
    std::string s = function + "(";
    for (int n = 0; n < operand_count(e.op); ++n) s += (n ? ", " : "") + value(e.args[swapped ? 1 - n : n]);
    return {s + ")"};
  }

  // Returns an operand of a dot product, as a word where the target takes words.
  std::string factor(ExprId id) {
    const ExprNode& e = k_->expr(id);
    if (!target_.dots_words()) return value(id);
    const Type word(DType::I32);
    if (e.op == ExprOp::Bitcast && k_->expr(e.args[0]).type == word) return value(e.args[0]);
    return target_.bitcast(word, e.type, value(id), helpers_);
  }

  // Returns a load of consecutive elements that are read as a word; empty: anything else.
  std::string loaded_word(const ExprNode& e) {
    const ExprNode& from = k_->expr(e.args[0]);
    if (e.type != Type(DType::I32) || from.op != ExprOp::Load || from.type.lanes == 1) return {};
    const Buffer& b = k_->buffers[from.payload];
    if (b.space != Space::Global || k_->expr(from.args[0]).type.lanes > 1) return {};
    return target_.load_word(b, value(from.args[0]), helpers_);
  }

  // Returns whether the operator is a minimum or maximum of vectors and a constant. The constant goes first, where compilers drop
  // the test for NaN.
  bool has_constant_bound(const ExprNode& e) const {
    if ((e.op != ExprOp::Min && e.op != ExprOp::Max) || e.type.lanes == 1) return false;
    const auto constant = [&](int n) {
      const ExprNode& a = k_->expr(e.args[n]);
      return (a.op == ExprOp::Broadcast ? k_->expr(a.args[0]) : a).op == ExprOp::Const;
    };
    return constant(1) && !constant(0);
  }

  // Returns the scalar under a broadcast if the target accepts scalar operands there.
  ExprId bare_scalar(const ExprNode& e, int n) {
    const ExprNode& a = k_->expr(e.args[n]);
    bool bare = a.op == ExprOp::Broadcast && k_->expr(a.args[0]).op == ExprOp::Const && target_.scalar_operand(e.op, a.type);
    return bare ? a.args[0] : e.args[n];
  }

  // Returns whether an integer division or shift is safe without a helper: the second operand is a valid constant.
  bool plain_division(const ExprNode& e) {
    int64_t n = 0;
    if (is_float(e.type.dtype) || rlxc::bits(e.type.dtype) < 32) return false;
    if (e.type.lanes > 1 && !target_.scalar_operand(e.op, e.type)) return false;
    if (!k_->constant_int(e.type.lanes > 1 ? bare_scalar(e, 1) : e.args[1], &n)) return false;
    if (e.op == ExprOp::Shl || e.op == ExprOp::Shr) return n >= 0 && n < rlxc::bits(e.type.dtype);
    return (e.op == ExprOp::Div || e.op == ExprOp::Mod) && n != 0 && n != -1;
  }

  std::string load(const ExprNode& e) {
    const Buffer& b = k_->buffers[e.payload];
    if (is_variable(b)) return b.name;
    if (b.space == Space::Register && b.type == e.type) return b.name + "[" + value(e.args[0]) + "]";
    const ExprNode& index = k_->expr(e.args[0]);
    if (index.op == ExprOp::Ramp) return target_.strided_load(e.type, b, value(index.args[0]), index.payload, helpers_);
    return target_.load(e.type, b, value(e.args[0]), index.type.lanes > 1, helpers_);
  }

  Uses uses(const std::vector<Stmt>& body) {
    Uses u;
    std::vector<const Stmt*> work;
    for (const Stmt& s : body) work.push_back(&s);
    while (!work.empty()) {
      const Stmt& s = *work.back();
      work.pop_back();
      for (ExprId e : {s.index, s.value})
        if (e.valid()) collect(e, &u);
      if (s.buffer.valid()) u.buffers.insert(s.buffer.raw);
      if (s.kind == StmtKind::Source) add_named(&u);
      for (const Stmt& inner : s.body) work.push_back(&inner);
      for (const Stmt& inner : s.other) work.push_back(&inner);
    }
    return u;
  }

  // Adds the buffers and variables that a source may name.
  void add_named(Uses* u) {
    for (uint32_t b = 0; b < k_->argument_count(); ++b) u->buffers.insert(b);
    for (uint32_t v = 0; v < k_->vars.size(); ++v)
      if (k_->vars[v].role != kernel::VarRole::Let) u->vars.insert(v);
  }

  void collect(ExprId root, Uses* u) {
    std::vector<ExprId> work{root};
    std::set<uint32_t> seen;
    while (!work.empty()) {
      ExprId id = work.back();
      work.pop_back();
      if (!seen.insert(id.raw).second) continue;
      const ExprNode& e = k_->expr(id);
      if (e.op == ExprOp::Var) u->vars.insert(static_cast<uint32_t>(e.payload));
      if (type_rule(e.op) == TypeRule::Memory) u->buffers.insert(static_cast<uint32_t>(e.payload));
      for (ExprId a : e.args)
        if (a.valid()) work.push_back(a);
    }
  }

  const CLike& target_;
  Helpers& helpers_;
  const Kernel* k_ = nullptr;
  std::string out_, outlined_;
  int depth_ = 0, parallel_ = 0;
};

}  // namespace

std::string defined_function(const CLike& target, ExprOp op, Type t, std::string_view head, Helpers& helpers, Periods periods) {
  std::string name = (periods == Periods::Near ? "rlxc_near_" : "rlxc_") + std::string(kernel::name(op)) + "_" + suffix(t);
  if (!helpers.needs(name)) return name;
  Kernel k = define(op, t, periods);
  std::string body = Printer(target, helpers).function_body(k), parameters;
  for (VarId v : k.symbols) parameters += (parameters.empty() ? "" : ", ") + target.parameter(k.var(v).name, t, helpers);
  std::string result = target.type(k.buffers[0].type, helpers);
  helpers.add(expand(head, {{"R", result}, {"F", name}, {"P", parameters}}) + body + "}\n");
  return name;
}

std::string render(const std::vector<const Kernel*>& kernels, const CLike& target) {
  Helpers helpers;
  std::string body;
  for (const Kernel* k : kernels) body += "\n" + Printer(target, helpers).kernel(*k);
  return std::string(target.prelude()) + helpers.text() + body;
}

std::string render(const Kernel& k, const CLike& target) { return render(std::vector<const Kernel*>{&k}, target); }

}  // namespace rlxc::target
