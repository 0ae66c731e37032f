// Tests every op kind with every element type and a list of awkward sizes, on every engine, against the reference evaluator. The
// samples of one element type form one graph: an engine compiles once per type.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <map>
#include <regex>

#include "driver/compile.h"
#include "op_matrix/samples.h"
#include "runtime/emulate_package.h"
#include "runtime/interpret_package.h"

namespace rlxc::matrix {
namespace {

struct Tolerance {
  double rtol = 0, atol = 0;
};
Tolerance tolerance(DType t) {
  if (t == DType::F16) return {1e-3, 2.5e-3};
  if (t == DType::BF16) return {1e-2, 2e-2};
  return is_float(t) ? Tolerance{1e-4, 1e-5} : Tolerance{};
}

// A sample that is legal for its element type, with the reference results.
struct Legal {
  const Sample* sample;
  std::vector<eval::HostValue> expected;
};

// Adds the sample to the module; its nodes are named after its number. Returns no values if it is illegal.
std::vector<ValueId> add_sample(Module& m, const Sample& s, DType t, size_t number, std::vector<eval::HostValue>* inputs) {
  const std::string name = "s" + std::to_string(number);
  Operands o(m, t, name + "_", number + 1);
  o.b.set_node_name(m.symbol(name));
  const ValueId first = s.make(o);
  if (!first.valid()) return {};
  const Graph& g = m.main();
  std::vector<ValueId> results;
  for (size_t r = 0; r < g.result_count(g.def(first)); ++r) results.push_back(g.result(g.def(first), r));
  inputs->insert(inputs->end(), o.contents.begin(), o.contents.end());
  return results;
}

void add_outputs(Module& m, const std::vector<ValueId>& values) {
  for (ValueId v : values) m.main().add_output(v, m.symbol("y" + std::to_string(m.main().outputs().size())));
}

std::vector<Legal> legal_samples(const std::vector<Sample>& all, DType t) {
  std::vector<Legal> legal;
  for (const Sample& s : all) {
    Module m;
    std::vector<eval::HostValue> inputs;
    add_outputs(m, add_sample(m, s, t, legal.size(), &inputs));
    Diagnostics d;
    if (m.main().outputs().empty()) continue;
    if (auto results = eval::evaluate(m, inputs, d)) legal.push_back({&s, std::move(*results)});
  }
  return legal;
}

enum class Verdict : uint8_t { Passed, Failed, Refused };
struct Finding {
  Verdict verdict = Verdict::Passed;
  std::string reason;
};

// "cpu", "metal", ... run a target's kernels; "interpreter:metal" interprets them.
std::unique_ptr<KernelRunner> make_runner(const Compiled& c, const std::string& engine, Diagnostics& d) {
  if (engine.starts_with("interpreter:")) return make_interpreting_runner(c.lir, c.target, d);
  return engine == "cpu" ? make_kernel_runner(c.lir, d) : make_emulated_runner(c.lir, c.target, d);
}

std::vector<Finding> run_engine(const std::vector<Legal>& legal, DType t, const std::string& engine) {
  std::vector<Finding> findings(legal.size());
  const std::string target = engine.substr(engine.find(':') + 1);  // npos + 1 is 0
  for (;;) {
    LoadedModel model;
    model.module = std::make_unique<Module>("matrix");
    std::vector<eval::HostValue> inputs;
    std::vector<std::pair<size_t, size_t>> from;  // sample and result of each output
    for (size_t i = 0; i < legal.size(); ++i) {
      if (findings[i].verdict != Verdict::Passed) continue;
      const auto results = add_sample(*model.module, *legal[i].sample, t, i, &inputs);
      add_outputs(*model.module, results);
      for (size_t r = 0; r < results.size(); ++r) from.emplace_back(i, r);
    }
    if (from.empty()) return findings;
    Diagnostics d;
    const auto compiled = compile(std::move(model), target, CompileOptions(), {}, d);
    auto runner = compiled ? make_runner(*compiled, engine, d) : nullptr;
    const auto results = runner ? runner->run(inputs, d) : std::nullopt;
    if (results) {
      for (size_t k = 0; k < from.size(); ++k) {
        const auto [i, r] = from[k];
        const Legal& l = legal[i];
        const DType out = l.expected[r].tensor.dtype;
        // Integers are exact. A float result has the coarser tolerance of its type and the operands' type.
        const Tolerance own = tolerance(out), given = is_float(out) ? tolerance(t) : Tolerance();
        const Tolerance limit{std::max(own.rtol, given.rtol), std::max(own.atol, given.atol)};
        const double terms = std::sqrt(static_cast<double>(std::max<int64_t>(l.sample->terms, 1)));
        const auto c = eval::compare((*results)[k], l.expected[r], limit.rtol * terms, limit.atol * terms);
        if (!c.pass) findings[i] = {Verdict::Failed, c.message};
      }
      return findings;
    }
    // Records the nodes that the target rejects and retries with the others.
    const std::string said = d.text();
    const std::regex label("\"s([0-9]+)\"");
    bool named = false;
    for (std::sregex_iterator it(said.begin(), said.end(), label), end; it != end; ++it) {
      Finding& f = findings[std::stoul((*it)[1])];
      named |= f.verdict == Verdict::Passed;
      f = {Verdict::Refused, said.substr(0, said.find('\n'))};
    }
    if (named) continue;
    for (Finding& f : findings)
      if (f.verdict == Verdict::Passed) f = {Verdict::Failed, said};
    return findings;
  }
}

struct Counts {
  int passed = 0, failed = 0, refused = 0;
};
std::string text(const Counts& c) {
  if (c.passed + c.failed + c.refused == 0) return "";
  std::string s = std::to_string(c.passed);
  if (c.failed) s += " !" + std::to_string(c.failed);
  if (c.refused) s += " (" + std::to_string(c.refused) + ")";
  return s;
}

int run(const std::vector<std::string>& engines, const std::vector<std::string>& dtypes, const std::vector<std::string>& kinds,
        bool verbose) {
  std::vector<Sample> all;
  for (auto family : {elementwise_samples(), movement_samples(), reduction_samples(), contraction_samples(), extent_samples()})
    for (Sample& s : family)
      if (kinds.empty() || std::find(kinds.begin(), kinds.end(), kind_name(s.op)) != kinds.end()) all.push_back(std::move(s));
  std::map<std::string, std::map<std::string, Counts>> table;    // [op][engine]
  std::map<std::string, std::map<std::string, Counts>> by_type;  // [element type][engine]
  std::map<std::string, Counts> totals;
  for (const std::string& dtype : dtypes) {
    const DType t = *dtype_from_name(dtype);
    const std::vector<Legal> legal = legal_samples(all, t);
    for (const std::string& engine : engines) {
      const std::vector<Finding> findings = run_engine(legal, t, engine);
      for (size_t i = 0; i < legal.size(); ++i) {
        const std::string op(kind_name(legal[i].sample->op));
        for (Counts* c : {&table[op][engine], &by_type[dtype][engine], &totals[engine]})
          ++(findings[i].verdict == Verdict::Passed   ? c->passed
             : findings[i].verdict == Verdict::Failed ? c->failed
                                                      : c->refused);
        if (findings[i].verdict == Verdict::Failed || (verbose && findings[i].verdict == Verdict::Refused))
          std::cout << (findings[i].verdict == Verdict::Failed ? "FAIL " : "refused ") << engine << " " << dtype << " " << op
                    << " " << legal[i].sample->what << ": " << findings[i].reason << '\n';
      }
    }
  }
  const auto print = [&](const std::string& head, const std::map<std::string, std::map<std::string, Counts>>& rows) {
    std::cout << "| " << head << " |";
    for (const std::string& e : engines) std::cout << ' ' << e << " |";
    std::cout << "\n|---|";
    for (size_t i = 0; i < engines.size(); ++i) std::cout << "---|";
    for (const auto& [name, row] : rows) {
      std::cout << "\n| " << name << " |";
      for (const std::string& e : engines) std::cout << ' ' << (row.contains(e) ? text(row.at(e)) : "") << " |";
    }
    std::cout << "\n\n";
  };
  print("op", table);
  by_type["total"] = totals;
  print("operands", by_type);
  int failed = 0;
  for (const auto& [engine, c] : totals) failed += c.failed;
  std::cout << "Samples that agree with the reference evaluator; !N disagree, (N) are refused by the target with a message.\n";
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace rlxc::matrix

int main(int argc, char** argv) {
  CLI::App app{"Runs every op kind on every element type and awkward sizes, on every engine, against the reference evaluator"};
  std::vector<std::string> engines = {"interpreter:cpu", "cpu"}, dtypes = {"f32", "f16", "bf16", "i32", "i64", "i8", "bool"},
                           kinds;
  bool verbose = false;
  app.add_option("--engines", engines, "cpu, metal, cuda, rocm, wgpu, mlx, tpu, or interpreter:TARGET")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--dtypes", dtypes, "element types of the operands")
      ->delimiter(',')
      ->check([](const std::string& s) { return rlxc::dtype_from_name(s) ? "" : "unknown element type " + s; })
      ->capture_default_str();
  app.add_option("--ops", kinds, "only these op kinds, as MatMul")->delimiter(',');
  app.add_flag("-v,--verbose", verbose, "print what is refused, and why");
  CLI11_PARSE(app, argc, argv);
  return rlxc::matrix::run(engines, dtypes, kinds, verbose);
}
