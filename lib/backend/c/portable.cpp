#include "backend/c/portable.h"

namespace rlxc {
namespace {

using codegen::Package;

// A level of processors, the least first: options of the C compiler, and what the processor must have.
struct Level {
  std::string_view name, options, condition;
};
constexpr Level kLevels[] = {
    {"v2", "-march=x86-64-v2", ""},
    {"v3", "-march=x86-64-v3", R"(has("avx2") && has("fma") && has("bmi2"))"},
    {"avxvnni", "-march=x86-64-v3 -mavxvnni", R"(has("avx2") && has("fma") && has("bmi2") && has_avx_vnni())"},
    {"v4", "-march=x86-64-v4", R"(has("avx512bw") && has("avx512cd") && has("avx512dq") && has("avx512vl"))"},
    {"vnni", "-march=x86-64-v4 -mavx512vnni",
     R"(has("avx512bw") && has("avx512cd") && has("avx512dq") && has("avx512vl") && has("avx512vnni"))"},
};

bool is_kernels(const std::string& part) { return part.starts_with("kernels_"); }

// A prototype with other names of its function.
std::string renamed(const std::string& line, const std::string& name, const std::string& to) {
  const size_t at = line.find(name + "(");
  return line.substr(0, at) + to + line.substr(at + name.size());
}

}  // namespace

std::string portable_header(const Package& p) {
  std::string s =
      "// The kernels of one level of processors have its name behind theirs.\n#pragma once\n#define RLXC_JOIN_AS(a, b) a##_##b\n"
      "#define RLXC_JOIN(a, b) RLXC_JOIN_AS(a, b)\n";
  for (const kernel::Kernel& k : p.kernels) s += "#define " + k.name + " RLXC_JOIN(" + k.name + ", RLXC_LEVEL)\n";
  return s;
}

std::string portable_source(const Package& p, const std::string& prototypes) {
  std::string s =
      "// The kernels for this processor, of those that levels of processors have (make PORTABLE=1).\n#ifdef "
      "RLXC_PORTABLE\n#include <cpuid.h>\n"
      "#include <stdbool.h>\n#include <stdint.h>\n\n";
  s += "extern const char* " + p.name + "_level;\nconst char* " + p.name + "_level = \"\";  // whose kernels were chosen\n\n";
  s += "#define has(feature) (__builtin_cpu_supports(feature) != 0)\n\n"
       "static bool has_avx_vnni(void) {\n  unsigned a, b, c, d;\n  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 16) "
       "!= 0;\n}\n";
  std::vector<std::string> lines;
  for (size_t at = 0, end; (end = prototypes.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(prototypes.substr(at, end - at));
  std::string pointers, declared, chosen;
  for (size_t i = 0; i < p.kernels.size(); ++i) {
    const std::string& name = p.kernels[i].name;
    const std::string pointer = renamed(lines[i], name, "(*" + name + ")");
    pointers += "extern " + pointer + "\n" + pointer + "\n";
    for (const Level& l : kLevels) declared += renamed(lines[i], name, name + "_" + std::string(l.name)) + "\n";
    chosen += " \\\n  " + name + " = " + name + "_##level;";
  }
  s += "\n" + pointers + "\n" + declared + "\n#define CHOOSE(level) \\\n  " + p.name + "_level = #level;" + chosen +
       "\n\n__attribute__((constructor)) static void choose(void) {\n  __builtin_cpu_init();\n";
  for (const Level& l : kLevels)
    s += l.condition.empty() ? "  CHOOSE(" + std::string(l.name) + ")\n"
                             : "  if (" + std::string(l.condition) + ") {\n    CHOOSE(" + std::string(l.name) + ")\n  }\n";
  return s + "}\n#endif\n";
}

std::string portable_objects(const std::vector<std::string>& parts) {
  std::string s = "levels.host.o";
  for (const std::string& part : parts) {
    if (!is_kernels(part)) s += " " + part + ".host.o";
    for (const Level& l : kLevels)
      if (is_kernels(part)) s += " " + part + "." + std::string(l.name) + ".o";
  }
  return s;
}

std::string portable_rules(const std::string& package) {
  std::string s =
      "%.host.o: %.c " + package + ".h kernels.h\n\t$(CC) $(CFLAGS) -march=x86-64-v2 $(OWN) -DRLXC_PORTABLE -c -o $@ $<\n";
  for (const Level& l : kLevels) {
    const std::string name(l.name), options(l.options);
    s += "\n%." + name + ".o: %.c levels.h\n\t$(CC) $(CFLAGS) " + options + " $(OWN) -DRLXC_LEVEL=" + name +
         " -include levels.h -c -o $@ $<\n";
  }
  return s;
}

}  // namespace rlxc
