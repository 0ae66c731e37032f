#include "commands/timing.h"

#include <cmath>

#include "commands/commands.h"
#include "commands/profile.h"
#include "report/context.h"
#include "support/json_writer.h"
#include "support/schemas.h"

namespace rlxc {

std::string timing_json(const std::vector<TimedCompile>& all) {
  std::string text;
  JsonWriter w(text);
  w.begin_object();
  report::write_plain_header(w, "timing", version());
  w.key("targets").begin_array();
  for (const TimedCompile& c : all) {
    w.begin_object().key("target").string(c.target).key("stages").begin_array();
    for (const auto& [name, seconds] : c.stages)
      w.begin_object(JsonLayout::Line).key("name").string(name).key("ms").number(rounded_ms(1e3 * seconds)).end_object();
    w.end_array().key("passes").begin_array();
    for (const PassRecord& p : c.passes) {
      if (p.skipped) continue;
      w.begin_object(JsonLayout::Line).key("name").string(p.name).key("ms").number(rounded_ms(1e3 * p.seconds));
      w.key("changed").boolean(p.result.changed).key("rewrites").integer(p.rewrites);
      w.key("nodes").integer(static_cast<int64_t>(p.nodes)).end_object();
    }
    w.end_array().end_object();
  }
  w.end_array().end_object().finish();
  return text;
}

std::string timing_trace(const std::vector<TimedCompile>& all) {
  std::string text;
  JsonWriter w(text);
  w.begin_object().key("displayTimeUnit").string("ms").key("traceEvents").begin_array();
  int64_t row = 0;
  double start = 0;  // microseconds
  const auto event = [&](std::string_view name, double at, double seconds) {
    w.begin_object(JsonLayout::Line).key("name").string(name).key("ph").string("X").key("pid").integer(1).key("tid").integer(row);
    w.key("ts").number(rounded_ms(at)).key("dur").number(rounded_ms(1e6 * seconds));
  };
  for (const TimedCompile& c : all) {
    ++row;
    w.begin_object(JsonLayout::Line).key("name").string("thread_name").key("ph").string("M").key("pid").integer(1);
    w.key("tid").integer(row).key("args").begin_object(JsonLayout::Line).key("name").string(c.target).end_object().end_object();
    for (const auto& [name, seconds] : c.stages) {
      event(name, start, seconds);
      w.end_object();
      double at = start;
      if (name == "passes")
        for (const PassRecord& p : c.passes) {
          if (p.skipped) continue;
          event(p.name, at, p.seconds);
          w.key("args").begin_object(JsonLayout::Line).key("rewrites").integer(p.rewrites);
          w.key("nodes").integer(static_cast<int64_t>(p.nodes)).end_object().end_object();
          at += 1e6 * p.seconds;
        }
      start += 1e6 * seconds;
    }
  }
  w.end_array().end_object().finish();
  return text;
}

}  // namespace rlxc
