"""Programs that read what a GPU computes in the middle of a call: they stop there and go on.

The page's own driver (`webgpu.js`) on a device that only moves bytes, and answers a turn of the
event loop later, as WebGPU's do.
"""

import base64
from pathlib import Path

import pytest

from tests.c.waiting import waiting
from tests.js.node import need_node, run_node, write_runtime_once

DEVICE_IN_JAVASCRIPT = """
const { Session } = await import('./edgec-runtime/edgert.js');
const { Gpu } = await import('./edgec-runtime/webgpu.js');
let lose;
let reads = 0;
const device = {
  limits: { maxBufferSize: 2 ** 28, maxStorageBufferBindingSize: 2 ** 27 },
  lost: new Promise((done) => { lose = done; }),
  addEventListener() {},
  createBindGroupLayout() { return {}; },
  createBuffer: ({ size }) => ({
    size, bytes: new Uint8Array(size), destroy() {},
    async mapAsync() {
      reads += 1;
      if (reads === losing) lose({ message: 'taken away' });
      await new Promise((done) => setTimeout(done, 1));
    },
    getMappedRange() { return this.bytes.slice().buffer; },
  }),
  createCommandEncoder() {
    const steps = [];
    return {
      copyBufferToBuffer: (from, at, to, offset, size) => {
        steps.push(() => to.bytes.set(from.bytes.subarray(at, at + size), offset));
      },
      clearBuffer: (buffer, at, size) => steps.push(() => buffer.bytes.fill(0, at, at + size)),
      finish: () => steps,
    };
  },
  queue: {
    writeBuffer: (buffer, at, bytes) => buffer.bytes.set(new Uint8Array(bytes.buffer ?? bytes), at),
    submit: (lists) => lists.flat().forEach((step) => step()),
    async onSubmittedWorkDone() {},
  },
  destroy() {},
};
const bytes = Uint8Array.from(atob(module), (letter) => letter.charCodeAt(0));
const gpu = new Gpu(device, 'slow');
"""
CALL = """
const [main] = session.functions.filter(({ name }) => name === 'main');
const call = async () => (await session.call(main.index, [], [{}]))[0].data[0];
"""


def _program(*, in_beginning: bool = False) -> str:
    return base64.b64encode(waiting(in_beginning=in_beginning)).decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_node()
    folder = tmp_path_factory.mktemp("waiting")
    write_runtime_once(folder / "edgec-runtime")
    return folder


def test_a_call_waits_in_its_middle_and_goes_on(folder: Path) -> None:
    script = f"""
    {DEVICE_IN_JAVASCRIPT}
    const session = await Session.create({{ bytes }}, {{ gpu }});
    {CALL}
    const first = await call();
    const held = session.memory;
    const answers = [];
    for (let i = 0; i < 50; ++i) answers.push(await call());
    print([first, answers, reads, session.memory === held, 'Suspending' in WebAssembly]);
    """
    first, answers, reads, is_same, _ = run_node(script, folder, module=_program(), losing=-1)
    assert first == 7 * 2**4
    assert answers == [first] * 50
    assert reads == 51 * 4  # the second look at the same place is answered by the first
    assert is_same


def test_a_session_waits_while_it_is_made(folder: Path) -> None:
    script = f"""
    {DEVICE_IN_JAVASCRIPT}
    const session = await Session.create({{ bytes }}, {{ gpu }});
    {CALL}
    print([await call(), await call(), reads]);
    """
    given = _program(in_beginning=True)
    assert run_node(script, folder, module=given, losing=-1) == [14, 14, 1]


@pytest.mark.parametrize("losing", [1, 3])
def test_a_gpu_that_is_lost_meanwhile_fails_the_call_and_those_behind(
    losing: int, folder: Path
) -> None:
    script = f"""
    {DEVICE_IN_JAVASCRIPT}
    const session = await Session.create({{ bytes }}, {{ gpu }});
    {CALL}
    print([await failure(call()), await failure(call())]);
    """
    for code, message in run_node(script, folder, module=_program(), losing=losing):
        assert code == "DEVICE_FAILED"
        assert "taken away" in message


def test_a_gpu_that_is_lost_while_a_session_is_made_fails_that(folder: Path) -> None:
    script = f"""
    {DEVICE_IN_JAVASCRIPT}
    print(await failure(Session.create({{ bytes }}, {{ gpu }})));
    """
    given = _program(in_beginning=True)
    code, message = run_node(script, folder, module=given, losing=1)
    assert code == "DEVICE_FAILED"
    assert "taken away" in message
