// Control flow. StableHLO regions read outer values directly; only values that change per iteration are carried.
#include "backend/stablehlo/translator.h"

namespace rlxc::stablehlo {
namespace {

class Control : public NodeTranslator {
 public:
  using NodeTranslator::NodeTranslator;

  bool branch() {
    for (const auto* equal : {&attrs<IfAttrs>().then_equal, &attrs<IfAttrs>().else_equal})
      for (size_t i = 0; i < equal->size(); i += 2)
        if ((*equal)[i] != (*equal)[i + 1])
          return fail("a body does not fit these sizes, and StableHLO has no way to refuse to run it");
    bool whole = true;
    std::vector<Hlo> inputs;
    for (size_t i = 1; i < operand_count(); ++i) inputs.push_back(has(i) ? in(i) : Hlo());
    const auto side = [&](size_t i) { return b_.region({}, [&](const std::vector<Hlo>&) { return body(i, inputs, &whole); }); };
    const std::string then = side(0), otherwise = side(1);
    if (!whole) return false;
    return set_all(b_.ops("if", {b_.reshape(in(0), {})}, results(), "", then + std::string(HloBuilder::kNextRegion) + otherwise));
  }

  // Carried values: iteration, condition, carries, rows of the stacked results.
  bool loop() {
    const auto carries = static_cast<size_t>(attrs<LoopAttrs>().carries);
    std::vector<Hlo> start = {b_.constant_int(DType::I64, 0), has(1) ? b_.reshape(in(1), {}) : b_.constant_int(DType::Bool, 1)};
    for (size_t i = 0; i < carries; ++i) start.push_back(in(2 + i));
    for (size_t i = carries; i < g_.result_count(n_); ++i) start.push_back(zeros(result_dtype(i), result_dims(i)));
    const Graph& inner = m_.graph(g_.bodies(n_)[0]);
    bool whole = true;
    const std::string condition = b_.region(start, [&](const std::vector<Hlo>& v) {
      return std::vector{has(0) ? bin("and", v[1], b_.compare("LT", v[0], b_.convert(b_.reshape(in(0), {}), DType::I64))) : v[1]};
    });
    const std::string step = b_.region(start, [&](const std::vector<Hlo>& v) {
      const auto as_input = [&](const Hlo& x, size_t i) { return b_.reshape(x, dims_of_input(inner, i)); };
      std::vector<Hlo> inputs = {as_input(v[0], 0), as_input(v[1], 1)};
      for (size_t i = 2; i < operand_count(); ++i) inputs.push_back(i < 2 + carries ? v[i] : has(i) ? in(i) : Hlo());
      std::vector<Hlo> now = body(0, inputs, &whole);
      if (!whole) return v;
      std::vector<Hlo> next = {bin("add", v[0], b_.constant_int(DType::I64, 1)), b_.reshape(now[0], {})};
      for (size_t i = 0; i < carries; ++i) {
        if (now[1 + i].dims != v[2 + i].dims) whole = fail("carry " + std::to_string(i) + " changes its size");
        next.push_back(now[1 + i]);
      }
      for (size_t i = carries; i < g_.result_count(n_); ++i) next.push_back(with_row(v[2 + i], now[1 + i], v[0], 0));
      return next;
    });
    if (!whole) return false;
    std::vector<Hlo> end = repeat(start, condition, step);
    end.erase(end.begin(), end.begin() + 2);
    return set_all(end);
  }

  // Carried values: iteration, states, rows of the stacked results.
  bool scan() {
    const auto& a = attrs<ScanAttrs>();
    const auto states = static_cast<size_t>(a.states), inputs_read = static_cast<size_t>(a.scan_inputs);
    const int64_t count = in(states).dims[static_cast<size_t>(a.input_axes[0])];
    const Hlo last = b_.constant_int(DType::I64, count - 1);
    std::vector<Hlo> start = {b_.constant_int(DType::I64, 0)};
    for (size_t i = 0; i < states; ++i) start.push_back(in(i));
    for (size_t i = states; i < g_.result_count(n_); ++i) start.push_back(zeros(result_dtype(i), result_dims(i)));
    const std::string condition =
        b_.region(start, [&](const std::vector<Hlo>& v) { return std::vector{b_.compare("LE", v[0], last)}; });
    bool whole = true;
    const std::string step = b_.region(start, [&](const std::vector<Hlo>& v) {
      const auto place = [&](const std::vector<int64_t>& reverse, size_t i) {
        return i < reverse.size() && reverse[i] ? bin("subtract", last, v[0]) : v[0];
      };
      std::vector<Hlo> inputs(v.begin() + 1, v.begin() + 1 + static_cast<int64_t>(states));
      for (size_t i = 0; i < inputs_read; ++i)
        inputs.push_back(row(in(states + i), place(a.input_reverse, i), static_cast<size_t>(a.input_axes[i])));
      for (size_t i = states + inputs_read; i < operand_count(); ++i) inputs.push_back(has(i) ? in(i) : Hlo());
      std::vector<Hlo> now = body(0, inputs, &whole);
      if (!whole) return v;
      std::vector<Hlo> next = {bin("add", v[0], b_.constant_int(DType::I64, 1))};
      for (size_t i = 0; i < g_.result_count(n_); ++i)
        next.push_back(i < states ? now[i]
                                  : with_row(v[1 + i], now[i], place(a.output_reverse, i - states),
                                             static_cast<size_t>(a.output_axes[i - states])));
      return next;
    });
    if (!whole) return false;
    std::vector<Hlo> end = repeat(start, condition, step);
    end.erase(end.begin());
    return set_all(end);
  }

 private:
  std::vector<Hlo> results() const {
    std::vector<Hlo> all;
    for (size_t r = 0; r < g_.result_count(n_); ++r) all.push_back({"", result_dtype(r), result_dims(r)});
    return all;
  }
  bool set_all(const std::vector<Hlo>& values) {
    for (size_t r = 0; r < values.size(); ++r) set(values[r], r);
    return true;
  }
  // Returns the results of a body. Sets *whole to false if a node has no translation.
  std::vector<Hlo> body(size_t i, const std::vector<Hlo>& inputs, bool* whole) {
    std::vector<Hlo> out = t_.run(m_.graph(g_.bodies(n_)[i]), inputs);
    for (const Hlo& v : out) *whole &= !v.name.empty();
    return out;
  }
  static Ints dims_of_input(const Graph& g, size_t i) { return sizes(g.dims(g.result(g.inputs()[i]))); }
  Hlo zeros(DType t, const Ints& dims) { return b_.constant_int(t, 0, dims); }
  std::vector<Hlo> repeat(const std::vector<Hlo>& start, const std::string& condition, const std::string& step) {
    return b_.ops("while", start, start, "", condition + std::string(HloBuilder::kNextRegion) + step);
  }

  std::vector<Hlo> at(const Hlo& v, const Hlo& place, size_t axis) {  // start indices of row `place`
    std::vector<Hlo> start(v.dims.size(), b_.constant_int(DType::I64, 0));
    start[axis] = place;
    return start;
  }
  Hlo row(const Hlo& v, const Hlo& place, size_t axis) {
    Ints one_row = v.dims, dims = v.dims;
    one_row[axis] = 1, dims.erase(dims.begin() + static_cast<int64_t>(axis));
    std::vector<Hlo> operands = at(v, place, axis);
    operands.insert(operands.begin(), v);
    return b_.reshape(b_.op("dynamic_slice", operands, v.dtype, one_row, "slice_sizes = " + HloBuilder::ints(one_row)), dims);
  }
  Hlo with_row(const Hlo& v, const Hlo& r, const Hlo& place, size_t axis) {
    Ints one_row = v.dims;
    one_row[axis] = 1;
    std::vector<Hlo> operands = at(v, place, axis);
    operands.insert(operands.begin(), {v, b_.reshape(r, one_row)});
    return b_.op("dynamic_update_slice", operands, v.dtype, v.dims);
  }
};

}  // namespace

std::span<const Translation> control_translations() {
  static constexpr Translation kTable[] = {{OpKind::If, call<Control, &Control::branch>},
                                           {OpKind::Loop, call<Control, &Control::loop>},
                                           {OpKind::Scan, call<Control, &Control::scan>}};
  return kTable;
}

}  // namespace rlxc::stablehlo
