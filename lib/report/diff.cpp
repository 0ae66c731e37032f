#include "report/diff.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "report/context.h"
#include "report/fact_names.h"
#include "report/table.h"
#include "support/foreign_text.h"
#include "support/number.h"
#include "support/text.h"

namespace rlxc::report {
namespace {

using Compare = Condition::Compare;
constexpr std::array<std::pair<std::string_view, Compare>, 6> kComparisons = {{{"<=", Compare::LessEqual},
                                                                               {">=", Compare::GreaterEqual},
                                                                               {"==", Compare::Equal},
                                                                               {"!=", Compare::NotEqual},
                                                                               {"<", Compare::Less},
                                                                               {">", Compare::Greater}}};

bool holds(Compare c, double value, double limit) {
  switch (c) {
    case Compare::Less: return value < limit;
    case Compare::LessEqual: return value <= limit;
    case Compare::Greater: return value > limit;
    case Compare::GreaterEqual: return value >= limit;
    case Compare::Equal: return value == limit;
    case Compare::NotEqual: break;
  }
  return value != limit;
}

double percent(double before, double after) {
  return before == 0 ? (after == 0 ? 0 : std::copysign(std::numeric_limits<double>::infinity(), after))
                     : 100 * (after - before) / std::abs(before);
}

// The part of a name before the first dot or space, after an optional "target/".
std::string section(const std::string& name) {
  const size_t from = name.find('/') == name.npos ? 0 : name.find('/') + 1;
  return name.substr(0, name.find_first_of(". ", from));
}

std::string rounded(double percent) { return shortest(std::round(percent * 10) / 10) + " %"; }

// The numbers that differ, as rows of name, before, after and change.
std::vector<std::array<std::string, 4>> number_rows(const Diff& d) {
  std::vector<std::array<std::string, 4>> rows;
  for (const Change& c : d.changes) {
    if (c.added || c.removed || !c.before.text.empty() || !c.after.text.empty()) continue;
    const double p = percent(c.before.number, c.after.number);
    rows.push_back({c.name, shortest(c.before.number), shortest(c.after.number), std::isfinite(p) ? rounded(p) : "new"});
  }
  return rows;
}

// The sign and the section of a change of an item or a text; empty for numbers.
std::string kind_of(const Change& c) {
  const bool is_text = !c.before.text.empty() && !c.after.text.empty();
  if (!c.added && !c.removed && !is_text) return {};
  return std::string(c.added ? "+" : c.removed ? "-" : "~") + " " + section(c.name);
}
std::map<std::string, std::vector<std::string>> names_by_kind(const Diff& d) {
  std::map<std::string, std::vector<std::string>> names;
  for (const Change& c : d.changes)
    if (std::string kind = kind_of(c); !kind.empty()) names[std::move(kind)].push_back(c.name);
  return names;
}

std::string text_of(const Diff::Check& c) { return shortest(c.before) + " -> " + shortest(c.after); }

}  // namespace

std::optional<Condition> parse_condition(std::string_view text, std::string* message) {
  Condition c;
  c.text = text;
  const size_t at = text.find_first_of("<>=!");
  const auto bad = [&](std::string_view reason) {
    *message = "\"" + c.text + "\" " + std::string(reason) + "; a condition is NAME>NUMBER, NAME>+NUMBER or NAME>+NUMBER%";
    return std::nullopt;
  };
  if (at == text.npos || at == 0) return bad("has no comparison");
  c.name = trim(text.substr(0, at));
  std::string_view rest = text.substr(at);
  const auto kind = std::ranges::find_if(kComparisons, [&](const auto& k) { return rest.starts_with(k.first); });
  if (kind == kComparisons.end()) return bad("has no comparison");
  c.compare = kind->second;
  rest = trim(rest.substr(kind->first.size()));
  c.change = rest.starts_with('+') || rest.starts_with('-');
  if (rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.ends_with('%')) {
    c.relative = c.change = true;
    rest = trim(rest.substr(0, rest.size() - 1));
  }
  if (const auto bytes = parse_bytes(rest)) {
    c.limit = static_cast<double>(*bytes);
    return c;
  }
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), c.limit);
  if (error != std::errc{} || end != rest.data() + rest.size() || !std::isfinite(c.limit)) return bad("has no number");
  return c;
}

bool check_assertion(const Condition& c, std::string* message) {
  if (c.change) {
    *message = "\"" + c.text + "\" compares with another compile; `rlxc diff --fail-on` does that";
    return false;
  }
  *message = fact_name_fault(c.name);
  return message->empty();
}

bool assert_facts(const Snapshot& facts, const std::vector<Condition>& conditions, std::vector<std::string>* failed,
                  std::string* message) {
  for (const Condition& c : conditions) {
    if (!check_assertion(c, message)) return false;
    const auto fact = find_fact(facts, c.name);
    if (fact && !fact->text.empty()) {
      *message = "\"" + c.name + "\" is no number: " + fact->text;
      return false;
    }
    const double value = fact ? fact->number : 0;
    if (!holds(c.compare, value, c.limit)) failed->push_back(c.text + " (is " + shortest(value) + ")");
  }
  return true;
}

bool Diff::finding() const {
  return checks.empty() ? !changes.empty() : std::ranges::any_of(checks, [](const Check& c) { return c.failed; });
}

bool compare(const Snapshot& before, const Snapshot& after, const std::vector<Condition>& conditions, Diff* out,
             std::string* message) {
  auto a = before.begin();
  auto b = after.begin();
  while (a != before.end() || b != after.end()) {
    const bool only_a = b == after.end() || (a != before.end() && a->first < b->first);
    const bool only_b = a == before.end() || (b != after.end() && b->first < a->first);
    Change c;
    c.name = only_b ? b->first : a->first;
    if (!only_b) c.before = a->second;
    if (!only_a) c.after = b->second;
    const bool named = c.before.item || c.after.item || !c.before.text.empty() || !c.after.text.empty();
    c.added = only_b && named;
    c.removed = only_a && named;
    if (c.added || c.removed || c.before.number != c.after.number || c.before.text != c.after.text)
      out->changes.push_back(std::move(c));
    if (!only_b) ++a;
    if (!only_a) ++b;
  }
  for (const Condition& c : conditions) {
    const auto x = find_fact(before, c.name), y = find_fact(after, c.name);
    if (!x && !y && !(*message = fact_name_fault(c.name)).empty()) return false;
    for (const auto* fact : {&x, &y})
      if (*fact && !(*fact)->text.empty()) {
        *message = "\"" + c.name + "\" is no number: " + (*fact)->text;
        return false;
      }
    Diff::Check check{c, x ? x->number : 0, y ? y->number : 0, false};
    const double value = c.relative ? percent(check.before, check.after) : c.change ? check.after - check.before : check.after;
    check.failed = holds(c.compare, value, c.limit);
    out->checks.push_back(std::move(check));
  }
  return true;
}

std::string diff_text(const Diff& d, size_t limit) {
  std::string out;
  Table numbers({"", "before", "after", "change"});
  const auto rows = number_rows(d);
  for (const auto& [name, before, after, change] : rows) numbers.add({ForeignText(name).line(), before, after, change});
  if (!rows.empty()) numbers.print(&out);
  std::map<std::string, size_t> shown;
  for (const Change& c : d.changes) {
    const std::string kind = kind_of(c);
    if (!kind.empty() && ++shown[kind] <= limit) out += kind.substr(0, 2) + ForeignText(c.name).line() + "\n";
  }
  for (const auto& [kind, count] : shown)
    if (count > limit) out += kind + ": " + std::to_string(count - limit) + " more\n";
  if (d.changes.empty()) out += "no difference\n";
  for (const Diff::Check& c : d.checks) out += (c.failed ? "FAIL " : "ok   ") + c.condition.text + " (" + text_of(c) + ")\n";
  return out;
}

std::string diff_markdown(const Diff& d, size_t limit) {
  std::string out;
  if (const auto rows = number_rows(d); !rows.empty()) {
    out += "| | before | after | change |\n|---|---:|---:|---:|\n";
    for (const auto& [name, before, after, change] : rows)
      out += "| " + ForeignText(name).markdown() + " | " + before + " | " + after + " | " + change + " |\n";
  }
  if (!d.checks.empty()) out += std::string(out.empty() ? "" : "\n") + "| condition | | before -> after |\n|---|---|---|\n";
  for (const Diff::Check& c : d.checks)
    out += "| " + ForeignText(c.condition.text).markdown() + " | " + (c.failed ? "**failed**" : "holds") + " | " + text_of(c) +
           " |\n";
  for (const auto& [kind, names] : names_by_kind(d)) {
    out += "\n<details><summary>" + markup(kind) + ": " + std::to_string(names.size()) + "</summary>\n\n";
    for (size_t i = 0; i < std::min(names.size(), limit); ++i) out += "- " + ForeignText(names[i]).markdown() + "\n";
    if (names.size() > limit) out += "- " + std::to_string(names.size() - limit) + " more\n";
    out += "\n</details>\n";
  }
  return d.changes.empty() ? out + "No difference.\n" : out;
}

std::vector<TestCase> diff_cases(const Diff& d) {
  std::vector<TestCase> cases;
  using enum TestCase::Outcome;
  for (const Diff::Check& c : d.checks) cases.push_back({"condition", c.condition.text, c.failed ? Failed : Passed, text_of(c)});
  if (!d.checks.empty()) return cases;
  for (const auto& [name, before, after, change] : number_rows(d))
    cases.push_back({"change", name, Failed, before + " -> " + after});
  for (const auto& [kind, names] : names_by_kind(d))
    for (const std::string& name : names) cases.push_back({"change", name, Failed, kind});
  if (cases.empty()) cases.push_back({"change", "none", Passed, {}});
  return cases;
}

void write_diff(const Diff& d, JsonWriter& w, const std::string& version) {
  w.begin_object();
  w.key("$schema").string("diff.schema.json").key("format").string("rlxc-diff").key("format_version").string(kFormatVersion);
  w.key("generator").string("rlxc " + version).key("finding").boolean(d.finding());
  w.key("changes").begin_array();
  for (const Change& c : d.changes) {
    w.begin_object(JsonLayout::Line).key("name").string(c.name);
    if (c.added || c.removed) {
      w.key("change").string(c.added ? "added" : "removed");
    } else if (!c.before.text.empty() || !c.after.text.empty()) {
      w.key("change").string("text").key("before").string(c.before.text).key("after").string(c.after.text);
    } else {
      w.key("change").string("number").key("before").number(c.before.number).key("after").number(c.after.number);
    }
    w.end_object();
  }
  w.end_array().key("checks").begin_array();
  for (const Diff::Check& c : d.checks) {
    w.begin_object(JsonLayout::Line).key("condition").string(c.condition.text).key("before").number(c.before);
    w.key("after").number(c.after).key("failed").boolean(c.failed).end_object();
  }
  w.end_array().end_object().finish();
}

}  // namespace rlxc::report
