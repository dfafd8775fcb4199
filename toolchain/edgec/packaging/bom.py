"""What a package is made of, as a list for machines: `bom.cdx.json`, CycloneDX 1.6.

It says nothing of when or where it was made, so that the same package has the same list.
"""

import importlib.util
import json
import uuid
from importlib import metadata

from edgec.packaging.plan import Plan

__all__ = ["BOM", "without_bom", "write_bom"]

BOM = "bom.cdx.json"
_LIBRARY = "cyclonedx"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "edgec package")
_MONOCYPHER = "4.0.3"
# What a kind of package holds beside the modules: name, licence, what of it is in there.
_KERNELS = (
    ("LLVM", "Apache-2.0 WITH LLVM-exception", "pieces that kernels call"),
    ("musl", "MIT", "mathematical functions that kernels call"),
)
_WEB = (
    ("wasi-libc", "Apache-2.0 WITH LLVM-exception", "in edgec-runtime/*.wasm"),
    ("cloudlibc", "BSD-2-Clause", "in edgec-runtime/*.wasm"),
)


def without_bom() -> tuple[str, ...]:
    """A note where no list can be made here."""
    if importlib.util.find_spec(_LIBRARY) is not None:
        return ()
    return (f"the package has no {BOM}: pip install cyclonedx-python-lib",)


def write_bom(plan: Plan) -> None:
    """Write the list, where the library for it is here."""
    if without_bom():
        return
    from cyclonedx.model import HashAlgorithm, HashType, Property
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
    from cyclonedx.output.json import JsonV1Dot6

    provenance = plan.provenance
    edgec = plan.manifest.edgec
    files = [*plan.manifest.variants, *filter(None, [plan.manifest.weights])]
    model = Component(
        name=plan.title,
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref="model",
        licenses=[LicenseExpression(provenance.licence)] if provenance.licence else [],
        properties=[
            Property(name="edgec:framework", value=provenance.framework),
            *(
                Property(name=f"edgec:exported-by:{name}", value=version)
                for name, version in provenance.versions.items()
            ),
        ],
    )
    parts = [
        Component(
            name=file.file,
            type=ComponentType.FILE,
            bom_ref=f"file:{file.file}",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=file.sha256)],
        )
        for file in files
    ]

    def library(name: str, version: str | None, licence: str, what: str) -> Component:
        is_expression = " " in licence
        return Component(
            name=name,
            version=version,
            type=ComponentType.LIBRARY,
            bom_ref=f"library:{name}",
            description=what,
            licenses=[
                LicenseExpression(licence) if is_expression else DisjunctiveLicense(id=licence)
            ],
        )

    parts += [
        library("edgec", edgec, "Apache-2.0", "the runtime, and kernels in the modules"),
        library(
            "iree-base-compiler",
            metadata.version("iree-base-compiler"),
            "Apache-2.0 WITH LLVM-exception",
            "what made the modules, and pieces of it in them",
        ),
        *(library(name, None, licence, what) for name, licence, what in _KERNELS),
    ]
    if plan.kind.name == "web":
        parts += [library(name, None, licence, what) for name, licence, what in _WEB]
    else:
        parts.append(
            library("Monocypher", _MONOCYPHER, "BSD-2-Clause OR CC0-1.0", "in edgert: signatures")
        )
    bom = Bom()
    bom.metadata.component = model
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(model, parts)
    value = json.loads(JsonV1Dot6(bom).output_as_string())
    value.pop("serialNumber", None)
    value["metadata"].pop("timestamp", None)
    text = json.dumps(value, indent=2, sort_keys=True)
    value["serialNumber"] = f"urn:uuid:{uuid.uuid5(_NAMESPACE, text)}"
    plan.write(BOM, json.dumps(value, indent=2, sort_keys=True) + "\n")
