// The transforms of a model before the passes: differentiation and batching (transform/stage.h), and the report of what they did.
#pragma once
#include <array>
#include <string>

#include "driver/loaded_model.h"
#include "ir/graph.h"
#include "options/options.h"
#include "passes/pass.h"
#include "report/context.h"
#include "support/diagnostics.h"
#include "transform/stage.h"

namespace rlxc {

// Applies CompileOptions::transforms; HIR blocks and sequences become tensor operations first. True, and nothing done, without
// any. The module is verified.
bool transform_module(Module&, const CompileOptions&, transform::Ledger*, Diagnostics&);

// These passes until nothing changes, or `rounds` times, for no target. False after errors.
bool run_named_passes(Module&, std::span<const std::string_view> names, const PassOptions&, Diagnostics&, int rounds = 4,
                      std::vector<PrecisionNote>* = nullptr);
// Passes that raise chains of primitives to operations, whose derivatives need less memory.
inline constexpr std::array<std::string_view, 14> kRecognisingPasses{
    "dead_code_elimination", "sccp",           "constant_folding",    "algebraic_simplify",   "common_subexpression_elimination",
    "recognise_gelu",        "recognise_silu", "recognise_softmax",   "recognise_layer_norm", "recognise_rms_norm",
    "recognise_group_norm",  "recognise_rope", "recognise_attention", "dead_code_elimination"};
// HIR blocks and sequences as tensor operations, which is what transforms have rules for.
bool lower_to_tensors(Module&, const CompileOptions&, Diagnostics&);
// The simpler form of a node, for transforms that have no rule for it.
std::vector<ValueId> expand_by_table(Graph&, NodeId);

report::ReportContext context_of(const LoadedModel&, const CompileOptions&);

// transform.json (schemas/transform.schema.json), and the same for people.
void write_ledger(const transform::Ledger&, JsonWriter&, const report::ReportContext&);
std::string ledger_text(const transform::Ledger&);

}  // namespace rlxc
