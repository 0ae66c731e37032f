// Writes a kernel statement by statement:
//
//   Builder b("scale");
//   Expr n = b.symbol("n");
//   Buf x = b.input("x", DType::F32, n), y = b.output("y", DType::F32, n);
//   b.loop("i", n, [&](Expr i) { y.store(i, x[i] * 2); });
//   Kernel k = b.finish();
//
// Reads of memory that the kernel may write (shared buffers, registers, output arguments) are pinned to the point where the
// builder makes them: x[i] is the value at that point. Reads of input arguments are plain expressions.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "kernel/expr.h"

namespace rlxc::kernel {

class Builder;

// An index, extent or count: an i64 expression or an integer constant.
struct Index {
  Index(Expr e) : expr(e) {}
  Index(int64_t v) : value(v) {}
  Index(int v) : value(v) {}
  Expr in(Kernel* k) const { return expr.kernel ? expr : constant_int(k, DType::I64, value); }

  Expr expr;
  int64_t value = 0;
};

// A buffer of the kernel being built. A vector access is indexed by its first element. A Register buffer of vectors is indexed in
// vectors.
class Buf {
 public:
  Buf() = default;
  Buf(Builder* b, BufferId id) : builder_(b), id_(id) {}

  Expr operator[](Index i) const { return load(i); }
  Expr load(Index i, int lanes = 1) const;
  Expr gather(Expr indices) const;  // one element per lane of a vector of indices
  // Reads only where the scalar condition holds; `otherwise` is the value elsewhere.
  Expr load_if(Expr condition, Index i, Expr otherwise, int lanes = 1) const;
  void store(Index i, Expr value) const;
  void store_later(Index i, Expr loaded) const;  // a deferred store (kernel/language.h)
  void add(Index i, Expr value) const { store(i, load(i, value.lanes() / type().lanes) + value); }
  void atomic_add(Index i, Expr value) const;
  void prefetch(Index i, Cache cache = Cache::Second) const;  // fetches the cache line of element i, which need not exist

  // Access to a buffer of one element, used as a variable.
  Expr get() const { return load(0); }
  void set(Expr value) const { store(0, value); }

  BufferId id() const { return id_; }
  Type type() const;
  Builder* builder() const { return builder_; }

 private:
  Builder* builder_ = nullptr;
  BufferId id_;
};

class Builder {
 public:
  explicit Builder(std::string name) : kernel_(std::make_unique<Kernel>(std::move(name))) { blocks_.push_back(&kernel_->body); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Kernel* kernel() { return kernel_.get(); }
  void head(std::string line) { kernel_->comments.push_back({std::move(line), {}}); }

  // Arguments, in the order in which they are added. Names are made unique and legal in every target.
  Expr symbol(const std::string& name, int64_t min = 0, int64_t max = int64_t{1} << 31);
  Expr parameter(const std::string& name, Type);  // an operand of a function (kernel/math.h)
  Buf input(const std::string& name, DType, Index extent);
  Buf output(const std::string& name, DType, Index extent);
  Buf inout(const std::string& name, DType, Index extent);

  // Allocations. A variable is a Register buffer of one element with an initial value.
  Buf registers(const std::string& name, Type, int64_t extent);
  Buf shared(const std::string& name, DType, int64_t extent);
  Buf variable(const std::string& name, Expr start);

  Expr i64(int64_t v) { return constant_int(kernel(), DType::I64, v); }
  Expr f32(double v) { return constant(kernel(), DType::F32, v); }
  Expr value(DType t, double v) { return constant(kernel(), t, v); }

  // Statements at the current point.
  template <class F>
  void loop(const std::string& name, Index extent, F&& body, LoopKind kind = LoopKind::Serial) {
    Expr i = open_for(name, extent.in(kernel()), kind, 0);
    body(i);
    close();
  }
  template <class F>
  void unroll(const std::string& name, int64_t extent, F&& body) {
    loop(name, extent, body, LoopKind::Unroll);
  }
  // Splits the iterations among CPU threads, at least `grain` each. Only at the top level of a kernel.
  template <class F>
  void parallel(const std::string& name, Index extent, int64_t grain, F&& body) {
    Expr i = open_for(name, extent.in(kernel()), LoopKind::Parallel, 0);
    last_for().value = i64(grain).id;
    body(i);
    close();
  }
  template <class F>
  void when(Expr condition, F&& then) {
    open_if(condition);
    then();
    close();
  }
  template <class F, class G>
  void when(Expr condition, F&& then, G&& otherwise) {
    open_if(condition);
    then();
    open_else();
    otherwise();
    close();
  }
  Expr let(const std::string& name, Expr value);
  Expr hold(const std::string& name, Expr value);  // a Let that a register keeps; `value` is no constant
  void barrier(bool global = false);
  void await(int pending);       // deferred stores
  void settle(const Buf& sums);  // products of a matrix unit with `later`
  void comment(Comment);
  void source(std::string);  // text in the language of the target, which only its renderer understands

  // Opens a loop of the launch nest, which stays open to the end of the kernel. Must precede any other statement. Returns its
  // index.
  Expr grid(const std::string& name, int axis, Index extent) { return open_for(name, extent.in(kernel()), LoopKind::Grid, axis); }
  Expr threads(const std::string& name, int axis, int64_t extent) { return open_for(name, i64(extent), LoopKind::Thread, axis); }

  Expr shuffle_xor(Expr value, int mask);              // every thread of the workgroup must reach it
  Expr warp_reduce(const WarpReduction&, Expr value);  // likewise
  // a * b + c on a matrix unit. Every thread of the workgroup must reach it.
  Expr matrix_multiply(const MatrixUnit&, Expr a, Expr b, Expr c);
  Expr tile(const Buf& shared, Expr first);  // an operand of a unit that reads tiles: its first element

  Kernel finish();

  Expr load(BufferId, ExprOp, Type, Expr index, Expr condition, Expr otherwise);
  void append(Stmt s) { blocks_.back()->push_back(std::move(s)); }
  Stmt& last() { return blocks_.back()->back(); }

 private:
  Expr open_for(const std::string& name, Expr extent, LoopKind, int axis);
  Stmt& last_for() { return (*(blocks_.end() - 2))->back(); }
  void open_if(Expr condition);
  void open_else();
  void close() { blocks_.pop_back(); }
  Buf add_buffer(const std::string& name, Type, Expr extent, Space, Access);
  std::string unique(const std::string& name);
  Expr var(VarId);
  VarId add_var(const std::string& name, Type, VarRole);

  std::unique_ptr<Kernel> kernel_;
  std::vector<std::vector<Stmt>*> blocks_;
  std::unordered_map<std::string, int> names_;
};

}  // namespace rlxc::kernel
