// Asks a language model in all the ways that Swift has, and prints what it says, a line each: why an
// answer ended, and its text in hexadecimal, since a tiny model writes all sorts of characters.
// Arguments: the package's resources, a question, and what another model of the same shapes saved.
import CTiny
import Foundation

extension Bundle {
    static let module = Bundle(path: CommandLine.arguments[1])!
}

struct Mine: Error, Equatable {
    let what: String
}

func require(_ holds: Bool, _ what: String) {
    if !holds {
        print("wrong: \(what)")
        exit(1)
    }
}

func say(_ answer: TinyText.Answer) {
    let text = answer.text.utf8.map { String(format: "%02x", $0) }.joined()
    print(answer.finish, text)
}

func refused(_ what: String, _ body: () throws -> Void) {
    do {
        try body()
    } catch let error as TinyError where error.status == EDGERT_INVALID_ARGUMENT.rawValue {
        require(!error.description.isEmpty, "\(what): no words")
        return
    } catch {
        require(false, "\(what): \(error)")
    }
    require(false, "\(what) was not refused")
}

func lost(_ what: String, _ body: () throws -> Void) {
    do {
        try body()
        require(false, "\(what): an error was lost")
    } catch {
        require(error as? Mine == Mine(what: what), "\(what): \(error)")
    }
}

func ask(_ model: TinyText) throws {
    var pieces: [String] = []
    let answer = try model.chat(CommandLine.arguments[2], options: .init(limit: 30)) { piece in
        pieces.append(piece)
        return true
    }
    require(pieces.joined() == answer.text && pieces.count > 2 && pieces[0] == "", "pieces")
    say(answer)
    say(try model.generate(
        "Once", options: .init(limit: 12, temperature: 1.5, topK: 40, topP: 0.9, seed: 3)))
    let asked = [
        TinyText.Message(role: "system", content: "Be brief."),
        TinyText.Message(role: "user", content: "What?"),
    ]
    say(try model.chat(asked, options: .init(limit: 90, slides: true)))
    var taken: [Int32] = []
    let even: TinyText.Allow = { last, words in  // every second token, for six tokens
        if let last = last { taken.append(last) }
        for index in words.indices { words[index] = 0x5555_5555 }
        return taken.count < 6
    }
    say(try model.generate("Once", options: .init(allow: even)))
    require(taken.count == 6 && taken.allSatisfy { $0 % 2 == 0 }, "tokens that were not allowed")
    var left = 3
    say(try model.generate("Once") { _ in
        left -= 1
        return left > 0
    })
}

func refuse(_ model: TinyText) throws {
    refused("an empty prompt") { try model.generate("") }
    refused("no message") { try model.chat([]) }
    refused("a zero") { try model.chat("a\0b") }
    refused("a limit") { try model.generate("Once", options: .init(limit: -1)) }
    refused("a stranger") { try model.chat([TinyText.Message(role: "nobody", content: "Hm.")]) }
    refused("an answer in an answer") {
        try model.generate("Once") { _ in try model.generate("Twice").tokens > 0 }
    }
    lost("told") { try model.generate("Once") { _ in throw Mine(what: "told") } }
    lost("mask") {
        try model.generate("Once", options: .init(allow: { _, _ in throw Mine(what: "mask") }))
    }
    do {
        try model.generate("Once") { piece in
            model.interrupt()
            return true
        }
        require(false, "nothing was interrupted")
    } catch let error as TinyError {
        require(error.status == EDGERT_CANCELLED.rawValue, "interrupted: \(error)")
    }
    require(try model.generate("Once", options: .init(limit: 2)).tokens == 2, "after all that")
}

/// What was read is saved and known again; damaged bytes and another model's are refused.
func keep(_ model: TinyText) throws {
    let text = "Once upon a time"
    let options = TinyText.Options(limit: 6)
    let expected = try model.generate(text, options: options)
    var saved = try model.save()
    try model.generate("Another", options: options)
    try model.restore(saved)
    let again = try model.generate(text, options: options)
    require(again.text == expected.text && again.reused == text.utf8.count - 1, "saved")
    saved[saved.count / 2] ^= 1
    refused("damaged bytes") { try model.restore(saved) }
    refused("no bytes") { try model.restore(Data()) }
    let other = try Data(contentsOf: URL(fileURLWithPath: CommandLine.arguments[3]))
    refused("another model's bytes") { try model.restore(other) }
    require(try model.generate(text, options: options).reused == text.utf8.count - 1, "known")
}

func tokens(_ model: TinyText) throws {
    let text = "Zoë → 🙂"
    require(try model.decode(model.encode(text)) == text, "tokens and back")
    let prompted = try model.generate(text, options: .init(limit: 1)).prompt
    require(try model.encode(text).count == prompted, "the tokens of a prompt")
    require(try model.encode("", special: false) == [], "no tokens")
    let question = TinyText.Message(role: "user", content: text)
    let prompt = try model.prompt([question])
    require(prompt.contains(text) && prompt.count > text.count, "a prompt")
    let read = try model.encode(prompt, special: false)
    let options = TinyText.Options(limit: 5)
    let expected = try model.chat([question], options: options)
    require(try model.generate(from: read, options: options).text == expected.text, "from tokens")
    require(expected.prompt == read.count && model.context == 120, "counts")
}

func stream(_ model: TinyText) async throws {
    let question = [TinyText.Message(role: "user", content: "What?")]
    let options = TinyText.Options(limit: 8)
    let expected = try model.chat(question, options: options).text
    var text = ""
    for try await piece in model.stream(question, options: options) { text += piece }
    require(text == expected, "a stream")
    var told = 0
    for try await _ in model.stream(question) {
        told += 1
        if told == 2 { break }
    }
    do {
        for try await _ in model.stream([]) { require(false, "a stream of nothing") }
        require(false, "a stream was not refused")
    } catch is TinyError {
    }
    require(try model.chat(question, options: options).text == expected, "after streams")
}

let asking = Thread {  // with as much stack as Apple's systems give a thread
    do {
        let model = try TinyText(threads: 1)
        try ask(model)
        try refuse(model)
        try keep(model)
        try tokens(model)
        Task {
            do {
                try await stream(model)
                print("all")
                exit(0)
            } catch {
                require(false, "\(error)")
            }
        }
    } catch {
        require(false, "\(error)")
    }
}
asking.stackSize = 512 << 10
asking.start()
while true { sleep(1) }
