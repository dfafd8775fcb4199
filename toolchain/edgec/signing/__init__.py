"""A module or a package and a private key to the same, signed."""

from edgec.signing.keys import PrivateKey, new_key
from edgec.signing.modules import sign_module
from edgec.signing.packages import sign_package

__all__ = ["PrivateKey", "new_key", "sign_module", "sign_package"]
