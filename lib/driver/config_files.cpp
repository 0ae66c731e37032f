#include "driver/config_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "import/json/json_file.h"
#include "support/mapped_file.h"
#include "support/text.h"

namespace rlxc {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxConfigBytes = 64 << 20;

}  // namespace

bool read_precision_map(const std::string& path, PrecisionClassMap* out, Diagnostics& d) {
  const auto file = read_json_object(path, "rlxc-precision-map", d);
  if (!file) return false;
  const auto rules = file->tree.find("rules");
  if (rules == file->tree.end() || !rules->is_object()) {
    d.error(Code::BadJson, path + " needs an object \"rules\" of class or op name to dtype");
    return false;
  }
  for (const auto& [name, value] : rules->items()) {
    const auto t = value.is_string() ? dtype_from_name(value.get<std::string>()) : std::nullopt;
    if (!t || (*t != DType::F32 && *t != DType::F16 && *t != DType::BF16))
      d.error(Code::BadJson, path + ": rule \"" + name + "\" must be f32, f16 or bf16");
    else out->rules.emplace_back(name, *t);
  }
  return d.ok();
}

void add_kinds(const std::vector<std::string>& names, const std::string& where, std::bitset<kOpCount>* out, Diagnostics& d) {
  std::vector<std::string_view> known;
  for (size_t k = 0; k < kOpCount; ++k) known.push_back(kind_name(static_cast<OpKind>(k)));
  for (const std::string& name : names) {
    bool found = false;
    for (size_t k = 0; k < kOpCount; ++k) {
      const auto op = static_cast<OpKind>(k);
      if (name != kind_name(op) && name != rlxc::name(op) && name != claim_name(op)) continue;
      out->set(k);
      found = true;
    }
    if (found) continue;
    const auto near = closest(name, known);
    d.error(Code::BadFlag, where + ": there is no operation \"" + name + "\"", {},
            near ? "did you mean " + std::string(*near) + "?" : "`rlxc list ops` shows them");
  }
}

bool read_supported_ops(const std::string& path, std::bitset<kOpCount>* out, Diagnostics& d) {
  const auto file = open_model_file(path, d);
  if (!file) return false;
  if (file->size() > kMaxConfigBytes) {
    d.error(Code::TooLarge, path + " is larger than 64 MiB");
    return false;
  }
  const std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
  std::vector<std::string> names;
  if (trim(text).starts_with('[')) {
    const json list = json::parse(text.begin(), text.end(), nullptr, false);
    if (!list.is_array() || !std::ranges::all_of(list, [](const json& j) { return j.is_string(); })) {
      d.error(Code::BadJson, path + " is not a list of names");
      return false;
    }
    names = list.get<std::vector<std::string>>();
  } else {
    for (std::string_view line : split(text, '\n'))
      if (const auto name = trim(line.substr(0, line.find('#'))); !name.empty()) names.emplace_back(name);
  }
  add_kinds(names, path, out, d);
  return d.ok();
}

std::optional<CastConfig> weight_cast_from(std::string_view s) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"int8", DType::I8}, {"int4", DType::I4}, {"fp8-e4m3", DType::F8E4M3FN}, {"fp8-e5m2", DType::F8E5M2}};
  const size_t colon = s.find(':');
  for (const auto& [name, dtype] : kTypes) {
    if (name != s.substr(0, colon)) continue;
    CastConfig c{dtype, 0, false, false};
    if (colon == std::string_view::npos) return c;
    const auto [end, error] = std::from_chars(s.data() + colon + 1, s.data() + s.size(), c.block);
    if (error != std::errc() || end != s.data() + s.size() || c.block < 1 || c.block > 1 << 20) return std::nullopt;
    return c;
  }
  return std::nullopt;
}

bool read_calibration(const std::string& path, CalibrationRecord* out, Diagnostics& d) {
  const auto file = read_json_object(path, "rlxc-calibration", d);
  if (!file) return false;
  const auto tensors = file->tree.find("tensors");
  if (tensors == file->tree.end() || !tensors->is_object()) {
    d.error(Code::BadCalibration, path + " needs an object \"tensors\"");
    return false;
  }
  for (const auto& item : tensors->items()) {
    const std::string& name = item.key();
    const auto& t = item.value();
    CalibrationEntry e;
    const auto bad = [&](const std::string& reason) {
      d.error(Code::BadCalibration, path + ": tensor \"" + name + "\" " + reason);
    };
    if (!t.is_object() || !t.contains("scales") || !t["scales"].is_array() || t["scales"].empty()) {
      bad("needs a list \"scales\"");
      continue;
    }
    for (const json& s : t["scales"]) {
      const double v = s.is_number() ? s.get<double>() : NAN;
      if (!(v > 0) || !std::isfinite(v)) bad("has a scale that is not a positive number");
      e.scales.push_back(v);
    }
    if (t.contains("axis")) {
      if (!t["axis"].is_number_integer() || t["axis"].get<int64_t>() < 0) bad("has a bad axis");
      else e.axis = t["axis"].get<int64_t>();
    }
    for (const json& z : t.value("zero_points", json::array())) {
      if (!z.is_number_integer() || z.get<int64_t>() < -128 || z.get<int64_t>() > 127) bad("has a zero point outside -128..127");
      else e.zero_points.push_back(z.get<int64_t>());
    }
    if (!e.zero_points.empty() && e.zero_points.size() != e.scales.size()) bad("has different numbers of scales and zero points");
    e.zero_points.resize(e.scales.size());
    out->entries.emplace_back(name, std::move(e));
  }
  const auto layers = file->tree.value("layers", json::array());
  for (const json& l : layers.is_array() ? layers : json::array()) {
    if (!l.is_object() || !l.contains("name") || !l["name"].is_string()) {
      d.error(Code::BadCalibration, path + ": a layer needs a text \"name\"");
      continue;
    }
    const auto kept = l.find("float");
    if (kept != l.end() && kept->is_boolean() && kept->get<bool>()) out->float_layers.push_back(l["name"].get<std::string>());
  }
  const auto scales = file->tree.value("channel_scales", json::object());
  if (!scales.is_object()) d.error(Code::BadCalibration, path + ": \"channel_scales\" must be an object");
  else
    for (const auto& item : scales.items()) {
      std::vector<double> each;
      for (const json& s : item.value()) each.push_back(s.is_number() ? s.get<double>() : NAN);
      if (std::ranges::any_of(each, [](double s) { return !(s > 0) || !std::isfinite(s); }) || each.empty())
        d.error(Code::BadCalibration, path + ": the channel scales of \"" + item.key() + "\" must be positive numbers");
      out->channel_scales.emplace_back(item.key(), std::move(each));
    }
  if (const auto weights = file->tree.find("weights"); weights != file->tree.end())
    if (!weights->is_string() || !(out->weights = weight_cast_from(weights->get<std::string>())))
      d.error(Code::BadCalibration, path + ": \"weights\" must be a type and a group size, such as \"int4:32\"");
  return d.ok();
}

std::optional<std::vector<std::string>> read_shard_rules(const std::string& path, Diagnostics& d) {
  const auto file = read_json_object(path, "rlxc-shard-rules", d);
  if (!file) return std::nullopt;
  const auto rules = file->tree.find("rules");
  if (rules == file->tree.end() || !rules->is_array()) {
    d.error(Code::BadJson, path + " needs a list \"rules\"");
    return std::nullopt;
  }
  std::vector<std::string> out;
  for (const json& r : *rules) {
    const auto text = [&](const char* key) { return r.is_object() && r.contains(key) && r[key].is_string(); };
    if (!text("name") || !text("shard")) {
      d.error(Code::BadJson, path + ": rule " + std::to_string(out.size()) + " needs the texts \"name\" and \"shard\"");
      return std::nullopt;
    }
    out.push_back(r["name"].get<std::string>() + "=" + r["shard"].get<std::string>());
  }
  std::ranges::reverse(out);
  return out;
}

bool check_calibrated_model(const std::string& path, std::string_view model, Diagnostics& d) {
  const auto file = read_json_object(path, "rlxc-calibration", d);
  if (!file) return false;
  const auto of = file->tree.find("model");
  if (of == file->tree.end() || *of == model) return true;
  d.error(Code::BadCalibration, path + " was made from another model", {}, "make it again with `rlxc calibrate`");
  return false;
}

}  // namespace rlxc
