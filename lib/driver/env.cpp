#include <algorithm>
#include <cctype>
#include <charconv>

#include "driver/options.h"
#include "support/text.h"

namespace rlxc {
namespace {

template <class T>
void set_number(std::optional<T>& field, const std::string& v) {
  T n{};
  auto [end, error] = std::from_chars(v.data(), v.data() + v.size(), n);
  if (error == std::errc{} && end == v.data() + v.size()) field = n;
}

template <class T>
void set_number(T& field, const std::string& v) {
  std::optional<T> n;
  set_number(n, v);
  field = n.value_or(field);
}

void disable_if(Options& o, const std::string& v, std::initializer_list<const char*> passes) {
  if (env_flag(v))
    for (const char* p : passes) o.disabled_passes.insert(p);
}

}  // namespace

bool env_flag(std::string_view value) {
  std::string s(trim(value));
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (s.empty() || s == "false" || s == "off" || s == "no") return false;
  return !std::all_of(s.begin(), s.end(), [](char c) { return c == '0'; });
}

const std::vector<EnvVariable>& env_variables() {
  static const std::vector<EnvVariable> table = {
      {"RLX_IR_DUMP", "PATH", "write the text of every stage: into a folder when PATH ends in '/', else into that file",
       [](Options& o, const std::string& v) { o.dump = v; }},
      {"RLX_FUSION_REPORT", "flag", "print the fusion report",
       [](Options& o, const std::string& v) { o.print_fusion |= env_flag(v); }},
      {"RLX_DISPATCH_REPORT", "flag", "print the dispatch report",
       [](Options& o, const std::string& v) { o.print_dispatch |= env_flag(v); }},
      {"RLX_VERBOSE", "flag", "print the dispatch report",
       [](Options& o, const std::string& v) { o.print_dispatch |= env_flag(v); }},
      {"RLX_KERNEL_DISPATCH", "native|common", "prefer native kernels, or decompose what has a decomposition",
       [](Options& o, const std::string& v) {
         if (v == "common" || v == "force_common" || v == "ForceCommon") o.kernel_dispatch = "common";
         if (v == "native" || v == "force_native" || v == "ForceNative") o.kernel_dispatch = "native";
       }},
      {"RLX_FUSE_ATTN_THRESHOLD", "ROWS", "attention blocks and layers of at most so many rows are one launch, and no others",
       [](Options& o, const std::string& v) { set_number(o.fuse_attn_threshold, v); }},
      {"RLX_ARENA_ALIGN", "BYTES", "alignment of arena slots",
       [](Options& o, const std::string& v) { set_number(o.alignment, v); }},
      {"RLX_LINT_NUMERICS", "flag", "warn of computations that give infinities or not-a-number",
       [](Options& o, const std::string& v) { o.lint |= env_flag(v); }},
      {"RLX_BISECT_LIMIT", "N", "make only the first N rewrites (set by rlxc bisect for its check)",
       [](Options& o, const std::string& v) { set_number(o.bisect_limit, v); }},
      {"RLX_PHASE_TIMING", "flag", "print the time of every pass",
       [](Options& o, const std::string& v) { o.time_passes |= env_flag(v); }},
      {"RLX_PLAN_VERIFY", "flag", "verify graphs after every pass, and the memory plan",
       [](Options& o, const std::string& v) { o.verify |= env_flag(v); }},
      {"RLX_DISABLE_MATMUL_BIAS_FUSION", "flag", "skip fuse_matmul_bias_act",
       [](Options& o, const std::string& v) { disable_if(o, v, {"fuse_matmul_bias_act"}); }},
      {"RLX_DISABLE_RESIDUAL_LN_FUSION", "flag", "skip fuse_residual_ln and fuse_residual_rms_norm",
       [](Options& o, const std::string& v) {
         disable_if(o, v, {"fuse_residual_ln", "fuse_residual_rms_norm"});
       }},
      {"RLX_DISABLE_CONV_BIAS_ACT_FUSION", "flag", "skip fuse_conv_bias_act",
       [](Options& o, const std::string& v) { disable_if(o, v, {"fuse_conv_bias_act"}); }},
      {"RLX_NO_SHARED_INPUT_MATMUL", "flag", "skip fuse_shared_input_matmul",
       [](Options& o, const std::string& v) { disable_if(o, v, {"fuse_shared_input_matmul"}); }},
      {"RLX_DISABLE_CSE", "flag", "skip common_subexpression_elimination",
       [](Options& o, const std::string& v) { disable_if(o, v, {"common_subexpression_elimination"}); }},
      {"RLX_DISABLE_SCCP", "flag", "skip sccp", [](Options& o, const std::string& v) { disable_if(o, v, {"sccp"}); }},
  };
  return table;
}

void apply_environment(Options& o, const char* (*get)(const char*)) {
  for (const EnvVariable& e : env_variables())
    if (const char* v = get(std::string(e.name).c_str())) e.apply(o, v);
}

}  // namespace rlxc
