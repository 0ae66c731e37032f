#include "report/html_report.h"

#include <algorithm>

#include "report/page_files.h"
#include "report/words.h"
#include "support/foreign_text.h"
#include "support/json_writer.h"

namespace rlxc::report {
namespace {

constexpr size_t kMostDiffBytes = 1 << 20;

// JSON without line breaks and their indentation, with '<' escaped: safe inside <script>.
std::string compact(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '\n' || (c == ' ' && !in_string)) continue;
    if (c == '"') in_string = !in_string;
    if (c == '<') out += "\\u003c";
    else out += c;
    if (c == '\\' && i + 1 < json.size()) out += json[++i];
  }
  return out;
}

// The diffs that are shown: all but the longest.
std::vector<const std::pair<std::string, std::string>*> shown_diffs(const PageCompile& c) {
  std::vector<const std::pair<std::string, std::string>*> order;
  for (const auto& diff : c.pass_diffs) order.push_back(&diff);
  std::ranges::stable_sort(order, {}, [](const auto* d) { return d->second.size(); });
  size_t total = 0, kept = 0;
  while (kept < order.size() && (total += order[kept]->second.size()) <= kMostDiffBytes) ++kept;
  order.resize(kept);
  std::ranges::sort(order);
  return order;
}

std::string page_data(const std::vector<PageCompile>& compiles, const PageMachines& machines, std::string_view version) {
  std::string text;
  JsonWriter w(text);
  w.begin_object(JsonLayout::Line).key("generator").string("rlxc " + std::string(version)).key("compiles").begin_array();
  for (const PageCompile& c : compiles) {
    w.begin_object(JsonLayout::Line).key("title").string(c.title).key("files").begin_object(JsonLayout::Line);
    for (const auto& [name, json] : c.artefacts) w.key(name.substr(0, name.find('.'))).raw(json);
    w.end_object();
    const auto diffs = shown_diffs(c);
    w.key("omitted_diffs").unsigned_integer(c.pass_diffs.size() - diffs.size()).key("diffs").begin_array();
    for (const auto* diff : diffs)
      w.begin_object(JsonLayout::Line).key("pass").string(diff->first).key("text").string(diff->second).end_object();
    w.end_array().end_object();
  }
  w.end_array().key("machines").begin_object(JsonLayout::Line);
  for (const auto& [name, m] : machines) {
    w.key(name).begin_object(JsonLayout::Line).key("launch_ns").number(m.launch_ns).key("gbps").number(m.memory_gbps);
    w.key("gflops").number(m.peak_gflops).end_object();
  }
  w.end_object().key("reasons").begin_object(JsonLayout::Line);
  for (const ReasonWord& r : reason_words()) {
    w.key(r.code).begin_array(JsonLayout::Line).string(r.meaning).string(r.remedy).end_array();
  }
  w.end_object().key("patterns").begin_object(JsonLayout::Line);
  for (const PatternWord& p : pattern_words())
    w.key(p.name).begin_array(JsonLayout::Line).string(p.pass).string(p.meaning).string(p.example).end_array();
  w.end_object().end_object().flush();
  return compact(text);
}

std::string_view page_file(std::string_view name) {
  for (const PageFile& f : page_files())
    if (f.name == name) return f.text;
  return {};
}

}  // namespace

std::string html_report(const std::vector<PageCompile>& compiles, const PageMachines& machines, std::string_view version) {
  std::string title;
  for (const PageCompile& c : compiles) title += (title.empty() ? "" : " and ") + c.title;
  const std::pair<std::string_view, std::string> parts[] = {{"@TITLE@", markup(title)},
                                                            {"@STYLE@", std::string(page_file("report.css"))},
                                                            {"@DATA@", page_data(compiles, machines, version)},
                                                            {"@SCRIPT@", std::string(page_file("report.js"))}};
  std::string out(page_file("report.html"));
  size_t from = 0;
  for (const auto& [place, content] : parts) {
    from = out.find(place, from);
    if (from == out.npos) break;
    out.replace(from, place.size(), content);
    from += content.size();
  }
  return out;
}

}  // namespace rlxc::report
