//| a constant padded by a number that is a slice of a slice of it
// program: by hand
// record t0 = op 0
// record t1 = op 1 of t0
// record t2 = op 2 of t1
// record t3 = op 3 of t2
// record t4 = op 4 of t0 t3
// drop t1
// drop t2
// drop t3
module {
  func.func @main() {
    %c = stablehlo.constant dense<3.0> : tensor<2x8xf32>
    %0 = stablehlo.slice %c [0:2, 2:6] : (tensor<2x8xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.slice %0 [1:2, 2:3] : (tensor<2x4xf32>) -> tensor<1x1xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x1xf32>) -> tensor<f32>
    %3 = stablehlo.pad %c, %2, low = [1, 1], high = [0, 0], interior = [0, 0] : (tensor<2x8xf32>, tensor<f32>) -> tensor<3x9xf32>
    return
  }
}
