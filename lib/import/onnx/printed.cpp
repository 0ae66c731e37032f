#include "import/onnx/printed.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <vector>

#include "import/onnx/text_cursor.h"
#include "import/onnx/wire_out.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// Element types, from 1 on.
constexpr std::string_view kElements[] = {
    "float",      "uint8",          "int8",   "uint16", "int16",      "int32",      "int64",    "string",       "bool",
    "float16",    "double",         "uint32", "uint64", "complex64",  "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz",
    "float8e5m2", "float8e5m2fnuz", "uint4",  "int4",   "float4e2m1", "float8e8m0", "uint2",    "int2"};
// Types of attributes, from 1 on: single values, then lists of them, which are 5 further on.
constexpr std::string_view kAttributeTypes[] = {
    "float",   "int",     "string", "tensor",        "graph",          "floats",     "ints",
    "strings", "tensors", "graphs", "sparse_tensor", "sparse_tensors", "type_proto", "type_protos"};
enum AttributeKind : int { kNone = 0, kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kGraph = 5, kType = 13, kTypes = 14 };
constexpr int kLists = 5;  // from a kind to its list

constexpr std::string_view kHeads[] = {"ir_version", "opset_import",  "producer_name", "producer_version",
                                       "domain",     "model_version", "doc_string",    "metadata_props"};

int place_of(std::span<const std::string_view> names, std::string_view name) {
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? 0 : static_cast<int>(at - names.begin()) + 1;
}

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool letter_or_digit(char c) { return letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

struct PrintedType {
  int element = 0;    // of a tensor, or 0
  bool sized = true;  // all dims are numbers
  std::vector<int64_t> dims;
  std::string bytes;
};

struct PrintedAttribute {
  int kind = kNone;
  int64_t whole = 0;
  double real = 0;
  std::string bytes;
};

constexpr int kDeepestPrinted = 100;

class PrintedReader : public TextCursor {
 public:
  explicit PrintedReader(std::string_view text) : TextCursor(text) {}

  bool model(std::string* out) {
    if (at('<') && !heads(out, false)) return false;
    std::string g;
    if (!graph(&g)) return false;
    put_bytes(out, 7, g);
    for (skip(); !rest_.empty(); skip()) {
      std::string f;
      if (!function(&f)) return false;
      put_bytes(out, 25, f);
    }
    return true;
  }

 private:
  bool need(char c) { return accept(c) || fail(std::string("expects '") + c + "'"); }
  bool need_arrow() {
    skip();
    if (!rest_.starts_with("=>")) return fail("expects =>");
    rest_.remove_prefix(2);
    return true;
  }

  std::string_view peek_id() {
    skip();
    size_t n = 0;
    if (!rest_.empty() && letter(rest_.front()))
      while (n < rest_.size() && letter_or_digit(rest_[n])) ++n;
    return rest_.substr(0, n);
  }
  std::string_view id() {
    const std::string_view w = peek_id();
    rest_.remove_prefix(w.size());
    return w;
  }
  bool at_name() { return !peek_id().empty() || at('"'); }
  bool name(std::string* out) {
    if (at('"')) return quoted(out);
    *out = id();
    return !out->empty() || fail("expects a name");
  }
  bool quoted(std::string* out) {
    if (!accept('"')) return fail("expects a string");
    while (!rest_.empty() && rest_.front() != '"') {
      if (rest_.front() == '\\') rest_.remove_prefix(1);
      if (rest_.empty()) break;
      out->push_back(rest_.front());
      drop(1);
    }
    if (rest_.empty()) return fail("a string does not end");
    rest_.remove_prefix(1);
    return true;
  }
  bool whole(int64_t* v) { return integer(word(), v) || fail("expects an integer"); }
  bool real(double* v) { return parse_number(word(), v) || fail("expects a number"); }

  // A list between two characters; the first one is not read yet.
  template <class F>
  bool listed(char open, char close, F item) {
    if (!need(open)) return false;
    if (accept(close)) return true;
    do
      if (!item()) return false;
    while (accept(','));
    return need(close);
  }

  bool entries(uint32_t number, std::string* out) {
    return listed('[', ']', [&] {
      std::string key, value, entry;
      if (!quoted(&key) || !need(':') || !quoted(&value)) return false;
      put_bytes(&entry, 1, key);
      put_bytes(&entry, 2, value);
      put_bytes(out, number, entry);
      return true;
    });
  }

  // <opset_import: [...], ...> of a model or a function.
  bool heads(std::string* out, bool of_function) {
    return listed('<', '>', [&] {
      const std::string_view key = id();
      const auto number = static_cast<uint32_t>(place_of(kHeads, key));
      if (!need(':')) return false;
      if (key == "opset_import")
        return listed('[', ']', [&] {
          std::string domain, opset;
          int64_t version = 0;
          if (!quoted(&domain) || !need(':') || !whole(&version)) return false;
          put_bytes(&opset, 1, domain);
          put_int(&opset, 2, version);
          put_bytes(out, of_function ? 9 : 8, opset);
          return true;
        });
      if (key == "metadata_props") return entries(14, out);
      if (!of_function && (key == "ir_version" || key == "model_version")) {
        int64_t v = 0;
        if (!whole(&v)) return false;
        put_int(out, key == "ir_version" ? 1 : 5, v);
        return true;
      }
      std::string words;
      if (!quoted(&words)) return false;
      if (of_function) {
        const uint32_t place = key == "doc_string" ? 8 : key == "domain" ? 10 : key == "overload" ? 13 : 0;
        if (place == 0) return fail("the key " + quote(key) + " is not known");
        put_bytes(out, place, words);
        return true;
      }
      const uint32_t place = key == "producer_name" ? 2 : key == "producer_version" ? 3 : key == "domain" ? 4 : 6;
      if (number == 0) return fail("the key " + quote(key) + " is not known");
      put_bytes(out, place, words);
      return true;
    });
  }

  bool at_type() {
    constexpr std::string_view kHolders[] = {"seq", "map", "optional", "sparse_tensor", "opaque"};
    const std::string_view w = peek_id();
    return place_of(kElements, w) != 0 || place_of(kHolders, w) != 0;
  }

  // The message of a tensor type, behind its element type.
  bool tensor_type(int element, PrintedType* t, std::string* out) {
    t->element = element;
    put_int(out, 1, element);
    std::string shape;
    if (accept('[')) {
      if (accept(']')) {
        t->sized = false;
        return true;
      }
      do {
        std::string dim;
        if (accept('?')) {
          t->sized = false;
        } else if (at_name()) {
          std::string symbol;
          if (!name(&symbol)) return false;
          put_bytes(&dim, 2, symbol);
          t->sized = false;
        } else {
          int64_t v = 0;
          if (!whole(&v)) return false;
          put_int(&dim, 1, v);
          t->dims.push_back(v);
        }
        put_bytes(&shape, 1, dim);
      } while (accept(','));
      if (!need(']')) return false;
    }
    put_bytes(out, 2, shape);
    return true;
  }

  bool type(PrintedType* t, int depth = 0) {
    const std::string kind(id());
    std::string body;
    const auto within = [&](uint32_t field, uint32_t inner) {
      PrintedType of;
      if (depth > kDeepestPrinted) return fail("types are nested too deep");
      if (!type(&of, depth + 1) || !need(')')) return false;
      put_bytes(&body, inner, of.bytes);
      put_bytes(&t->bytes, field, body);
      return true;
    };
    if (const int element = place_of(kElements, kind)) {
      if (!tensor_type(element, t, &body)) return false;
      put_bytes(&t->bytes, 1, body);
      return true;
    }
    if (kind == "opaque") return fail("opaque types are not supported");
    if (kind.empty() || !need('(')) return fail("expects a type");
    if (kind == "seq") return within(4, 1);
    if (kind == "optional") return within(9, 1);
    const int element = place_of(kElements, id());
    if (element == 0) return fail("expects an element type");
    if (kind == "map") {
      put_int(&body, 1, element);
      return need(',') && within(5, 2);
    }
    PrintedType sparse;
    if (!tensor_type(element, &sparse, &body) || !need(')')) return false;
    put_bytes(&t->bytes, 8, body);
    return true;
  }

  // The contents of a tensor, in braces or as entries that name a file.
  bool tensor(const PrintedType& t, std::string_view name, std::string* out) {
    if (t.element == 0 || !t.sized) return fail("expects a tensor type whose sizes are numbers");
    for (const int64_t d : t.dims) put_int(out, 1, d);
    put_int(out, 2, t.element);
    put_bytes(out, 8, name);
    if (at('[')) {
      put_int(out, 14, 1);
      return entries(13, out);
    }
    if (at('.')) return fail("the contents of the tensor " + quote(name) + " are left out");
    const std::string_view kind = kElements[t.element - 1];
    std::string numbers;
    const bool is_float = kind == "float" || kind == "complex64", is_double = kind == "double" || kind == "complex128";
    const auto one = [&] {
      if (kind == "string") {
        std::string s;
        if (!quoted(&s)) return false;
        put_bytes(out, 6, s);
        return true;
      }
      int64_t i = 0;
      double v = 0;
      if (is_float || is_double) {
        if (!real(&v)) return false;
        if (is_float) put_fixed(&numbers, std::bit_cast<uint32_t>(static_cast<float>(v)));
        else put_fixed(&numbers, std::bit_cast<uint64_t>(v));
        return true;
      }
      if (!whole(&i)) return false;
      put_varint(&numbers, static_cast<uint64_t>(i));
      return true;
    };
    if (!listed('{', '}', one)) return false;
    const uint32_t place = is_float ? 4 : is_double ? 10 : kind == "int64" ? 7 : kind == "uint32" || kind == "uint64" ? 11 : 5;
    if (kind != "string") put_bytes(out, place, numbers);
    return true;
  }

  static std::string value_info(std::string_view name, const PrintedType& t) {
    std::string out;
    put_bytes(&out, 1, name);
    if (!t.bytes.empty()) put_bytes(&out, 2, t.bytes);
    return out;
  }

  // TYPE NAME, or NAME alone.
  bool declared(PrintedType* t, std::string* name_out) { return (!at_type() || type(t)) && name(name_out); }

  bool graph(std::string* out) {
    if (++depth_ > kDeepestPrinted) return fail("graphs are nested too deep");
    std::string label;
    if (!name(&label)) return false;
    put_bytes(out, 2, label);
    const auto value = [&](uint32_t number, bool both) {
      PrintedType t;
      std::string of;
      if (!declared(&t, &of)) return false;
      const bool initial = number != 12 && accept('=');
      if (!initial || both) put_bytes(out, number, value_info(of, t));
      if (!initial) return true;
      std::string contents;
      if (!tensor(t, of, &contents)) return false;
      put_bytes(out, 5, contents);
      return true;
    };
    if (!listed('(', ')', [&] { return value(11, true); }) || !need_arrow() ||
        !listed('(', ')', [&] { return value(12, true); }) || (at('<') && !listed('<', '>', [&] { return value(13, false); })) ||
        !nodes(1, out))
      return false;
    --depth_;
    return true;
  }

  bool nodes(uint32_t number, std::string* out) {
    if (!need('{')) return false;
    while (!accept('}')) {
      std::string n;
      if (!node(&n)) return false;
      put_bytes(out, number, n);
    }
    return true;
  }

  // Names with commas in between, any of which may be absent.
  bool names(uint32_t number, std::string* out) {
    do {
      std::string s;
      if (at_name()) {
        if (!name(&s)) return false;
      } else if (!at(',')) {
        break;
      }
      put_bytes(out, number, s);
    } while (accept(','));
    return true;
  }

  bool node(std::string* out) {
    if (accept('[')) {
      std::string label;
      if ((at_name() && !name(&label)) || !need(']')) return false;
      put_bytes(out, 3, label);
    }
    if (!names(2, out) || !need('=')) return false;
    std::string domain, op(id());
    while (accept('.')) {
      domain += (domain.empty() ? "" : ".") + op;
      op = id();
    }
    if (op.empty()) return fail("expects the name of an operator");
    put_bytes(out, 4, op);
    put_bytes(out, 7, domain);
    if (accept(':')) put_bytes(out, 8, id());
    const auto attributes = [&] {
      return listed('<', '>', [&] {
        std::string a, label;
        if (!name(&label) || !attribute(label, &a)) return false;
        put_bytes(out, 5, a);
        return true;
      });
    };
    const bool before = at('<');
    if (before && !attributes()) return false;
    return need('(') && names(1, out) && need(')') && (before || !at('<') || attributes());
  }

  bool single(int expected, PrintedAttribute* v) {
    std::string_view ahead = peek_id();
    std::string lower(ahead);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (lower == "inf" || lower == "infinity" || lower == "nan") ahead = {};
    if (!ahead.empty() && !at_type()) {
      v->kind = kGraph;
      return graph(&v->bytes);
    }
    if (!ahead.empty()) {
      PrintedType t;
      if (!type(&t)) return false;
      if (!at('{') && !at('=') && !at('[') && !at('.') && !at_name()) {
        v->kind = kType;
        v->bytes = t.bytes;
        return true;
      }
      std::string label;
      if (at_name() && !name(&label)) return false;
      accept('=');
      v->kind = kTensor;
      return tensor(t, label, &v->bytes);
    }
    if (at('"')) {
      v->kind = kString;
      return quoted(&v->bytes);
    }
    const std::string_view w = word();
    if (integer(w, &v->whole)) v->kind = kInt;
    else if (parse_number(w, &v->real)) v->kind = kFloat;
    else return fail("expects a value");
    if (v->kind == kInt) v->real = static_cast<double>(v->whole);
    if (expected == kFloat) v->kind = kFloat;
    return true;
  }

  // An attribute behind its name.
  bool attribute(std::string_view label, std::string* out) {
    put_bytes(out, 1, label);
    int kind = kNone;
    if (accept(':') && (kind = place_of(kAttributeTypes, id())) == kNone) return fail("expects the type of an attribute");
    if (!need('=')) return false;
    if (accept('@')) {
      std::string of;
      if (!name(&of)) return false;
      put_int(out, 20, kind);
      put_bytes(out, 21, of);
      return true;
    }
    const bool list = at('[');
    const auto of_list = [](int k) { return k == kType ? static_cast<int>(kTypes) : k + kLists; };
    int one = kNone;
    for (const int k : {kFloat, kInt, kString, kTensor, kGraph, kType})
      if (kind == (list ? of_list(k) : k)) one = k;
    if (kind != kNone && one == kNone) return fail("the value of " + quote(label) + " does not fit its type");
    std::vector<PrintedAttribute> values;
    const auto item = [&] { return single(one, &values.emplace_back()); };
    if (!(list ? listed('[', ']', item) : item())) return false;
    for (const PrintedAttribute& v : values) {
      if (one == kNone || (one == kInt && v.kind == kFloat && kind == kNone)) one = v.kind;
      if (v.kind != one && !(one == kFloat && v.kind == kInt)) return fail("the values of " + quote(label) + " differ in type");
    }
    if (one == kNone) return fail("the empty list " + quote(label) + " needs a type");
    put_int(out, 20, list ? of_list(one) : one);
    constexpr uint32_t kSingle[] = {2, 3, 4, 5, 6, 14}, kListed[] = {7, 8, 9, 10, 11, 15};
    const uint32_t number = (list ? kListed : kSingle)[one == kType ? 5 : one - 1];
    for (const PrintedAttribute& v : values) {
      if (one == kFloat) put_float(out, number, v.real);
      else if (one == kInt) put_int(out, number, v.whole);
      else put_bytes(out, number, v.bytes);
    }
    return true;
  }

  bool function(std::string* out) {
    if (at('<') && !heads(out, true)) return false;
    std::string label;
    if (!name(&label)) return false;
    put_bytes(out, 1, label);
    const auto parameter = [&] {
      std::string of, a;
      if (!name(&of)) return false;
      if (!at(':') && !at('=')) {
        put_bytes(out, 6, of);
        return true;
      }
      if (!attribute(of, &a)) return false;
      put_bytes(out, 11, a);
      return true;
    };
    const auto value = [&](uint32_t number) {
      PrintedType t;
      std::string of;
      if (!declared(&t, &of)) return false;
      if (number != 12) put_bytes(out, number, of);
      if (!t.bytes.empty()) put_bytes(out, 12, value_info(of, t));
      return true;
    };
    return (!at('<') || listed('<', '>', parameter)) && listed('(', ')', [&] { return value(4); }) && need_arrow() &&
           listed('(', ')', [&] { return value(5); }) && (!at('<') || listed('<', '>', [&] { return value(12); })) &&
           nodes(7, out);
  }

  int depth_ = 0;
};

}  // namespace

bool looks_printed(std::string_view head) {
  while (head.starts_with('#')) head = trim(head.substr(std::min(head.find('\n'), head.size())));
  if (!head.starts_with('<')) return false;
  head = trim(head.substr(1));
  const auto end = static_cast<size_t>(std::ranges::find_if_not(head, letter_or_digit) - head.begin());
  return place_of(kHeads, head.substr(0, end)) != 0 && trim(head.substr(end)).starts_with(':');
}

std::optional<std::string> read_printed(std::string_view text, Diagnostics& d) {
  PrintedReader r(text);
  std::string out;
  if (r.model(&out)) return out;
  d.error(Code::NotAModel, r.error(), "line " + std::to_string(r.line()));
  return std::nullopt;
}

}  // namespace rlxc::onnx_import
