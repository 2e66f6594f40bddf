//| a pad read the buffer of a constant that another member of the group took as a number
// program: seed 1011, cut down
// record t2 = op 0
// upload t3 = tensor<i1> 01
// record t4 = op 1 of t2 t3
// record t16 = op 2 of t2 t4
module {
  func.func @main(%arg0: tensor<i1>) {
    %c = stablehlo.constant dense<true> : tensor<5x3xi1>
    %0 = stablehlo.pad %c, %arg0, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<5x3xi1>, tensor<i1>) -> tensor<5x3xi1>
    %1 = stablehlo.multiply %c, %0 : tensor<5x3xi1>
    return
  }
}
