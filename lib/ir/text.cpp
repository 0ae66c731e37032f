#include "ir/text.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "ir/bind_dims.h"
#include "ir/lir.h"
#include "ir/text_order.h"
#include "support/json_writer.h"
#include "support/number.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr int64_t kMaxPrinted = 16;
constexpr char kHex[] = "0123456789abcdef";

std::string number(double v) {
  if (v != v) return "nan";
  if (v - v != 0) return v > 0 ? "inf" : "-inf";
  return shortest(v);
}

std::string element(const TensorData& d, int64_t i) {
  if (is_float(d.dtype)) {
    const double v = element_as_double(d, i);
    if (d.dtype == DType::F32 && v - v == 0) return shortest(static_cast<float>(v));
    return number(v);
  }
  if (d.dtype == DType::U64) return std::to_string(static_cast<uint64_t>(element_as_int(d, i)));
  return std::to_string(element_as_int(d, i));
}

// The names of all graphs as the parser reads them: a word, or quoted text. Graphs are referred to by name, and several bodies
// may have one name (those of nodes without a name), so that later ones get a number.
std::vector<std::string> graph_names(const Module& m) {
  const auto in_word = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_.-+").find(static_cast<char>(c)) != std::string_view::npos;
  };
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, size_t> numbers;
  for (size_t i = 0; i < m.graph_count(); ++i) taken.insert(m.graph(GraphId(i)).name().bytes());
  std::unordered_set<std::string> printed;
  std::vector<std::string> out;
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const std::string& own = m.graph(GraphId(i)).name().bytes();
    std::string name = own;
    if (!printed.insert(own).second) do
        name = own + "_" + std::to_string(++numbers[own]);
      while (!taken.insert(name).second);
    out.push_back("@" + (std::ranges::all_of(name, in_word) ? name : ForeignText(name).quoted()));
  }
  return out;
}

void print_data(const TensorData& d, const TextOptions& options, std::string* out) {
  const int64_t n = d.elements();
  if (d.dtype == DType::String) {
    std::vector<std::string> quoted;
    for (const std::string& s : d.strings) quoted.push_back(quote(s));
    *out += "strings [" + join(quoted, ", ") + "]";
  } else if (is_complex(d.dtype) || (options.full_data && n > kMaxPrinted && d.file.empty())) {
    *out += d.splat ? "splat_hex " : "hex ";
    for (std::byte b : d.bytes) {
      *out += kHex[std::to_integer<int>(b) >> 4];
      *out += kHex[std::to_integer<int>(b) & 15];
    }
  } else if (d.splat) {
    *out += "splat " + element(d, 0);
  } else if (n <= kMaxPrinted && d.file.empty()) {
    *out += "dense [";
    for (int64_t i = 0; i < n; ++i) *out += (i ? ", " : "") + element(d, i);
    *out += ']';
  } else if (!d.file.empty()) {
    *out += "file " + quote(d.file) + " " + std::to_string(d.offset);
  } else {
    *out += "elided";
  }
}

void print_value(ValueId v, std::string* out) { *out += v.valid() ? "%" + std::to_string(v.raw) : std::string("_"); }

void print_symbols(const Module& m, const std::vector<Symbol>& list, std::string* out) {
  for (size_t i = 0; i < list.size(); ++i) *out += (i ? ", " : "") + m.text(list[i]).quoted();
}

struct ValueText {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const {
    std::string s = number(v);
    return s.find_first_of(".einf") == s.npos ? s + ".0" : s;
  }
  std::string operator()(const std::string& v) const { return quote(v); }
  template <class T>
  std::string operator()(const std::vector<T>& v) const {
    std::string s = "[";
    for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + (*this)(v[i]);
    return s + "]";
  }
};

void print_layouts(const Graph& g, NodeId n, const GraphLayouts& layouts, std::string* out) {
  DimTable& dims = g.module().dims;
  std::vector<std::string> parts;
  if (layouts.is_view(g, n)) {
    const ValueId v = g.result(n);
    parts.push_back("view of ");
    print_value(layouts.root[v.raw], &parts.back());
    if (layouts.offset[v.raw] != Dim(0)) parts.back() += " at byte " + dims.text(layouts.offset[v.raw]);
  }
  for (size_t r = 0; r < g.result_count(n); ++r)
    if (const Layout* l = layouts.of(g.result(n, r))) parts.push_back("layout " + text(*l, dims));
  if (!parts.empty()) *out += "  // " + join(parts, ", ");
}

}  // namespace

std::string value_text(const AttrValue& value) { return std::visit(ValueText{}, value); }

namespace {

void print_line(const Graph& g, NodeId n, const std::vector<std::string>& graphs, const TextOptions& options, std::string* out) {
  const Module& m = g.module();
  const OpKind op = g.op(n);
  for (size_t r = 0; r < g.result_count(n); ++r) {
    if (r) *out += ", ";
    print_value(g.result(n, r), out);
  }
  *out += " = ";
  *out += name(op);
  if (!g.operands(n).empty()) {
    *out += '(';
    bool first = true;
    for (ValueId v : g.operands(n)) {
      if (!first) *out += ", ";
      first = false;
      print_value(v, out);
    }
    *out += ')';
  }
  if (!g.bodies(n).empty()) {
    std::vector<std::string> names;
    for (GraphId b : g.bodies(n)) names.push_back(graphs[b.raw]);
    *out += " [" + join(names, ", ") + "]";
  }
  const Attrs& attrs = m.attrs[g.attr_id(n)];
  const AttrFields fields = attr_fields(attrs, m.dims, false, op);
  const auto* data = std::get_if<DataAttrs>(&attrs);
  if (!fields.empty() || (data && data->data.valid())) {
    *out += " {";
    bool first = true;
    for (const auto& [field, value] : fields) {
      *out += (first ? "" : ", ") + field + " = " + value_text(value);
      first = false;
    }
    if (data && data->data.valid()) {
      *out += "data = ";
      print_data(m.data[data->data], options, out);
    }
    *out += '}';
  }
  if (g.launch(n).valid()) *out += " launch " + m.text(g.launch(n)).quoted();
  const bool leaf = op == OpKind::Input || op == OpKind::Param;
  const Symbol label = leaf ? g.value_name(g.result(n)) : g.node_name(n);
  if (label.valid()) *out += " " + m.text(label).quoted();
  for (size_t r = 0; r < g.result_count(n); ++r) *out += (r ? ", " : " : ") + text(g.type(g.result(n, r)), m.dims);
  if (options.lir) print_layouts(g, n, options.lir->plans[g.id().raw].layouts, out);
  if (options.origins && g.origin(n).valid()) {
    const Origin& o = m.origin(g.origin(n));
    *out += "  // from ";
    print_symbols(m, o.sources, out);
    *out += "; by ";
    print_symbols(m, o.passes, out);
  }
}

std::string print_graph(const Graph& g, const std::vector<std::string>& graphs, const TextOptions& options) {
  const Module& m = g.module();
  std::string out = "graph " + graphs[g.id().raw] + " {\n";
  for (NodeId n : text_order(g)) {
    out += "  ";
    print_line(g, n, graphs, options, &out);
    out += '\n';
  }
  out += "  return";
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    out += i ? ", " : " ";
    print_value(g.outputs()[i], &out);
    if (g.output_name(i).valid()) out += " " + m.text(g.output_name(i)).quoted();
  }
  return out + "\n}\n";
}

}  // namespace

void print_node(const Graph& g, NodeId n, const TextOptions& options, std::string* out) {
  print_line(g, n, graph_names(g.module()), options, out);
}

std::string print(const Graph& g, const TextOptions& options) { return print_graph(g, graph_names(g.module()), options); }

std::string print(const Module& m, const TextOptions& options) {
  static constexpr std::string_view kStages[] = {"hir", "mir", "lir"};
  std::string out = "module " + m.name.quoted() + " " + std::string(kStages[static_cast<size_t>(m.stage)]) + " {\n";
  if (m.dims.named_sizes() > 0)
    for (size_t i : m.dims.named_sizes_of(dims_of(m)))
      out += "size " + m.dims.text(m.dims.named_size(i)) + " " + quote(m.dims.definition(i)) + "\n";
  for (const auto& [a, b] : m.dims.equalities()) out += "equal " + quote(m.dims.text(a)) + " " + quote(m.dims.text(b)) + "\n";
  if (!m.devices.empty()) {
    out += "devices ";
    JsonWriter json(out);
    write_json(m.devices, json);
    json.finish();
  }
  const std::vector<std::string> graphs = graph_names(m);
  for (size_t i = 0; i < m.graph_count(); ++i) out += print_graph(m.graph(GraphId(i)), graphs, options);
  return out + "}\n";
}

}  // namespace rlxc
