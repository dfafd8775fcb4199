module @foreign {
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x16xf32> {
    %w = stablehlo.constant dense<0.25> : tensor<8x16xf32>
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = stablehlo.tanh %0 : tensor<4x16xf32>
    return %1 : tensor<4x16xf32>
  }
  func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.multiply %x, %x : tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
