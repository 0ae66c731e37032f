// What all experts of a mixture compute, written once on rows that have each chosen an expert: matmuls with the matrices of
// different experts become matmuls of rows with a matrix of their own (GroupedMatMul), biases are picked for each row. The
// experts are one small graph of matmuls, elementwise operations and slices of columns over different weights.
#pragma once
#include <functional>
#include <map>

#include "passes/pass.h"

namespace rlxc {

// Who is chosen: the numbers of experts, [tokens, k].
struct Routing {
  ValueId who;
  int64_t experts = 0;
  bool operator==(const Routing&) const = default;
};

// The values that correspond to each other in all experts, by number; one value where they have a leading axis of experts.
using Family = std::vector<ValueId>;

// Row r of k * tokens is for token r / k. Invalid values mean that the experts are not alike. O(nodes * experts).
class ExpertRows {
 public:
  // Values of expert e have `rows_of[e]` rows: [.., width]. No entries: all have them behind an axis of experts.
  ExpertRows(Graph&, NodeId root, const Routing&, std::vector<Dim> rows_of);

  // Values that experts only read, as [rows, width]; asked first.
  std::function<ValueId(const Family&)> leaf;

  ValueId of(const Family&);
  ValueId repeated(ValueId);                      // [.., width] of all tokens for each of the k rows of a token
  ValueId summed(ValueId y, ValueId like);        // the rows of each token added up, as the type of `like`
  std::optional<Dim> width(const Family&) const;  // of the rows of all

  Builder& builder() { return b_; }
  bool batched() const { return rows_of_.empty(); }
  Dim tokens() const { return tokens_; }
  Dim chosen() const { return k_; }  // for each token
  Dim rows() const { return rows_; }

  std::vector<NodeId> dense;  // the nodes of all experts
  std::vector<NodeId> made;   // matmuls of rows

 private:
  std::optional<Dim> width(const Family&, size_t e) const;
  ValueId stacked(const Family&, const std::vector<Dim>& sizes);
  bool are_weights(const Family&) const;
  bool per_expert(ValueId weight) const;
  ValueId operand(const Family&);
  ValueId build(const Family&);
  ValueId matmul(NodeId, const Family& x, const Family& w);
  ValueId part(NodeId, const Family& x);

  Graph& g_;
  Builder b_;
  int64_t experts_;
  std::vector<Dim> rows_of_;
  Dim tokens_, k_, rows_;
  ValueId expert_;  // of each row
  std::map<Family, ValueId> made_;
};

}  // namespace rlxc
