#include "transform/optimizers.h"

#include <algorithm>
#include <cmath>

namespace rlxc::transform {
namespace {

using Moments = std::span<const Term>;

// Weight decay as a part of the gradient.
Term decayed_gradient(const Hyper& h, Term p, Term g) { return h.weight_decay == 0 ? g : g + p * h.weight_decay; }
// Weight decay beside the gradient.
Term decayed(const Hyper& h, Term lr, Term p) { return h.weight_decay == 0 ? p : p - lr * h.weight_decay * p; }
Term mixed(double kept, Term old, Term fresh) { return old * kept + fresh * (1 - kept); }

Updated sgd(const Hyper& h, const StepTerms& s, Term p, Term g, Moments) { return {p - s.lr * decayed_gradient(h, p, g), {}}; }

Updated momentum(const Hyper& h, const StepTerms& s, Term p, Term g, Moments m) {
  const Term v = m[0] * h.momentum + decayed_gradient(h, p, g);
  return {p - s.lr * v, {v}};
}

Updated nesterov(const Hyper& h, const StepTerms& s, Term p, Term g, Moments m) {
  g = decayed_gradient(h, p, g);
  const Term v = m[0] * h.momentum + g;
  return {p - s.lr * (g + v * h.momentum), {v}};
}

Updated adagrad(const Hyper& h, const StepTerms& s, Term p, Term g, Moments m) {
  g = decayed_gradient(h, p, g);
  const Term sum = m[0] + square(g);
  return {p - s.lr * g / (sqrt(sum) + h.epsilon), {sum}};
}

// 1 - beta^t, without cancellation.
Term bias(double beta, Term t) { return -make(OpKind::Expm1, {t * std::log(beta)}); }

Updated adam_step(const Hyper& h, const StepTerms& s, Term p, Term g, Moments m) {
  const Term mean = mixed(h.beta1, m[0], g), squares = mixed(h.beta2, m[1], square(g));
  const Term root = sqrt(squares) / sqrt(bias(h.beta2, s.number)) + h.epsilon;
  return {p - s.lr / bias(h.beta1, s.number) * (mean / root), {mean, squares}};
}

Updated adam(const Hyper& h, const StepTerms& s, Term p, Term g, Moments m) {
  return adam_step(h, s, p, decayed_gradient(h, p, g), m);
}

Updated adamw(const Hyper& h, const StepTerms& s, Term p, Term g, Moments m) {
  return adam_step(h, s, decayed(h, s.lr, p), g, m);
}

Updated lion(const Hyper& h, const StepTerms& s, Term p, Term g, Moments m) {
  return {decayed(h, s.lr, p) - s.lr * sign(mixed(h.beta1, m[0], g)), {mixed(h.beta2, m[0], g)}};
}

constexpr Optimizer kOptimizers[] = {
    {"sgd", {}, {.lr = 1e-2}, false, sgd},
    {"momentum", {"momentum"}, {.lr = 1e-2, .momentum = 0.9}, false, momentum},
    {"nesterov", {"momentum"}, {.lr = 1e-2, .momentum = 0.9}, false, nesterov},
    {"adagrad", {"squares"}, {.lr = 1e-2, .epsilon = 1e-10}, false, adagrad},
    {"adam", {"mean", "squares"}, {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}, true, adam},
    {"adamw",
     {"mean", "squares"},
     {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 1e-2},
     true,
     adamw},
    {"lion", {"momentum"}, {.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99}, false, lion},
};

}  // namespace

std::span<const Optimizer> optimizers() { return kOptimizers; }

const Optimizer* find_optimizer(std::string_view name) {
  const auto at = std::ranges::find(kOptimizers, name, &Optimizer::name);
  return at == std::end(kOptimizers) ? nullptr : at;
}

Hyper hyper_of(const Optimizer& optimizer, const TrainingOptions& o, Diagnostics& d) {
  Hyper h = optimizer.defaults;
  const auto set = [&](double* to, const std::optional<double>& given, const char* flag, bool used) {
    if (!given) return;
    if (!used) d.error(Code::BadFlag, std::string(flag) + " means nothing to --optimizer " + std::string(optimizer.name));
    *to = *given;
  };
  set(&h.lr, o.lr, "--lr", true);
  set(&h.momentum, o.momentum, "--momentum", h.momentum != 0);
  set(&h.beta1, o.beta1, "--beta1", h.beta1 != 0);
  set(&h.beta2, o.beta2, "--beta2", h.beta2 != 0);
  set(&h.epsilon, o.epsilon, "--epsilon", h.epsilon != 0);
  set(&h.weight_decay, o.weight_decay, "--weight-decay", true);
  if (h.beta1 >= 1 || h.beta2 >= 1) d.error(Code::BadFlag, "--beta1 and --beta2 are below 1");
  return h;
}

}  // namespace rlxc::transform
