//| a concatenation read the buffer of a reshape that another member of the group saw through
// program: seed 330, cut down
// upload t0 = tensor<i64> 0000000000000003
// record t1 = op 0 of t0
// record t2 = op 1 of t1 t1
// record t5 = op 2 of t1
// record t6 = op 3 of t2 t5
module {
  func.func @main(%arg0: tensor<i64>) {
    %0 = stablehlo.reshape %arg0 : (tensor<i64>) -> tensor<1x1x1x1xi64>
    %1 = stablehlo.concatenate %0, %0, dim = 0 : (tensor<1x1x1x1xi64>, tensor<1x1x1x1xi64>) -> tensor<2x1x1x1xi64>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi64>) -> tensor<2x1x1x1xi64>
    %3 = stablehlo.power %1, %2 : tensor<2x1x1x1xi64>
    return
  }
}
