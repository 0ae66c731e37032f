#include "support/diagnostics.h"

#include <algorithm>
#include <array>

#include "support/foreign_text.h"

namespace rlxc {
namespace {

struct CodeRow {
  Code code;
  ExitCode exit;
  std::string_view text;
};

constexpr auto kCodeRows = std::to_array<CodeRow>({
#define CODE(number, name, exit, text) {Code::name, ExitCode::exit, text},
#include "support/diagnostics.def"
#undef CODE
});

const CodeRow& row(Code c) {
  return *std::find_if(kCodeRows.begin(), kCodeRows.end(), [&](const CodeRow& r) { return r.code == c; });
}

std::string_view word(Severity s) { return s == Severity::Error ? "error" : s == Severity::Warning ? "warning" : "note"; }

}  // namespace

std::string_view explain(Code c) { return row(c).text; }
ExitCode exit_code(Code c) { return row(c).exit; }

std::string code_text(Code c) {
  std::string digits = std::to_string(static_cast<int>(c));
  return "RLX" + std::string(4 - digits.size(), '0') + digits;
}

bool code_from_text(std::string_view s, Code* out) {
  if (s.starts_with("RLX")) s.remove_prefix(3);
  while (s.size() > 1 && s.front() == '0') s.remove_prefix(1);
  for (const CodeRow& r : kCodeRows)
    if (std::to_string(static_cast<int>(r.code)) == s) {
      *out = r.code;
      return true;
    }
  return false;
}

const std::vector<Code>& all_codes() {
  static const std::vector<Code> codes = [] {
    std::vector<Code> v;
    for (const CodeRow& r : kCodeRows) v.push_back(r.code);
    return v;
  }();
  return codes;
}

void Diagnostics::error(Code c, std::string message, std::string where, std::string help) {
  add({Severity::Error, c, std::move(where), std::move(message), std::move(help)});
}

void Diagnostics::warning(Code c, std::string message, std::string where, std::string help) {
  add({Severity::Warning, c, std::move(where), std::move(message), std::move(help)});
}

bool Diagnostics::has(const Diagnostic& d) const {
  return std::ranges::any_of(
      items_, [&](const Diagnostic& o) { return o.code == d.code && o.where == d.where && o.message == d.message; });
}

Diagnostics::Count& Diagnostics::count_of(Severity severity, Code code) {
  auto it = std::ranges::find_if(counts_, [&](const Count& c) { return c.severity == severity && c.code == code; });
  if (it == counts_.end()) it = counts_.insert(counts_.end(), {severity, code, 0});
  return *it;
}

void Diagnostics::add(Diagnostic d) {
  if (d.severity == Severity::Error) ++errors_;
  else if (has(d)) return;
  if (++count_of(d.severity, d.code).all <= kMaxKept) items_.push_back(std::move(d));
}

void Diagnostics::add(const Diagnostics& o) {
  for (const Diagnostic& d : o.items_)
    if (!has(d)) add(d);
  for (const Count& c : o.counts_) {
    if (c.all <= kMaxKept) continue;
    count_of(c.severity, c.code).all += c.all - kMaxKept;
    if (c.severity == Severity::Error) errors_ += c.all - kMaxKept;
  }
}

ExitCode Diagnostics::exit() const {
  for (const Diagnostic& d : items_)
    if (d.severity == Severity::Error) return exit_code(d.code);
  return ExitCode::Ok;
}

std::string Diagnostics::text(size_t warnings) const {
  std::string out;
  std::vector<size_t> printed(counts_.size());
  for (const Diagnostic& d : items_) {
    const bool warning = d.severity == Severity::Warning;
    const auto same = [&](const Count& c) { return c.severity == d.severity && c.code == d.code; };
    size_t& n = printed[static_cast<size_t>(std::ranges::find_if(counts_, same) - counts_.begin())];
    if (warning && n >= warnings) continue;
    ++n;
    std::string text = file_.empty() ? "" : file_ + ": ";
    text += std::string(word(d.severity)) + "[" + code_text(d.code) + "]: ";
    if (!d.where.empty()) text += d.where + ": ";
    text += d.message;
    if (!d.help.empty()) text += "\nhelp: " + d.help;
    out += terminal_text(text, "  ") + "\n";
  }
  for (size_t i = 0; i < counts_.size(); ++i) {
    const size_t rest = counts_[i].all - printed[i];
    if (rest == 0 || (counts_[i].severity == Severity::Warning && warnings == 0)) continue;
    out += "  and " + std::to_string(rest) + " more of " + code_text(counts_[i].code) +
           (printed[i] < kMaxKept ? " (compile --verbose shows all)" : "") + "\n";
  }
  return out;
}

}  // namespace rlxc
