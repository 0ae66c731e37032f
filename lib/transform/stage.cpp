#include "transform/stage.h"

#include <algorithm>

#include "ir/graphs.h"
#include "ir/term.h"
#include "support/parse_number.h"
#include "support/text.h"
#include "transform/batch.h"
#include "transform/gradients.h"
#include "transform/names.h"
#include "transform/paths.h"
#include "transform/tangents.h"

namespace rlxc::transform {
namespace {

class Stage {
 public:
  Stage(Module& m, const Steps& steps, Expand expand, Ledger* ledger, Diagnostics& d)
      : m_(m), g_(m.main()), steps_(steps), expand_(expand), ledger_(*ledger), d_(d) {}

  bool run() {
    for (const Step& s : steps_.list) {
      row_ = {};
      row_.text = s.text;
      row_.nodes_before = live_nodes(m_);
      names_.emplace(m_);
      fixed_.clear();
      for (const std::string& name : steps_.stopped)
        if (const ValueId v = find(name, "--stop-gradient"); v.valid()) fixed_.push_back(v);
      if (!d_.ok() || !apply(s)) return false;
      row_.nodes_after = live_nodes(m_);
      ledger_.steps.push_back(std::move(row_));
    }
    return true;
  }

 private:
  bool apply(const Step& s) {
    switch (s.kind) {
      case StepKind::Grad: return grad(s);
      case StepKind::Jvp: return jvp(s);
      case StepKind::Hvp: return hvp();
      case StepKind::Vmap: return vmap(s);
    }
    return false;
  }

  ValueId find(const std::string& name, std::string_view flag) { return names_->find(name, flag, d_); }

  bool is_leaf(ValueId v, OpKind op) const { return g_.op(g_.def(v)) == op; }
  LedgerValue ledger_value(ValueId v, std::string name) const {
    return {std::move(name), is_leaf(v, OpKind::Param) ? "param" : is_leaf(v, OpKind::Input) ? "input" : "value", false, 0, ""};
  }

  struct Wanted {
    std::vector<ValueId> values;
    std::vector<std::string> names;
    std::vector<bool> by_kind;  // not asked for by name: left out where it is not reached

    void add(ValueId v, std::string name, bool kind) {
      if (std::ranges::find(values, v) != values.end()) return;
      values.push_back(v);
      names.push_back(std::move(name));
      by_kind.push_back(kind);
    }
  };
  std::optional<Wanted> wanted(const std::vector<std::string>& asked, std::string_view flag) {
    Wanted out;
    const auto leaves = [&](OpKind op) {
      for (NodeId n : g_.nodes())
        if (g_.op(n) == op && is_float_tensor(g_, g_.result(n))) out.add(g_.result(n), name_of(g_, g_.result(n)), true);
    };
    if (asked.empty()) leaves(OpKind::Param);
    if (asked.empty() && out.values.empty()) leaves(OpKind::Input);
    bool ok = true;
    for (const std::string& name : asked) {
      if (const bool params = name == "params"; (params || name == "inputs") && !names_->contains(name)) {
        leaves(params ? OpKind::Param : OpKind::Input);
        continue;
      }
      const ValueId v = find(name, flag);
      if (v.valid() && !is_float_tensor(g_, v)) {
        d_.error(Code::BadType, std::string(flag) + " names " + quote(name) + " of type " + text(g_.type(v), m_.dims) +
                                    ": only floats have derivatives");
        ok = false;
      }
      ok &= v.valid();
      if (ok) out.add(v, name, false);
    }
    if (!ok) return std::nullopt;
    if (!out.values.empty()) return out;
    const auto asks = [&](std::string_view kind) { return std::ranges::find(asked, kind) != asked.end(); };
    const bool params = !asks("inputs"), inputs = !asks("params");
    d_.error(Code::BadFlag,
             std::string(flag) + ": the model has no float " +
                 (params && inputs ? "inputs or params"
                  : params         ? "params"
                                   : "inputs") +
                 " to choose from",
             {}, params && inputs ? "" : "a name, or " + std::string(params ? "inputs" : "params") + ", chooses others");
    return std::nullopt;
  }

  std::string fresh(const std::string& prefix, const std::string& name) const { return fresh_name(m_, prefix, name); }
  void add_output(ValueId v, const std::string& name) {
    g_.add_output(v, m_.symbol(name));
    row_.outputs.push_back(name);
  }
  ValueId add_input(const std::string& name, ValueId like) {
    const NodeId first = g_.first();
    row_.inputs.push_back(name);
    const ValueId made = Builder(g_, &d_).input(name, g_.type(like));
    g_.move_before(g_.def(made), first);
    return made;
  }

  // Fills the ledger, and drops from `w` what is not reached but was not asked for by name. False where that is an error.
  bool account(std::span<const ValueId> targets, Wanted* w, std::string_view none_message) {
    const Between way = between(g_, targets, w->values, fixed_, Follow::Derivatives);
    const std::vector<double> paths = count_paths(g_, way, targets);
    for (const Cut& c : cuts(g_, way, fixed_)) {
      row_.cuts.push_back({g_.label(c.node).bytes(), std::string(name(g_.op(c.node)))});
      if (c.converts) add_conversion(d_, g_, c.node);
    }
    warn_of_steps(d_, g_, way, fixed_);
    Wanted kept;
    for (size_t i = 0; i < w->values.size(); ++i) {
      const ValueId v = w->values[i];
      LedgerValue& row = row_.values.emplace_back(ledger_value(v, w->names[i]));
      row.paths = paths[v.raw];
      row.reached = row.paths > 0;
      bool stopped = false;
      if (!row.reached) row.why = reason(v, targets, &stopped);
      if (row.reached || stopped) kept.add(v, w->names[i], w->by_kind[i]);
      else if (!w->by_kind[i])
        d_.error(Code::UnsupportedOp, quote(w->names[i]) + " has no gradient: " + row.why, {},
                 "--stop-gradient NAME of what is in the way makes it zeros");
    }
    if (kept.values.empty() && d_.ok()) d_.error(Code::BadFlag, std::string(none_message));
    *w = std::move(kept);
    return d_.ok();
  }

  // Why derivatives do not get from v to a target. `stopped`: because the user said so.
  std::string reason(ValueId v, std::span<const ValueId> targets, bool* stopped) const {
    const Between any = between(g_, targets, std::array{v}, {}, Follow::Everything);
    const auto comes = [&](ValueId t) { return any.reached[t.raw]; };
    if (any.nodes.empty() && std::ranges::find(targets, v) == targets.end()) return "nothing that was asked for depends on it";
    if (std::ranges::none_of(targets, comes)) return "nothing that was asked for depends on it";
    const Between open = between(g_, targets, std::array{v}, {}, Follow::Derivatives);
    for (ValueId t : targets)
      if (open.reached[t.raw] && is_float_tensor(g_, t)) {
        *stopped = true;
        return "every path goes through a value of --stop-gradient";
      }
    const Between way = between(g_, targets, std::array{v}, fixed_, Follow::Derivatives);
    for (const Cut& c : cuts(g_, way, fixed_)) {
      if (g_.op(c.node) == OpKind::StopGradient) {
        *stopped = true;
        return "every path goes through a StopGradient, the first is " + g_.label(c.node).quoted();
      }
      return "every path ends at an operation that gives no float, the first at " + g_.label(c.node).quoted() + " (" +
             std::string(name(g_.op(c.node))) + ")";
    }
    *stopped = !fixed_.empty();
    return "every path goes through a value of --stop-gradient";
  }

  bool grad(const Step& s) {
    const ValueId loss = find(s.loss, "--grad");
    auto w = wanted(s.wrt, "--wrt");
    if (!loss.valid() || !w) return false;
    if (!is_float_tensor(g_, loss)) {
      std::vector<std::string> floats;
      for (size_t i = 0; i < g_.outputs().size(); ++i)
        if (is_float_tensor(g_, g_.outputs()[i])) floats.push_back(quote(m_.bytes(g_.output_name(i))));
      d_.error(Code::BadType,
               "--grad " + quote(s.loss) + ": a value of type " + text(g_.type(loss), m_.dims) + " has no gradient", {},
               floats.empty() ? "name a float value on the way to it" : "outputs with floats: " + join(floats, ", "));
      return false;
    }
    if (!account(std::array{loss}, &*w, quote(s.loss) + " depends on none of the values through floats")) return false;
    last_ = {s.loss, loss, *w, {}};
    ValueId y = loss;
    for (int64_t k = 1; k <= s.order; ++k) {
      Builder b(g_, &d_);
      const auto made = gradients(b, y, {}, w->values, fixed_, d_, expand_);
      if (!made) return false;
      for (size_t i = 0; i < made->size(); ++i) {
        const std::string prefix = k == 1 ? "grad" : "grad" + std::to_string(k);
        add_output((*made)[i], fresh(prefix, w->names[i]));
      }
      last_.gradients = *made;
      y = made->front();
    }
    return true;
  }

  // Tangents of `ys` by those of w. Invalid where there are none.
  std::optional<std::vector<ValueId>> push(const Wanted& w, std::span<const ValueId> ys) {
    std::vector<ValueId> given;
    for (size_t i = 0; i < w.values.size(); ++i) given.push_back(add_input(fresh("tangent", w.names[i]), w.values[i]));
    Builder b(g_, &d_);
    return tangents(b, ys, w.values, given, fixed_, d_, expand_);
  }

  bool jvp(const Step& s) {
    auto w = wanted(s.wrt, "--jvp");
    if (!w) return false;
    std::vector<ValueId> ys;
    std::vector<std::string> names;
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (is_float_tensor(g_, g_.outputs()[i])) {
        ys.push_back(g_.outputs()[i]);
        names.emplace_back(m_.bytes(g_.output_name(i)));
      }
    if (!account(ys, &*w, "no output depends on any of the values through floats")) return false;
    const auto made = push(*w, ys);
    if (!made) return false;
    for (size_t i = 0; i < ys.size(); ++i)
      if ((*made)[i].valid()) add_output((*made)[i], fresh("tangent", names[i]));
    return true;
  }

  bool hvp() {
    std::vector<ValueId> ys{last_.loss};
    ys.insert(ys.end(), last_.gradients.begin(), last_.gradients.end());
    for (size_t i = 0; i < last_.by.values.size(); ++i) {
      LedgerValue& row = row_.values.emplace_back(ledger_value(last_.by.values[i], last_.by.names[i]));
      const Between way = between(g_, std::span(ys).subspan(1), std::array{last_.by.values[i]}, fixed_, Follow::Derivatives);
      row.paths = count_paths(g_, way, std::span(ys).subspan(1))[last_.by.values[i].raw];
      row.reached = row.paths > 0;
      if (!row.reached) row.why = "the gradient does not depend on it";
    }
    const auto made = push(last_.by, ys);
    if (!made) return false;
    if ((*made)[0].valid()) add_output((*made)[0], fresh("tangent", last_.name));
    Builder b(g_, &d_);
    for (size_t i = 1; i < ys.size(); ++i) {
      const std::vector<Dim> dims(g_.dims(ys[i]).begin(), g_.dims(ys[i]).end());
      add_output((*made)[i].valid() ? (*made)[i] : zeros(b, g_.dtype(ys[i]), dims).v, fresh("hvp", last_.by.names[i - 1]));
    }
    return true;
  }

  bool vmap(const Step& s) {
    Dim size = m_.dims.parse(s.size).value_or(Dim(0));
    int64_t number = 1;
    if (size == Dim(0) || size == Dim(Dim::kMax) || (parse_number(s.size, &number) && number < 1)) {
      d_.error(Code::BadFlag, "--size takes a number from 1 to 2^56 - 1 or a name, got " + quote(s.size));
      return false;
    }
    std::vector<BatchAxis> axes(g_.inputs().size());
    for (BatchedInput in : s.batched) {
      const auto index = [&](const std::string& name) {
        size_t i = 0;
        while (i < axes.size() && m_.text(g_.value_name(g_.result(g_.inputs()[i]))) != name) ++i;
        return i;
      };
      size_t i = index(in.name);
      if (const std::string whole = in.name + ":" + std::to_string(in.axis); i == axes.size() && index(whole) < axes.size()) {
        i = index(whole);
        in.axis = 0;
      }
      if (i == axes.size()) {
        find(in.name, "--vmap");
        if (d_.ok()) d_.error(Code::BadFlag, "--vmap names " + quote(in.name) + ", which is no input");
        continue;
      }
      const ValueId v = g_.result(g_.inputs()[i]);
      if (g_.type(v).kind != TypeKind::Tensor || in.axis > g_.rank(v)) {
        d_.error(Code::BadFlag,
                 "--vmap " + in.name + ":" + std::to_string(in.axis) + ": the input is " + text(g_.type(v), m_.dims));
        continue;
      }
      axes[i] = in.axis;
      row_.inputs.push_back(in.name);
    }
    if (!d_.ok() || !batch_main(m_, axes, size, expand_, d_)) return false;
    for (size_t i = 0; i < g_.outputs().size(); ++i) row_.outputs.emplace_back(m_.bytes(g_.output_name(i)));
    last_ = {};
    return true;
  }

  Module& m_;
  Graph& g_;
  const Steps& steps_;
  Expand expand_;
  Ledger& ledger_;
  Diagnostics& d_;
  LedgerStep row_;
  std::optional<Names> names_;
  std::vector<ValueId> fixed_;
  struct Gradient {
    std::string name;
    ValueId loss;
    Wanted by;
    std::vector<ValueId> gradients;
  } last_;
};

}  // namespace

bool apply_steps(Module& m, const Steps& steps, Expand expand, Ledger* ledger, Diagnostics& d) {
  return Stage(m, steps, expand, ledger, d).run();
}

}  // namespace rlxc::transform
