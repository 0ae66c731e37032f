#include <doctest/doctest.h>

#include <set>
#include <string>

#include "import/json/reference.h"

using namespace rlxc;

namespace {

// The 92 operation kinds of version 0.2.2 of the reference vocabulary, in their order.
constexpr std::string_view kKinds[] = {"Input",
                                       "Param",
                                       "Constant",
                                       "Activation",
                                       "Cast",
                                       "Quantize",
                                       "Dequantize",
                                       "FakeQuantize",
                                       "FakeQuantizeLSQ",
                                       "FakeQuantizeLSQBackwardX",
                                       "FakeQuantizeLSQBackwardScale",
                                       "Binary",
                                       "Compare",
                                       "Where",
                                       "ElementwiseRegion",
                                       "MatMul",
                                       "DotGeneral",
                                       "DenseSolve",
                                       "BatchedDenseSolve",
                                       "LayerNorm",
                                       "LayerNorm2d",
                                       "GroupNorm",
                                       "RmsNorm",
                                       "ResizeNearest2x",
                                       "Attention",
                                       "Rope",
                                       "AxialRope2d",
                                       "Reshape",
                                       "Transpose",
                                       "Narrow",
                                       "Concat",
                                       "Expand",
                                       "Gather",
                                       "Reduce",
                                       "Softmax",
                                       "Cumsum",
                                       "TopK",
                                       "Sample",
                                       "Conv",
                                       "ConvTranspose2d",
                                       "Pool",
                                       "ReluBackward",
                                       "ActivationBackward",
                                       "FakeQuantizeBackward",
                                       "ComplexNormSq",
                                       "ComplexNormSqBackward",
                                       "Conjugate",
                                       "MaxPool2dBackward",
                                       "Conv2dBackwardInput",
                                       "Conv2dBackwardWeight",
                                       "SoftmaxCrossEntropyWithLogits",
                                       "SoftmaxCrossEntropyBackward",
                                       "AttentionBackward",
                                       "LayerNormBackwardInput",
                                       "LayerNormBackwardGamma",
                                       "RmsNormBackwardInput",
                                       "RmsNormBackwardGamma",
                                       "RmsNormBackwardBeta",
                                       "RopeBackward",
                                       "GroupNormBackwardInput",
                                       "GroupNormBackwardGamma",
                                       "GroupNormBackwardBeta",
                                       "CumsumBackward",
                                       "GatherBackward",
                                       "GroupedMatMul",
                                       "DequantGroupedMatMul",
                                       "DequantMoEWeights",
                                       "ScatterAdd",
                                       "LoraMatMul",
                                       "DequantMatMul",
                                       "QMatMul",
                                       "QConv2d",
                                       "SelectiveScan",
                                       "GatedDeltaNet",
                                       "FusedSwiGLU",
                                       "FusedMatMulBiasAct",
                                       "FusedResidualLN",
                                       "FusedResidualRmsNorm",
                                       "FusedAttentionBlock",
                                       "FusedTransformerLayer",
                                       "If",
                                       "While",
                                       "Scan",
                                       "ScanBackward",
                                       "ScanBackwardXs",
                                       "GaussianSplatRender",
                                       "GaussianSplatRenderBackward",
                                       "GaussianSplatPrepare",
                                       "GaussianSplatRasterize",
                                       "Custom",
                                       "CustomFn",
                                       "Fft"};

}  // namespace

TEST_CASE("every kind of the reference vocabulary is read, or refused by name") {
  CHECK(std::size(kKinds) == 92);
  for (std::string_view k : kKinds) {
    const bool found = import_json::find_reference_op(k) != nullptr;
    CHECK_MESSAGE(found, std::string(k));
  }
}
