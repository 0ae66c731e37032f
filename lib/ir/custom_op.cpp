#include "ir/custom_op.h"

#include <algorithm>
#include <charconv>

namespace rlxc {
namespace {

constexpr std::string_view kSamples = "samples";

// The operands at hand, and the bodies that are made for them.
class Instance {
 public:
  Instance(Builder& b, const OpDefinition& op, std::span<const ValueId> operands, std::string* message)
      : b_(b), op_(op), operands_(operands), message_(*message) {}

  NodeId create(Parameters parameters) {
    parameters_ = std::move(parameters);
    if (!check_parameters() || !bind_operands()) return {};
    for (size_t i = 0; i < op_.inputs.size(); ++i) inputs_.push_back({op_.inputs[i].name, type_of(operands_[i])});
    if (!add_body("", op_.body, inputs_, {}, &outputs_) || !check_outputs()) return {};
    std::vector<Port> results;
    for (size_t i = 0; i < op_.outputs.size(); ++i) results.push_back({op_.outputs[i].name, outputs_[i]});
    CustomAttrs attrs{op_.domain + "." + op_.name, op_.vjp.has_value(), op_.jvp.has_value(), op_.vmap.has_value()};
    if (!add_kernels(&attrs)) return {};
    if (op_.vjp && !add_vjp(results)) return {};
    if (op_.jvp && !add_jvp(results)) return {};
    if (op_.vmap && !add_vmap(results)) return {};
    const NodeId n = b_.create_node(OpKind::CustomOp, operands_, attrs, bodies_);
    if (!n.valid()) fail(b_.error());
    return n;
  }

 private:
  struct Port {
    std::string name;
    Type type;
  };

  bool fail(std::string why) {
    message_ = op_.domain + "." + op_.name + ": " + std::move(why);
    return false;
  }
  Type type_of(ValueId v) const { return b_.graph().type(v); }
  static bool is_float_port(const Port& p) { return is_float(p.type.dtype); }

  bool check_parameters() {
    for (const auto& [name, value] : parameters_) {
      const auto at = std::ranges::find(op_.parameters, name, &OpParameter::name);
      if (at == op_.parameters.end()) return fail("there is no attribute \"" + name + "\"");
      const size_t kinds[] = {1, 2, 3, 4, 5, 6};  // alternatives of AttrValue
      if (value.index() != kinds[static_cast<size_t>(at->kind)]) return fail("the attribute \"" + name + "\" has another type");
    }
    for (const OpParameter& p : op_.parameters) {
      if (parameters_.contains(p.name)) continue;
      if (!p.fallback) return fail("lacks the attribute \"" + p.name + "\"");
      parameters_[p.name] = *p.fallback;
    }
    return true;
  }

  bool bind_operands() {
    if (operands_.size() != op_.inputs.size())
      return fail("takes " + std::to_string(op_.inputs.size()) + " inputs, has " + std::to_string(operands_.size()));
    for (size_t i = 0; i < operands_.size(); ++i) {
      const OpPort& port = op_.inputs[i];
      if (!operands_[i].valid()) return fail("input \"" + port.name + "\" is absent");
      const Type t = type_of(operands_[i]);
      const std::string shown = "input \"" + port.name + "\" is " + text(t, b_.dims());
      if (t.kind != TypeKind::Tensor) return fail(shown + ", not a tensor");
      const DType want = port.dtype ? *port.dtype : dtypes_.try_emplace(port.variable, t.dtype).first->second;
      if (t.dtype != want) return fail(shown + ", its elements have to be " + std::string(rlxc::name(want)));
      if (!bind_shape(b_.dims(), port.shape, t.dims, &shapes_)) return fail(shown + ", which does not fit its shape");
    }
    return true;
  }

  // A graph on these inputs; `outputs` gets the types of what it gives.
  bool add_body(std::string_view role, const OpBody& body, const std::vector<Port>& inputs, const SymbolValues& more,
                std::vector<Type>* outputs) {
    Module& m = b_.module();
    Graph& g = m.graph(m.make_graph(op_.name + std::string(role) + std::to_string(m.graph_count())));
    Builder b(g);
    FragmentValues values;
    values.parameters = parameters_;
    values.sizes = shapes_.sizes;
    values.sizes.insert(more.begin(), more.end());
    for (const Port& p : inputs) values.values[p.name] = b.input(p.name, p.type);
    std::string why;
    if (!build_fragment(b, body.nodes, &values, &why)) return fail(std::string(role) + (role.empty() ? "" : ": ") + why);
    for (const std::string& name : body.outputs) {
      const auto at = values.values.find(name);
      if (at == values.values.end())
        return fail(std::string(role) + (role.empty() ? "" : ": ") + "there is no value \"" + name + "\"");
      g.add_output(at->second, m.symbol(name));
      outputs->push_back(g.type(at->second));
    }
    bodies_.push_back(g.id());
    return true;
  }

  bool check_outputs() {
    for (size_t i = 0; i < op_.outputs.size(); ++i) {
      const OpPort& port = op_.outputs[i];
      const std::string shown = "the body gives " + text(outputs_[i], b_.dims()) + " as \"" + port.name + "\"";
      const DType want = port.dtype ? *port.dtype : dtypes_.try_emplace(port.variable, outputs_[i].dtype).first->second;
      const auto dims = shape_of(b_.dims(), port.shape, shapes_);
      if (!dims) return fail("the shape of \"" + port.name + "\" has a size that no input has");
      if (outputs_[i].dtype != want || outputs_[i].dims != *dims)
        return fail(shown + ", its shape rule says " + text(tensor_type(want, *dims), b_.dims()));
    }
    return true;
  }

  // The kernels for the element types at hand.
  bool add_kernels(CustomAttrs* attrs) {
    for (const OpKernel& k : op_.kernels) {
      const bool fits = std::ranges::all_of(dtypes_, [&](const auto& variable) {
        const auto at = k.dtypes.find(variable.first);
        return variable.second == (at == k.dtypes.end() ? DType::F32 : at->second);
      });
      if (!fits) continue;
      const auto grid = shape_of(b_.dims(), {false, k.grid}, shapes_);
      if (!grid) return fail("the grid of the kernel for " + k.target + " has a size that no input has");
      std::string source;
      if (!with_parameters(k, &source)) return false;
      attrs->targets.push_back(k.target);
      attrs->sources.push_back(std::move(source));
      for (size_t axis = 0; axis < 3; ++axis) {
        attrs->grids.push_back(axis < grid->size() ? (*grid)[axis] : Dim(1));
        attrs->threads.push_back(axis < k.threads.size() ? k.threads[axis] : 1);
      }
    }
    if (attrs->targets.empty()) return true;
    for (const auto* ports : {&op_.inputs, &op_.outputs})
      for (const OpPort& p : *ports) attrs->ports.push_back(p.name);
    for (const auto& [name, size] : shapes_.sizes) {
      attrs->size_names.push_back(name);
      attrs->sizes.push_back(size);
    }
    return true;
  }

  // "$NAME" in the source becomes the number.
  bool with_parameters(const OpKernel& k, std::string* out) {
    const std::string_view source = k.source;
    for (size_t at = 0; at < source.size();) {
      if (source[at] != '$') {
        *out += source[at++];
        continue;
      }
      size_t end = ++at;
      while (end < source.size() && is_name_char(source[end])) ++end;
      const std::string name(source.substr(at, end - at));
      const auto value = parameters_.find(name);
      const std::string where = "the kernel for " + k.target + ": ";
      if (value == parameters_.end()) return fail(where + "there is no attribute \"" + name + "\"");
      if (const auto* i = std::get_if<int64_t>(&value->second)) *out += std::to_string(*i);
      else if (const auto* d = std::get_if<double>(&value->second)) *out += number_text(*d);
      else return fail(where + "the attribute \"" + name + "\" is no number");
      at = end;
    }
    return true;
  }
  static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  // A literal of C, CUDA, MSL and WGSL.
  std::string number_text(double v) const {
    const bool wide = std::ranges::any_of(dtypes_, [](const auto& d) { return d.second == DType::F64; });
    char digits[40];
    const auto end = wide ? std::to_chars(digits, digits + sizeof digits, v).ptr
                          : std::to_chars(digits, digits + sizeof digits, static_cast<float>(v)).ptr;
    std::string s(digits, end);
    if (s.find_first_of(".e") == std::string::npos) s += ".0";
    return "(" + s + (wide ? ")" : "f)");
  }

  bool check_given(std::string_view role, const std::vector<Type>& given, const std::vector<Port>& wanted) {
    if (given.size() != wanted.size())
      return fail(std::string(role) + " gives " + std::to_string(given.size()) + " values, " + std::to_string(wanted.size()) +
                  " are needed");
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i] != wanted[i].type)
        return fail(std::string(role) + " gives " + text(given[i], b_.dims()) + " for \"" + wanted[i].name + "\", which is " +
                    text(wanted[i].type, b_.dims()));
    return true;
  }
  static std::vector<Port> floats(const std::vector<Port>& ports, const std::string& prefix) {
    std::vector<Port> out;
    for (const Port& p : ports)
      if (is_float_port(p)) out.push_back({prefix + p.name, p.type});
    return out;
  }

  bool add_vjp(const std::vector<Port>& results) {
    std::vector<Port> in = inputs_;
    in.insert(in.end(), results.begin(), results.end());
    for (Port& p : floats(results, "grad:")) in.push_back(std::move(p));
    std::vector<Type> given;
    return add_body("vjp", *op_.vjp, in, {}, &given) && check_given("vjp", given, floats(inputs_, ""));
  }
  bool add_jvp(const std::vector<Port>& results) {
    std::vector<Port> in = inputs_;
    for (Port& p : floats(inputs_, "tangent:")) in.push_back(std::move(p));
    std::vector<Type> given;
    return add_body("jvp", *op_.jvp, in, {}, &given) && check_given("jvp", given, floats(results, ""));
  }
  bool add_vmap(std::vector<Port> results) {
    const Dim samples = b_.dims().fresh(kSamples);
    std::vector<Port> in = inputs_;
    for (std::vector<Port>* ports : {&in, &results})
      for (Port& p : *ports) p.type.dims.insert(p.type.dims.begin(), samples);
    std::vector<Type> given;
    return add_body("vmap", *op_.vmap, in, {{std::string(kSamples), samples}}, &given) && check_given("vmap", given, results);
  }

  Builder& b_;
  const OpDefinition& op_;
  std::span<const ValueId> operands_;
  std::string& message_;
  Parameters parameters_;
  std::map<std::string, DType> dtypes_;  // of type variables
  BoundShapes shapes_;
  std::vector<Port> inputs_;
  std::vector<Type> outputs_;
  std::vector<GraphId> bodies_;
};

}  // namespace

const OpDefinition* find_definition(const std::vector<OpDefinition>& all, std::string_view domain, std::string_view name) {
  for (const OpDefinition& d : all)
    if (d.domain == domain && d.name == name) return &d;
  return nullptr;
}

NodeId create_custom_op(Builder& b, const OpDefinition& op, std::span<const ValueId> operands, Parameters parameters,
                        std::string* message) {
  return Instance(b, op, operands, message).create(std::move(parameters));
}

}  // namespace rlxc
