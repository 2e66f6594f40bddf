//| values that vary along an empty reduced dimension were computed
// program: seed 1939, cut down
// upload t15 = tensor<3x0xf32> 
// upload t18 = tensor<3xf32> ramp
// record t19 = op 0 of t18
// upload t20 = tensor<3x0xf32> 
// record t21 = op 1 of t19 t20
// record t22 = op 2 of t15 t21
// record t23 = op 3 of t22 t22
// upload t24 = tensor<f32> 3f800000
// record t25 = op 4 of t23 t24
module {
  func.func @main(%arg0: tensor<3x0xf32>, %arg1: tensor<3xf32>, %arg2: tensor<3x0xf32>, %arg3: tensor<f32>) {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<3xf32>) -> tensor<3x0xf32>
    %1 = stablehlo.divide %0, %arg2 : tensor<3x0xf32>
    %2 = stablehlo.subtract %arg0, %1 : tensor<3x0xf32>
    %3 = stablehlo.multiply %2, %2 : tensor<3x0xf32>
    %4 = stablehlo.reduce(%3 init: %arg3) applies stablehlo.add across dimensions = [1] : (tensor<3x0xf32>, tensor<f32>) -> tensor<3xf32>
    return
  }
}
