"""The table of what packages add to an app, and which C functions one for iOS takes."""

from benchmarks.packages.__main__ import table
from benchmarks.packages.measure import Measured, Size, called_by


def _measured(runtime: int, model: int) -> Measured:
    sizes = (Size(plain=1000 * count, packed=100 * count) for count in (runtime, model))
    return Measured(runtime=next(sizes), model=next(sizes))


def test_models_that_write_stand_behind_the_runtime_that_has_text() -> None:
    digits = {"C": _measured(112, 173), "web": _measured(205, 171)}
    chat = {"C": _measured(150, 98_400), "web": _measured(290, 98_500)}
    assert table({"digits": digits, "chat": chat}).splitlines() == [
        "| package | runtime | digits, model | runtime with text | chat, model |",
        "|---|---:|---:|---:|---:|",
        "| C | 112 KB (11 KB) | 173 KB (17 KB) | 150 KB (15 KB) | 98.4 MB (9.8 MB) |",
        "| web | 205 KB (20 KB) | 171 KB (17 KB) | 290 KB (29 KB) | 98.5 MB (9.8 MB) |",
    ]
    assert table({"chat": chat}).splitlines()[0] == "| package | runtime with text | chat, model |"


def test_functions_are_what_is_called_with_arguments() -> None:
    swift = """
        var error = edgert_error()  // edgert_remark(model)
        let status = tiny_open_file(path, &options, &opened, &error)
        edgert_text_message(role: role, content: content)
        edgert_text_chat(
            text, said)
    """
    assert called_by(swift, "tiny") == ["edgert_text_chat", "tiny_open_file"]
