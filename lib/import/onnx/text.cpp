// Strings and n-grams.
#include "support/text.h"

#include "import/onnx/broadcast.h"
#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {

void string_normalizer(Op& op) {
  StringNormalizeAttrs a;
  const std::string_view change = op.s("case_change_action", "NONE");
  if (change != "NONE" && !op.choose("case_change_action",
                                     change == "LOWER"   ? "lower"
                                     : change == "UPPER" ? "upper"
                                                         : change,
                                     &a.change))
    return;
  const std::string_view language = op.s("locale", "en_US").substr(0, 2);
  if (change != "NONE" && (language == "az" || language == "lt" || language == "tr"))
    return (void)op.unsupported("the letters of the locale " + quote(op.s("locale", "")));
  a.case_sensitive = op.i("is_case_sensitive", 0) != 0;
  a.stopwords = op.strings("stopwords");
  op.set(0, op.b.create(OpKind::StringNormalize, {op.in(0)}, std::move(a)));
}

void string_concat(Op& op) { op.set(0, broadcast(op, OpKind::StringConcat, {op.in(0), op.in(1)})); }

void string_split(Op& op) {
  const ValueId x = op.in(0);
  const NodeId n =
      op.b.create_node(OpKind::StringSplit, {&x, 1}, StringSplitAttrs{std::string(op.s("delimiter", "")), op.i("maxsplit", -1)});
  for (size_t i = 0; n.valid() && i < op.outputs(); ++i) op.set(i, op.graph().result(n, i));
}

void regex_full_match(Op& op) {
  if (!op.has_attr("pattern")) return (void)op.fail(Code::BadAttribute, "attribute \"pattern\" is missing");
  op.set(0, op.b.create(OpKind::StringMatch, {op.in(0)}, StringMatchAttrs{std::string(op.s("pattern", ""))}));
}

void tf_idf_vectorizer(Op& op) {
  NgramAttrs a;
  if (!op.choose("mode", op.s("mode", ""), &a.mode)) return;
  a.min_length = op.i("min_gram_length", 1);
  a.max_length = op.i("max_gram_length", 1);
  a.max_skip = op.i("max_skip_count", 0);
  a.counts = op.ints("ngram_counts");
  a.indexes = op.ints("ngram_indexes");
  a.pool_ints = op.ints("pool_int64s");
  a.pool_strings = op.strings("pool_strings");
  a.weights = op.floats("weights");
  constexpr int64_t kColumns = 1 << 20, kColumnsOfGram = 16;  // without a limit, one index asks for any amount of memory
  const int64_t most = kColumns + kColumnsOfGram * static_cast<int64_t>(a.indexes.size());
  for (int64_t column : a.indexes)
    if (column >= most)
      return (void)op.fail(Code::TooLarge,
                           "ngram_indexes: column " + std::to_string(column) + " is beyond " + std::to_string(most));
  op.set(0, op.b.create(OpKind::Ngram, {op.in(0)}, std::move(a)));
}

}  // namespace rlxc::onnx_import
