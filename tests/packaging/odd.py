"""A program of every awkward thing: names that languages keep, sizes chosen at calls, odd types."""

ODD = """
func.func @open(%a: tensor<2xui8>, %b: tensor<i1>, %c: tensor<2xcomplex<f32>>, %d: tensor<2xf16>)
    -> (tensor<2xui8>, tensor<i1>, tensor<2xcomplex<f32>>, tensor<2xf16>) {
  %0 = stablehlo.add %a, %a : tensor<2xui8>
  %1 = stablehlo.not %b : tensor<i1>
  %2 = stablehlo.add %c, %c : tensor<2xcomplex<f32>>
  return %0, %1, %2, %d : tensor<2xui8>, tensor<i1>, tensor<2xcomplex<f32>>, tensor<2xf16>
}
func.func @double(%x: tensor<?x3xf32>, %n: tensor<i64>) -> (tensor<?x3xf32>, tensor<i64>) {
  %0 = stablehlo.add %x, %x : tensor<?x3xf32>
  return %0, %n : tensor<?x3xf32>, tensor<i64>
}
func.func @constant() -> tensor<3xi16> {
  %0 = stablehlo.constant dense<[1, -2, 3]> : tensor<3xi16>
  return %0 : tensor<3xi16>
}
"""
