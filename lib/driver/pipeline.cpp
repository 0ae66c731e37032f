#include "driver/pipeline.h"

#include "backend/backend.h"
#include "report/precision.h"

namespace rlxc {

std::vector<PipelinePart> pipeline(std::string_view target, const CompileOptions& options) {
  std::vector<PipelinePart> parts;
  const bool fuses = !find_backend(target)->info.primitive_ops;
  const auto add = [&](std::string_view name, std::vector<std::string_view> passes, int repeat = 1) {
    parts.push_back({name, std::move(passes), repeat});
  };
  // Converts inputs and outputs of the package to numeric tensors.
  add("interface", {"maps_as_rows", "strings_as_bytes"});
  // Lowers HIR blocks to tensor operations.
  add("lower", {"lower_hir", "inline_custom_ops", "lower_sequence_loops", "lower_scan_axes"});
  std::vector<std::string_view> params;
  if (!options.promoted_params.empty()) params.push_back("promote_params");
  if (!options.specialised_params.empty()) params.push_back("specialise_params");
  if (!params.empty()) add("params", params);
  // Canonicalizes: removes dead nodes, constant subexpressions, identities and duplicates.
  add("clean",
      {"dead_code_elimination", "sccp", "constant_folding", "lower_sequences", "algebraic_simplify",
       "common_subexpression_elimination", "dead_code_elimination"},
      4);
  if (!options.rule_file.empty()) add("rules", {"user_rules", "dead_code_elimination"});
  if (options.lint) add("lint", {"numeric_lint"});
  // Runs control flow as tensor operations, where --unroll asks for it or the target may lack it.
  const bool may_lack = !options.supported_ops.empty() || !options.force_common.empty();
  if (options.unroll_max_nodes > 0 || may_lack) add("lower", {"select_branches", "unroll_loops", "sccp", "constant_folding"}, 4);
  // Raises exporter idioms to the ops that they implement.
  add("recognise", {"recognise_gelu", "recognise_silu", "recognise_softmax", "recognise_layer_norm", "recognise_rms_norm",
                    "recognise_group_norm", "recognise_rope", "recognise_attention", "recognise_moe"});
  // Folds constants around a matmul into its weights.
  add("fold", {"fold_conv_bias", "fold_batch_norm", "fold_scale"}, 3);
  add("fold", {"share_norms", "conv_transpose_to_matmul"});
  add("clean", {"algebraic_simplify", "common_subexpression_elimination", "dead_code_elimination"}, 4);
  // Divides the model over devices, while contractions, norms and attentions are whole operations.
  if (!options.mesh.empty() || !options.shards.empty() || !options.shard_rules.empty() || !options.parallel.empty())
    add("shard", {"partition", "common_subexpression_elimination", "dead_code_elimination"});
  // Quantization and precision run on whole operations, before fusion.
  std::vector<std::string_view> quantize{"keep_quantized_weights", "lower_quantized_conv_transpose",
                                         "quantize_contractions",  "sink_transposes",
                                         "lift_quantize",          "split_packed_gates",
                                         "quantize_slices",        "multiply_f8",
                                         "constant_folding"};
  const bool calibrated = !options.calibration_file.empty();
  if (calibrated) quantize.insert(quantize.begin(), {"migrate_scales", "insert_q_dq"});
  const auto policy = report::precision_policy_from_name(options.precision_name);
  const bool scaled = policy && *policy >= PrecisionPolicy::Fp8E4M3;
  if (!options.weights.empty() || scaled || calibrated)
    quantize.insert(std::ranges::find(quantize, "quantize_contractions"), "quantize_weights");
  if (options.activations != "model") quantize.emplace_back("round_activations");
  add("quantize", quantize);
  if (scaled) add("precision", {"scale_operands", "multiply_f8", "common_subexpression_elimination", "dead_code_elimination"});
  else if (options.precision_name != "f32")
    add("precision", {"auto_mixed_precision", "common_subexpression_elimination", "dead_code_elimination"});
  if (fuses && options.precision_name != "f32") add("precision", {"split_widened_results", "dead_code_elimination"});
  // Fuses neighbours that share data into one launch. XLA does its own fusion.
  if (fuses)
    add("fuse", {"fuse_norm_rope",
                 "fuse_shared_input_matmul",
                 "fuse_shared_rope",
                 "fuse_attention_casts",
                 "fuse_rope_append",
                 "fuse_swiglu",
                 "fuse_matmul_swiglu",
                 "fuse_residual_ln",
                 "fuse_residual_rms_norm",
                 "fuse_matmul_bias_act",
                 "fuse_conv_bias_act",
                 "fuse_rounded_result",
                 "expand_q_dq",
                 "mark_elementwise_regions",
                 "split_rounded_sums",
                 "fuse_integer_matmul",
                 "fuse_integer_gate",
                 "fuse_shared_integer_matmul",
                 "fuse_shared_rope",
                 "fuse_norm_region",
                 "fuse_reduce_region",
                 "fuse_integer_attention",
                 "fuse_concat_parts",
                 "fuse_shared_region",
                 "fuse_reduced_parts",
                 "fuse_integer_results",
                 "fuse_rounded_rows",
                 "fuse_rounded_image",
                 "fuse_shared_rounding",
                 "lower_pixel_convs"});
  // Rewrites every node that the target has no kernel for.
  std::vector<std::string_view> legalise{"unfuse_elementwise_regions", "lower_dot_general", "lower_batch_norm", "decompose"};
  if (find_backend(target)->info.language)
    legalise.insert(legalise.begin(), {"lower_conv_transpose", "crop_conv_windows", "split_pooling"});
  if (!options.mesh.empty() && fuses) legalise.push_back("lower_collectives");
  if (fuses) legalise.push_back("widen_narrow_types");
  add("legalise", legalise);
  add("clean", {"algebraic_simplify", "common_subexpression_elimination", "dead_code_elimination"}, 4);
  if (fuses)
    add("fuse", {"fuse_matmul_bias_act", "mark_elementwise_regions", "fuse_integer_matmul",
                 "unfuse_elementwise_regions"});                    // expanded nodes
  if (!options.supported_ops.empty()) add("claim", {"decompose"});  // cleaning may have introduced decomposable kinds
  if (fuses) add("quantize", {"allow_reciprocals"});
  // Small blocks match the final nodes.
  if (fuses) add("fuse", {"fuse_transformer_layer", "fuse_attention_block"});
  if (!options.mesh.empty() && fuses) add("shard", {"cut_gathered_rows"});
  return parts;
}

}  // namespace rlxc
