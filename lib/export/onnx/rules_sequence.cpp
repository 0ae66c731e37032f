// Sequences, optionals, maps and text as operators of ONNX.
#include "export/onnx/writer.h"

namespace rlxc::onnx_export {
namespace {

bool sequence_empty(const Site& s) {
  return s.be("SequenceEmpty", {}, Attributes().integer("dtype", onnx_dtype(s.attrs<CastAttrs>().to)));
}
bool sequence_insert(const Site& s) {
  Names in{s.in(0), s.in(1)};
  if (s.has(2)) in.push_back(s.scalar(2));
  return s.be("SequenceInsert", in);
}
bool sequence_at(const Site& s) { return s.be("SequenceAt", {s.in(0), s.scalar(1)}); }
bool sequence_erase(const Site& s) {
  Names in{s.in(0)};
  if (s.has(1)) in.push_back(s.scalar(1));
  return s.be("SequenceErase", in);
}
bool sequence_length(const Site& s) { return s.be("SequenceLength", s.all()); }
bool concat_from_sequence(const Site& s) {
  const SequenceConcatAttrs& a = s.attrs<SequenceConcatAttrs>();
  return s.be("ConcatFromSequence", s.all(), Attributes().integer("axis", a.axis).integer("new_axis", a.new_axis));
}
bool split_to_sequence(const Site& s) {
  const SequenceSplitAttrs& a = s.attrs<SequenceSplitAttrs>();
  return s.be("SplitToSequence", s.all(), Attributes().integer("axis", a.axis).integer("keepdims", a.keep_dim));
}
bool sequence_map(const Site& s) {
  const auto own = static_cast<size_t>(s.attrs<LoopAttrs>().carries);
  Names all;
  for (size_t i = 0; i < s.g.operands(s.n).size(); ++i) all.push_back(s.in(i));
  Attributes a;
  a.graph("body", s.w.body(s.g.bodies(s.n)[0], all, 0, own));
  return s.be("SequenceMap", {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own)}, a);
}

bool optional_make(const Site& s) {
  if (s.has(0)) return s.be("Optional", s.all());
  const OptionalAttrs& a = s.attrs<OptionalAttrs>();
  Type t = tensor_type(a.to, {});
  t.ranked = false;
  return s.be("Optional", {}, Attributes().type("type", s.w.type(a.sequence ? holder_type(TypeKind::Sequence, t) : t)));
}
bool optional_has(const Site& s) { return s.be("OptionalHasElement", s.all()); }
bool optional_get(const Site& s) { return s.be("OptionalGetElement", s.all()); }
// Before opset 18 the operators take optionals only.
bool has_optional(const Graph& g, NodeId n, int64_t opset) {
  const ValueId v = g.operand(n, 0);
  return opset >= 18 || (v.valid() && g.type(v).kind == TypeKind::Optional);
}

bool string_normalize(const Site& s) {
  static constexpr std::string_view kCase[] = {"NONE", "LOWER", "UPPER"};
  const StringNormalizeAttrs& a = s.attrs<StringNormalizeAttrs>();
  Attributes attributes;
  attributes.string("case_change_action", kCase[static_cast<size_t>(a.change)]).integer("is_case_sensitive", a.case_sensitive);
  if (!a.stopwords.empty()) attributes.strings("stopwords", a.stopwords);
  return s.be("StringNormalizer", s.all(), attributes);
}
bool string_concat(const Site& s) { return s.be("StringConcat", s.all()); }
bool string_split(const Site& s) {
  const StringSplitAttrs& a = s.attrs<StringSplitAttrs>();
  Attributes attributes;
  if (!a.delimiter.empty()) attributes.string("delimiter", a.delimiter);
  if (a.max_splits >= 0) attributes.integer("maxsplit", a.max_splits);
  return s.be("StringSplit", s.all(), attributes);
}
bool string_equal(const Site& s) { return s.be("Equal", s.all()); }
bool string_match(const Site& s) {
  return s.be("RegexFullMatch", s.all(), Attributes().string("pattern", s.attrs<StringMatchAttrs>().pattern));
}
bool string_index(const Site& s) {
  const StringIndexAttrs& a = s.attrs<StringIndexAttrs>();
  std::vector<int64_t> positions;
  for (size_t i = 0; i < a.strings.size(); ++i) positions.push_back(static_cast<int64_t>(i));
  return s.be("LabelEncoder", s.all(),
              Attributes().strings("keys_strings", a.strings).integers("values_int64s", positions).integer("default_int64", -1),
              kMachineLearning);
}
bool has_strings(const Graph& g, NodeId n, int64_t) { return !g.attrs<StringIndexAttrs>(n).strings.empty(); }

bool ngram(const Site& s) {
  static constexpr std::string_view kMode[] = {"TF", "IDF", "TFIDF"};
  const NgramAttrs& a = s.attrs<NgramAttrs>();
  Attributes attributes;
  attributes.string("mode", kMode[static_cast<size_t>(a.mode)]).integer("min_gram_length", a.min_length);
  attributes.integer("max_gram_length", a.max_length).integer("max_skip_count", a.max_skip);
  attributes.integers("ngram_counts", a.counts).integers("ngram_indexes", a.indexes);
  if (!a.pool_ints.empty()) attributes.integers("pool_int64s", a.pool_ints);
  if (!a.pool_strings.empty()) attributes.strings("pool_strings", a.pool_strings);
  if (!a.weights.empty()) attributes.numbers("weights", a.weights);
  return s.be("TfIdfVectorizer", s.all(), attributes);
}
bool is_f32_ngram(const Graph& g, NodeId n, int64_t) { return g.dtype(g.result(n)) == DType::F32; }

bool map_of_row(const Site& s) {
  const MapKeysAttrs& a = s.attrs<MapKeysAttrs>();
  Attributes attributes;
  if (a.strings.empty()) attributes.integers("classlabels_int64s", a.ints);
  else attributes.strings("classlabels_strings", a.strings);
  return s.be("ZipMap", s.all(), attributes, kMachineLearning);
}
bool is_f32_row(const Graph& g, NodeId n, int64_t) { return g.dtype(g.operand(n, 0)) == DType::F32; }

}  // namespace

std::span<const RuleEntry> sequence_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::SequenceEmpty, sequence_empty},
      {OpKind::SequenceInsert, sequence_insert},
      {OpKind::SequenceAt, sequence_at},
      {OpKind::SequenceErase, sequence_erase},
      {OpKind::SequenceLength, sequence_length},
      {OpKind::ConcatFromSequence, concat_from_sequence},
      {OpKind::SplitToSequence, split_to_sequence},
      {OpKind::SequenceMap, sequence_map, nullptr, 17},
      {OpKind::OptionalMake, optional_make, nullptr, 15},
      {OpKind::OptionalHas, optional_has, has_optional, 15},
      {OpKind::OptionalGet, optional_get, has_optional, 15},
      {OpKind::StringNormalize, string_normalize},
      {OpKind::StringConcat, string_concat, nullptr, 20},
      {OpKind::StringSplit, string_split, nullptr, 20},
      {OpKind::StringEqual, string_equal, nullptr, 19},
      {OpKind::StringMatch, string_match, nullptr, 20},
      {OpKind::StringIndex, string_index, has_strings},
      {OpKind::Ngram, ngram, is_f32_ngram},
      {OpKind::MapOfRow, map_of_row, is_f32_row},
  };
  return kTable;
}

}  // namespace rlxc::onnx_export
