// The operands, masks and visible key ranges of attention, shared by its implementations: a thread per query (attention.cpp),
// CPU threads with many queries (attention_tiles.cpp) and with few (attention_rows.cpp), and workgroups (attention_few.cpp,
// attention_grid.cpp, attention_units.cpp).
#pragma once
#include <functional>

#include "kernel/builders/attention_spec.h"
#include "kernel/builders/tasks.h"

namespace rlxc::kernel {

class AttentionOperands {
 public:
  AttentionOperands(Builder&, const AttentionSpec&);          // adds the arguments
  AttentionOperands(const AttentionOperands&, Expr queries);  // the same arguments, with so many queries
  void at_head(Expr batch, Expr head);                        // selects the head that the functions below access
  void at_member(Expr i);                                     // head + i of at_head(), which shares its keys and values

  Expr load_q(Expr query, Expr d, int lanes = 1) const;
  Expr load_k(Expr key, Expr d, int lanes = 1) const;  // lanes along the head, or along contiguous keys
  Expr load_v(Expr key, Expr d, int lanes = 1) const;
  // Elements of a head in their stored type, 0 where `exists` is false. together(): how many elements one load may read, or
  // for Y one store may write.
  enum class Part : uint8_t { Q, K, V, Y };
  Expr stored(Part, Expr exists, Expr position, Expr d, int lanes) const;
  int together(Part, int most) const;
  void store_y(Expr query, Expr d, Expr value) const;  // lanes along the head
  // The mask of a query and `lanes` keys from `key` on, as stored.
  Expr mask(Expr query, Expr key, int lanes) const;
  DType mask_type() const { return spec.mask->dtype; }
  // Returns the scores of a query and `dot.lanes()` keys from `key` on: scaled, capped and masked.
  Expr score(Expr dot, Expr query, Expr key) const;
  // The same of dot products that are scaled already.
  Expr visible_score(Expr dot, Expr query, Expr key) const;
  // The same for a key and queries from `query` on, given their scaled dot products and mask.
  Expr score_of_queries(Expr scaled, Expr query, Expr key, std::optional<Expr> mask) const;
  bool score_vectors() const;  // whether score() accepts vectors of keys
  bool same_mask_for_queries() const { return spec.mask && is_constant(spec.mask->strides[2], 0); }
  // Whether a mask hides keys, which may then be skipped. visible_keys(): those of `count` keys from `key` on up to the last that
  // is visible to any of `rows` rows, rounded up to whole vectors; `query` selects the head of a row and returns its query.
  bool hides_keys() const { return spec.mask && !spec.mask_is_bias && !spec.finite; }
  Expr visible_keys(Expr rows, const std::function<Expr(Expr)>& query, Expr key, Expr count, int lanes) const;
  // The keys visible to queries first .. first + count: the number of the first block of `block` keys, and the end.
  Expr first_block(Expr first, int64_t block) const;
  Expr end(Expr first, int64_t count) const;

  Expr zero(int lanes = 1) const { return broadcast(constant(b.kernel(), type, 0), lanes); }
  Expr low() const;  // -inf

  Builder& b;
  const AttentionSpec& spec;
  const DType type;  // the compute type
  const Expr queries, keys;

 private:
  struct Source {
    const Operand& operand;
    const Buf& from;
    Expr head;
  };
  Source source(Part) const;
  Expr at(const Operand&, Expr head, Expr position, Expr element) const;
  Expr shown(Expr mask) const;  // as bool
  Expr masked(Expr score, std::optional<Expr> mask, Expr ahead, bool along_queries) const;

  Buf q_, k_, v_, mask_;
  FusedInputs fused_;
  Buf y_;
  Expr batch_, first_head_, head_, kv_head_;
};

// Tasks on CPU threads.
Tasks attention_tasks_on_tiles(AttentionOperands&, const Mapping&);
std::optional<Tasks> attention_tasks_on_rows(AttentionOperands&, const Mapping&);  // for few queries; nullopt: too many

// Each emits the kernel body.
bool attention_of_few(AttentionOperands&, const Mapping&, int64_t parts);  // on a grid; false, nothing emitted: too many queries
bool attention_on_units(AttentionOperands&, const Mapping&);  // on a grid; false, nothing emitted: no units that read tiles fit
bool attention_on_grid(AttentionOperands&, const Mapping&);   // false, nothing emitted: too few lanes or too little shared memory

}  // namespace rlxc::kernel
