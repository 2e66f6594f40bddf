//| a constant read as a buffer by one member and through a general reshape by another
// program: by hand
// record t0 = op 0
// upload t1 = tensor<16xf32> ramp
// record t2 = op 1 of t0 t0
// record t3 = op 2 of t0
// record t4 = op 3 of t3 t1
// record t5 = op 4 of t4
// record t6 = op 5 of t2 t5
// drop t0
// drop t1
// drop t2
// drop t3
// drop t4
// drop t5
module {
  func.func @main(%arg0: tensor<16xf32>) {
    %c = stablehlo.constant dense<3.0> : tensor<2x8xf32>
    %0 = stablehlo.concatenate %c, %c, dim = 1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x16xf32>
    %1 = stablehlo.reshape %c : (tensor<2x8xf32>) -> tensor<16xf32>
    %2 = stablehlo.add %1, %arg0 : tensor<16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<16xf32>) -> tensor<2x16xf32>
    %4 = stablehlo.multiply %0, %3 : tensor<2x16xf32>
    return
  }
}
