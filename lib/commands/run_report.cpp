#include "commands/run_report.h"

#include <algorithm>
#include <cmath>

#include "report/context.h"
#include "support/json_writer.h"

namespace rlxc {
namespace {

using Verdict = OutputReport::Verdict;

std::string_view name(Verdict v) {
  constexpr std::string_view kNames[] = {"passed", "failed", "random", "not compared"};
  return kNames[static_cast<size_t>(v)];
}

}  // namespace

size_t RunReport::outputs() const {
  size_t n = 0;
  for (const SetReport& s : sets) n += s.outputs.size();
  return n;
}

size_t RunReport::count(Verdict v) const {
  size_t n = 0;
  for (const SetReport& s : sets) n += static_cast<size_t>(std::ranges::count(s.outputs, v, &OutputReport::verdict));
  return n;
}

std::string run_json(const RunReport& r, std::string_view version) {
  std::string text;
  JsonWriter w(text);
  w.begin_object();
  report::write_plain_header(w, "run", version);
  w.key("model").string(r.model).key("tolerance").string(r.tolerance);
  for (const Verdict v : {Verdict::Passed, Verdict::Failed, Verdict::Random, Verdict::NotCompared})
    w.key(v == Verdict::NotCompared ? "not_compared" : name(v)).unsigned_integer(r.count(v));
  w.key("sets").begin_array();
  for (const SetReport& s : r.sets) {
    w.begin_object().key("name").string(s.name).key("outputs").begin_array();
    for (const OutputReport& o : s.outputs) {
      w.begin_object(JsonLayout::Line).key("name").string(o.name).key("verdict").string(name(o.verdict));
      w.key("text").string(o.text);
      if (o.has_figures) {
        const std::pair<std::string_view, double> figures[] = {{"max_abs", o.figures.max_abs},
                                                               {"max_rel", o.figures.max_rel},
                                                               {"cosine", o.figures.cosine},
                                                               {"norm_error", o.figures.norm_error}};
        for (const auto& [key, value] : figures) w.key(key).number(value);
      }
      w.end_object();
    }
    w.end_array().end_object();
  }
  w.end_array();
  if (!r.first_difference.empty()) w.key("first_difference").string(r.first_difference);
  w.end_object().finish();
  return text;
}

std::vector<report::TestCase> run_cases(const RunReport& r) {
  std::vector<report::TestCase> cases;
  for (const SetReport& s : r.sets)
    for (const OutputReport& o : s.outputs) {
      using enum report::TestCase::Outcome;
      cases.push_back({s.name, o.name,
                       o.verdict == Verdict::Failed        ? Failed
                       : o.verdict == Verdict::NotCompared ? Skipped
                                                           : Passed,
                       o.text});
      if (o.verdict == Verdict::Failed && !r.first_difference.empty()) cases.back().message += "\n" + r.first_difference;
    }
  return cases;
}

}  // namespace rlxc
