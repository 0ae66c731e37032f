#include "report/module_terms.h"

#include <cmath>

#include "ir/bind_dims.h"
#include "ir/type_kind.h"
#include "support/hash.h"
#include "support/number.h"

namespace rlxc::report {
namespace {

constexpr int64_t kMostValues = 16;
constexpr int64_t kExact = int64_t{1} << 53;  // larger integers are not exact in many JSON readers

struct AttrValueWriter {
  JsonWriter& out;
  void operator()(bool v) const { out.boolean(v); }
  void operator()(int64_t v) const { out.integer(v); }
  void operator()(double v) const { out.number(v); }
  void operator()(const std::string& v) const { out.string(v); }
  template <class T>
  void operator()(const std::vector<T>& list) const {
    out.begin_array(JsonLayout::Line);
    for (const T& v : list) (*this)(v);
    out.end_array();
  }
};

// Returns whether every element can be written as a JSON number (or "inf", "-inf") and read back bit for bit.
bool exact_numbers(const TensorData& d, int64_t count) {
  const DType t = d.dtype;
  if (is_complex(t) || t == DType::String) return false;
  const bool has_integers = is_integer(t) || t == DType::Bool;
  if (!has_integers && t != DType::F64 && t != DType::F32 && t != DType::F16 && t != DType::BF16) return false;
  if (bits(t) < 8) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (has_integers) {
      const int64_t v = element_as_int(d, i);
      if (v >= kExact || v <= -kExact) return false;
    } else if (std::isnan(element_as_double(d, i))) {
      return false;  // NaN has many bit patterns
    }
  }
  return true;
}

std::string base64(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out((bytes.size() + 2) / 3 * 4, '=');
  char* to = out.data();
  const auto digits = [&](uint32_t word, int count) {
    for (int k = 0; k < count; ++k) *to++ = kDigits[word >> (18 - 6 * k) & 63];
  };
  const auto byte = [&](size_t i) { return std::to_integer<uint32_t>(bytes[i]); };
  size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) digits(byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2), 4);
  const size_t rest = bytes.size() - i;
  if (rest > 0) digits(byte(i) << 16 | (rest > 1 ? byte(i + 1) << 8 : 0), static_cast<int>(rest) + 1);
  return out;
}

}  // namespace

const std::string& ModuleTerms::render() {
  scratch_.flush();
  return text_;
}

void ModuleTerms::size(Dim d, JsonWriter* out) {
  if (d.is_static()) {
    out->integer(d.size());
  } else if (const auto c = module_.dims.constant_value(d)) {
    out->integer(*c);
  } else {
    auto [it, made] = sizes_.try_emplace(d.raw());
    if (made) {
      it->second = module_.dims.text(d);
      used_.push_back(d);
    }
    out->string(it->second);
  }
}

void ModuleTerms::type(TypeId id) {
  if (id.raw >= types_.size()) types_.resize(module_.types.size());
  std::string& made = types_[id.raw];
  if (made.empty()) {
    text_.clear();
    type_members(module_.types[id]);
    made = render();
  }
  out_.raw(made);
}

void ModuleTerms::type_members(const Type& t) {
  scratch_.begin_object(JsonLayout::Line);
  if (t.kind != TypeKind::Tensor) scratch_.key("kind").string(rlxc::name(t.kind));
  if (t.of_sequence) scratch_.key("of").string(rlxc::name(TypeKind::Sequence));
  scratch_.key("dtype").string(rlxc::name(t.dtype));
  if (t.key != MapKey::None) {
    scratch_.key("keys").string(rlxc::name(key_dtype(t.key)));
  } else if (t.ranked) {
    scratch_.key("dims").begin_array(JsonLayout::Line);
    for (Dim d : t.dims) size(d, &scratch_);
    scratch_.end_array();
  }
  scratch_.end_object();
}

bool ModuleTerms::has_attrs(AttrId id) const {
  const Attrs& a = module_.attrs[id];
  if (const auto* data = std::get_if<DataAttrs>(&a)) return data->data.valid();
  return !std::holds_alternative<NoAttrs>(a);
}

void ModuleTerms::attrs(AttrId id, OpKind op) {
  if (id.raw >= attrs_.size()) attrs_.resize(id.raw + id.raw / 2 + 16);
  std::string& made = attrs_[id.raw];
  if (made.empty()) {
    text_.clear();
    const Attrs& a = module_.attrs[id];
    scratch_.begin_object(JsonLayout::Line);
    for (const auto& [field, value] : attr_fields(a, module_.dims, true, op)) {
      scratch_.key(field);
      std::visit(AttrValueWriter{scratch_}, value);
    }
    each_dim(a, [&](Dim d) { used_.push_back(d); });
    if (const auto* data = std::get_if<DataAttrs>(&a); data && data->data.valid())
      scratch_.key("data").unsigned_integer(data->data.raw);
    scratch_.end_object();
    made = render();
  }
  out_.raw(made);
}

void ModuleTerms::names(const std::vector<Symbol>& list) {
  out_.begin_array(JsonLayout::Line);
  for (Symbol s : list) name(s);
  out_.end_array();
}

void ModuleTerms::value(ValueId v) {
  if (v.valid()) out_.unsigned_integer(v.raw);
  else out_.null();
}

void ModuleTerms::values(PoolRange<ValueId> list) {
  out_.begin_array(JsonLayout::Line);
  for (ValueId v : list) value(v);
  out_.end_array();
}

void ModuleTerms::ranges(const SymbolRanges& ranges) {
  if (ranges.empty()) return;
  out_.key("ranges").begin_array();
  for (const auto& [symbol, range] : ranges) {
    out_.begin_object(JsonLayout::Line).key("symbol").string(symbol);
    out_.key("least").integer(range.low->size()).key("most").integer(range.high->size());
    out_.end_object();
  }
  out_.end_array();
}

std::vector<size_t> ModuleTerms::used_sizes() const { return module_.dims.named_sizes_of(used_); }

void ModuleTerms::symbols() {
  out_.key("symbols").begin_array(JsonLayout::Line);
  for (const std::string& s : module_.dims.symbol_names()) out_.string(s);
  out_.end_array();
  if (!named_.empty()) {
    out_.key("named_sizes").begin_array();
    for (size_t i : named_) {
      out_.begin_array(JsonLayout::Line).string(module_.dims.text(module_.dims.named_size(i)));
      out_.string(module_.dims.definition(i)).end_array();
    }
    out_.end_array();
  }
  out_.key("equalities").begin_array();
  for (const auto& [a, b] : module_.dims.equalities()) {
    out_.begin_array(JsonLayout::Line);
    size(a);
    size(b);
    out_.end_array();
  }
  out_.end_array();
}

void ModuleTerms::node(const Graph& g, NodeId n) {
  out_.key("id").unsigned_integer(n.raw);
  out_.key("op").string(kind_name(g.op(n)));
  if (g.node_name(n).valid()) {
    out_.key("name");
    name(g.node_name(n));
  }
  if (!g.operands(n).empty()) {
    out_.key("operands");
    values(g.operands(n));
  }
  const AttrId a = g.attr_id(n);
  if (has_attrs(a)) {
    out_.key("attrs");
    attrs(a, g.op(n));
  }
  out_.key("results").begin_array(JsonLayout::Line);
  for (size_t r = 0; r < g.result_count(n); ++r) {
    const ValueId v = g.result(n, r);
    out_.begin_object(JsonLayout::Line).key("value").unsigned_integer(v.raw);
    out_.key("type");
    type(g.type_id(v));
    if (g.value_name(v).valid()) {
      out_.key("name");
      name(g.value_name(v));
    }
    out_.end_object();
  }
  out_.end_array();
  if (g.launch(n).valid()) {
    out_.key("launch");
    name(g.launch(n));
  }
  if (g.bodies(n).empty()) return;
  out_.key("bodies").begin_array(JsonLayout::Line);
  for (GraphId b : g.bodies(n)) out_.unsigned_integer(b.raw);
  out_.end_array();
}

void ModuleTerms::provenance(const Graph& g, NodeId n, bool brief) {
  if (!g.origin(n).valid()) return;
  const Origin& origin = module_.origin(g.origin(n));
  const bool left_out = brief && origin.sources.size() == 1 && origin.sources[0] == g.node_name(n);
  if ((!origin.sources.empty() || !brief) && !left_out) {
    out_.key("sources");
    names(origin.sources);
  }
  if (!origin.passes.empty()) {
    out_.key("passes");
    names(origin.passes);
  }
}

void ModuleTerms::constants() {
  std::vector<bool> used(module_.data.size());
  for (size_t i = 0; i < module_.graph_count(); ++i) {
    const Graph& g = module_.graph(GraphId(i));
    for (NodeId n : g.nodes())
      if (const auto* a = std::get_if<DataAttrs>(&module_.attrs[g.attr_id(n)]); a && a->data.valid()) used[a->data.raw] = true;
  }
  out_.key("constants").begin_array();
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]) constant(i, module_.data[DataId(i)]);
  out_.end_array();
}

void ModuleTerms::constant(size_t id, const TensorData& d) {
  out_.begin_object(JsonLayout::Line).key("id").unsigned_integer(id);
  out_.key("dtype").string(rlxc::name(d.dtype));
  out_.key("dims").begin_array(JsonLayout::Line);
  for (int64_t n : d.dims) out_.integer(n);
  out_.end_array();
  if (d.file.empty()) {
    Hash128 h;
    h.update(d.bytes);
    for (const std::string& s : d.strings) h.update_text(s);
    out_.key("hash").string(h.hex());
  }
  contents(d);
  out_.end_object();
}

void ModuleTerms::numbers(const TensorData& d, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!is_float(d.dtype)) {
      out_.integer(element_as_int(d, i));
      continue;
    }
    const double v = element_as_double(d, i);
    if (v == 0 && std::signbit(v)) out_.raw("-0.0");
    else if (d.dtype == DType::F64) out_.number(v);
    else out_.number(static_cast<float>(v));
  }
}

void ModuleTerms::contents(const TensorData& d) {
  const int64_t stored = d.splat ? 1 : d.elements();
  if (!d.file.empty()) {
    out_.key("file").string(d.file);
    out_.key("offset").unsigned_integer(d.offset);
    out_.key("bytes").unsigned_integer(d.size_bytes());
  } else if (d.dtype == DType::String) {
    out_.key("strings").begin_array(JsonLayout::Line);
    for (const std::string& s : d.strings) out_.string(s);
    out_.end_array();
  } else if (d.splat && exact_numbers(d, 1)) {
    out_.key("splat");
    numbers(d, 1);
  } else if (!d.splat && stored <= kMostValues && exact_numbers(d, stored)) {
    out_.key("values").begin_array(JsonLayout::Line);
    numbers(d, stored);
    out_.end_array();
  } else {
    out_.key(d.splat ? "splat_base64" : "base64").string(base64(d.bytes));
  }
}

ForeignText value_label(const Graph& g, ValueId v) {
  if (g.value_name(v).valid()) return g.module().text(g.value_name(v));
  const NodeId n = g.def(v);
  std::string label = g.label(n).bytes();
  if (g.result_count(n) > 1 && !label.starts_with('%')) label += "#" + std::to_string(g.result_index(v));
  return ForeignText(label);
}

}  // namespace rlxc::report
