// Parses the text form of modules. Stops at the first error, which carries line and column.
#include <cctype>
#include <charconv>
#include <cstring>
#include <map>

#include "ir/text.h"
#include "support/checked.h"
#include "support/json_reader.h"
#include "support/mapped_file.h"
#include "support/text.h"

namespace rlxc {
namespace {

class TextParser {
 public:
  TextParser(std::string_view s, Diagnostics& d, const std::optional<std::string>& folder)
      : s_(s), diagnostics_(d), folder_(folder) {}

  std::unique_ptr<Module> run() {
    auto m = std::make_unique<Module>();
    module_ = m.get();
    if (!module_text()) return nullptr;
    skip();
    if (at_ != s_.size() && !fail("text after the end of the module")) return nullptr;
    if (unknown_constants_ > 0)
      diagnostics_.warning(
          Code::MissingWeights,
          std::to_string(unknown_constants_) + " constants have no data in the text: they become parameters without values");
    return m;
  }

 private:
  bool fail(std::string message) {
    if (failed_) return false;
    failed_ = true;
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < s_.size(); ++i) s_[i] == '\n' ? (++line, column = 1) : ++column;
    diagnostics_.error(Code::NotAModel, std::move(message), "line " + std::to_string(line) + " column " + std::to_string(column));
    return false;
  }

  void skip() {
    while (at_ < s_.size()) {
      if (std::isspace(static_cast<unsigned char>(s_[at_]))) ++at_;
      else if (s_.substr(at_).starts_with("//")) at_ = std::min(s_.find('\n', at_), s_.size());
      else break;
    }
  }
  bool peek(char c) {
    skip();
    return at_ < s_.size() && s_[at_] == c;
  }
  bool eat(char c) { return peek(c) ? (++at_, true) : false; }
  bool expect(char c) { return eat(c) || fail(std::string("expected '") + c + "'"); }

  std::string_view word() {
    skip();
    const size_t begin = at_;
    while (at_ < s_.size() && (std::isalnum(static_cast<unsigned char>(s_[at_])) || s_[at_] == '_' || s_[at_] == '.' ||
                               s_[at_] == '-' || s_[at_] == '+'))
      ++at_;
    return s_.substr(begin, at_ - begin);
  }
  bool graph_name(std::string* out) {
    if (!expect('@')) return false;
    if (peek('"')) return quoted(out);
    *out = word();
    return true;
  }
  bool quoted(std::string* out) {
    skip();
    if (at_ >= s_.size() || s_[at_] != '"') return fail("expected a quoted name");
    const size_t begin = at_++;
    while (at_ < s_.size() && s_[at_] != '"') at_ += s_[at_] == '\\' ? 2 : 1;
    if (at_ >= s_.size()) {
      at_ = begin;
      return fail("unterminated name");
    }
    const auto text = unquote(s_.substr(begin, ++at_ - begin));
    if (!text) {
      at_ = begin;
      return fail("malformed name");
    }
    *out = *text;
    return true;
  }
  bool integer(int64_t* out) {
    skip();
    auto [end, error] = std::from_chars(s_.data() + at_, s_.data() + s_.size(), *out);
    if (error != std::errc{}) return fail("expected an integer");
    at_ = static_cast<size_t>(end - s_.data());
    return true;
  }

  bool module_text() {
    static constexpr std::string_view kStages[] = {"hir", "mir", "lir"};
    std::string text;
    if (word() != "module") {
      at_ = 0;
      return fail("expected 'module'");
    }
    std::string name;
    if (!quoted(&name)) return false;
    module_->name = ForeignText(name);
    const std::string_view stage = word();
    bool known = false;
    for (size_t i = 0; i < 3; ++i)
      if (stage == kStages[i]) {
        module_->stage = static_cast<Stage>(i);
        known = true;
      }
    if (!known) return fail("expected hir, mir or lir");
    if (!expect('{')) return false;
    // Numbers the graphs first, because bodies may be used before their definition.
    if (!number_graphs()) return false;
    size_t index = 0;
    while (!peek('}')) {
      const std::string_view what = word();
      if (what == "equal") {
        std::string a, b;
        if (!quoted(&a) || !quoted(&b)) return false;
        const auto x = module_->dims.parse(a), y = module_->dims.parse(b);
        if (!x || !y || !module_->dims.assume_equal(*x, *y)) return fail("contradicting sizes");
      } else if (what == "size") {
        const std::string_view number = word();
        std::string definition;
        if (!quoted(&definition)) return false;
        if (!module_->dims.define(number, definition)) return fail("expected a named size and its definition");
      } else if (what == "devices") {
        if (!devices()) return false;
      } else if (what == "graph") {
        if (!graph(module_->graph(GraphId(index++)))) return false;
      } else {
        return fail("expected 'graph', 'size', 'equal', 'devices' or '}'");
      }
    }
    return expect('}') && (index > 0 || fail("a module needs a graph"));
  }

  bool devices() {  // JSON up to the end of the line
    const size_t end = std::min(s_.find('\n', at_), s_.size());
    JsonReader r(s_.substr(at_, end - at_));
    const bool good = read_json(r, &module_->devices) && r.finish();
    if (good) at_ = end;
    else at_ += r.error_at();
    return good || fail(r.error());
  }

  bool number_graphs() {
    const size_t keep = at_;
    for (size_t p = at_; (p = s_.find("graph @", p)) != s_.npos; ++p) {
      if (p > 0 && s_[p - 1] != '\n') continue;
      at_ = p + 6;
      std::string name;
      if (!graph_name(&name)) return false;
      const GraphId id = graphs_.empty() ? GraphId(0) : module_->make_graph(name);
      if (!graphs_.emplace(name, id).second) return fail("two graphs have this name");
    }
    at_ = keep;
    return true;
  }

  bool graph(Graph& g) {
    std::string name;
    if (!graph_name(&name)) return false;
    values_.clear();
    if (!expect('{')) return false;
    for (;;) {
      skip();
      if (s_.substr(at_).starts_with("return")) break;
      if (!node(g)) return false;
    }
    word();
    while (peek('%')) {
      ValueId v;
      if (!operand(&v)) return false;
      std::string name;
      if (peek('"') && !quoted(&name)) return false;
      g.add_output(v, name.empty() ? Symbol() : module_->symbol(name));
      if (!eat(',')) break;
    }
    return expect('}');
  }

  bool number_of(int64_t* out) { return expect('%') && integer(out); }

  bool operand(ValueId* out) {
    if (eat('_')) {
      *out = ValueId();
      return true;
    }
    int64_t n;
    if (!number_of(&n)) return false;
    auto it = values_.find(n);
    if (it == values_.end()) return fail("%" + std::to_string(n) + " is not defined here");
    *out = it->second;
    return true;
  }

  bool node(Graph& g) {
    std::vector<int64_t> results;
    do {
      int64_t n;
      if (!number_of(&n)) return false;
      results.push_back(n);
    } while (eat(','));
    if (!expect('=')) return false;
    const std::string_view op_text = word();
    const auto op = op_from_name(op_text);
    if (!op || has_trait(*op, kTerminator)) return fail("unknown operation '" + std::string(op_text) + "'");
    std::vector<ValueId> operands;
    if (eat('(')) {
      do {
        ValueId v;
        if (!operand(&v)) return false;
        operands.push_back(v);
      } while (eat(','));
      if (!expect(')')) return false;
    }
    std::vector<GraphId> bodies;
    if (eat('[')) {
      do {
        std::string name;
        if (!graph_name(&name)) return false;
        auto it = graphs_.find(name);
        if (it == graphs_.end()) return fail("unknown graph");
        bodies.push_back(it->second);
      } while (eat(','));
      if (!expect(']')) return false;
    }
    Attrs attrs = default_attrs(*op);
    pending_data_ = {};
    if (eat('{')) {
      do {
        if (!attribute(*op, attrs)) return false;
      } while (eat(','));
      if (!expect('}')) return false;
    }
    std::string launch, label;
    if (peek('l') && (word() != "launch" || !quoted(&launch))) return fail("expected launch and its name");
    if (peek('"') && !quoted(&label)) return false;
    std::vector<TypeId> types;
    std::vector<Type> full;
    if (!expect(':')) return false;
    do {
      Type t;
      if (!type(&t)) return false;
      types.push_back(module_->types.intern(t));
      full.push_back(std::move(t));
    } while (eat(','));
    if (types.size() != results.size()) return fail("as many types as results are needed");
    if (pending_data_.set && !data(full[0], attrs)) return false;
    if (!pending_data_.file.empty() && !external_data(full[0], attrs)) return false;
    const bool unknown = *op == OpKind::Constant && !std::get<DataAttrs>(attrs).data.valid();
    if (unknown && !pending_data_.elided) return fail("a constant needs data");
    const NodeId n = g.make_node(unknown ? OpKind::Param : *op, operands, module_->attrs.intern(std::move(attrs)), types, bodies);
    if (unknown) {
      ++unknown_constants_;
      g.set_value_name(g.result(n), module_->symbol("constant_" + std::to_string(results[0])));
    }
    if (!launch.empty()) g.set_launch(n, module_->symbol(launch));
    const bool leaf = *op == OpKind::Input || *op == OpKind::Param;
    if (!label.empty() && leaf) g.set_value_name(g.result(n), module_->symbol(label));
    else if (!label.empty()) g.set_node_name(n, module_->symbol(label));
    for (size_t i = 0; i < results.size(); ++i)
      if (!values_.emplace(results[i], g.result(n, i)).second)
        return fail("%" + std::to_string(results[i]) + " is defined twice");
    return true;
  }

  bool type(Type* out) {
    skip();
    const size_t begin = at_;
    int depth = 0;
    bool in_quotes = false;
    for (; at_ < s_.size(); ++at_) {
      const char c = s_[at_];
      if (c == '"') in_quotes = !in_quotes;
      if (in_quotes) {
        if (c == '\\') ++at_;
        continue;
      }
      if (c == '[' || c == '(' || c == '<') ++depth;
      if (c == ']' || c == ')' || c == '>') --depth;
      if (depth == 0 && (c == '\n' || c == ' ' || c == ',')) break;
    }
    const auto t = parse_type(s_.substr(begin, at_ - begin), module_->dims);
    if (!t) {
      at_ = begin;
      return fail("malformed type");
    }
    *out = *t;
    return true;
  }

  bool attribute(OpKind op, Attrs& attrs) {
    const std::string key(word());
    if (!expect('=')) return false;
    if (key == "data" && std::holds_alternative<DataAttrs>(attrs)) return data_text();
    AttrValue value;
    std::string message;
    if (!attr_value(&value)) return false;
    if (set_attr_field(attrs, key, value, module_->dims, &message)) return true;
    return fail(message + " of " + std::string(name(op)));
  }

  bool scalar(AttrValue* out) {
    if (peek('"')) {
      std::string text;
      if (!quoted(&text)) return false;
      *out = text;
      return true;
    }
    const std::string w(word());
    if (w == "true" || w == "false") {
      *out = (w == "true");
      return true;
    }
    int64_t i;
    auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), i);
    if (error == std::errc{} && end == w.data() + w.size()) {
      *out = i;
      return true;
    }
    double d;
    auto [dend, derror] = std::from_chars(w.data(), w.data() + w.size(), d);
    if (derror == std::errc{} && dend == w.data() + w.size()) {
      *out = d;
      return true;
    }
    return fail("expected a value");
  }

  bool attr_value(AttrValue* out) {
    if (!eat('[')) return scalar(out);
    std::vector<int64_t> ints;
    std::vector<double> doubles;
    std::vector<std::string> strings;
    if (!peek(']')) {
      do {
        AttrValue v;
        if (!scalar(&v)) return false;
        if (auto* i = std::get_if<int64_t>(&v)) {
          ints.push_back(*i);
          doubles.push_back(static_cast<double>(*i));
        } else if (auto* d = std::get_if<double>(&v)) doubles.push_back(*d);
        else if (auto* s = std::get_if<std::string>(&v)) strings.push_back(*s);
        else return fail("a list holds numbers or strings");
      } while (eat(','));
    }
    if (!expect(']')) return false;
    if (!strings.empty() && !doubles.empty()) return fail("a list holds numbers or strings, not both");
    if (!strings.empty()) *out = strings;
    else if (ints.size() == doubles.size()) *out = ints;
    else *out = doubles;
    return true;
  }

  // Data of a constant, converted once its type is known.
  struct PendingData {
    bool set = false, splat = false, hex = false, elided = false;
    std::vector<std::string> items;
    std::string bytes, file;
    int64_t offset = 0;
  };

  bool data_text() {
    const std::string_view kind = word();
    PendingData& p = pending_data_;
    p.set = true;
    if (kind == "splat") {
      p.splat = true;
      p.items.emplace_back(word());
    } else if (kind == "dense" || kind == "strings") {
      if (!expect('[')) return false;
      if (!peek(']')) {
        do {
          std::string s;
          if (peek('"') ? !quoted(&s) : (s = word(), s.empty())) return fail("expected an element");
          p.items.push_back(std::move(s));
        } while (eat(','));
      }
      return expect(']');
    } else if (kind == "hex" || kind == "splat_hex") {
      p.hex = true;
      p.splat = kind == "splat_hex";
      p.bytes = word();
    } else if (kind == "file") {
      p.set = false;
      p.elided = true;
      return quoted(&p.file) && integer(&p.offset);
    } else if (kind == "elided") {
      p.set = false;
      p.elided = true;
    } else {
      return fail("expected dense, splat, hex, strings, file or elided");
    }
    return true;
  }

  // Reads data from its file, if the folder is known and has it. Returns false only for a file that is too short.
  bool external_data(const Type& t, Attrs& attrs) {
    const auto bytes = byte_size(t);
    if (!folder_ || !bytes || pending_data_.offset < 0) return true;
    const auto [it, fresh] = files_.try_emplace(pending_data_.file);
    if (fresh) {
      Diagnostics quiet;
      if (auto opened = resolve_external(*folder_, pending_data_.file, quiet))
        it->second = std::make_shared<const MappedFile>(std::move(*opened));
    }
    const auto offset = static_cast<uint64_t>(pending_data_.offset);
    if (!it->second) return true;
    if (offset > it->second->size() || *bytes > it->second->size() - offset)
      return fail("the data ends beyond the end of " + quote(pending_data_.file));
    TensorData d;
    d.dtype = t.dtype;
    for (Dim n : t.dims) d.dims.push_back(n.size());
    d.bytes = it->second->bytes().subspan(offset, *bytes);
    d.owner = it->second;
    d.file = pending_data_.file;
    d.offset = offset;
    attrs = DataAttrs{module_->data.add(std::move(d))};
    return true;
  }

  bool data(const Type& t, Attrs& attrs) {
    const auto n = num_elements(t);
    if (!n || t.kind != TypeKind::Tensor) return fail("data needs a static type");
    std::vector<int64_t> dims;
    for (Dim d : t.dims) dims.push_back(d.size());
    std::vector<std::byte> bytes;
    const PendingData& p = pending_data_;
    TensorData out;
    if (t.dtype == DType::String) {
      out.dtype = t.dtype;
      out.dims = dims;
      out.strings = p.items;
      if (static_cast<int64_t>(p.items.size()) != *n) return fail("wrong number of elements");
    } else {
      if (p.hex) {
        if (p.bytes.size() % 2) return fail("odd number of hex digits");
        for (size_t i = 0; i < p.bytes.size(); i += 2) {
          unsigned v = 0;
          auto [end, error] = std::from_chars(p.bytes.data() + i, p.bytes.data() + i + 2, v, 16);
          if (error != std::errc{} || end != p.bytes.data() + i + 2) return fail("malformed hex digits");
          bytes.push_back(static_cast<std::byte>(v));
        }
      } else {
        for (const std::string& item : p.items)
          if (!append_element(t.dtype, item, &bytes)) return false;
      }
      const auto want = byte_size(t.dtype, p.splat ? 1 : static_cast<uint64_t>(*n));
      if (!want || bytes.size() != *want) return fail("wrong number of elements");
      out = p.splat ? make_splat(t.dtype, dims, bytes) : make_data(t.dtype, dims, bytes);
    }
    attrs = DataAttrs{module_->data.add(std::move(out))};
    return true;
  }

  bool append_element(DType t, const std::string& item, std::vector<std::byte>* bytes) {
    if (is_float(t)) {
      double v;
      auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), v);
      if (error != std::errc{} || end != item.data() + item.size()) return fail("expected a number");
      const auto b = element_bytes(t, v);
      bytes->insert(bytes->end(), b.begin(), b.end());
      return !b.empty() || fail("write data of this type as hex");
    }
    uint64_t u = 0;
    int64_t i = 0;
    const bool negative = item.starts_with('-');
    auto [end, error] = negative ? std::from_chars(item.data(), item.data() + item.size(), i)
                                 : std::from_chars(item.data(), item.data() + item.size(), u);
    const int width = bits(t);
    if (error != std::errc{} || end != item.data() + item.size() || width < 8) return fail("expected an integer");
    if (is_complex(t)) return fail("write data of this type as hex");
    const int digits = t == DType::Bool ? 1 : width - is_signed(t);
    const bool fits = negative ? is_signed(t) && i >= INT64_MIN >> (63 - digits) : digits == 64 || u >> digits == 0;
    if (!fits) return fail(std::string(name(t)) + " cannot hold " + item);
    if (negative) u = static_cast<uint64_t>(i);
    for (int k = 0; k < width / 8; ++k) bytes->push_back(static_cast<std::byte>(u >> (8 * k)));
    return true;
  }

  std::string_view s_;
  size_t at_ = 0;
  bool failed_ = false;
  Diagnostics& diagnostics_;
  Module* module_ = nullptr;
  std::map<std::string, GraphId> graphs_;
  std::map<int64_t, ValueId> values_;
  PendingData pending_data_;
  const std::optional<std::string>& folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
  size_t unknown_constants_ = 0;
};

}  // namespace

std::unique_ptr<Module> parse_text(std::string_view text, Diagnostics& d, const std::optional<std::string>& folder) {
  return TextParser(text, d, folder).run();
}

}  // namespace rlxc
