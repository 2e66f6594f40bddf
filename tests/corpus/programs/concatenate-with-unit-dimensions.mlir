//| two dimensions of extent 1 were placed along one axis
// program: seed 360, cut down
// upload t2 = tensor<1x1x8xi1> all 01
// record t5 = op 0 of t2
module {
  func.func @main(%arg0: tensor<1x1x8xi1>) {
    %0 = stablehlo.concatenate %arg0, dim = 2 : (tensor<1x1x8xi1>) -> tensor<1x1x8xi1>
    return
  }
}
