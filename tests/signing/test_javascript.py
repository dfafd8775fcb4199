"""The runtime for pages refuses what the others refuse."""

import json
import subprocess
from pathlib import Path

import pytest

from edgec.runtime.seal import find_seal
from edgec.signing import PrivateKey
from tests.js.node import need_node

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import { readFileSync } from 'node:fs';
import { fetchVariant } from 'SOURCES/fetching.js';

const [module, weights, ours, theirs, seal] = JSON.parse(process.argv[2]);
const [bytes, shared] = [module, weights].map((file) => new Uint8Array(readFileSync(file)));
const key = Uint8Array.from(Buffer.from(ours, 'hex'));
const other = Uint8Array.from(Buffer.from(theirs, 'hex'));
const ask = async (given, beside = shared, by = key) => {
  try {
    await fetchVariant({ bytes: given, weights: beside && { bytes: beside } }, { key: by });
    return 'right';
  } catch (error) {
    return `${error.code} ${error.message}`;
  }
};
const flipped = (data, bit) => {
  const copy = data.slice();
  copy[bit >> 3] ^= 1 << (bit & 7);
  return copy;
};
const said = {
  right: await ask(bytes),
  other: await ask(bytes, shared, other),
  unsigned: await ask(bytes.subarray(0, seal)),
  cut: await ask(bytes.subarray(1)),
  without: await ask(bytes, null),
  longer: await ask(bytes, new Uint8Array([...shared, 0])),
  flips: 0,
};
const refused = async (found) => { if ((await found).startsWith('UNTRUSTED')) said.flips += 1; };
for (let i = 0; i < 100; ++i) {
  await refused(ask(flipped(bytes, (i * 104729 * 8 + i) % (8 * bytes.length))));
  await refused(ask(flipped(bytes, 8 * (bytes.length - 1) - 23 * i)));
  await refused(ask(bytes, flipped(shared, (i * 15485863 * 8 + i) % (8 * shared.length))));
}
console.log(JSON.stringify(said));
"""


@pytest.fixture(scope="module", autouse=True)
def _node() -> None:
    need_node()


def test_what_is_not_as_it_was_signed_is_refused(
    signed: Path, keys: tuple[PrivateKey, PrivateKey], tmp_path: Path
) -> None:
    script = tmp_path / "script.mjs"
    script.write_text(SCRIPT.replace("SOURCES", (ROOT / "runtime" / "js" / "src").as_uri()))
    seal = find_seal(signed.read_bytes())
    assert seal is not None
    weights = signed.with_suffix(".safetensors")
    own, other = (key.public.hex() for key in keys)
    given = json.dumps([str(signed), str(weights), own, other, seal.content_size])
    done = subprocess.run(["node", script, given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said.pop("right") == "right"
    assert said.pop("flips") == 300
    assert said["other"] == "UNTRUSTED not trusted: another key signed it"
    assert all(text.startswith("UNTRUSTED not trusted") for text in said.values()), said
