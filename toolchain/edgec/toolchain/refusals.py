"""What the compiler is known to refuse, as data: a pattern, what it means, what to do."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["KNOWN", "LAPACK", "Refusal"]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One known message.

    Attributes:
        pattern: a regular expression searched in the compiler's error messages.
        what: one sentence; `{target}` and the pattern's named groups are filled in.
        hint: what to do next.
    """

    pattern: re.Pattern[str]
    what: str
    hint: str


LAPACK: Mapping[str, tuple[str, str]] = {
    "potrf": ("Cholesky factorisation", "jnp.linalg.cholesky"),
    "getrf": ("LU factorisation", "jnp.linalg.solve, inv or det"),
    "geqrf": ("QR factorisation", "jnp.linalg.qr"),
    "geqp3": ("QR factorisation with pivoting", "jax.scipy.linalg.qr"),
    "orgqr": ("QR factorisation", "jnp.linalg.qr"),
    "ungqr": ("QR factorisation", "jnp.linalg.qr"),
    "gesdd": ("singular value decomposition", "jnp.linalg.svd"),
    "gesvd": ("singular value decomposition", "jnp.linalg.svd"),
    "syevd": ("symmetric eigendecomposition", "jnp.linalg.eigh"),
    "heevd": ("Hermitian eigendecomposition", "jnp.linalg.eigh"),
    "geev": ("eigendecomposition", "jnp.linalg.eig"),
    "gees": ("Schur decomposition", "jax.scipy.linalg.schur"),
    "gehrd": ("Hessenberg reduction", "jax.scipy.linalg.hessenberg"),
    "sytrd": ("tridiagonal reduction", "jax.scipy.linalg.eigh_tridiagonal"),
    "trsm": ("triangular solve", "jax.scipy.linalg.solve_triangular"),
    "gtsv": ("tridiagonal solve", "jax.lax.linalg.tridiagonal_solve"),
}
"""LAPACK routines, without the letter of their type, as JAX calls them: a name, the usual call."""

_OUTSIDE = (
    "compute it outside the model and give the result as an input, "
    "or write it with matrix products and loops"
)

KNOWN: tuple[Refusal, ...] = (
    Refusal(
        pattern=re.compile(
            r"call_target_name = \"(?P<name>Sharding|SPMD\w*|xla\.sdy\.\w+)\"|'sdy'"
        ),
        what="the model is split over several devices (sharding), and a module runs on one",
        hint="export it without a mesh and without sharding constraints",
    ),
    Refusal(
        pattern=re.compile(
            r"call_target_name = \"(?P<name>xla_\w*callback\w*|xla_ffi\w*callback)\""
        ),
        what="the model calls back into Python ({name}), and a module has no Python",
        hint="take out pure_callback, io_callback and jax.debug calls, then export again",
    ),
    Refusal(
        pattern=re.compile(r"call_target_name = \"(?P<name>[^\"]+)\""),
        what="the model calls {name}, a library function that exists only inside its framework",
        hint=f"{_OUTSIDE}; or give it code: edgec.kernels.c(source, reference=…) in its place "
        "(docs/kernels.md)",
    ),
    Refusal(
        pattern=re.compile(r"failed to legalize operation 'stablehlo\.fft'"),
        what="a Fourier transform has dimensions that change from call to call",
        hint="export with a fixed size for the dimensions before it",
    ),
    Refusal(
        pattern=re.compile(r"failed to legalize operation 'stablehlo\.select_and_scatter'"),
        what="the gradient of max pooling (select_and_scatter) has a window of over 512 places, or "
        "dimensions that change from call to call",
        hint="export with fixed sizes, or use average pooling in the part that is trained",
    ),
    Refusal(
        pattern=re.compile(
            r"failed to legalize operation '(?P<name>stablehlo\.(all_\w+|reduce_scatter|"
            r"collective_\w+|partition_id|replica_id|send|recv|infeed|outfeed))'"
        ),
        what="{name} speaks to other devices, and a module runs on one",
        hint="export the model for a single device",
    ),
    Refusal(
        pattern=re.compile(r"expected indices to be equal to batch rank"),
        what="a scatter with several batch dimensions has sizes that change from call to call",
        hint="export with fixed sizes, or flatten the batch dimensions of the indices before the "
        "scatter (reshape, or one vmap)",
    ),
    Refusal(
        pattern=re.compile(
            r"integer return type must be signless|bitwidth emulation is not implemented yet on "
            r"unsigned|unrealized_conversion_cast'?.*\bui\d+"
        ),
        what="an operation on unsigned integers has no code for {target}",
        hint="convert to signed integers or floats at the start of the model",
    ),
    Refusal(
        pattern=re.compile(
            r"[Ee]xceeded stack allocation limit of (?P<limit>\d+) bytes for function\. "
            r"Got (?P<size>\d+) bytes"
        ),
        what="one kernel needs {size} bytes of stack, and {target} allows {limit}",
        hint="compile with -O1, or raise the limit: "
        "--iree-arg=--iree-llvmcpu-stack-allocation-limit=1048576",
    ),
    Refusal(
        pattern=re.compile(r"missing GPU target in #hal\.executable\.target"),
        what="this compiler has no code generator for the GPU of {target}",
        hint="choose another one of `edgec targets`",
    ),
    Refusal(
        pattern=re.compile(r"Unknown (?P<kind>\w+) target '(?P<name>[^']+)'"),
        what="this compiler knows no {kind} target {name}",
        hint="choose another one of `edgec targets`",
    ),
    Refusal(
        pattern=re.compile(r"failed to legalize operation 'vector\.bitcast'.*x(?P<kind>b?f16)>"),
        what="matrix products in {kind} have no code for {target}",
        hint="export the model in f32 for this target, or choose one with {kind} support",
    ),
    Refusal(
        pattern=re.compile(
            r"failed to legalize operation 'arith\.(?:ceil|floor)?(?:div|rem)[su]?i' that was "
            r"explicitly marked illegal.*i64"
        ),
        what="{target} has no 64-bit integers, and the program divides by them where sizes are "
        "chosen at each call",
        hint="export with fixed sizes for this target, or choose one of a GPU with 64-bit integers "
        "(`edgec targets`)",
    ),
    Refusal(
        pattern=re.compile(r"failed to convert SPIR-V type: '[^']*\b(?P<kind>f64|bf16|f16|i64)\b"),
        what="{target} has no {kind} in memory",
        hint="export the model with 32-bit types for this target",
    ),
    Refusal(
        pattern=re.compile(r"Capability '(?P<name>\w+)' requires min version (?P<version>v[\d.]+)"),
        what="the code needs the capability {name}, which SPIR-V has since {version} only",
        hint="choose a Vulkan target for a newer device (`edgec targets`)",
    ),
    Refusal(
        pattern=re.compile(r"no GPU subgroup mma compute ops generated"),
        what="a matrix product does not fit the matrix units of {target}",
        hint="choose --target=vulkan, which uses none",
    ),
    Refusal(
        pattern=re.compile(
            r"undefined symbol: (?P<name>\w+)|unresolved external symbol (?P<other>\w+)"
        ),
        what="the code needs {name} of the C library, which {target} has not",
        hint="compute it in 32-bit floats; 64-bit mathematical functions are the usual cause",
    ),
    Refusal(
        pattern=re.compile(
            r"(?P<name>(stablehlo|chlo)\.\w+).*(dynamic|must be static|static shape)|"
            r"failed to legalize operation '(?P<other>stablehlo\.(dynamic_\w+|real_dynamic_slice|"
            r"set_dimension_size|get_dimension_size|compute_reshape_shape))'"
        ),
        what="{name} has dimensions that change from call to call in a way that the compiler does "
        "not take",
        hint="export with a fixed size for that dimension",
    ),
    Refusal(
        pattern=re.compile(r"'tensor\.dim' op unexpected during shape cleanup"),
        what="an operation whose sizes change from call to call has no code for {target}",
        hint="export with fixed sizes for this target, or compile for --target=cpu",
    ),
    Refusal(
        pattern=re.compile(r"failed to legalize operation '(?P<name>torch\.(operator|[\w.]+))'"),
        what="PyTorch's {name} has no code in this compiler",
        hint="write the operation with simpler ones, or decompose it before export",
    ),
    Refusal(
        pattern=re.compile(
            r"failed to legalize (unresolved materialization|operation 'builtin\.unrealized)"
        ),
        what="a mix of element types in one operation has no code for {target}",
        hint="keep to one element type there (convert before the operation)",
    ),
    Refusal(
        pattern=re.compile(r"failed to legalize operation '(?P<name>(stablehlo|chlo|mhlo)\.\w+)'"),
        what="the operation {name} is not supported by this compiler",
        hint="write it with simpler operations",
    ),
    Refusal(
        pattern=re.compile(r"(?P<name>Unknown command line argument '[^']+')"),
        what="the compiler does not know a flag: {name}",
        hint="look at what --iree-arg passes on; `iree-compile --help` lists the flags",
    ),
)
"""Searched in this order; the first that is found in any error message is the explanation."""
