//| an operand that varies along the columns only met a result without rows
// program: seed 474, cut down
// record t11 = op 0
// upload t12 = tensor<0x16xi64> 
// record t13 = op 1 of t11 t12
module {
  func.func @main(%arg0: tensor<0x16xi64>) {
    %0 = stablehlo.iota dim = 1 : tensor<0x16xi64>
    %1 = stablehlo.and %0, %arg0 : tensor<0x16xi64>
    return
  }
}
