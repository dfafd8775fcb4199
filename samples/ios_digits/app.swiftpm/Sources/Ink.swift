import Digits
import Foundation

/// Strokes, and what of them a network that learned from scanned digits can read. The digits that it
/// knows were cut out, fitted into a square and counted: 8 by 8 numbers from 0 (paper) to 16 (ink).
struct Ink {
    private static let cells = 8
    private static let fine = 8  // pixels that a cell is counted from, each way
    private static let size = cells * fine
    // Whichever the digit, 0.30 of its square is ink, so that few and short strokes are thick ones.
    private static let share = 0.305 * Double(cells * cells)
    private static let thin = 1.5
    private static let thick = 2.6

    /// Points of each stroke; any unit.
    private(set) var strokes: [[CGPoint]] = []

    mutating func begin(_ point: CGPoint) {
        strokes.append([point])
    }

    mutating func add(_ point: CGPoint) {
        strokes[strokes.count - 1].append(point)
    }

    /// The digit that the network sees; nil where there is no ink.
    func read(_ model: Digits) throws -> Int? {
        guard !strokes.isEmpty else { return nil }
        let logits = try model.main(image: image())
        return logits.indices.max { logits[$0] < logits[$1] }
    }

    /// The ink fitted into 8 by 8 cells.
    func image() -> [Float] {
        let all = strokes.flatMap { $0 }
        let left = all.map(\.x).min() ?? 0, right = all.map(\.x).max() ?? 0
        let top = all.map(\.y).min() ?? 0, bottom = all.map(\.y).max() ?? 0
        var length = 0.0
        for points in strokes {
            for (from, to) in zip(points, points.dropFirst()) {
                length += Double(hypot(to.x - from.x, to.y - from.y))
            }
        }
        let extent = max(Double(max(right - left, bottom - top)), 1e-3)
        let wanted = Ink.share / max(length * 6.5 / extent, 1e-3)
        let pen = min(max(wanted, Ink.thin), Ink.thick) * Double(Ink.fine)
        let scale = (Double(Ink.size) - pen) / extent
        let middle = CGPoint(x: (left + right) / 2, y: (top + bottom) / 2)
        var paper = [Bool](repeating: false, count: Ink.size * Ink.size)
        for points in strokes {
            for (index, point) in points.enumerated() {
                let from = Ink.placed(points[max(0, index - 1)], around: middle, scale: scale)
                let to = Ink.placed(point, around: middle, scale: scale)
                let steps = 1 + Int(hypot(to.x - from.x, to.y - from.y))
                for step in 0...steps {
                    let part = Double(step) / Double(steps)
                    Ink.dot(
                        &paper, x: from.x + (to.x - from.x) * part,
                        y: from.y + (to.y - from.y) * part, radius: pen / 2)
                }
            }
        }
        var image = [Float](repeating: 0, count: Ink.cells * Ink.cells)
        for y in 0..<Ink.size {
            for x in 0..<Ink.size where paper[y * Ink.size + x] {
                image[y / Ink.fine * Ink.cells + x / Ink.fine] += 16 / Float(Ink.fine * Ink.fine)
            }
        }
        return image.map { $0.rounded() }
    }

    private static func placed(
        _ point: CGPoint, around middle: CGPoint, scale: Double
    ) -> (x: Double, y: Double) {
        let half = Double(size) / 2
        return (half + Double(point.x - middle.x) * scale, half + Double(point.y - middle.y) * scale)
    }

    private static func dot(_ paper: inout [Bool], x: Double, y: Double, radius: Double) {
        for row in 0..<size {
            for column in 0..<size
            where hypot(Double(column) + 0.5 - x, Double(row) + 0.5 - y) <= radius {
                paper[row * size + column] = true
            }
        }
    }
}
