"""Manifests of packages changed at random, to their readers in Python, JavaScript and Java.

    python -m tests.packaging.manifest_fuzzing --executions 1000000

A reader lists variants or refuses the text in words of its own; a crash is a fault, and so is a
file outside of the package, or another list of files than another reader's. Readers whose engine
(node, a JDK) is missing here are left out, and that is printed. What is found ends the run, and the
text is left in the file `manifest-found`.
"""

import argparse
import json
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgec.runtime.dtypes import DType
from edgec.runtime.errors import ModuleError
from edgec.runtime.manifest import Manifest, Needs, SharedFile, Variant
from edgec.runtime.signature import Dim, Signature, TensorSpec

__all__ = ["READERS", "check", "texts"]

ROOT = Path(__file__).resolve().parents[2]
JAVA = ROOT / "runtime" / "java" / "src" / "main" / "java" / "dev" / "edgec"
ROUND = 20_000
REFUSED = "refused"

_TENSOR = TensorSpec(name="x", dtype=DType.F32, shape=(1, Dim(name="n", minimum=1, maximum=8)))
GOOD: dict[str, Any] = Manifest(
    name="digits",
    kind="web",
    edgec="0.1",
    signatures=(Signature.flat("main", [_TENSOR], [_TENSOR]),),
    variants=tuple(
        Variant(
            file=f"digits.{target.replace(':', '-')}.vmfb",
            sha256="0123456789abcdef" * 4,
            size=12345,
            target=target,
            needs=Needs(device=device, isa=isa, features=features, formats=(device,)),
        )
        for target, device, isa, features in (
            ("webgpu", "webgpu", "", ()),
            ("wasm", "wasm", "", ("simd128",)),
            ("cpu:arm64", "cpu", "arm_64", ("dotprod", "fullfp16")),
        )
    ),
    weights=SharedFile(file="digits.safetensors", sha256="f" * 64, size=99),
).to_json()
"""What is changed."""
_DEEP: Any = json.loads("[" * 90 + "]" * 90)
_VALUES = (
    *(None, True, 0, -1, 1, 2, 0.5, 1e308, 2**53, 2**70, "", "x"),
    *("../x", "/x", "a/../../x", "..\\x"),
    *("https://x/y", "file:x", "\0", "\u2028", "é" * 300, [], {}, [None], {"file": "x"}, _DEEP),
)
_PIECES = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u00", b"\\ud800", b"null", b"true"),
    *(b"1e999", b"-", b"NaN", b"\xff", b"\xc3", b"\0", b"\xef\xbb\xbf", b" ", b"\n", b"0" * 400),
)


def texts(count: int, seed: int) -> Iterator[bytes]:
    """So many manifests, each changed in one to four ways."""
    chance = random.Random(seed)
    for _ in range(count):
        manifest = json.loads(json.dumps(GOOD))
        for _ in range(chance.randrange(4)):
            _change(manifest, chance)
        data = bytearray(json.dumps(manifest, ensure_ascii=chance.random() < 0.5).encode())
        for _ in range(chance.randrange(3) if chance.random() < 0.5 else 0):
            _change_bytes(data, chance)
        yield bytes(data)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member of every list and object, as what it is in and its key."""
    if not isinstance(value, dict | list):
        return
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        yield from _places(value[key])


def _change(manifest: Any, chance: random.Random) -> None:
    places = list(_places(manifest))
    if not places:
        return
    inside, key = chance.choice(places)
    match chance.randrange(4):
        case 0:
            del inside[key]
        case 1:
            other, name = chance.choice(places)
            inside[key] = json.loads(json.dumps(other[name]))
        case _:
            inside[key] = json.loads(json.dumps(chance.choice(_VALUES)))


def _change_bytes(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    match chance.randrange(3):
        case 0:
            del data[at : at + chance.randrange(1, 40)]
        case 1:
            data[at:at] = chance.choice(_PIECES)
        case _:
            data[at : at + 1] = bytes([chance.randrange(256)])


# --- readers: a text each to a line each, `refused`, or the files as JSON -------------------------


def _python(given: Sequence[bytes], folder: Path) -> list[str]:
    file = folder / "manifest.json"
    found = []
    for text in given:
        file.write_bytes(text)
        try:
            manifest = Manifest.read(file)
        except ModuleError:
            found.append(REFUSED)
            continue
        shared = () if manifest.weights is None else (manifest.weights.file,)
        found.append(json.dumps([*(each.file for each in manifest.variants), *shared]))
    return found


_SCRIPT = """
import { readFileSync } from 'node:fs';
import { variantsIn } from %(reader)s;
import { choices } from %(variants)s;
const data = readFileSync(%(texts)s);
const lines = [];
for (let at = 0; at < data.length;) {
  const size = data.readUInt32BE(at);
  const text = data.subarray(at + 4, at + 4 + size);
  at += 4 + size;
  try {
    const found = variantsIn(text, 'package/manifest.json');
    [...choices(found, [], undefined)];
    const shared = found.length && found[0].weights ? [found[0].weights] : [];
    const files = [...found, ...shared].map(({ url }) => url.replace('package/', ''));
    lines.push(found.length ? JSON.stringify(files) : 'none');
  } catch (error) {
    const said = ['DAMAGED', 'UNSUPPORTED'].includes(error.code) ? 'refused' : `${error.stack}`;
    lines.push(said.replaceAll('\\n', ' '));
  }
}
console.log(lines.join('\\n'));
"""


def _javascript(given: Sequence[bytes], folder: Path) -> list[str]:
    source = ROOT / "runtime" / "js" / "src"
    # node takes files for modules of the kind that a package.json beside them says.
    for name in ("manifest", "variants", "download", "errors", "platform", "sha256"):
        (folder / f"{name}.mjs").write_text(
            (source / f"{name}.js").read_text().replace(".js'", ".mjs'")
        )
    script = folder / "read.mjs"
    names = {"reader": "./manifest.mjs", "variants": "./variants.mjs"}
    files = names | {"texts": str(_write(given, folder))}
    script.write_text(_SCRIPT % {key: json.dumps(value) for key, value in files.items()})
    return _lines("node", script)


_PROGRAM = """
import dev.edgec.EdgeException;
import dev.edgec.EdgeManifest;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;

final class Read {
  public static void main(String[] words) throws IOException {
    FileInputStream file = new FileInputStream(words[0]);
    DataInputStream in = new DataInputStream(new BufferedInputStream(file));
    PrintStream out = new PrintStream(System.out, false, "UTF-8");
    while (in.available() > 0) {
      byte[] data = new byte[in.readInt()];
      in.readFully(data);
      try {
        EdgeManifest found = EdgeManifest.parse(new String(data, StandardCharsets.UTF_8));
        List<String> files = new ArrayList<>();
        for (EdgeManifest.Variant each : found.variants()) files.add(quoted(each.file));
        if (found.weights() != null) files.add(quoted(found.weights()));
        out.println(files);
      } catch (EdgeException error) {
        out.println("refused");
      } catch (RuntimeException | StackOverflowError error) {
        out.println(error);
      }
    }
    out.flush();
  }

  private static String quoted(String text) {
    StringBuilder made = new StringBuilder("\\"");
    for (char c : text.toCharArray()) made.append(String.format("\\\\u%04x", (int) c));
    return made.append('"').toString();
  }
}
"""


def _java(given: Sequence[bytes], folder: Path) -> list[str]:
    classes = folder / "classes"
    if not classes.exists():
        program = folder / "Read.java"
        program.write_text(_PROGRAM)
        sources = [JAVA / f"{name}.java" for name in ("EdgeManifest", "EdgeException", "Json")]
        # The manifest's own comments name the module that loads it.
        words = ("javac", "-implicit:none", "-sourcepath", JAVA.parents[1], "-d", classes)
        subprocess.run([*map(str, words), *map(str, sources), str(program)], check=True)
    return _lines("java", "-cp", classes, "Read", _write(given, folder))


def _write(given: Sequence[bytes], folder: Path) -> Path:
    file = folder / "texts"
    file.write_bytes(b"".join(struct.pack(">I", len(text)) + text for text in given))
    return file


def _lines(*words: str | Path) -> list[str]:
    done = subprocess.run([str(word) for word in words], capture_output=True, check=True)
    return done.stdout.decode().split("\n")[:-1]


Reader = Callable[[Sequence[bytes], Path], list[str]]
READERS: dict[str, tuple[Reader, str | None]] = {
    "Python": (_python, None),
    "JavaScript": (_javascript, "node"),
    "Java": (_java, "javac"),
}
"""Each reader, and the tool without which it cannot be asked."""


def check(given: Sequence[bytes], folder: Path) -> tuple[dict[str, int], list[tuple[bytes, str]]]:
    """How many texts each reader took, and what is wrong with which text."""
    found = {
        name: read(given, folder)
        for name, (read, tool) in READERS.items()
        if tool is None or shutil.which(tool)
    }
    wrong = []
    for text, *lines in zip(given, *found.values(), strict=True):
        said = [line for line in lines if line not in (REFUSED, "none")]
        lists = [json.loads(line) for line in said if line.startswith("[")]
        outside = [file for files in lists for file in files if _is_outside(file)]
        if len(lists) < len(said) or outside or any(files != lists[0] for files in lists):
            wrong.append((text, str(dict(zip(found, lines, strict=True)))))
    taken = {name: len(given) - lines.count(REFUSED) for name, lines in found.items()}
    return taken, wrong


def _is_outside(file: str) -> bool:
    return file.startswith("/") or ".." in file.split("/") or "\\" in file


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    taken = dict.fromkeys(READERS, 0)
    with tempfile.TemporaryDirectory() as name:
        for done in range(0, chosen.executions, ROUND):
            given = list(texts(min(ROUND, chosen.executions - done), chosen.seed + done))
            counts, wrong = check(given, Path(name))
            for reader, count in counts.items():
                taken[reader] += count
            for text, problem in wrong[:1]:
                Path("manifest-found").write_bytes(text)
                print(problem)
                return 1
    asked = [name for name, (_, tool) in READERS.items() if tool is None or shutil.which(tool)]
    print(f"{chosen.executions} manifests, read in {', '.join(asked)}; taken: {taken}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
