//| a domain without points was walked
// program: seeds 579 and 1915, cut down
// record t8 = op 0
// record t9 = op 1
module {
  func.func @main() {
    %0 = stablehlo.iota dim = 2 : tensor<3x0x3xi32>
    %1 = stablehlo.iota dim = 0 : tensor<4x1x0xf32>
    return
  }
}
