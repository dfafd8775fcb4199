import Digits
import SwiftUI

/// Draw a digit, and see it read.
@main
struct DigitsApp: App {
    var body: some Scene {
        WindowGroup { Reader() }
    }
}

struct Reader: View {
    /// Opened once; an error that it threw is what is shown.
    private static let model = Result { try Digits() }
    @State private var ink = Ink()
    @State private var answer = ""

    var body: some View {
        VStack {
            Text(answer).font(.system(size: 96)).frame(height: 120)
            Sheet(ink: $ink, read: read)
            Button("Again") {
                ink = Ink()
                answer = ""
            }
        }
        .padding()
        .onAppear {
            if case .failure(let error) = Reader.model { answer = "\(error)" }
        }
    }

    private func read() {
        do {
            answer = try ink.read(Reader.model.get()).map(String.init) ?? ""
        } catch {
            answer = "\(error)"
        }
    }
}
