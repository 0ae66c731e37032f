// Einsum as pairwise products: each pair is one batched matmul, or a broadcast product if nothing is contracted.
#include <algorithm>
#include <map>
#include <set>

#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

using Labels = std::vector<int>;  // 0..255: letters; from kEllipsis on: the axes of "...", right-aligned

constexpr int kEllipsis = 256;

struct Term {
  ValueId v;
  Labels labels;
};

class Contraction {
 public:
  explicit Contraction(Op& op) : op_(op) {}

  std::vector<Dim> sizes(const Term& t) const { return {op_.graph().dims(t.v).begin(), op_.graph().dims(t.v).end()}; }

  bool reorder(Term* t, const Labels& order) {
    std::vector<int64_t> perm;
    for (int l : order) perm.push_back(std::ranges::find(t->labels, l) - t->labels.begin());
    t->v = op_.b.transpose(t->v, std::move(perm));
    t->labels = order;
    return t->v.valid();
  }

  bool reshape(Term* t, std::vector<Dim> to) { return (t->v = op_.b.reshape(t->v, std::move(to))).valid(); }

  // Takes the diagonal of a label that occurs twice in an operand.
  bool diagonals(Term* t) {
    for (size_t i = 0; i < t->labels.size(); ++i)
      for (size_t k = i + 1; k < t->labels.size(); ++k) {
        if (t->labels[i] != t->labels[k]) continue;
        const auto n = op_.dims().constant_value(sizes(*t)[i]), m = op_.dims().constant_value(sizes(*t)[k]);
        if (!n || !m) return op_.unsupported("the diagonal of a symbolic axis");
        if (*n != *m)
          return op_.fail(Code::BadShape, "a repeated label has sizes " + std::to_string(*n) + " and " + std::to_string(*m));
        std::vector<int64_t> perm;
        Labels rest;
        for (size_t a = 0; a < t->labels.size(); ++a)
          if (a != i && a != k) {
            perm.push_back(static_cast<int64_t>(a));
            rest.push_back(t->labels[a]);
          }
        const int label = t->labels[i];
        perm.push_back(static_cast<int64_t>(i));
        perm.push_back(static_cast<int64_t>(k));
        t->v = op_.b.transpose(t->v, perm);
        if (!t->v.valid()) return false;
        std::vector<Dim> flat = sizes(*t);
        flat.erase(flat.end() - 2, flat.end());
        flat.push_back(Dim(*n * *n));
        if (!reshape(t, flat)) return false;
        t->v = op_.b.create(OpKind::Slice, {t->v}, SliceAttrs{static_cast<int64_t>(flat.size()) - 1, Dim(0), Dim(*n), *n + 1});
        rest.push_back(label);
        t->labels = std::move(rest);
        return t->v.valid() && diagonals(t);
      }
    return true;
  }

  bool sum_out(Term* t, const std::set<int>& keep) {
    std::vector<int64_t> axes;
    Labels left;
    for (size_t i = 0; i < t->labels.size(); ++i) {
      if (keep.contains(t->labels[i])) left.push_back(t->labels[i]);
      else axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) return true;
    t->v = op_.b.reduce(ReduceOp::Sum, t->v, axes, false);
    t->labels = std::move(left);
    return t->v.valid();
  }

  // Drops a shared label of size 1 on this side only: it broadcasts.
  bool drop_broadcast(Term* t, const Term& other) {
    const auto mine = sizes(*t), theirs = sizes(other);
    Labels left;
    std::vector<Dim> kept;
    for (size_t i = 0; i < t->labels.size(); ++i) {
      const auto at = std::ranges::find(other.labels, t->labels[i]);
      if (at != other.labels.end() && mine[i] == Dim(1) && theirs[static_cast<size_t>(at - other.labels.begin())] != Dim(1))
        continue;
      left.push_back(t->labels[i]);
      kept.push_back(mine[i]);
    }
    t->labels = std::move(left);
    return reshape(t, std::move(kept));
  }

  std::optional<Term> multiply(Term a, Term b, const std::set<int>& keep) {
    std::set<int> keep_a = keep, keep_b = keep;
    keep_a.insert(b.labels.begin(), b.labels.end());
    keep_b.insert(a.labels.begin(), a.labels.end());
    if (!sum_out(&a, keep_a) || !sum_out(&b, keep_b) || !drop_broadcast(&a, b) || !drop_broadcast(&b, a)) return std::nullopt;
    if (!sum_out(&a, keep_a) || !sum_out(&b, keep_b)) return std::nullopt;
    Labels batch, m, n, k;
    for (int l : a.labels) {
      const bool shared = std::ranges::find(b.labels, l) != b.labels.end();
      (shared ? keep.contains(l) ? batch : k : m).push_back(l);
    }
    for (int l : b.labels)
      if (std::ranges::find(a.labels, l) == a.labels.end()) n.push_back(l);
    const auto join = [](std::initializer_list<Labels> parts) {
      Labels out;
      for (const Labels& p : parts) out.insert(out.end(), p.begin(), p.end());
      return out;
    };
    const bool trans_b = std::ranges::equal(b.labels, join({batch, n, k}));
    if (!reorder(&a, join({batch, m, k})) || !reorder(&b, trans_b ? join({batch, n, k}) : join({batch, k, n})))
      return std::nullopt;
    const auto sa = sizes(a), sb = sizes(b);
    const auto part = [&](const std::vector<Dim>& s, size_t first, size_t count) {
      return std::vector<Dim>(s.begin() + static_cast<std::ptrdiff_t>(first),
                              s.begin() + static_cast<std::ptrdiff_t>(first + count));
    };
    const auto db = part(sa, 0, batch.size()), dm = part(sa, batch.size(), m.size()),
               dk = part(sa, batch.size() + m.size(), k.size());
    const auto dn = part(sb, batch.size() + (trans_b ? 0 : k.size()), n.size());
    const auto sized = [](std::vector<Dim> s, std::initializer_list<Dim> more) {
      s.insert(s.end(), more);
      return s;
    };
    Term out;
    out.labels = join({batch, m, n});
    std::vector<Dim> result = db;
    result.insert(result.end(), dm.begin(), dm.end());
    result.insert(result.end(), dn.begin(), dn.end());
    const Dim pm = op_.dims().product(dm), pk = op_.dims().product(dk), pn = op_.dims().product(dn);
    if (!reshape(&a, sized(db, {pm, pk})) || !reshape(&b, trans_b ? sized(db, {pn, pk}) : sized(db, {pk, pn})))
      return std::nullopt;
    if (k.empty()) {
      if (trans_b && !reshape(&b, sized(db, {Dim(1), pn}))) return std::nullopt;
      out.v = op_.b.mul(a.v, b.v);
    } else {
      out.v = op_.b.matmul(a.v, b.v, false, trans_b);
    }
    if (!out.v.valid() || !reshape(&out, std::move(result))) return std::nullopt;
    return out;
  }

 private:
  Op& op_;
};

bool parse_labels(Op& op, std::string_view s, size_t ellipsis_axes, Labels* out) {
  for (size_t i = 0; i < s.size(); ++i) {
    if (s.substr(i, 3) == "...") {
      for (size_t e = 0; e < ellipsis_axes; ++e)
        out->push_back(kEllipsis + 63 - static_cast<int>(ellipsis_axes) + static_cast<int>(e));
      i += 2;
    } else if ((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z')) {
      out->push_back(s[i]);
    } else {
      return op.fail(Code::BadAttribute, "the equation has " + quote(s.substr(i, 1)));
    }
  }
  return true;
}

}  // namespace

void einsum(Op& op) {
  std::string equation;
  for (char c : op.s("equation", ""))
    if (c != ' ') equation += c;
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  const auto parts = rlxc::split(left, ',');
  if (parts.size() != op.inputs())
    return (void)op.fail(Code::BadAttribute, "the equation has " + std::to_string(parts.size()) + " terms for " +
                                                 std::to_string(op.inputs()) + " operands");
  std::vector<Term> terms(parts.size());
  size_t widest = 0;
  std::map<int, int> seen;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool open = parts[i].find("...") != parts[i].npos;
    const size_t letters = parts[i].size() - (open ? 3 : 0);
    const auto rank = static_cast<size_t>(op.rank(i));
    if (parts[i].find('.') != parts[i].rfind("...") || letters > rank || (!open && letters != rank))
      return (void)op.fail(Code::BadAttribute, "the term " + quote(parts[i]) + " does not fit " + op.show(i));
    if (!parse_labels(op, parts[i], rank - letters, &terms[i].labels)) return;
    widest = std::max(widest, rank - letters);
    for (int l : terms[i].labels) ++seen[l];
  }
  Labels output;
  if (arrow != std::string::npos) {
    if (!parse_labels(op, std::string_view(equation).substr(arrow + 2), widest, &output)) return;
  } else {  // the axes of "...", then the letters that occur once, in order
    for (size_t e = 0; e < widest; ++e) output.push_back(kEllipsis + 63 - static_cast<int>(widest) + static_cast<int>(e));
    for (const auto& [label, count] : seen)
      if (label < kEllipsis && count == 1) output.push_back(label);
  }
  const std::set<int> wanted(output.begin(), output.end());
  if (wanted.size() != output.size()) return (void)op.fail(Code::BadAttribute, "the result repeats a label");
  for (int l : output)
    if (!seen.contains(l)) return (void)op.fail(Code::BadAttribute, "the result has a label that no operand has");
  Contraction c(op);
  for (size_t i = 0; i < terms.size(); ++i) {
    terms[i].v = op.in(i);
    if (!terms[i].v.valid() || !c.diagonals(&terms[i])) return;
  }
  Term result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::set<int> keep = wanted;
    for (size_t k = i + 1; k < terms.size(); ++k) keep.insert(terms[k].labels.begin(), terms[k].labels.end());
    auto next = c.multiply(std::move(result), terms[i], keep);
    if (!next) return;
    result = std::move(*next);
  }
  if (!c.sum_out(&result, wanted) || !c.reorder(&result, output)) return;
  op.set(0, result.v);
}

}  // namespace rlxc::onnx_import
