// With which shares the experts of a mixture are added, as models write it: a matrix [tokens, experts] that is 0 for all but
// those that a router chose, or a number for each token and one expert. The matrix is made from one-hot rows or a scatter of who
// was chosen, by products, quotients, Where and Softmax.
#pragma once
#include <string>

#include "passes/recognise/expert_rows.h"

namespace rlxc {

struct Shares {
  Routing routing;
  ValueId of_choice;              // [tokens, k]; invalid: what `matrix` holds for those that are chosen
  ValueId matrix;                 // [tokens, experts]
  ValueId value(Builder&) const;  // [tokens, k]
  bool operator==(const Shares&) const = default;
};

// Of how many experts `v` [tokens, k] holds the numbers of k different ones for each token: by TopK or, for k = 1, ArgReduce.
std::optional<int64_t> chosen_of(const Graph&, ValueId v);
// The choice whose one-hot form [tokens, k, experts] `v` is, up to casts: by OneHot, or compared with 0, 1, .., experts - 1.
std::optional<Routing> one_hot_of(const Graph&, ValueId v);

// Shares that `v` [tokens, experts] holds. Where it only looks as if a router had made them, `reason` says so.
std::optional<Shares> shares_of(const Graph&, ValueId v, std::string* detail);

// `v`, of one number for each token, is what one expert has: a column of a matrix [tokens, experts], or the sum over all choices
// that are that expert.
struct Column {
  Shares of;  // of a matrix, the routing is not known
  int64_t expert = 0;
};
std::optional<Column> column_of(const Graph&, ValueId v);

// Eq(who, e): who, and e.
struct IsExpert {
  Routing routing;
  int64_t expert = 0;
};
std::optional<IsExpert> is_expert(const Graph&, ValueId v);

// Experts whose rows are added up for each token, found in some form.
struct Mixture {
  Routing routing;
  Family experts;                                           // the last value of each
  std::vector<Dim> rows_of;                                 // see ExpertRows
  std::function<ValueId(ExpertRows&, const Family&)> leaf;  // see ExpertRows
  std::optional<Shares> shares;                             // to multiply the rows by
  ValueId start;                                            // what they are added to, if valid
  std::vector<NodeId> sums;                                 // the nodes that add, the last one first
  std::string_view reason;                                  // if not empty: it looks like one, and is none, since ...
  std::string detail;
};

}  // namespace rlxc
