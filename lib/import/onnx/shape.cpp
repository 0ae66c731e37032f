// Operators that compute sizes, or tensors of given sizes.
#include <algorithm>
#include <array>
#include <cmath>

#include "import/onnx/broadcast.h"
#include "import/onnx/dynamic.h"
#include "import/onnx/handlers.h"
#include "support/checked.h"
#include "support/saturate.h"
#include "support/text.h"

namespace rlxc::onnx_import {

void shape(Op& op) {
  const auto& d = op.sizes(0);
  const int64_t rank = op.rank(0);
  const auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t start = op.opset >= 15 ? clamp(op.i("start", 0)) : 0, end = op.opset >= 15 ? clamp(op.i("end", rank)) : rank;
  Known k;
  k.shape = {std::max<int64_t>(end - start, 0)};
  for (int64_t i = start; i < end; ++i) k.v.push_back({.num = d[static_cast<size_t>(i)], .is_size = true});
  op.set_known(0, std::move(k));
}

void size(Op& op) {
  Known k;
  k.v.push_back({op.dims().product(op.sizes(0))});
  op.set_known(0, std::move(k));
}

void constant(Op& op) {
  const std::string place = "node " + quote(op.node().name) + " (Constant)";
  for (const AttributeView& a : op.node().attributes) {
    a.asked = true;
    if (a.name == "value" && a.type == AttrType::Tensor) {
      auto data = op.im.load(a.message, place, nullptr);
      if (!data) return op.give_up();
      return op.set_ref(0, op.im.constant(std::move(*data)));
    }
    if (a.name == "sparse_value" && a.type == AttrType::SparseTensor) {
      SparseTensorView view;
      if (!read_sparse_tensor(a.message, &view)) return (void)op.fail(Code::BadTensor, "the sparse tensor is malformed");
      auto data = op.im.source().load_sparse(view, place, op.im.diagnostics());
      if (!data) return op.give_up();
      return op.set_ref(0, op.im.constant(std::move(*data)));
    }
    if (a.name == "value_int") return op.set_ref(0, op.im.constant(make_data(DType::I64, {}, std::vector<int64_t>{a.i})));
    if (a.name == "value_float") return op.set_ref(0, op.im.constant(make_data(DType::F32, {}, std::vector<float>{a.f})));
    if (a.name == "value_ints") {
      const auto v = a.ints();
      return op.set_ref(0, op.im.constant(make_data(DType::I64, {static_cast<int64_t>(v.size())}, v)));
    }
    if (a.name == "value_floats") {
      const auto v = a.floats();
      return op.set_ref(0, op.im.constant(make_data(DType::F32, {static_cast<int64_t>(v.size())}, v)));
    }
    if (a.name == "value_string" || a.name == "value_strings") {
      TensorData data;
      data.dtype = DType::String;
      if (a.name == "value_string") {
        data.strings.emplace_back(a.s);
      } else {
        for (std::string_view s : a.strings()) data.strings.emplace_back(s);
        data.dims = {static_cast<int64_t>(data.strings.size())};
      }
      return op.set_ref(0, op.im.constant(std::move(data)));
    }
  }
  op.fail(Code::BadAttribute, "it has no value");
}

// 0 copies the operand's dim (unless allowzero), -1 is inferred.
void reshape(Op& op) {
  std::optional<std::vector<Dim>> target;
  if (op.opset >= 5) {
    target = op.find_dims(1);
  } else {
    target.emplace();
    for (int64_t v : op.ints("shape")) target->push_back(op.dims().constant(v));
  }
  const auto& from = op.sizes(0);
  const bool allow_zero = op.opset >= 14 && op.i("allowzero", 0) != 0;
  if (!target) {
    const auto count = op.length(1, op.declared_rank(0));
    const ValueId sizes = count && op.rank(1) == 1 ? op.b.narrow(op.in(1), 0, Dim(0), Dim(*count)) : op.in(1);
    return op.set(0, op.b.create(OpKind::ReshapeTo, {op.in(0), sizes}, ReshapeToAttrs{allow_zero}));
  }
  std::optional<size_t> open;
  for (size_t i = 0; i < target->size(); ++i) {
    const auto v = op.dims().constant_value((*target)[i]);
    if (v && *v == 0 && !allow_zero) {
      if (i >= from.size())
        return (void)op.fail(Code::BadShape,
                             "size 0 at axis " + std::to_string(i) + " copies an axis that " + op.show(0) + " does not have");
      (*target)[i] = from[i];
    } else if (v && *v == -1) {
      if (open) return (void)op.fail(Code::BadShape, "two sizes are -1");
      open = i;
    } else if (v && *v < -1) {
      return (void)op.fail(Code::BadShape, "size " + std::to_string(*v) + " is negative");
    }
  }
  if (open) {
    (*target)[*open] = Dim(1);
    const Dim have = op.dims().product(from), rest = op.dims().product(*target);
    if (rest == Dim(0)) {
      (*target)[*open] = Dim(0);
    } else {
      const auto a = op.dims().constant_value(have), b = op.dims().constant_value(rest);
      if (a && b && *a % *b != 0)
        return (void)op.fail(Code::BadShape, "cannot reshape " + op.show(0) + ": " + std::to_string(*b) + " does not divide " +
                                                 std::to_string(*a));
      (*target)[*open] = op.dims().floor_div(have, rest);
    }
  }
  if (*target == from) return op.set_ref(0, op.ref(0));
  op.set(0, op.b.reshape(op.in(0), std::move(*target)));
}

void flatten(Op& op) {
  const int rank = op.rank(0);
  const int64_t given = op.i("axis", 1), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank)
    return (void)op.fail(Code::BadAttribute, "axis " + std::to_string(given) + " is out of range for " + op.show(0));
  const auto& d = op.sizes(0);
  const auto cut = d.begin() + axis;
  op.set(0, op.b.reshape(op.in(0), {op.dims().product({d.begin(), cut}), op.dims().product({cut, d.end()})}));
}

void squeeze(Op& op) {
  if (op.is_of_run(1)) return squeeze_by_data(op);
  auto list = op.ints_or_input("axes", 1);
  if (op.failed()) return;
  const auto& d = op.sizes(0);
  std::vector<Dim> out;
  std::vector<bool> drop(d.size());
  if (list && !list->empty()) {
    const auto normal = op.axes(*list, op.rank(0));
    if (!normal) return;
    for (int64_t a : *normal) {
      const Dim s = d[static_cast<size_t>(a)];
      if (!op.dims().equal(s, Dim(1)) && !op.dims().assume_equal(s, Dim(1)))
        return (void)op.fail(Code::BadShape, "axis " + std::to_string(a) + " of " + op.show(0) + " cannot be dropped");
      drop[static_cast<size_t>(a)] = true;
    }
  } else {
    for (size_t i = 0; i < d.size(); ++i) drop[i] = d[i] == Dim(1);
    if (!std::ranges::all_of(d, &Dim::is_static))
      op.im.diagnostics().warning(Code::UnboundDim,
                                  "it names no axes: those of " + op.show(0) + " that are not known to be 1 stay",
                                  "node " + quote(op.node().name), "bind sizes that are 1");
  }
  for (size_t i = 0; i < d.size(); ++i)
    if (!drop[i]) out.push_back(d[i]);
  if (out.size() == d.size()) return op.set_ref(0, op.ref(0));
  op.set(0, op.b.reshape(op.in(0), std::move(out)));
}

void unsqueeze(Op& op) {
  if (op.is_of_run(1)) return unsqueeze_by_data(op);
  auto list = op.ints_or_input("axes", 1);
  if (op.failed()) return;
  if (!list) return (void)op.fail(Code::BadAttribute, "axes are missing");
  if (op.rank(0) + list->size() > 64) return (void)op.fail(Code::TooLarge, "the rank is more than 64");
  const auto normal = op.axes(*list, op.rank(0) + static_cast<int>(list->size()));
  if (!normal) return;
  std::vector<Dim> out(op.sizes(0).size() + normal->size(), Dim(1));
  std::vector<bool> added(out.size());
  for (int64_t a : *normal) added[static_cast<size_t>(a)] = true;
  size_t from = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (!added[i]) out[i] = op.sizes(0)[from++];
  op.set(0, op.b.reshape(op.in(0), std::move(out)));
}

// The target may have 1 where the operand's dim is larger.
void expand(Op& op) {
  auto target = op.find_dims(1);
  if (!target) {
    const auto count = op.length(1, op.declared_rank(0));
    if (count) op.set(0, broadcast_to(op, op.in(0), op.in(1), *count));
    return;
  }
  const std::vector<Dim> d = op.sizes(0);
  ValueId x = op.in(0);
  while (target->size() < d.size()) target->insert(target->begin(), Dim(1));
  for (size_t i = 0; i < d.size(); ++i) {
    Dim& t = (*target)[target->size() - d.size() + i];
    if (t == Dim(1)) {
      t = d[i];
    } else if (const auto open = open_broadcast(op, t, d[i])) {
      assume_broadcast(op.dims(), t, d[i]);
      t = *open;
      if (!(d[i] == t)) x = repeat_if_one(op, x, static_cast<int64_t>(i), t);
    }
  }
  for (Dim t : *target)
    if (const auto v = op.dims().constant_value(t); v && *v < 0)
      return (void)op.fail(Code::BadShape, "size " + std::to_string(*v) + " is negative");
  if (*target == d) return op.set_ref(0, op.ref(0));
  op.set(0, op.b.expand(x, std::move(*target)));
}

void tile(Op& op) {
  std::optional<std::vector<Dim>> repeats;
  if (op.opset >= 6) {
    repeats = op.find_dims(1);
    if (!repeats) {
      const auto count = op.length(1, op.rank(0));
      if (!count) return;
      if (*count != op.rank(0)) return (void)op.fail(Code::BadShape, "needs a repeat for each axis: " + op.show(1));
      return op.set(0, tile_by_data(op, op.in(0), op.in(1)));
    }
  } else {
    const auto tiles = op.need_ints(1, "tiles"), axis_list = op.need_ints(2, "axis");
    if (!tiles || !axis_list || tiles->empty() || axis_list->empty()) return;
    const auto axis = op.axis((*axis_list)[0], op.rank(0));
    if (!axis) return;
    repeats.emplace(op.sizes(0).size(), Dim(1));
    (*repeats)[static_cast<size_t>(*axis)] = op.dims().constant((*tiles)[0]);
  }
  if (!repeats) return;
  for (Dim t : *repeats)
    if (const auto v = op.dims().constant_value(t); v && *v < 0)
      return (void)op.fail(Code::BadShape, "repeat " + std::to_string(*v) + " is negative");
  if (std::ranges::all_of(*repeats, [](Dim t) { return t == Dim(1); }) && repeats->size() == op.sizes(0).size())
    return op.set_ref(0, op.ref(0));
  op.set(0, op.b.create(OpKind::Tile, {op.in(0)}, DimsAttrs{std::move(*repeats), false}));
}

void constant_of_shape(Op& op) {
  auto target = op.find_dims(0);
  TensorData value = make_data(DType::F32, {}, std::vector<float>{0});
  if (const AttributeView* a = op.node().attribute("value")) {
    auto data = op.im.load(a->message, "attribute \"value\"", nullptr);
    if (!data) return op.give_up();
    if (data->elements() != 1 || data->dtype == DType::String)
      return (void)op.fail(Code::BadAttribute, "the value must be one number");
    data->dims.clear();
    value = std::move(*data);
  }
  if (!target) {
    const auto count = op.length(0, op.declared_rank(0));
    if (count) op.set(0, broadcast_to(op, op.b.constant(std::move(value)), op.in(0), *count));
    return;
  }
  for (Dim t : *target)
    if (const auto v = op.dims().constant_value(t); v && *v < 0)
      return (void)op.fail(Code::BadShape, "size " + std::to_string(*v) + " is negative");
  op.set(0, op.b.expand(op.b.constant(std::move(value)), std::move(*target)));
}

// The length is ceil((limit - start) / step).
void range(Op& op) {
  const DType t = op.dtype(0);
  Dim length;
  const Known one_step{t, {}, {Num{.num = Dim(1), .real = 1, .is_real = is_float(t)}}};
  const std::array<std::optional<Known>, 3> k{op.find_known(0), op.find_known(1), op.has(2) ? op.find_known(2) : one_step};
  for (const auto& one : k) {
    if (!one) return range_by_data(op);
    if (one->v.size() != 1) return (void)op.fail(Code::BadShape, "start, limit and step must be one number each");
  }
  const Num &start = k[0]->v[0], &limit = k[1]->v[0], &step = k[2]->v[0];
  const auto real = [&](const Num& n) -> std::optional<double> {
    const auto v = op.dims().constant_value(n.num);
    if (n.is_real) return n.real;
    return v ? std::optional(static_cast<double>(*v) / static_cast<double>(n.den)) : std::nullopt;
  };
  const auto first = real(start), last = real(limit), each = real(step);
  if (!each) return range_by_data(op);
  if (*each == 0) return (void)op.fail(Code::BadAttribute, "the step is 0");
  if (is_float(t) && first && last) {
    const double n = std::ceil((*last - *first) / *each);
    if (!(n < 1e15)) return (void)op.fail(Code::TooLarge, "the range is too long");
    length = Dim(n > 0 ? static_cast<int64_t>(n) : 0);
  } else if (is_float(t)) {
    if (first != 0 || *each != 1 || limit.is_real) return range_by_data(op);
    length = op.dims().ceil_div(op.dims().max(limit.num, Dim(0)), Dim(limit.den));
  } else {
    const bool up = *each > 0;
    const Dim span = up ? op.dims().sub(limit.num, start.num) : op.dims().sub(start.num, limit.num);
    length = op.dims().ceil_div(op.dims().max(span, Dim(0)), Dim(saturating_cast<int64_t>(std::abs(*each))));
  }
  const auto scalar = [&](size_t i) { return op.has(i) ? op.b.reshape(op.in(i), {}) : op.b.scalar(t, 1); };
  op.set(0, op.b.create(OpKind::Range, {scalar(0), scalar(2)}, DimsAttrs{{length}, false}));
}

void eye_like(Op& op) {
  if (op.rank(0) != 2) return (void)op.fail(Code::BadShape, "needs two axes, has " + op.show(0));
  const auto to = op.has_attr("dtype") ? dtype_from_onnx(static_cast<int>(op.i("dtype", 0) & 0xFFFF)) : op.dtype(0);
  if (!to) return (void)op.fail(Code::BadAttribute, "attribute \"dtype\" is not a known element type");
  const ValueId zero = op.b.scalar(DType::I64, 0), one = op.b.scalar(DType::I64, 1);
  const ValueId row =
      op.b.reshape(op.b.create(OpKind::Range, {zero, one}, DimsAttrs{{op.sizes(0)[0]}, false}), {op.sizes(0)[0], Dim(1)});
  const ValueId column = op.b.create(OpKind::Range, {op.b.scalar(DType::I64, -static_cast<double>(op.i("k", 0))), one},
                                     DimsAttrs{{op.sizes(0)[1]}, false});
  op.set(0, op.b.cast(op.b.create(OpKind::Eq, {row, column}), *to));
}

}  // namespace rlxc::onnx_import
