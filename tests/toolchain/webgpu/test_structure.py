"""Loops and branches of SPIR-V as those of WGSL: kernels in GLSL, computed again in Python."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.web.chromium import Page
from edgec.toolchain.webgpu.spirv import Unwritable
from tests.toolchain.webgpu.page import run_spirv, shader

_HEAD = """
layout(local_size_x = 32) in;
layout(binding = 0) buffer Data { int data[]; };
void main() {
  int i = int(gl_LocalInvocationIndex);
  int x = data[i];
  %s
  data[i] = x;
}
"""
_GIVEN = np.arange(-7, 25, dtype=np.int32)


def _collatz(x: int) -> int:
    steps = 0
    while x > 1 and steps < 40:
        if x % 2 == 0:
            x //= 2
            steps += 1
            continue
        x = 3 * x + 1
        steps += 1
        if x > 100:
            break
    return steps * 1000 + x


def _pairs(x: int) -> int:
    total = 0
    for i in range(5):
        for j in range(6):
            if j == x % 7:
                break
            if (i + j) % 3 == 1:
                continue
            total += i * j
        if total > 20:
            break
        total += 1
    return total


def _kind(x: int) -> int:
    match x:
        case 1:
            return 10
        case 2 | 3:
            return 20
        case 7:
            return 30 if x > 5 else 31
        case _:
            return x * 2


@pytest.mark.parametrize("optimised", [False, True], ids=["plain", "optimised"])
@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (
            "int steps = 0; while (x > 1 && steps < 40) { if (x % 2 == 0) { x /= 2; steps++; "
            "continue; } x = 3 * x + 1; steps++; if (x > 100) break; } x = steps * 1000 + x;",
            _collatz,
        ),
        (
            "int m = x - 7 * int(floor(float(x) / 7.0)); x = 0; for (int i = 0; i < 5; i++) { "
            "for (int j = 0; j < 6; j++) { if (j == m) break; if ((i + j) % 3 == 1) continue; "
            "x += i * j; } if (x > 20) break; x += 1; }",
            _pairs,
        ),
        (
            "switch (x) { case 1: x = 10; break; case 2: case 3: x = 20; break; "
            "case 7: if (x > 5) { x = 30; break; } x = 31; break; default: x *= 2; }",
            _kind,
        ),
        ("if (x > 3) { if (x > 9) x = 1; else x = 2; } else if (x < 0) x = -x;", None),
    ],
    ids=["while", "nested", "switch", "branches"],
)
def test_control_flow_means_the_same(
    page: Page,
    spirv: Callable[..., bytes],
    code: str,
    meaning: Callable[[int], int] | None,
    optimised: bool,
) -> None:
    meaning = meaning or (lambda x: (1 if x > 9 else 2) if x > 3 else abs(x))
    compiled = spirv(_HEAD % code, optimised=optimised)
    (found,) = run_spirv(page, compiled, [_GIVEN])
    np.testing.assert_array_equal(found, [meaning(int(x)) for x in _GIVEN])


def test_values_made_in_a_loop_are_known_behind_it(page: Page, spirv: Callable[..., bytes]) -> None:
    code = (
        "int last = 0; for (int k = 0; ; k++) { last = k * k + x; if (last > 50) break; } x = last;"
    )
    (found,) = run_spirv(page, spirv(_HEAD % code), [_GIVEN])
    wanted = [next(k * k + x for k in range(99) if k * k + x > 50) for x in map(int, _GIVEN)]
    np.testing.assert_array_equal(found, wanted)


def test_a_switch_that_falls_through_is_refused(spirv: Callable[..., bytes]) -> None:
    code = "switch (x) { case 1: x = 10; case 2: x += 3; break; default: x = 9; }"
    with pytest.raises(Unwritable, match="falls from one case into another"):
        shader(spirv(_HEAD % code))


def test_what_only_some_devices_have_is_refused_by_its_name(spirv: Callable[..., bytes]) -> None:
    code = "shared int s[32]; void other() { atomicAdd(s[0], 1); }"
    with pytest.raises(Unwritable, match="adds atomically to memory that is no buffer"):
        shader(spirv(f"{code}{_HEAD % 'other();'}"))
    with pytest.raises(Unwritable, match="floats of 64 bits"):
        shader(spirv(_HEAD % "x = int(sqrt(double(x)));"))
