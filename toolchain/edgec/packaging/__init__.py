"""A program to a folder that goes into an app: modules, runtime, typed bindings, a manifest.

    from edgec.packaging import PackageOptions, make_package

    made = make_package("digits.mlirbc", "android", "digits-android")

Each kind of package is a builder in a file of its own, listed in `edgec.packaging.kinds.KINDS`.
"""

from edgec.packaging.kinds import KINDS, Kind
from edgec.packaging.making import PackageOptions, check_package, make_package
from edgec.packaging.plan import Made, Plan

__all__ = ["KINDS", "Kind", "Made", "PackageOptions", "Plan", "check_package", "make_package"]
