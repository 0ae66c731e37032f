#include "backend/gpu/grains.h"

#include <algorithm>
#include <optional>

#include "backend/gpu/index_forms.h"
#include "kernel/expr.h"
#include "kernel/rewrite.h"

namespace rlxc::target {
namespace {

using kernel::Buffer;
using kernel::ExprId;
using kernel::ExprNode;
using kernel::ExprOp;
using kernel::Kernel;
using kernel::Space;
using kernel::Stmt;
using kernel::StmtKind;

constexpr int kMost = 4;

class Grains {
 public:
  Grains(Kernel* k, const std::vector<uint8_t>& alignments) : k_(k), alignments_(alignments), forms_(*k) {}

  void run() {
    classes_.resize(k_->buffers.size() + 1);
    std::vector<ExprId> roots;
    kernel::for_each_stmt(k_->body, [&](const Stmt& s) {
      for (ExprId e : {s.index, s.value})
        if (e.valid()) roots.push_back(e);
      if (s.kind == StmtKind::Source)
        for (Class& c : classes_) c.store = 1;
      if (s.kind == StmtKind::AtomicAdd) of(s.buffer.raw).store = 1;
      if (s.kind != StmtKind::Store) return;
      const int grain = grain_of(s.buffer.raw, s.index, k_->expr(s.value).type.lanes);
      of(s.buffer.raw).store = std::min(of(s.buffer.raw).store, grain);
      of(s.buffer.raw).has_vectors |= grain > 1;
    });
    const std::vector<ExprId> nodes = kernel::nodes_below(*k_, roots);
    for (const ExprId id : nodes) {
      const ExprNode& e = k_->expr(id);
      if (kernel::type_rule(e.op) != kernel::TypeRule::Memory) continue;
      const int grain = grain_of(static_cast<size_t>(e.payload), e.args[0], e.type.lanes);
      if (grain == 1) continue;
      Class& c = of(static_cast<size_t>(e.payload));
      c.load = std::min(c.load, grain);
      c.has_vectors = true;
    }
    bool any = false;
    for (size_t b = 0; b < k_->buffers.size(); ++b) {
      const Class& c = of(b);
      if (k_->buffers[b].space == Space::Register || !c.has_vectors || c.store == 1) continue;
      k_->buffers[b].grain = static_cast<uint8_t>(std::min(c.store, c.load));
      any = true;
    }
    if (any) split(&k_->body);
  }

 private:
  // Buffers whose arrays have the same elements: all memory that kernels write, or one buffer.
  struct Class {
    int store = kMost, load = kMost;
    bool has_vectors = false;
  };
  Class& of(size_t buffer) {
    const Buffer& b = k_->buffers[buffer];
    return classes_[b.space == Space::Global && !b.separate ? k_->buffers.size() : buffer];
  }

  static int64_t bits_of(const Buffer& b) { return b.space == Space::Global ? rlxc::bits(b.type.dtype) : 32; }

  // The most items of an element of the array, of which the access is whole ones: words of arguments, elements of shared buffers.
  int grain_of(size_t buffer, ExprId index, int lanes) {
    const Buffer& b = k_->buffers[buffer];
    const bool is_argument = b.space == Space::Global;
    if (b.space == Space::Register || k_->expr(index).type.lanes != 1 || (!is_argument && b.type.dtype == DType::Bool)) return 1;
    const int64_t bits = bits_of(b);
    if (bits > 32 || lanes * bits < 64) return 1;
    int64_t bytes = lanes * bits / 8;
    if (is_argument && !alignments_.empty()) bytes = std::min<int64_t>(bytes, alignments_[buffer]);
    bytes = std::min<int64_t>(bytes, 4 * kMost);
    while (bytes > 4 && forms_.divisor(index) * bits / 8 % bytes != 0) bytes /= 2;
    return bytes >= 8 && lanes * bits / 8 % bytes == 0 ? static_cast<int>(bytes / 4) : 1;
  }

  // Whether the access has the size of whole elements, and may begin within one.
  bool is_split(size_t buffer, ExprId index, int lanes) {
    const Buffer& b = k_->buffers[buffer];
    return b.grain > 1 && lanes * bits_of(b) % (32 * b.grain) == 0 && grain_of(buffer, index, lanes) < b.grain;
  }

  ExprId rebuilt(ExprId root) {
    return kernel::rebuild_bottom_up(*k_, root, [&](ExprId, const ExprNode& e, std::array<ExprId, 3> args) {
      if (kernel::type_rule(e.op) == kernel::TypeRule::Memory && k_->expr(args[0]).type.lanes == 1 &&
          is_split(static_cast<size_t>(e.payload), e.args[0], e.type.lanes))
        args[0] = kernel::ramp({k_, args[0]}, 1, e.type.lanes).id;
      return args == e.args ? k_->intern(e) : kernel::with_operands(k_, e, args);
    });
  }

  void split(std::vector<Stmt>* body) {
    for (Stmt& s : *body) {
      s.index = rebuilt(s.index);
      s.value = rebuilt(s.value);
      split(&s.body);
      split(&s.other);
    }
  }

  Kernel* k_;
  const std::vector<uint8_t>& alignments_;
  IndexForms forms_;
  std::vector<Class> classes_;  // by buffer; the last one is of the memory
};

}  // namespace

void choose_grains(Kernel& k, const std::vector<uint8_t>& alignments) { Grains(&k, alignments).run(); }

}  // namespace rlxc::target
