// The handlers named in ops.def, by family.
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

#define HANDLER(name) void name(Op&);
#define FOLD(name) bool name(Op&);

// clang-format off
// elementwise.cpp
HANDLER(unary) HANDLER(binary) HANDLER(variadic) HANDLER(mean) HANDLER(clip) HANDLER(cast) HANDLER(cast_like) HANDLER(where)
HANDLER(mod) HANDLER(bit_shift) HANDLER(is_inf) HANDLER(gelu) HANDLER(shrink) HANDLER(pow) HANDLER(negated_compare)
HANDLER(identity) HANDLER(bit_cast) HANDLER(equal) HANDLER(hardmax) HANDLER(is_nan) HANDLER(affine_scale) HANDLER(image_scaler) HANDLER(parametric_softplus) HANDLER(scaled_tanh) HANDLER(swiglu)

// shape.cpp
HANDLER(shape) HANDLER(size) HANDLER(constant) HANDLER(reshape) HANDLER(flatten) HANDLER(squeeze) HANDLER(unsqueeze)
HANDLER(expand) HANDLER(tile) HANDLER(constant_of_shape) HANDLER(range) HANDLER(eye_like)

// movement.cpp
HANDLER(transpose) HANDLER(concat) HANDLER(split) HANDLER(slice) HANDLER(gather) HANDLER(gather_elements) HANDLER(gather_nd)
HANDLER(scatter_elements) HANDLER(scatter_nd) HANDLER(pad) HANDLER(depth_to_space) HANDLER(space_to_depth) HANDLER(trilu)
HANDLER(one_hot) HANDLER(reverse_sequence) HANDLER(center_crop_pad) HANDLER(crop)

// linear.cpp
HANDLER(matmul) HANDLER(gemm) HANDLER(det) HANDLER(einsum)

// reduce.cpp
HANDLER(reduce) HANDLER(arg_reduce) HANDLER(cumsum) HANDLER(topk) HANDLER(softmax)

// conv_pool.cpp
HANDLER(conv) HANDLER(conv_transpose) HANDLER(pool) HANDLER(global_pool)

// norm.cpp
HANDLER(batch_norm) HANDLER(layer_norm) HANDLER(group_norm) HANDLER(instance_norm) HANDLER(lp_norm) HANDLER(mean_variance_norm)
HANDLER(lrn) HANDLER(rms_norm)

// rnn.cpp
HANDLER(lstm) HANDLER(gru_rnn) HANDLER(dynamic_quantize_lstm)

// quant.cpp
HANDLER(quantize) HANDLER(dequantize) HANDLER(matmul_integer) HANDLER(conv_integer) HANDLER(qlinear_matmul)
HANDLER(qlinear_conv) HANDLER(qlinear_conv_transpose) HANDLER(dynamic_quantize)

// resize.cpp
HANDLER(resize) HANDLER(upsample)

// signal.cpp
HANDLER(dft) HANDLER(stft) HANDLER(window) HANDLER(mel_weight_matrix)

// control.cpp
HANDLER(if_else) HANDLER(loop) HANDLER(scan)

// sequence.cpp
HANDLER(sequence_empty) HANDLER(sequence_construct) HANDLER(sequence_insert) HANDLER(sequence_at) HANDLER(sequence_erase)
HANDLER(sequence_length) HANDLER(concat_from_sequence) HANDLER(split_to_sequence) HANDLER(sequence_map) HANDLER(optional_make)
HANDLER(optional_has) HANDLER(optional_get)

// dynamic.cpp
HANDLER(non_zero) HANDLER(compress) HANDLER(unique) HANDLER(non_max_suppression) HANDLER(image_decoder)

// attention.cpp
HANDLER(attention) HANDLER(flex_attention) HANDLER(rotary_embedding) HANDLER(tensor_scatter) HANDLER(causal_conv_with_state)
HANDLER(linear_attention)

// microsoft.cpp
HANDLER(skip_layer_norm) HANDLER(skip_rms_norm) HANDLER(simplified_layer_norm) HANDLER(embed_layer_norm) HANDLER(fused_matmul)
HANDLER(fused_gemm) HANDLER(fused_conv) HANDLER(nhwc_conv) HANDLER(nhwc_max_pool) HANDLER(ms_group_norm)
HANDLER(skip_group_norm) HANDLER(bias_unary) HANDLER(quick_gelu) HANDLER(bias_add) HANDLER(bias_split_gelu)
HANDLER(gemm_fast_gelu) HANDLER(fused_matmul_activation) HANDLER(bias_softmax) HANDLER(bias_dropout) HANDLER(gated_rms_norm)
HANDLER(linear_attention_gate) HANDLER(gated_add) HANDLER(gemma_rotary) HANDLER(multimodal_rotary) HANDLER(torch_embedding)

// microsoft_tokens.cpp
HANDLER(ngram_repeat_block) HANDLER(bifurcation_detector) HANDLER(murmur_hash) HANDLER(ms_unique) HANDLER(unfold_tensor)
HANDLER(word_conv_embedding) HANDLER(crop_and_resize) HANDLER(is_all_finite)

// microsoft_packed.cpp, microsoft_sparse.cpp
HANDLER(remove_padding) HANDLER(restore_padding) HANDLER(packed_attention_layer) HANDLER(packed_multi_head_attention)
HANDLER(paged_attention) HANDLER(sparse_attention) HANDLER(longformer_attention) HANDLER(relative_position_bias)
HANDLER(gated_relative_position_bias)

// microsoft_search.cpp
HANDLER(beam_search) HANDLER(whisper_beam_search) HANDLER(greedy_search) HANDLER(token_sampling)

// microsoft_weights.cpp
HANDLER(matmul_n_bits) HANDLER(matmul_n_bits_mlp) HANDLER(matmul_n_bits_qkv) HANDLER(matmul_bnb4) HANDLER(matmul_fp_q4)
HANDLER(matmul_fp4_blocks) HANDLER(matmul_fp8_blocks) HANDLER(gemm_float8) HANDLER(matmul_integer16)

// microsoft_attention.cpp
HANDLER(ms_rotary_embedding) HANDLER(ms_attention) HANDLER(q_attention) HANDLER(multi_head_attention)
HANDLER(group_query_attention) HANDLER(decoder_masked_multi_head_attention) HANDLER(decoder_masked_self_attention)

// microsoft_math.cpp
HANDLER(inverse) HANDLER(cdist) HANDLER(complex_mul) HANDLER(rfft) HANDLER(irfft)

// microsoft_quant.cpp
HANDLER(mixture_of_experts) HANDLER(quantized_mixture) HANDLER(gather_block_quantized) HANDLER(matmul_integer_to_float) HANDLER(dynamic_quantize_matmul)
HANDLER(q_gemm) HANDLER(mul_integer) HANDLER(qlinear_elementwise) HANDLER(qlinear_where) HANDLER(qlinear_concat)
HANDLER(qlinear_global_pool) HANDLER(qlinear_pool) HANDLER(qlinear_reduce_mean) HANDLER(qlinear_softmax) HANDLER(reduce_sum_integer)
HANDLER(q_embed_layer_norm) HANDLER(quantize_with_order) HANDLER(dequantize_with_order) HANDLER(q_ordered_gelu)
HANDLER(q_ordered_layer_norm) HANDLER(q_ordered_matmul)

// ml.cpp
HANDLER(array_feature_extractor) HANDLER(binarizer) HANDLER(scaler) HANDLER(normalizer) HANDLER(linear_regressor)
HANDLER(linear_classifier) HANDLER(imputer) HANDLER(feature_vectorizer)

// ml_label.cpp, ml_map.cpp, ml_svm.cpp, ml_tree.cpp
HANDLER(label_encoder) HANDLER(category_mapper) HANDLER(one_hot_encoder) HANDLER(svm_regressor) HANDLER(svm_classifier)
HANDLER(tree_ensemble) HANDLER(tree_ensemble_regressor) HANDLER(tree_ensemble_classifier)
HANDLER(zip_map) HANDLER(dict_vectorizer) HANDLER(cast_map)

// text.cpp
HANDLER(string_normalizer) HANDLER(string_concat) HANDLER(string_split) HANDLER(regex_full_match) HANDLER(tf_idf_vectorizer)

// loss.cpp
HANDLER(nll_loss) HANDLER(softmax_cross_entropy) HANDLER(adagrad) HANDLER(adam) HANDLER(momentum)

// gradient.cpp
HANDLER(gradient)

// random.cpp
HANDLER(random) HANDLER(random_like) HANDLER(bernoulli) HANDLER(multinomial) HANDLER(dropout)

// sampling.cpp
HANDLER(grid_sample) HANDLER(roi_align) HANDLER(affine_grid) HANDLER(deform_conv) HANDLER(max_unpool) HANDLER(col2im)

// roi_pool.cpp
HANDLER(max_roi_pool)

// fold.cpp
FOLD(fold_binary) FOLD(fold_compare) FOLD(fold_unary) FOLD(fold_cast) FOLD(fold_where) FOLD(fold_concat)
FOLD(fold_gather) FOLD(fold_slice) FOLD(fold_view) FOLD(fold_transpose) FOLD(fold_expand)
FOLD(fold_reduce) FOLD(fold_split)
// clang-format on

#undef HANDLER
#undef FOLD

}  // namespace rlxc::onnx_import
