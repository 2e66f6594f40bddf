//| a constant seen through a general reshape was walked to only as far as a view that was itself needed in memory
// program: seeds 108589 and 112562, cut down
// record t3 = op 0
// record t4 = op 1 of t3
// record t7 = op 2 of t4
// record t8 = op 3
// record t9 = op 4 of t8
// record t10 = op 5 of t9
module {
  func.func @main() {
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<9xf32>
    %1 = stablehlo.reshape %0 : (tensor<9xf32>) -> tensor<3x1x3xf32>
    %cst_1 = stablehlo.constant dense<1.3097551> : tensor<64x2xf32>
    %2 = stablehlo.transpose %cst_1, dims = [1, 0] : (tensor<64x2xf32>) -> tensor<2x64xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x64xf32>) -> tensor<128xf32>
    return
  }
}
