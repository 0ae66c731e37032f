// Map operators of ai.onnx.ml: rows to maps, maps to vectors.
#include <algorithm>
#include <numeric>

#include "import/onnx/handlers.h"
#include "import/onnx/ml.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

bool needs_map(Op& op) {
  return op.type(0).kind == TypeKind::Map || op.fail(Code::BadType, "input 0 must be a map, is " + op.show(0));
}
// Sets a vector result, as one row if the model declares two axes.
void set_vector(Op& op, ValueId v) {
  const auto declared = op.declared(0);
  if (v.valid() && declared && declared->rank() == 2) v = op.b.reshape(v, {Dim(1), op.graph().dims(v)[0]});
  op.set(0, v);
}

}  // namespace

void zip_map(Op& op) {
  MapKeysAttrs a;
  a.ints = op.ints("classlabels_int64s"), a.strings = op.strings("classlabels_strings");
  op.set(0, op.b.create(OpKind::MapOfRow, {op.in(0)}, std::move(a)));
}

void dict_vectorizer(Op& op) {
  MapKeysAttrs a;
  a.ints = op.ints("int64_vocabulary"), a.strings = op.strings("string_vocabulary");
  if (needs_map(op)) set_vector(op, op.b.create(OpKind::MapLookup, {op.in(0)}, std::move(a)));
}

// All values in key order, or (sparse) those of the keys 0..max_map-1.
void cast_map(Op& op) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"TO_FLOAT", DType::F32}, {"TO_STRING", DType::String}, {"TO_INT64", DType::I64}};
  constexpr int64_t kMost = 1 << 24;  // keys
  const std::string_view name = op.s("cast_to", "TO_FLOAT"), form = op.s("map_form", "DENSE");
  const auto to = std::ranges::find(kTypes, name, &std::pair<std::string_view, DType>::first);
  if (to == std::end(kTypes)) return (void)op.fail(Code::BadAttribute, "cast_to " + quote(name) + " is unknown");
  if (form != "DENSE" && form != "SPARSE") return (void)op.fail(Code::BadAttribute, "map_form " + quote(form) + " is unknown");
  const int64_t count = op.i("max_map", 1);
  if (form == "SPARSE" && (count < 1 || count > kMost))
    return (void)op.fail(Code::BadAttribute, "max_map must be 1 to " + std::to_string(kMost));
  if (!needs_map(op)) return;
  MapKeysAttrs a;
  a.all = true;
  if (form == "SPARSE") {
    a.ints.resize(static_cast<size_t>(count));
    std::iota(a.ints.begin(), a.ints.end(), 0);
  }
  const ValueId values =
      form == "SPARSE" ? op.b.create(OpKind::MapLookup, {op.in(0)}, std::move(a)) : op.b.unary(OpKind::MapValues, op.in(0));
  set_vector(op, op.b.cast(values, to->second));
}

}  // namespace rlxc::onnx_import
