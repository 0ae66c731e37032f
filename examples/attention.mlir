module @jit_attention attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6x8xf32>) -> (tensor<2x6x8xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[4.000000e-02, -4.000000e-02, 1.900000e-01, 3.000000e-02, -1.600000e-01, 1.100000e-01, 3.900000e-01, 2.800000e-01], [-2.100000e-01, -3.800000e-01, -1.900000e-01, 0.00999999977, -0.699999988, -7.000000e-02, -3.700000e-01, -2.200000e-01], [-1.600000e-01, -9.000000e-02, 1.200000e-01, 3.100000e-01, -4.000000e-02, 4.100000e-01, -2.000000e-01, 1.100000e-01], [2.700000e-01, 3.000000e-02, -2.200000e-01, -2.800000e-01, -1.400000e-01, 7.000000e-02, -3.000000e-01, -6.000000e-02], [-5.000000e-02, 1.600000e-01, 6.000000e-02, 1.100000e-01, -2.000000e-01, -4.000000e-02, 2.400000e-01, 4.500000e-01], [-3.800000e-01, 4.500000e-01, 4.000000e-01, 2.300000e-01, 8.000000e-02, -9.000000e-02, 4.400000e-01, 5.900000e-01], [5.400000e-01, 3.900000e-01, 1.100000e-01, -3.600000e-01, -0.000000e+00, 2.000000e-01, -3.900000e-01, 1.200000e-01], [1.300000e-01, 2.100000e-01, -3.600000e-01, -2.000000e-01, -1.300000e-01, -3.500000e-01, 5.200000e-01, -1.500000e-01]]> : tensor<8x8xf32>
    %cst_0 = stablehlo.constant dense<[[1.000000e-01, -8.000000e-02, 4.800000e-01, 4.000000e-01, 1.900000e-01, -6.600000e-01, 2.000000e-02, 2.100000e-01], [3.000000e-01, -1.900000e-01, 5.500000e-01, -4.000000e-01, -2.000000e-01, 2.800000e-01, 0.00999999977, 6.000000e-01], [6.000000e-02, -1.900000e-01, -1.100000e-01, -3.300000e-01, -3.800000e-01, 1.900000e-01, 1.700000e-01, 3.900000e-01], [-2.300000e-01, 5.100000e-01, -9.000000e-02, 4.700000e-01, -1.300000e-01, -2.200000e-01, 7.000000e-02, 3.100000e-01], [5.000000e-02, -1.800000e-01, -4.000000e-01, -4.200000e-01, 1.500000e-01, 3.000000e-01, -5.000000e-02, -3.200000e-01], [2.600000e-01, -3.800000e-01, -2.100000e-01, 1.900000e-01, -6.800000e-01, 1.200000e-01, -1.700000e-01, 3.000000e-02], [-2.000000e-02, 6.000000e-02, 2.100000e-01, -2.300000e-01, 4.300000e-01, 2.200000e-01, 2.500000e-01, 3.500000e-01], [2.400000e-01, 2.500000e-01, 2.000000e-02, -4.300000e-01, -4.000000e-02, -2.300000e-01, -4.300000e-01, 8.000000e-02]]> : tensor<8x8xf32>
    %cst_1 = stablehlo.constant dense<[[-1.700000e-01, -3.100000e-01, -3.100000e-01, 8.000000e-02, 1.100000e-01, 4.000000e-01, -0.000000e+00, 3.100000e-01], [4.200000e-01, 3.500000e-01, -0.709999978, 3.700000e-01, 1.000000e-01, 1.300000e-01, 1.100000e-01, 1.100000e-01], [1.000000e-01, -1.100000e-01, -5.700000e-01, -3.000000e-02, -2.400000e-01, 3.200000e-01, -9.000000e-02, 3.000000e-02], [-2.500000e-01, -1.500000e-01, -0.000000e+00, -4.500000e-01, 9.000000e-02, -3.000000e-02, -3.600000e-01, -7.200000e-01], [1.500000e-01, -9.000000e-02, -1.600000e-01, -7.000000e-02, 5.400000e-01, -0.00999999977, 3.000000e-02, -4.500000e-01], [4.900000e-01, 2.800000e-01, 3.200000e-01, 0.00999999977, 2.700000e-01, 1.100000e-01, 1.800000e-01, -5.000000e-02], [-4.400000e-01, 3.100000e-01, -5.800000e-01, -7.000000e-02, -6.000000e-02, -3.100000e-01, 1.800000e-01, -6.000000e-02], [-1.300000e-01, 1.600000e-01, -1.400000e-01, 4.200000e-01, 1.100000e-01, -1.400000e-01, -5.800000e-01, -3.900000e-01]]> : tensor<8x8xf32>
    %cst_2 = stablehlo.constant dense<[[3.300000e-01, -2.000000e-02, -8.000000e-02, 4.900000e-01, -3.800000e-01, -1.800000e-01, -1.400000e-01, 1.800000e-01], [-2.000000e-01, -1.800000e-01, -4.800000e-01, 2.200000e-01, 2.400000e-01, -1.400000e-01, 5.000000e-02, -3.900000e-01], [-1.400000e-01, 4.100000e-01, 4.000000e-02, 0.689999997, -2.400000e-01, 1.700000e-01, -6.000000e-02, 1.700000e-01], [-0.000000e+00, -1.700000e-01, -2.600000e-01, 9.200000e-01, -2.000000e-02, -6.000000e-01, -1.900000e-01, 2.000000e-01], [-1.500000e-01, 4.100000e-01, 3.000000e-01, -5.000000e-02, -1.400000e-01, -3.000000e-01, -2.100000e-01, -4.400000e-01], [3.600000e-01, 4.800000e-01, -3.800000e-01, -3.500000e-01, -5.300000e-01, -2.900000e-01, -9.300000e-01, -3.400000e-01], [3.900000e-01, -1.000000e-01, 2.600000e-01, -1.500000e-01, 5.300000e-01, 6.000000e-02, -1.100000e-01, 0.76999998], [-1.000000e-01, -3.700000e-01, 6.000000e-02, -0.00999999977, 3.200000e-01, -2.800000e-01, 2.400000e-01, 2.600000e-01]]> : tensor<8x8xf32>
    %0 = stablehlo.dot_general %arg0, %cst, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %2 = stablehlo.dot_general %arg0, %cst_0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %4 = stablehlo.dot_general %arg0, %cst_1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    %5 = stablehlo.reshape %4 : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %6 = stablehlo.dot_general %1, %3, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>) -> tensor<2x2x6x6xf32>
    %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x2x6x6xf32>
    %8 = stablehlo.divide %6, %7 : tensor<2x2x6x6xf32>
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_4) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x6xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x2x6xf32>
    %11 = stablehlo.maximum %10, %9 : tensor<2x2x6xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<2x2x6xf32>) -> tensor<2x2x6x1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<2x2x6x1xf32>) -> tensor<2x2x6x6xf32>
    %14 = stablehlo.subtract %8, %13 : tensor<2x2x6x6xf32>
    %15 = stablehlo.exponential %14 : tensor<2x2x6x6xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%15 init: %cst_6) applies stablehlo.add across dimensions = [3] : (tensor<2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x6xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x2x6xf32>) -> tensor<2x2x6x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 3] : (tensor<2x2x6x1xf32>) -> tensor<2x2x6x6xf32>
    %19 = stablehlo.divide %15, %18 : tensor<2x2x6x6xf32>
    %20 = stablehlo.dot_general %5, %19, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x4xf32>, tensor<2x2x6x6xf32>) -> tensor<2x2x4x6xf32>
    %21 = stablehlo.transpose %20, dims = [0, 3, 1, 2] : (tensor<2x2x4x6xf32>) -> tensor<2x6x2x4xf32>
    %22 = stablehlo.reshape %21 : (tensor<2x6x2x4xf32>) -> tensor<2x6x8xf32>
    %23 = stablehlo.dot_general %22, %cst_2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x8xf32>) -> tensor<2x6x8xf32>
    %24 = stablehlo.add %arg0, %23 : tensor<2x6x8xf32>
    %cst_7 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x6x8xf32>
    %26 = stablehlo.multiply %25, %24 : tensor<2x6x8xf32>
    %27 = stablehlo.negate %24 : tensor<2x6x8xf32>
    %cst_8 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x6x8xf32>
    %29 = stablehlo.multiply %27, %28 : tensor<2x6x8xf32>
    %30 = chlo.erfc %29 : tensor<2x6x8xf32> -> tensor<2x6x8xf32>
    %31 = stablehlo.multiply %26, %30 : tensor<2x6x8xf32>
    return %31 : tensor<2x6x8xf32>
  }
}
