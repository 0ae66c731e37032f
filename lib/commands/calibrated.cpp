#include "commands/calibrated.h"

#include <algorithm>
#include <cmath>

#include "report/table.h"
#include "support/foreign_text.h"
#include "support/json_writer.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr size_t kWorst = 10;  // layers of the text

double rounded(double x, int digits) {
  const double unit = std::pow(10, digits);
  return std::round(x * unit) / unit;
}

// An infinite norm error is left out: some expected values are 0, or not finite.
void figures(JsonWriter& out, const Accuracy& a) {
  out.key("cosine").number(rounded(a.cosine, 6));
  if (std::isfinite(a.norm_error)) out.key("norm_error").number(rounded(a.norm_error, 6));
}

}  // namespace

std::vector<double> cosines(const std::vector<Accuracy>& all) {
  std::vector<double> out;
  for (const Accuracy& a : all) out.push_back(a.cosine);
  return out;
}

std::string calibration_json(const Calibrated& c) {
  std::string text;
  {
    JsonWriter out(text);
    out.begin_object()
        .key("$schema")
        .string("calibration.schema.json")
        .key("format")
        .string("rlxc-calibration")
        .key("format_version")
        .string("1.0");
    out.key("model").string(c.model).key("tensors").begin_object();
    for (size_t i = 0; i < c.record.entries.size(); ++i) {
      const auto& [name, e] = c.record.entries[i];
      out.key(name).begin_object(JsonLayout::Line);
      if (e.axis) out.key("axis").integer(*e.axis);
      out.key("scales").begin_array(JsonLayout::Line);
      for (double s : e.scales) out.number(s);
      out.end_array().key("zero_points").begin_array(JsonLayout::Line);
      for (int64_t z : e.zero_points) out.integer(z);
      out.end_array();
      if (c.sqnr[i]) out.key("sqnr_db").number(rounded(*c.sqnr[i], 2));
      out.end_object();
    }
    out.end_object();
    if (!c.weights.empty()) out.key("weights").string(c.weights);
    if (!c.record.channel_scales.empty()) {
      out.key("channel_scales").begin_object();
      for (const auto& [name, scales] : c.record.channel_scales) {
        out.key(name).begin_array(JsonLayout::Line);
        for (double s : scales) out.number(s);
        out.end_array();
      }
      out.end_object();
    }
    if (c.accuracy) figures(out, *c.accuracy);
    out.key("layers").begin_array();
    for (const CalibratedLayer& l : c.layers) {
      out.begin_object(JsonLayout::Line).key("name").string(l.name).key("tensors").begin_array(JsonLayout::Line);
      for (const std::string& t : l.tensors) out.string(t);
      out.end_array();
      if (l.alone) figures(out, *l.alone);
      out.key("float").boolean(l.is_float).end_object();
    }
    out.end_array().end_object().finish();
  }
  return text;
}

std::string calibration_text(const Calibrated& c) {
  const auto harm = [](const CalibratedLayer& l) {  // the lower, the worse
    double least = 1e9;
    for (const auto& sqnr : l.sqnr) least = std::min(least, sqnr.value_or(least));
    return l.alone ? l.alone->cosine : least;
  };
  std::vector<const CalibratedLayer*> worst;
  size_t floats = 0;
  for (const CalibratedLayer& l : c.layers) {
    worst.push_back(&l);
    floats += l.is_float;
  }
  std::ranges::stable_sort(worst, {}, [&](const CalibratedLayer* l) { return std::pair(!l->is_float, harm(*l)); });
  std::string out = std::to_string(c.layers.size() - floats) + " of " + std::to_string(c.layers.size()) + " layers quantized" +
                    (c.weights.empty() ? "" : ", weights in " + c.weights);
  if (c.accuracy)
    out += "; least cosine of the outputs " + report::fixed(c.accuracy->cosine, 6) + ", greatest norm error " +
           report::fixed(c.accuracy->norm_error, 6);
  out += "\n";
  report::Table table({"layer", "dB of the operands", "cosine alone", "type"});
  for (size_t i = 0; i < worst.size() && (i < kWorst || worst[i]->is_float); ++i) {
    const CalibratedLayer& l = *worst[i];
    std::string both;
    for (const auto& sqnr : l.sqnr) both += (both.empty() ? "" : " ") + (sqnr ? report::fixed(*sqnr, 1) : "exact");
    table.add({ForeignText(l.name).line(), both, l.alone ? report::fixed(l.alone->cosine, 6) : "-",
               l.is_float          ? "float"
               : c.weights.empty() ? "i8"
                                   : c.weights});
  }
  table.print(&out);
  if (worst.size() > std::max(kWorst, floats))
    out += "the " + std::to_string(std::max(kWorst, floats)) + " worst; the file has all\n";
  return out;
}

}  // namespace rlxc
