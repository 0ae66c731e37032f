// Matches the shares by which the experts of a mixture are weighted: a matrix [tokens, experts] that is 0 for experts that the
// router did not choose, or a column of it. Models compute it from one-hot rows or a scatter of the choices, by products,
// quotients, Where and Softmax.
#pragma once
#include <string>

#include "passes/recognise/expert_rows.h"

namespace rlxc {

struct Shares {
  Routing routing;
  ValueId of_choice;              // [tokens, k]; invalid: gathered from `matrix`
  ValueId matrix;                 // [tokens, experts]
  ValueId value(Builder&) const;  // [tokens, k]
  bool operator==(const Shares&) const = default;
};

// The number of experts if `v` [tokens, k] holds k different expert numbers per token: from TopK or, for k = 1, ArgReduce.
std::optional<int64_t> chosen_of(const Graph&, ValueId v);
// The routing whose one-hot form [tokens, k, experts] is `v`, up to casts: by OneHot, or compared with 0, 1, .., experts - 1.
std::optional<Routing> one_hot_of(const Graph&, ValueId v);

// The shares in `v` [tokens, experts]. If it only resembles the shares of a router, sets `detail`.
std::optional<Shares> shares_of(const Graph&, ValueId v, std::string* detail);

// Matches `v`, one number per token for one expert: a column of a matrix [tokens, experts], or the sum over the choices that
// equal it.
struct Column {
  Shares of;  // for a matrix, the routing is unknown
  int64_t expert = 0;
};
std::optional<Column> column_of(const Graph&, ValueId v);

// Matches Eq(who, e).
struct IsExpert {
  Routing routing;
  int64_t expert = 0;
};
std::optional<IsExpert> is_expert(const Graph&, ValueId v);

// A mixture: experts whose rows are summed per token.
struct Mixture {
  Routing routing;
  Family experts;                                           // last value of each expert
  std::vector<Dim> rows_of;                                 // see ExpertRows
  std::function<ValueId(ExpertRows&, const Family&)> leaf;  // see ExpertRows
  std::optional<Shares> shares;                             // factors of the rows
  ValueId start;                                            // initial value of the sum, if valid
  std::vector<NodeId> sums;                                 // nodes that add, the last one first
  std::string_view reason;                                  // if not empty: looks like a mixture, but declined for this reason
  std::string detail;
};

}  // namespace rlxc
