// Quantized values in derivatives: rounding counts as the identity, and so does all within the range of the type (the
// straight-through estimate, Bengio et al. 2013); beyond, the derivative is 0.
#pragma once
#include "ir/term.h"

namespace rlxc::transform {

// Scale and zero point as floats beside x; invalid when their shapes are none of Quantize. The zero point may be absent.
struct Spread {
  Term scale, zero_point;
};
Spread spread(Term x, Term scale, Term zero_point, const QuantAttrs&);

struct StraightThrough {
  Term scale, inside;  // inside: bool, whether x is rounded to a value of the type and not clamped
};
StraightThrough straight_through(Term x, Term scale, Term zero_point, const QuantAttrs&);

// The derivative of FakeQuantize with respect to x; the scale may be absent. Invalid for the identity.
Term fake_quantize_slope(Term x, Term scale, const FakeQuantizeAttrs&);

// The derivative of FakeQuantize with respect to its scale, beside x (LSQ, Esser et al. 2020): round(z) - z within the range, and
// the bound beyond it, z = x / scale.
Term fake_quantize_scale_slope(Term x, Term scale, const FakeQuantizeAttrs&);
// What has one element for each scale, beside x; and what lies beside x, summed over the elements that share a scale.
Term beside_fake_scales(Term x, Term scale, const FakeQuantizeAttrs&);
Term fake_scale_sums(Term beside, Term scale, const FakeQuantizeAttrs&);

// An integer operand minus its zero point, as f32; `vector_dims`: the sizes that a vector of zero points takes beside x, or none
// to keep its own. The zero point may be absent.
Term centred(Term x, Term zero_point, std::vector<Dim> vector_dims);
// The operands of QMatMul and QConv as such numbers: their product is that of the integers.
struct Centred {
  Term first, second;
};
Centred centred_operands(OpKind, Term x, Term w, Term x_zero, Term w_zero);

// Sums of what lies beside x over the elements that share a scale. Invalid for scales of blocks.
Term shared_sums(Term beside, Term scale, const QuantAttrs&);

}  // namespace rlxc::transform
