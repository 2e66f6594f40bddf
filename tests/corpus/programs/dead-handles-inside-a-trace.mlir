//| values without handles that later ops read counted as dead
// program: seed 2, cut down
// upload t5 = tensor<4x5xf32> all 7fc00000
// record t6 = op 0 of t5
// record t7 = op 1 of t5 t6
// upload t8 = tensor<4x5xf32> all bfb95f19
// record t9 = op 2 of t7 t8
// drop t7
// drop t6
module {
  func.func @main(%arg0: tensor<4x5xf32>, %arg1: tensor<4x5xf32>) {
    %0 = stablehlo.logistic %arg0 : tensor<4x5xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<4x5xf32>
    %2 = stablehlo.add %1, %arg1 : tensor<4x5xf32>
    return
  }
}
