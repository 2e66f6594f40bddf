//| a short last row of lanes was added to the wrong lanes
// program: seed 979, cut down
// upload t7 = tensor<f32> 00000000
// upload t10 = tensor<9x9xf32> ramp
// record t12 = op 0 of t10 t7
module {
  func.func @main(%arg0: tensor<f32>, %arg1: tensor<9x9xf32>) {
    %0 = stablehlo.reduce(%arg1 init: %arg0) applies stablehlo.add across dimensions = [0] : (tensor<9x9xf32>, tensor<f32>) -> tensor<9xf32>
    return
  }
}
