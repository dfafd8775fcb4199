"""Factorisations of matrices without rows or columns have the shapes and bases of NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np

from edgec.exporters import export


def test_nothing_is_factorised(replay) -> None:
    def model(square, tall, few):
        return {
            "values": jnp.linalg.eigh(square),
            "any": jnp.linalg.eigvals(square),
            "bases": jnp.linalg.svd(tall),
            "narrow": jnp.linalg.svd(tall, full_matrices=False),
            "whole": jnp.linalg.qr(tall, mode="complete"),
            "root": jnp.linalg.cholesky(square),
            "order": jax.lax.linalg.lu(tall),
            "batch": jnp.linalg.eigh(few),
        }

    arrays = (np.zeros(shape, np.float32) for shape in ((0, 0), (3, 0), (0, 2, 2)))
    program = export(model, tuple(arrays))
    assert replay(program) == 0
    bases = np.linalg.svd(np.zeros((3, 0)))
    shapes = {call.outputs[n].shape for call in program.golden.calls for n in range(12)}
    assert {part.shape for part in bases} <= shapes
