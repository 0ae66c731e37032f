#include <algorithm>
#include <set>

#include "kernel/rewrite.h"
#include "kernel/simplify.h"

namespace rlxc::kernel {
namespace {

struct Site {
  int block, position;
  bool operator==(const Site&) const = default;
};

struct Block {
  std::vector<Stmt>* stmts;
  Site owner;  // of the statement that contains this block; block -1 at the top
  int depth;
};

struct Name {
  Site at;
  VarId var;
  bool existing;  // the kernel has a Let of this value
};

class Namer {
 public:
  explicit Namer(Kernel* k) : k_(k) {}

  int run() {
    scan(&k_->body, {-1, 0}, 0);
    size_t n = k_->exprs.size();
    sites_.resize(n);
    names_.resize(n);
    classify();
    for (const auto& [root, site] : roots_) sites_[root.raw].push_back(site);
    for (uint32_t id = static_cast<uint32_t>(n); id-- > 0;) place(ExprId(id));
    if (count_ > 0) rewrite();
    return count_;
  }

 private:
  void scan(std::vector<Stmt>* stmts, Site owner, int depth) {
    int block = static_cast<int>(blocks_.size());
    blocks_.push_back({stmts, owner, depth});
    for (int p = 0; p < static_cast<int>(stmts->size()); ++p) {
      Stmt& s = (*stmts)[p];
      Site site{block, p};
      bool launch = s.kind == StmtKind::For && (s.loop == LoopKind::Grid || s.loop == LoopKind::Thread);
      for (ExprId e : {s.index, s.value})
        if (e.valid() && !launch) roots_.push_back({e, site});
      if (s.kind == StmtKind::Let) lets_[s.value.raw].push_back(site);
      if (s.kind == StmtKind::For || s.kind == StmtKind::If) scan(&s.body, site, depth + 1);
      if (!s.other.empty()) scan(&s.other, site, depth + 1);
    }
  }

  // Classifies what may move: `fixed_` expressions stay in their statement, `guarded_` ones move only to where they were
  // evaluated.
  void classify() {
    size_t n = k_->exprs.size();
    fixed_.assign(n, false);
    guarded_.assign(n, false);
    for (size_t i = 0; i < n; ++i) {
      const ExprNode& e = k_->exprs[i];
      for (ExprId a : e.args)
        if (a.valid()) {
          if (fixed_[a.raw]) fixed_[i] = true;
          if (guarded_[a.raw]) guarded_[i] = true;
        }
      if (is_collective(*k_, e)) fixed_[i] = true;
      if (type_rule(e.op) != TypeRule::Memory) continue;
      const Buffer& b = k_->buffers[e.payload];
      bool read_only = b.space == Space::Global && b.access == Access::Read;
      (read_only ? guarded_ : fixed_)[i] = true;
    }
  }

  bool cheap(const ExprNode& e) const {
    if (e.op == ExprOp::Const || e.op == ExprOp::Var) return true;
    // A word as a vector of bytes, which some languages lack as a type.
    if (e.op == ExprOp::Bitcast && e.type.lanes > 1 && k_->expr(e.args[0]).type.lanes == 1) return true;
    if (e.op != ExprOp::Broadcast) return false;
    ExprOp inner = k_->expr(e.args[0]).op;
    return inner == ExprOp::Const || inner == ExprOp::Var;
  }

  Site up(Site s) const { return blocks_[s.block].owner; }

  // Returns the innermost position that precedes both: s, or the statement around s, in a block that contains both.
  Site meet(Site a, Site b) const {
    while (blocks_[a.block].depth > blocks_[b.block].depth) a = up(a);
    while (blocks_[b.block].depth > blocks_[a.block].depth) b = up(b);
    while (a.block != b.block) {
      a = up(a);
      b = up(b);
    }
    return {a.block, std::min(a.position, b.position)};
  }

  bool covers(Site at, Site use) const {
    while (blocks_[use.block].depth > blocks_[at.block].depth) use = up(use);
    return at.block == use.block && at.position <= use.position;
  }

  void place(ExprId id) {
    std::vector<Site>& uses = sites_[id.raw];
    if (uses.empty()) return;
    const ExprNode e = k_->expr(id);
    std::vector<Site> evaluated;
    if (uses.size() < 2 || fixed_[id.raw] || cheap(e)) evaluated = uses;
    else if (!guarded_[id.raw]) {
      Site at = uses[0];
      for (Site s : uses) at = meet(at, s);
      evaluated.push_back(name(id, at));
    } else {
      // Partition the uses. The head of each part precedes the others, in the same or an enclosing block.
      std::sort(uses.begin(), uses.end(), [&](Site a, Site b) {
        int da = blocks_[a.block].depth, db = blocks_[b.block].depth;
        return da != db ? da < db : a.block != b.block ? a.block < b.block : a.position < b.position;
      });
      std::vector<std::pair<Site, int>> heads;
      for (Site s : uses) {
        auto it = std::find_if(heads.begin(), heads.end(), [&](const auto& h) { return covers(h.first, s); });
        if (it == heads.end()) heads.push_back({s, 1});
        else ++it->second;
      }
      for (const auto& [at, n] : heads) evaluated.push_back(n > 1 ? name(id, at) : at);
    }
    std::vector<Site>().swap(uses);
    for (ExprId a : e.args)
      if (a.valid()) sites_[a.raw].insert(sites_[a.raw].end(), evaluated.begin(), evaluated.end());
  }

  Site name(ExprId id, Site at) {
    ++count_;
    auto let = lets_.find(id.raw);
    bool existing = let != lets_.end() && std::find(let->second.begin(), let->second.end(), at) != let->second.end();
    names_[id.raw].push_back({at, existing ? (*blocks_[at.block].stmts)[at.position].var : VarId(), existing});
    return at;
  }

  void rewrite() {
    size_t n = names_.size();
    std::vector<std::vector<std::vector<uint32_t>>> inserted(blocks_.size());
    for (size_t b = 0; b < blocks_.size(); ++b) inserted[b].resize(blocks_[b].stmts->size());
    for (uint32_t id = 0; id < n; ++id)
      for (Name& name : names_[id]) {
        if (name.existing) continue;
        k_->vars.push_back({fresh_name(), k_->exprs[id].type, VarRole::Let});
        name.var = VarId(k_->vars.size() - 1);
        inserted[name.at.block][name.at.position].push_back(id);
      }
    Site here{};
    Rebuilder rebuild(k_, [&](ExprId id) {
      if (id.raw >= n) return ExprId();
      for (const Name& name : names_[id.raw])
        if (covers(name.at, here))
          return k_->intern({ExprOp::Var, k_->exprs[id.raw].type, {}, static_cast<int64_t>(name.var.raw)});
      return ExprId();
    });
    // Inner blocks follow outer ones. Going backwards rewrites a statement before it moves.
    for (size_t b = blocks_.size(); b-- > 0;) {
      std::vector<Stmt> result;
      for (size_t p = 0; p < blocks_[b].stmts->size(); ++p) {
        here = {static_cast<int>(b), static_cast<int>(p)};
        rebuild.forget();
        for (uint32_t id : inserted[b][p]) {
          Stmt let;
          let.kind = StmtKind::Let;
          for (const Name& name : names_[id])
            if (name.at == here) let.var = name.var;
          let.value = rebuild(ExprId(id), true);
          result.push_back(std::move(let));
        }
        Stmt& s = (*blocks_[b].stmts)[p];
        bool keep = false;
        if (s.kind == StmtKind::Let && s.value.raw < n)
          for (const Name& name : names_[s.value.raw]) keep = keep || (name.existing && name.at == here);
        s.index = rebuild(s.index);
        s.value = rebuild(s.value, keep);
        result.push_back(std::move(s));
      }
      *blocks_[b].stmts = std::move(result);
    }
  }

  std::string fresh_name() {
    if (taken_.empty()) {
      for (const Var& v : k_->vars) taken_.insert(v.name);
      for (const Buffer& b : k_->buffers) taken_.insert(b.name);
    }
    std::string name;
    do name = "t" + std::to_string(next_++);
    while (!taken_.insert(name).second);
    return name;
  }

  Kernel* k_;
  std::vector<Block> blocks_;
  std::vector<std::pair<ExprId, Site>> roots_;
  std::unordered_map<uint32_t, std::vector<Site>> lets_;
  std::vector<std::vector<Site>> sites_;
  std::vector<std::vector<Name>> names_;
  std::vector<bool> fixed_, guarded_;
  std::set<std::string> taken_;
  int count_ = 0, next_ = 0;
};

}  // namespace

int name_shared(Kernel& k) { return Namer(&k).run(); }

}  // namespace rlxc::kernel
