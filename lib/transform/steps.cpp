#include "transform/steps.h"

#include <algorithm>
#include <charconv>

#include "support/foreign_text.h"
#include "support/text.h"

namespace rlxc::transform {
namespace {

constexpr int64_t kMostOrder = 16, kMostAxis = 64;

bool parse_number(std::string_view s, int64_t* out) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
  return error == std::errc() && end == s.data() + s.size();
}

std::vector<std::string> names(std::string_view list) {
  std::vector<std::string> out;
  for (std::string_view name : split(list, ','))
    if (!name.empty()) out.emplace_back(name);
  return out;
}

class Parser {
 public:
  explicit Parser(Diagnostics& d) : diagnostics_(d) {}

  bool word(std::string_view key, std::string_view value) {
    if (key == "grad") return begin(StepKind::Grad, key, value) && set(&last().loss, value);
    if (key == "jvp") return begin(StepKind::Jvp, key, value) && list(&last().wrt, value);
    if (key == "hvp")
      return steps.list.empty() || last().kind != StepKind::Grad ? misplaced(key, "grad") : begin(StepKind::Hvp, key, value);
    if (key == "vmap") return begin(StepKind::Vmap, key, value) && batched(value);
    if (key == "stop-gradient") return list(&steps.stopped, value);
    if (key == "wrt" || key == "order" || key == "along") {
      if (steps.list.empty() || last().kind != StepKind::Grad) return misplaced(key, "grad");
      more(key, value);
      return key == "order" ? order(value) : list(&last().wrt, value);
    }
    if (key == "size") {
      if (steps.list.empty() || last().kind != StepKind::Vmap) return misplaced(key, "vmap");
      more(key, value);
      return set(&last().size, value);
    }
    return fail("there is no transform \"" + std::string(key) + "\"",
                "the words are grad, wrt, order, along, jvp, hvp, vmap, size");
  }

  bool complete() {
    for (const Step& s : steps.list) {
      if (s.kind == StepKind::Vmap && s.size.empty()) return fail("--vmap needs --size B, the size of the new axis");
      if (s.order > 1 && (s.wrt.size() != 1 || s.wrt[0] == "params" || s.wrt[0] == "inputs"))
        return fail("--order above 1 needs --along NAME, the one value to differentiate by, and no --wrt of others");
    }
    return true;
  }

  Steps steps;

 private:
  Step& last() { return steps.list.back(); }
  bool begin(StepKind kind, std::string_view key, std::string_view value) {
    steps.list.push_back({});
    last().kind = kind;
    more(key, value);
    return true;
  }
  void more(std::string_view key, std::string_view value) {
    std::string& text = last().text;
    text += (text.empty() ? "" : " ") + std::string(key) + (value.empty() ? "" : " " + std::string(value));
  }
  bool fail(std::string message, std::string help = {}) {
    diagnostics_.error(Code::BadFlag, std::move(message), {}, std::move(help));
    return false;
  }
  bool misplaced(std::string_view key, std::string_view owner) {
    return fail("--" + std::string(key) + " says more about --" + std::string(owner) + ", which does not stand before it");
  }
  bool set(std::string* to, std::string_view value) {
    *to = value;
    return !value.empty() || fail("a name is missing after \"" + last().text + "\"");
  }
  bool list(std::vector<std::string>* to, std::string_view value) {
    for (std::string& name : names(value))
      if (std::ranges::find(*to, name) == to->end()) to->push_back(std::move(name));
    return !to->empty() || fail("a name is missing");
  }
  bool order(std::string_view value) {
    if (parse_number(value, &last().order) && last().order >= 1 && last().order <= kMostOrder) return true;
    return fail("--order takes a number from 1 to " + std::to_string(kMostOrder) + ", got " + quote(std::string(value)));
  }
  bool batched(std::string_view value) {
    for (std::string& name : names(value)) {
      BatchedInput in{std::move(name), 0};
      const size_t colon = in.name.rfind(':');
      int64_t axis = 0;
      if (colon != std::string::npos && colon > 0 && parse_number(std::string_view(in.name).substr(colon + 1), &axis)) {
        if (axis < 0 || axis > kMostAxis) return fail("--vmap takes an axis from 0 to " + std::to_string(kMostAxis));
        in.axis = axis;
        in.name.resize(colon);
      }
      last().batched.push_back(std::move(in));
    }
    return !last().batched.empty() || fail("--vmap needs the name of an input");
  }

  Diagnostics& diagnostics_;
};

}  // namespace

std::optional<Steps> parse_steps(std::span<const std::string> words, Diagnostics& d) {
  Parser p(d);
  for (const std::string& w : words) {
    const size_t space = w.find(' ');
    const std::string_view all(w);
    if (!p.word(all.substr(0, space), space == w.npos ? "" : all.substr(space + 1))) return std::nullopt;
  }
  if (!p.complete()) return std::nullopt;
  return std::move(p.steps);
}

}  // namespace rlxc::transform
