//| a row between one and two strips of lanes lost elements
// program: seed 25, cut down
// upload t0 = tensor<3x20x127xf32> ramp
// upload t1 = tensor<f32> ff800000
// record t2 = op 0 of t0 t1
module {
  func.func @main(%arg0: tensor<3x20x127xf32>, %arg1: tensor<f32>) {
    %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.maximum across dimensions = [2] : (tensor<3x20x127xf32>, tensor<f32>) -> tensor<3x20xf32>
    return
  }
}
