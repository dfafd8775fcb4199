// Asks the digits model with a key, if one is given, and prints its answer or what it refused.
// Arguments: the package's resources, the key in hexadecimal, and the image's numbers.
import CDigits
import Foundation

extension Bundle { static let module = Bundle(path: CommandLine.arguments[1])! }

let digits = Array(CommandLine.arguments[2].utf8)
let key = stride(from: 0, to: digits.count, by: 2).map {
    UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)!
}
let image = CommandLine.arguments[3].split(separator: ",").map { Float($0)! }
do {
    let model = try Digits(threads: 1, key: key.isEmpty ? nil : key)
    try model.prove()
    let found = try model.main(images: image)
    print(found.label[0], found.scores.map { String($0) }.joined(separator: " "))
} catch let error as DigitsError {
    print(error.status == EDGERT_UNTRUSTED.rawValue ? "untrusted:" : "failed:", error)
}
