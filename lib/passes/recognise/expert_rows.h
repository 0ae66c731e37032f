// Rewrites the experts of a mixture as one computation on rows, each assigned to an expert: matmuls with per-expert weights
// become GroupedMatMul, biases are gathered per row. All experts must be one small graph of matmuls, elementwise ops and column
// slices over different weights.
#pragma once
#include <functional>
#include <map>

#include "passes/pass.h"

namespace rlxc {

// The chosen experts of each token, [tokens, k].
struct Routing {
  ValueId who;
  int64_t experts = 0;
  bool operator==(const Routing&) const = default;
};

// Corresponding values of all experts, by expert number; a single value if it has a leading axis of experts.
using Family = std::vector<ValueId>;

// Row r of tokens * k belongs to token r / k. Invalid results mean that the experts differ in structure. O(nodes * experts).
class ExpertRows {
 public:
  // Values of expert e have `rows_of[e]` rows: [.., width]. Empty: values have a leading axis of experts.
  ExpertRows(Graph&, NodeId root, const Routing&, std::vector<Dim> rows_of);

  // Returns a value that the experts read, as [rows, width]. Called first.
  std::function<ValueId(const Family&)> leaf;

  ValueId of(const Family&);
  ValueId repeated(ValueId);                      // [.., width] of all tokens, repeated for the k rows of each token
  ValueId summed(ValueId y, ValueId like);        // sums the rows of each token, with the type of `like`
  std::optional<Dim> width(const Family&) const;  // number of columns, if equal for all

  Builder& builder() { return b_; }
  bool batched() const { return rows_of_.empty(); }
  Dim tokens() const { return tokens_; }
  Dim chosen() const { return k_; }  // experts per token
  Dim rows() const { return rows_; }

  std::vector<NodeId> dense;  // nodes of all experts
  std::vector<NodeId> made;   // grouped matmuls

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
  ValueId expert_;  // by row
  std::map<Family, ValueId> made_;
};

}  // namespace rlxc
