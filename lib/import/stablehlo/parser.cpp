// Reads MLIR text without knowing the operations: operands, words, attributes, regions and a signature in any order, up to the
// end of the operation.
#include <charconv>

#include "import/stablehlo/import.h"
#include "import/stablehlo/syntax.h"
#include "support/text.h"

namespace rlxc::stablehlo_import {
namespace {

constexpr int kMaxNesting = 64;  // of nested regions, lists and dictionaries together

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$'; }

std::optional<DType> element_type(std::string_view s) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"i1", DType::Bool},          {"f8E4M3FN", DType::F8E4M3FN},     {"f8E4M3FNUZ", DType::F8E4M3FNUZ},
      {"f8E5M2", DType::F8E5M2},    {"f8E5M2FNUZ", DType::F8E5M2FNUZ}, {"f4E2M1FN", DType::F4E2M1},
      {"f8E8M0FNU", DType::F8E8M0}, {"complex<f32>", DType::C64},      {"complex<f64>", DType::C128},
      {"index", DType::I64}};
  for (const auto& [text, type] : kNames)
    if (s == text) return type;
  std::string own(s);
  if (s.starts_with("ui")) own = "u" + own.substr(2);
  else if (s.starts_with("si")) own = own.substr(1);
  else if (s.starts_with("u") || s == "bool" || s == "string") return std::nullopt;
  const auto t = dtype_from_name(own);
  return t && name(*t) == own && !is_complex(*t) && *t != DType::Bool ? t : std::nullopt;
}

class Parser {
 public:
  Parser(std::string_view text, LineIndex& lines, Diagnostics& d) : text_(text), lines_(lines), d_(d) {}

  std::optional<ModuleText> module() {
    while (!failed_ && !at_end()) top_level();
    if (!failed_ && out_.functions.empty()) fail("the module has no function");
    return failed_ ? std::nullopt : std::optional(std::move(out_));
  }

 private:
  // Text.
  bool fail(std::string message) { return fail(std::move(message), at_); }
  bool fail(std::string message, size_t at) {
    if (!failed_) d_.error(Code::NotAModel, std::move(message), lines_.place(std::min(at, text_.size())));
    failed_ = true;
    at_ = text_.size();
    return false;
  }
  void space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') ++at_;
      else if (c == '/' && text_.substr(at_).starts_with("//")) at_ = std::min(text_.find('\n', at_), text_.size());
      else break;
    }
  }
  bool at_end() { return space(), at_ >= text_.size(); }
  char peek() { return at_end() ? '\0' : text_[at_]; }
  bool starts(std::string_view s) { return space(), text_.substr(at_).starts_with(s); }
  bool accept(std::string_view s) { return starts(s) && (at_ += s.size(), true); }
  bool expect(std::string_view s) { return accept(s) || fail("expected '" + std::string(s) + "'"); }
  // The next word, which stays.
  std::string_view next_word() {
    space();
    size_t end = at_;
    if (end < text_.size() && is_letter(text_[end]))
      while (end < text_.size() && is_name(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool accept_word(std::string_view w) { return next_word() == w && (at_ += w.size(), true); }
  std::string_view word() {
    const std::string_view w = next_word();
    if (w.empty()) fail("expected a name");
    at_ += failed_ ? 0 : w.size();
    return w;
  }
  // A name behind % or @ or ^, which may be of digits alone, or quoted.
  std::string_view name_after(char sign) {
    if (peek() != sign) return fail(std::string("expected '") + sign + "'"), std::string_view();
    ++at_;
    if (at_ < text_.size() && text_[at_] == '"') return string();
    const size_t from = at_;
    while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '-')) {
      if (text_[at_] == '-' && text_.substr(at_).starts_with("->")) break;
      ++at_;
    }
    if (at_ == from) fail("expected a name");
    return text_.substr(from, at_ - from);
  }
  // A string without its quotation marks, as it is written.
  std::string_view string() {
    if (peek() != '"') return fail("expected a string"), std::string_view();
    const size_t from = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) return fail("a string has no end", from - 1), std::string_view();
    return text_.substr(from, at_++ - from);
  }
  // Skips up to the bracket that closes the one at the cursor.
  bool skip_brackets() {
    const size_t from = at_;
    std::vector<char> open;
    do {
      const char c = peek();
      if (c == '"') {
        string();
        continue;
      }
      ++at_;
      if (at_ > text_.size()) return fail("a bracket is not closed", from);
      if (c == '(' || c == '[' || c == '{' || c == '<') open.push_back(c);
      const char opener = c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : c == '>' && text_[at_ - 2] != '-' ? '<' : '\0';
      if (opener && (open.empty() || open.back() != opener)) return fail("a bracket does not fit the one that is open", at_ - 1);
      if (opener) open.pop_back();
    } while (!open.empty() && !failed_);
    return !failed_;
  }
  void skip_location() {
    while (next_word() == "loc" && text_.substr(at_ + 3).starts_with('(')) {
      at_ += 3;
      skip_brackets();
    }
  }

  // Modules and functions.
  void top_level() {
    if (starts("#")) return skip_alias();
    if (starts("{-#")) return resources();
    if (accept("\"")) return generic_top_level();
    const size_t from = at_;
    const std::string_view w = word();
    if (failed_) return;
    if (w == "module" || w == "builtin.module") {
      if (peek() == '@') out_.name = name_after('@');
      if (accept_word("attributes") && peek() == '{') skip_brackets();
      if (!failed_ && expect("{")) module_body();
    } else if (w == "func.func") {
      function(from);
    } else {
      fail("'" + std::string(w) + "' is no module and no function", from);
    }
  }
  // "builtin.module"() <{...}> ({ ... }) {...} : () -> ()
  void generic_top_level() {
    const size_t from = --at_;
    const std::string_view w = string();
    if (failed_) return;
    if (w != "builtin.module") return void(fail("'" + std::string(w) + "' is no module", from));
    if (!expect("(") || !expect(")")) return;
    if (accept("<")) {
      for (const Attr& a : dictionary())
        if (a.key == "sym_name") out_.name = a.text;
      if (!expect(">")) return;
    }
    if (!expect("(") || !expect("{")) return;
    if (accept("^")) {
      --at_;
      name_after('^');
      if (!expect(":")) return;
    }
    module_body();
    if (!expect(")")) return;
    if (peek() == '{')
      for (const Attr& a : dictionary())
        if (a.key == "sym_name") out_.name = a.text;
    if (expect(":") && expect("(") && expect(")") && expect("->") && expect("(") && expect(")")) skip_location();
  }
  void module_body() {
    while (!failed_ && !accept("}")) {
      space();
      const size_t from = at_;
      if (starts("#")) {
        skip_alias();
      } else if (peek() == '"') {
        const std::string_view w = string();
        if (w == "func.func") generic_function(from);
        else if (w.starts_with("sdy.mesh")) skip_generic();
        else fail("'" + std::string(w) + "' is no function", from);
      } else {
        const std::string_view w = word();
        if (failed_) return;
        if (w == "func.func") function(from);
        else if (w == "sdy.mesh") {
          name_after('@');
          if (expect("=") && peek() == '<') skip_brackets();
        } else fail("'" + std::string(w) + "' is no function", from);
      }
      skip_location();
    }
    skip_location();
  }
  void skip_alias() {  // #loc1 = loc(...)
    ++at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (!expect("=")) return;
    if (starts("#")) ++at_;
    if (!next_word().empty()) word();
    if (peek() == '(' || peek() == '<') skip_brackets();
  }
  void skip_generic() {
    while (!failed_ && peek() != ':') {
      if (peek() == '(' || peek() == '<' || peek() == '{') skip_brackets();
      else fail("expected ':'");
    }
    if (expect(":")) signature();
  }
  void resources() {  // {-# dialect_resources: { builtin: { name: "0x..." } } #-}
    at_ += 3;
    while (!failed_ && !accept("#-}")) {
      const char c = peek();
      if (c == '\0') return void(fail("the resources have no end"));
      if (c == '{' || c == '}' || c == ',') {
        ++at_;
        continue;
      }
      const std::string_view key = c == '"' ? string() : word();
      if (!failed_ && expect(":") && peek() == '"') out_.resources[key] = string();
    }
  }
  // func.func public @main(%arg0: tensor<4xf32> {...}) -> (tensor<4xf32> {...}) attributes {...} { ... }
  void function(size_t from) {
    Function f;
    f.at = from;
    f.is_public = true;
    if (accept_word("private")) f.is_public = false;
    else accept_word("public");
    f.name = name_after('@');
    if (failed_ || !expect("(")) return;
    while (!failed_ && !accept(")")) {
      f.body.arguments.push_back(argument());
      if (peek() != ')' && !expect(",")) return;
    }
    if (accept("->")) {
      const bool many = accept("(");
      while (!failed_ && !(many && accept(")"))) {
        Argument r;
        r.at = at_;
        r.type = type();
        if (many && peek() == '{') r.attributes = dictionary();
        f.results.push_back(std::move(r));
        if (!many) break;
        if (peek() != ')' && !expect(",")) return;
      }
    }
    if (!failed_ && accept_word("attributes")) dictionary();
    if (failed_ || peek() != '{') return void(fail("the function " + quote(f.name) + " has no body", from));
    ++at_;
    block_operations(&f.body);
    out_.functions.push_back(std::move(f));
  }
  // "func.func"() <{function_type = (...) -> ..., sym_name = "main"}> ({ ^bb0(...): ... }) : () -> ()
  void generic_function(size_t from) {
    Function f;
    f.at = from;
    f.is_public = true;
    if (!expect("(") || !expect(")")) return;
    std::vector<Attr> fields;
    if (accept("<")) {
      fields = dictionary();
      if (!expect(">")) return;
    }
    if (!expect("(") || !expect("{")) return;
    f.body = region_after_brace();
    if (!expect(")")) return;
    if (peek() == '{')
      for (Attr& a : dictionary()) fields.push_back(std::move(a));
    if (!expect(":")) return;
    signature();
    for (const Attr& a : fields) {
      if (a.key == "sym_name") f.name = a.text;
      if (a.key == "sym_visibility") f.is_public = a.text != "private";
    }
    if (!f.body.operations.empty()) f.results.resize(f.body.operations.back().operands.size());
    out_.functions.push_back(std::move(f));
  }
  Argument argument() {
    Argument a;
    space();
    a.at = at_;
    a.name = name_after('%');
    if (failed_ || !expect(":")) return a;
    a.type = type();
    if (!failed_ && peek() == '{') a.attributes = dictionary();
    if (!failed_ && starts("loc(\"")) {
      const size_t location = at_;
      at_ += 4;
      a.label = string();
      at_ = failed_ ? at_ : location;
    }
    if (!failed_) skip_location();
    return a;
  }
  // The rest of a region after its brace.
  Region region_after_brace() {
    Region r;
    if (peek() == '^') {
      name_after('^');
      if (accept("(")) {
        while (!failed_ && !accept(")")) {
          r.arguments.push_back(argument());
          if (peek() != ')' && !expect(",")) break;
        }
      }
      if (!failed_) expect(":");
    }
    block_operations(&r);
    return r;
  }
  // Operations up to the closing brace.
  void block_operations(Region* r) {
    if (++depth_ > kMaxNesting) return void(fail("regions nest deeper than " + std::to_string(kMaxNesting)));
    while (!failed_ && !accept("}")) {
      if (peek() == '^') return void(fail("a region of several blocks is not read"));
      r->operations.push_back(operation());
    }
    --depth_;
  }

  // Operations.
  Operation operation() {
    Operation op;
    space();
    op.at = at_;
    while (!failed_ && peek() == '%') {
      Operation::Result r{name_after('%')};
      if (accept(":")) {
        const int64_t n = integer();
        if (n < 0 || n > (1 << 16)) fail("an operation has at most 65536 results");
        r.count = static_cast<uint32_t>(failed_ ? 0 : n);
      }
      op.results.push_back(r);
      if (!accept(",") && !expect("=")) return op;
      if (text_[at_ - 1] == '=') break;
    }
    if (failed_) return op;
    op.at = (space(), at_);
    if (peek() == '"') generic(op);
    else pretty(op);
    if (!failed_) skip_location();
    return op;
  }
  Operand operand() {
    Operand o;
    space();
    o.at = at_;
    o.name = name_after('%');
    if (!failed_ && at_ < text_.size() && text_[at_] == '#') {
      ++at_;
      o.index = static_cast<uint32_t>(std::clamp<int64_t>(integer(), 0, UINT32_MAX));
    }
    return o;
  }
  // "stablehlo.add"(%0, %1) <{...}> ({ ... }) {...} : (...) -> ...
  void generic(Operation& op) {
    op.name = string();
    if (op.name == "func.return") op.name = "return";
    if (op.name == "func.call") op.name = "call";
    if (failed_ || !expect("(")) return;
    while (!failed_ && !accept(")")) {
      op.operands.push_back(operand());
      if (peek() != ')' && !expect(",")) return;
    }
    if (accept("<")) {
      op.attributes = dictionary();
      if (!expect(">")) return;
    }
    if (accept("(")) regions(op);
    if (!failed_ && peek() == '{')
      for (Attr& a : dictionary()) op.attributes.push_back(std::move(a));
    if (failed_ || !expect(":")) return;
    op.result_types = signature();
    if (const Attr* callee = op.find("callee")) op.symbol = callee->text;
    if (const Attr* target = op.find("call_target_name")) op.symbol = target->text;
  }
  void regions(Operation& op) {  // after "("
    do {
      if (!expect("{")) return;
      op.regions.push_back(region_after_brace());
    } while (!failed_ && accept(","));
    expect(")");
  }
  void pretty(Operation& op) {
    op.name = word();
    if (op.name.starts_with("func.")) op.name.remove_prefix(5);
    int open = 0;  // parentheses
    std::vector<Argument> carried;
    while (!failed_) {
      const char c = peek();
      if (c == ':') {
        ++at_;
        if (open > 0) continue;  // init:
        const std::vector<TensorType> types = signature();
        op.result_types = listed_ ? results_of_list(op, types) : types;
        break;
      }
      if (c == '%') {
        const size_t from = at_;
        const std::string_view left = name_after('%');
        if (open > 0 && accept("=")) {
          carried.push_back({left, {}, {}, from});
          op.operands.push_back(operand());
        } else {
          at_ = from;
          op.operands.push_back(operand());
        }
      } else if (c == '@') {
        op.symbol = name_after('@');
      } else if (c == '"') {
        Attr a;
        a.kind = Attr::Kind::String;
        a.text = string();
        op.attributes.push_back(a);
      } else if (c == '(') {
        ++at_;
        if (peek() == '{') regions(op);
        else ++open;
      } else if (c == ')') {
        ++at_;
        if (--open < 0) fail("a bracket does not fit the one that is open", at_ - 1);
      } else if (c == ',') {
        ++at_;
      } else if (c == '{') {
        for (Attr& a : dictionary()) op.attributes.push_back(std::move(a));
      } else if (c == '<' && text_.substr(at_).starts_with("<{")) {
        ++at_;
        for (Attr& a : dictionary()) op.attributes.push_back(std::move(a));
        if (!failed_) expect(">");
      } else if (c == '[') {
        op.attributes.push_back(value());
      } else if (c == '}' || next_word().empty()) {
        if (c != '}' || open > 0) fail("an operation cannot have this here");
        break;
      } else {
        const size_t from = at_;
        const std::string_view w = word();
        if (w == "dense" || w == "dense_resource") {
          at_ = from;
          Attr a = value();
          a.key = "value";
          const auto type = a.type;
          op.attributes.push_back(std::move(a));
          if (!type || failed_) continue;
          op.result_types = {*type};
          break;
        } else if (accept("=")) {
          Attr a = value();
          a.key = w;
          op.attributes.push_back(std::move(a));
        } else {
          op.words.push_back(w);
        }
      }
      if ((op.name == "return" || op.name.ends_with(".return")) && op.operands.empty() && op.words.empty() && peek() == '}')
        break;
    }
    if (!failed_) pretty_regions(op, carried);
  }
  // The signature was a list of types: those of the results, or of operands and result.
  std::vector<TensorType> results_of_list(const Operation& op, const std::vector<TensorType>& types) {
    const size_t n = op.result_count();
    if (n == 0 || types.size() == n) return n == 0 ? std::vector<TensorType>() : types;
    if (n == 1 && !types.empty()) return {types.back()};
    if (types.size() == 1) return std::vector<TensorType>(n, types[0]);
    return {};
  }
  void pretty_regions(Operation& op, const std::vector<Argument>& carried) {
    if (op.name == "stablehlo.while") {
      if (accept_word("attributes")) dictionary();
      for (const std::string_view w : {"cond", "do"}) {
        if (failed_ || !accept_word(w)) return void(fail("expected '" + std::string(w) + "'"));
        if (!expect("{")) return;
        Region r = region_after_brace();
        r.arguments = carried;
        for (size_t i = 0; i < carried.size() && i < op.result_types.size(); ++i) r.arguments[i].type = op.result_types[i];
        op.regions.push_back(std::move(r));
      }
      return;
    }
    if (op.name != "stablehlo.reduce" || !op.regions.empty()) return;
    // Operands were written in pairs of a value and its start.
    std::vector<Operand> values, starts;
    for (size_t i = 0; i < op.operands.size(); ++i) (i % 2 ? starts : values).push_back(op.operands[i]);
    op.operands = values;
    op.operands.insert(op.operands.end(), starts.begin(), starts.end());
    Region r;
    if (accept_word("reducer")) {
      std::vector<Argument> left, right;
      while (!failed_ && accept("(")) {
        left.push_back(argument());
        if (failed_ || !expect(",")) return;
        right.push_back(argument());
        if (failed_ || !expect(")")) return;
      }
      if (failed_ || !expect("{")) return;
      Region body = region_after_brace();
      body.arguments = left;
      body.arguments.insert(body.arguments.end(), right.begin(), right.end());
      op.regions.push_back(std::move(body));
    } else if (op.words.size() >= 3 && op.words[1] == "applies" && op.result_types.size() == 1) {
      const TensorType scalar{op.result_types[0].dtype, {}, op.result_types[0].text};
      r.arguments = {{"a", scalar, {}, op.at}, {"b", scalar, {}, op.at}};
      Operation apply, done;
      apply.name = op.words[2];
      apply.at = done.at = op.at;
      apply.results = {{"c"}};
      apply.operands = {{"a", 0, op.at}, {"b", 0, op.at}};
      apply.result_types = {scalar};
      done.name = "stablehlo.return";
      done.operands = {{"c", 0, op.at}};
      r.operations = {std::move(apply), std::move(done)};
      op.regions.push_back(std::move(r));
    } else {
      fail("a reduce has no body", op.at);
    }
  }

  // Types.
  std::vector<TensorType> signature() {
    listed_ = false;
    std::vector<TensorType> first = type_list();
    if (failed_) return first;
    if (accept("->")) return type_list();
    listed_ = true;
    return first;
  }
  std::vector<TensorType> type_list() {
    std::vector<TensorType> out;
    if (accept("(")) {
      while (!failed_ && !accept(")")) {
        out.push_back(type());
        if (!failed_ && peek() != ')') expect(",");
      }
      return out;
    }
    do out.push_back(type());
    while (!failed_ && accept(","));
    return out;
  }
  TensorType type() {
    TensorType t;
    space();
    const size_t from = at_;
    if (accept("!")) {
      word();
      if (!failed_ && peek() == '<') skip_brackets();
    } else if (accept("(")) {  // a function
      at_ = from;
      skip_brackets();
      if (!failed_ && accept("->")) type();
    } else {
      const std::string_view w = word();
      if (failed_) return t;
      if (w == "tensor") tensor(t);
      else if (peek() == '<') skip_brackets();
      else t.dtype = element_type(w);
    }
    t.text = text_.substr(from, at_ - from);
    return t;
  }
  void tensor(TensorType& t) {  // after "tensor": <2x?xf32>
    const size_t from = at_;
    if (peek() != '<' || !skip_brackets()) return void(fail("expected a shape", from));
    std::string_view s = text_.substr(from + 1, at_ - from - 2);
    while (!s.empty() && (is_digit(s[0]) || s[0] == '?')) {
      int64_t n = kUnknownSize;
      if (s[0] == '?') {
        s.remove_prefix(1);
      } else {
        const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
        if (error != std::errc() || n > (int64_t{1} << 56)) return void(fail("a size is too large", from));
        s.remove_prefix(static_cast<size_t>(end - s.data()));
      }
      if (!s.starts_with('x')) return void(fail("this is no shape", from));
      s.remove_prefix(1);
      t.dims.push_back(n);
    }
    if (t.dims.size() > kMaxRank) return void(fail("tensors have at most " + std::to_string(kMaxRank) + " axes", from));
    t.dtype = element_type(trim(s.substr(0, s.find(','))));
  }
  static constexpr size_t kMaxRank = 64;

  // Attributes.
  std::vector<Attr> dictionary() {  // with its braces
    std::vector<Attr> out;
    if (++depth_ > kMaxNesting) return fail("attributes nest deeper than " + std::to_string(kMaxNesting)), out;
    if (!expect("{")) return out;
    while (!failed_ && !accept("}")) {
      const std::string_view key = peek() == '"' ? string() : word();
      Attr a;
      a.at = at_;
      if (!failed_ && accept("=")) a = typed_value();
      a.key = key;
      out.push_back(std::move(a));
      if (!failed_ && peek() != '}') expect(",");
    }
    --depth_;
    return out;
  }
  Attr typed_value() {
    Attr a = value();
    if (!failed_ && !a.type && peek() == ':') {
      ++at_;
      a.type = type();
    }
    return a;
  }
  int64_t integer() {
    space();
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (error != std::errc()) fail("expected an integer");
    else at_ = static_cast<size_t>(end - text_.data());
    return n;
  }
  Attr value() {
    Attr a;
    space();
    a.at = at_;
    if (++depth_ > kMaxNesting) return fail("attributes nest deeper than " + std::to_string(kMaxNesting)), a;
    read_value(a);
    --depth_;
    return a;
  }
  void read_value(Attr& a) {
    using Kind = Attr::Kind;
    const char c = peek();
    if (c == '"') {
      a.kind = Kind::String;
      a.text = string();
    } else if (c == '@') {
      a.kind = Kind::Symbol;
      a.text = name_after('@');
      while (accept("::")) name_after('@');
    } else if (c == '{') {
      a.kind = Kind::Dictionary;
      a.items = dictionary();
    } else if (c == '[') {
      ++at_;
      list(a, "]");
      // [b, 0, f]x[0, i, o]->[b, 0, f], and [0] x [0]
      if (!failed_ && (starts("x[") || starts("x ["))) {
        Attr first = std::move(a);
        a = {};
        a.kind = Kind::List;
        a.at = first.at;
        a.items.push_back(std::move(first));
        while (!failed_ && (starts("x[") || starts("x [") || starts("->"))) {
          at_ += starts("x") ? 1 : 2;
          if (!expect("[")) return;
          Attr next;
          next.at = at_;
          list(next, "]");
          a.items.push_back(std::move(next));
        }
      }
    } else if (c == '<') {
      ++at_;
      enclosed(a);
    } else if (c == '#') {
      ++at_;
      while (at_ < text_.size() && is_name(text_[at_])) ++at_;
      if (at_ < text_.size() && text_[at_] == '<') {
        ++at_;
        enclosed(a);
      } else {
        a.kind = Kind::Word;
      }
    } else if (is_digit(c) || c == '-' || c == '+') {
      number(a);
    } else if (c == '!' || c == '(') {
      type();
      a.kind = Kind::Word;
    } else {
      word_value(a);
    }
  }
  void number(Attr& a) {
    const size_t from = at_;
    while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '-' || text_[at_] == '+')) ++at_;
    a.text = text_.substr(from, at_ - from);
    const auto [end, error] = std::from_chars(a.text.data(), a.text.data() + a.text.size(), a.integer);
    a.kind = error == std::errc() && end == a.text.data() + a.text.size() ? Attr::Kind::Int : Attr::Kind::Float;
  }
  void word_value(Attr& a) {
    using Kind = Attr::Kind;
    const size_t from = at_;
    const std::string_view w = word();
    if (failed_) return;
    if (w == "tensor") {
      at_ = from;
      type();
      a.kind = Kind::Word;
    } else if ((w == "dense" || w == "dense_resource") && peek() == '<') {
      a.kind = w == "dense" ? Kind::Dense : Kind::Resource;
      const size_t open = at_;
      if (!skip_brackets()) return;
      a.text = text_.substr(open + 1, at_ - open - 2);
      const size_t before = at_;
      if (accept(":")) a.type = type();
      else at_ = before;
    } else if (w == "array" && peek() == '<') {  // array<i64: 1, 2>
      ++at_;
      word();
      a.kind = Kind::List;
      if (!failed_ && accept(":")) list(a, ">");
      else if (!failed_) expect(">");
    } else if ((w == "true" || w == "false") && peek() != '<') {
      a.kind = Kind::Int;
      a.integer = w == "true";
      a.text = w;
    } else {
      a.kind = Kind::Word;
      a.text = w;
      if (peek() == '<') skip_brackets();
    }
  }
  // Values up to `end`. A range 0:4:2 is a list of integers.
  void list(Attr& a, std::string_view end) {
    a.kind = Attr::Kind::List;
    while (!failed_ && !accept(end)) {
      Attr v = value();
      if (!failed_ && v.kind == Attr::Kind::Int && peek() == ':') {
        Attr range;
        range.kind = Attr::Kind::List;
        range.at = v.at;
        range.items.push_back(std::move(v));
        while (!failed_ && accept(":")) range.items.push_back(value());
        v = std::move(range);
      }
      a.items.push_back(std::move(v));
      if (!failed_ && !starts(end)) expect(",");
    }
  }
  // The inside of #dialect.name<...>: fields, or one value after the name of an enumeration.
  void enclosed(Attr& a) {
    a.kind = Attr::Kind::Dictionary;
    while (!failed_ && !accept(">")) {
      Attr v;
      const std::string_view w = next_word();
      const size_t from = at_;
      if (!w.empty()) {
        at_ += w.size();
        if (accept("=")) {
          v = typed_value();
          v.key = w;
        } else {
          at_ = from;
          v = typed_value();
          if (v.kind == Attr::Kind::Word) a.text = v.text;
        }
      } else {
        v = typed_value();
      }
      a.items.push_back(std::move(v));
      if (!failed_ && !starts(">")) accept(",");
    }
  }

  std::string_view text_;
  LineIndex& lines_;
  Diagnostics& d_;
  ModuleText out_;
  size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false, listed_ = false;  // listed_: the last signature had no arrow
};

}  // namespace

bool looks_like_mlir(std::string_view head) {
  while (true) {  // comments and aliases
    head = trim(head);
    if (!head.starts_with("//") && !head.starts_with("#loc") && !head.starts_with("#map")) break;
    head.remove_prefix(std::min(head.find('\n'), head.size()));
  }
  if (head.starts_with("\"builtin.module\"") || head.starts_with("builtin.module") || head.starts_with("func.func")) return true;
  if (!head.starts_with("module")) return false;
  head = trim(head.substr(std::string_view("module").size()));
  return head.starts_with('@') || head.starts_with('{') || head.starts_with("attributes");
}

std::optional<ModuleText> parse_module(std::string_view text, LineIndex& lines, Diagnostics& d) {
  return Parser(text, lines, d).module();
}

}  // namespace rlxc::stablehlo_import
