import SwiftUI

/// A sheet to draw on; what is drawn is told after each stroke.
struct Sheet: View {
    @Binding var ink: Ink
    let read: () -> Void
    @State private var isDrawing = false

    var body: some View {
        Canvas { context, _ in
            for points in ink.strokes {
                var path = Path()
                path.addLines(points)
                let style = StrokeStyle(lineWidth: 12, lineCap: .round, lineJoin: .round)
                context.stroke(path, with: .color(.primary), style: style)
            }
        }
        .contentShape(Rectangle())
        .gesture(
            DragGesture(minimumDistance: 0)
                .onChanged { value in
                    if isDrawing {
                        ink.add(value.location)
                    } else {
                        ink.begin(value.location)
                    }
                    isDrawing = true
                }
                .onEnded { _ in
                    isDrawing = false
                    read()
                }
        )
    }
}
