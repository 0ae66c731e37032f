// What the ways of computing attention (attention.cpp on lanes, attention_tiles.cpp on threads, attention_grid.cpp on groups of
// lanes) share: operands, masks, and which keys a block of queries sees.
#pragma once
#include "kernel/builders/attention.h"

namespace rlxc::kernel {

class AttentionOperands {
 public:
  AttentionOperands(Builder&, const AttentionSpec&);  // adds the arguments
  void at_head(Expr batch, Expr head);                // of which the functions below speak

  Expr load_q(Expr query, Expr d, int lanes = 1) const;
  Expr load_k(Expr key, Expr d, int lanes = 1) const;  // lanes along the head, or keys that lie together
  Expr load_v(Expr key, Expr d, int lanes = 1) const;
  // Elements of a head as they are stored, 0 where `exists` does not hold; how many of them may be read at once.
  enum class Part : uint8_t { Q, K, V };
  Expr stored(Part, Expr exists, Expr position, Expr d, int lanes) const;
  int together(Part, int most) const;
  void store_y(Expr query, Expr d, Expr value) const;
  // The score of a query and `dot.lanes()` keys from `key` on: scaled, capped, masked.
  Expr score(Expr dot, Expr query, Expr key) const;
  bool score_vectors() const;  // whether score() may be asked for several keys
  // Keys that queries first .. first + count may see: from a multiple of `block` on (in blocks), and up to an end.
  Expr first_block(Expr first, int64_t block) const;
  Expr end(Expr first, int64_t count) const;

  Expr zero(int lanes = 1) const { return broadcast(constant(b.kernel(), type, 0), lanes); }
  Expr low() const;  // -inf

  Builder& b;
  const AttentionSpec& spec;
  const DType type;  // to compute with
  const Expr queries, keys;

 private:
  struct Source {
    const Operand& operand;
    const Buf& from;
    Expr head;
  };
  Source source(Part) const;
  Expr at(const Operand&, Expr head, Expr position, Expr element) const;

  Buf q_, k_, v_, mask_, y_;
  Expr batch_, head_, kv_head_;
};

// The body of the kernel.
void attention_on_tiles(AttentionOperands&, const Mapping&);  // for threads
bool attention_on_grid(AttentionOperands&, const Mapping&);   // false, and nothing done, where lanes or memory are too few

}  // namespace rlxc::kernel
