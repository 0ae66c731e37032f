// Values without a node: constants, known contents, captures. Nodes are created on first use.
#include <algorithm>

#include "import/onnx/importer.h"
#include "support/parse_number.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr int64_t kSmall = 64;            // constants with at most this many elements are literals,
constexpr int64_t kSmallIntegers = 1024;  // or this many integers; others are parameters

// "1,2" as the contents of a scalar or vector of type `t`.
std::optional<TensorData> parse_contents(std::string_view words, const Type& t) {
  if (t.kind != TypeKind::Tensor || t.rank() > 1 || !can_be_known(t.dtype)) return std::nullopt;
  std::vector<std::byte> bytes;
  int64_t count = 0;
  for (size_t cut = 0; cut != words.npos; ++count) {
    cut = words.find(',');
    double v = 0;
    if (!parse_number(words.substr(0, cut), &v)) return std::nullopt;
    const auto one = element_bytes(t.dtype, v);
    bytes.insert(bytes.end(), one.begin(), one.end());
    if (cut != words.npos) words.remove_prefix(cut + 1);
  }
  if (t.rank() == 0 ? count != 1 : t.dims[0].is_static() && t.dims[0] != Dim(count)) return std::nullopt;
  return make_data(t.dtype, t.rank() == 0 ? std::vector<int64_t>() : std::vector{count}, bytes);
}

TensorData constant_from(const Known& k, DimTable& t, bool* exact) {
  std::vector<std::byte> bytes;
  for (const Num& n : k.v) {
    const auto v = t.constant_value(n.num);
    if (!n.is_real && (!v || *v >= Dim::kMax || *v <= -Dim::kMax)) {
      *exact = false;
      return TensorData();
    }
    if (n.is_real || n.den != 1 || is_float(k.dtype)) {
      const auto one = element_bytes(k.dtype, n.is_real ? n.real : static_cast<double>(*v) / static_cast<double>(n.den));
      bytes.insert(bytes.end(), one.begin(), one.end());
    } else {
      const int64_t value = *v;
      const auto* p = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), p, p + bits(k.dtype) / 8);
    }
  }
  return make_data(k.dtype, k.shape, bytes);
}

}  // namespace

bool Importer::is_literal(const LazyTensor& t) const {
  if (t.missing || t.trainable) return false;
  const TensorData& d = t.id.valid() ? module_.data[t.id] : t.data;
  const int64_t n = d.elements();
  return n <= kSmall || d.dtype == DType::String || (n <= kSmallIntegers && (is_integer(d.dtype) || d.dtype == DType::Bool));
}

ValId Importer::value(ValueId v) {
  Val out;
  out.id = v;
  out.type = frame().graph->type_id(v);
  out.frame = scopes_.back().frame;
  vals_.push_back(out);
  return ValId(vals_.size() - 1);
}

ValId Importer::known_value(Known k) {
  Val out;
  out.type = module_.types.tensor(k.dtype, {k.shape.begin(), k.shape.end()});
  out.known = static_cast<uint32_t>(knowns_.size());
  out.known_checked = true;
  out.frame = scopes_.back().frame;
  knowns_.push_back(std::move(k));
  vals_.push_back(out);
  return ValId(vals_.size() - 1);
}

ValId Importer::constant(TensorData data, bool missing, bool trainable) {
  Val out;
  out.type = module_.types.tensor(data.dtype, {data.dims.begin(), data.dims.end()});
  out.tensor = static_cast<uint32_t>(tensors_.size());
  out.frame = scopes_.back().frame;
  out.trainable = trainable;
  tensors_.push_back({std::move(data), {}, missing, trainable});
  vals_.push_back(out);
  return ValId(vals_.size() - 1);
}

ValId Importer::bad_value() {
  Val out;
  out.bad = true;
  out.frame = scopes_.back().frame;
  vals_.push_back(out);
  return ValId(vals_.size() - 1);
}

std::optional<TensorData> Importer::load(Bytes tensor_proto, const std::string& place, bool* missing) {
  TensorView view;
  if (!read_tensor(tensor_proto, &view)) {
    diagnostics_.error(Code::BadTensor, "the tensor is malformed", place);
    return std::nullopt;
  }
  return source_.load(view, place, diagnostics_, missing);
}

const TensorData& Importer::tensor_data(uint32_t index) const {
  const LazyTensor& t = tensors_[index];
  return t.id.valid() ? module_.data[t.id] : t.data;
}

const TensorData* Importer::tensor(ValId v) {
  const Val& val = vals_[v.raw];
  if (val.tensor == Val::kNone) return val.id.valid() ? computed(*frames_[val.frame], val.id) : nullptr;
  return tensors_[val.tensor].missing ? nullptr : &tensor_data(val.tensor);
}

const std::string* Importer::stated_value(ValId v) const {
  if (vals_[v.raw].input == Val::kNone) return nullptr;
  for (const auto& [name, words] : options_.values)
    if (name == module_.bytes(vals_[v.raw].name)) return &words;
  return nullptr;
}

const TensorData* Importer::given(ValId v) {
  const uint32_t input = vals_[v.raw].input;
  const std::string* stated = stated_value(v);
  if (input == Val::kNone || (!stated && !options_.contents)) return nullptr;
  const auto [it, fresh] = given_.try_emplace(input);
  if (fresh) {
    it->second = stated ? parse_contents(*stated, type(v)) : options_.contents(input, type(v).kind);
    if (stated && !it->second)
      diagnostics_.error(Code::BadFlag, "--value does not fit the input, which is " + text(type(v), dims()),
                         "input " + module_.text(vals_[v.raw].name).quoted(), "numbers, as 1,2,3, for a scalar or a vector");
    if (it->second && it->second->dtype != type(v).dtype) it->second.reset();
    if (it->second)
      diagnostics_.warning(Code::UnboundDim, "shapes depend on its contents: the program is for the given ones only",
                           "input " + module_.text(vals_[v.raw].name).quoted());
  }
  return it->second ? &*it->second : nullptr;
}

const Known* Importer::known(ValId v) {
  if (!vals_[v.raw].known_checked) {
    vals_[v.raw].known_checked = true;
    // Shape arithmetic uses vectors. Larger float expressions of weights stay ops, for fusion to match.
    const bool is_weight_math = vals_[v.raw].tensor == Val::kNone && is_float(type(v).dtype) && type(v).rank() > 1;
    const auto elements = num_elements(type(v));
    const TensorData* t = is_weight_math || (elements && *elements > kMaxKnownElements) ? nullptr : tensor(v);
    if (!t && (options_.constant_contents || stated_value(v)) && can_be_known(type(v).dtype) && type(v).rank() <= 1) t = given(v);
    if (t)
      if (auto k = known_from(*t, module_.dims)) {
        vals_[v.raw].known = static_cast<uint32_t>(knowns_.size());
        knowns_.push_back(std::move(*k));
      }
  }
  const uint32_t index = vals_[v.raw].known;
  return index == Val::kNone ? nullptr : &knowns_[index];
}

std::string Importer::fresh_name(std::string_view base) { return fresh_name(frame(), base); }

std::string Importer::fresh_name(Frame& f, std::string_view base) {
  std::string name(base);
  for (int i = 1; !f.leaf_names.insert(module_.symbol(name).raw).second; ++i) name = std::string(base) + "_" + std::to_string(i);
  return name;
}

ValId Importer::capture(ValId v, uint16_t from, uint16_t to) {
  for (uint32_t f = from + 1u; f <= to; ++f) {
    Val inner = vals_[v.raw];
    const bool literal = inner.tensor != Val::kNone && is_literal(tensors_[inner.tensor]);
    inner.id = {};
    inner.frame = static_cast<uint16_t>(f);
    inner.outer = v;
    if (literal || (inner.known != Val::kNone && inner.tensor == Val::kNone)) inner.outer = {};  // created again inside
    vals_.push_back(inner);
    v = ValId(vals_.size() - 1);
  }
  return v;
}

ValId Importer::visible(ValId v) {
  const uint16_t from = vals_[v.raw].frame, to = scopes_.back().frame;
  return from >= to ? v : capture(v, from, to);
}

ValueId Importer::materialise(ValId id) {
  if (vals_[id.raw].id.valid() || vals_[id.raw].bad) return vals_[id.raw].id;
  const Val v = vals_[id.raw];
  Frame& f = *frames_[v.frame];
  Builder& b = f.builder;
  ValueId made;
  if (v.outer.valid()) {
    if (!materialise(v.outer).valid()) return {};
    const auto [it, fresh] = f.capture_of.try_emplace(v.outer.raw, f.captures.size());
    if (fresh) {
      const std::string_view name = module_.bytes(v.name);
      const ValueId inner = b.input(fresh_name(f, name.empty() ? "captured" : name), module_.types[v.type]);
      f.captures.push_back({v.outer, inner});
    }
    made = f.captures[it->second].inner;
  } else if (v.tensor != Val::kNone) {
    LazyTensor& t = tensors_[v.tensor];
    const bool literal = is_literal(t);
    if (!t.id.valid()) {
      t.id = module_.data.add(std::move(t.data));
      t.data = {};
    }
    const DataAttrs contents = t.missing ? DataAttrs{.place = t.id} : DataAttrs{.data = t.id};
    const TypeId type = v.type;
    const OpKind kind = literal ? OpKind::Constant : OpKind::Param;
    made = f.graph->result(f.graph->make_node(kind, {}, module_.attrs.intern(contents), {&type, 1}, {}, b.insertion_point()));
    const std::string_view name = module_.bytes(v.name);
    if (!literal) f.graph->set_value_name(made, module_.symbol(fresh_name(f, name.empty() ? "weight" : name)));
    else if (v.name.valid()) f.graph->set_value_name(made, v.name);
  } else {
    const Known& k = knowns_[v.known];
    bool exact = true;
    const bool all_constant =
        std::ranges::all_of(k.v, [&](const Num& n) { return n.is_real || module_.dims.constant_value(n.num).has_value(); });
    if (all_constant) {
      TensorData data = constant_from(k, module_.dims, &exact);
      if (exact) made = b.constant(std::move(data));
    } else if (std::ranges::all_of(k.v, [&](const Num& n) { return !n.is_real && n.den == k.v[0].den; })) {
      std::vector<Dim> sizes;
      for (const Num& n : k.v) sizes.push_back(n.num);
      const bool scalar = k.shape.empty();
      made = b.create(OpKind::DimValue, {}, DimsAttrs{sizes, scalar});
      if (k.shape.size() > 1) made = b.reshape(made, {k.shape.begin(), k.shape.end()});
      made = b.cast(made, k.dtype);
      if (k.v[0].den != 1) made = b.div(made, b.scalar(k.dtype, static_cast<double>(k.v[0].den)));
    } else {  // elements of several forms
      std::vector<ValueId> parts;
      for (const Num& n : k.v) {
        ValueId part = n.is_real ? b.reshape(b.scalar(k.dtype, n.real), {1})
                                 : b.cast(b.create(OpKind::DimValue, {}, DimsAttrs{{n.num}, false}), k.dtype);
        if (n.den != 1) part = b.div(part, b.scalar(k.dtype, static_cast<double>(n.den)));
        parts.push_back(part);
      }
      made = b.reshape(b.concat(parts, 0), {k.shape.begin(), k.shape.end()});
    }
    if (!exact) local_.error(Code::UnsupportedAttribute, "a computed size is needed as data but has no exact form");
    if (made.valid() && v.name.valid() && !f.graph->value_name(made).valid()) f.graph->set_value_name(made, v.name);
  }
  vals_[id.raw].id = made;
  return made;
}

}  // namespace rlxc::onnx_import
