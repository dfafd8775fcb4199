"""A module and a device somewhere else to answers and times: edgert goes there, and comes back.

    from edgec.ondevice import connect, deploy

    there = connect("adb:")
    with deploy(module, there, weights=None, threads=None, tell=print, warn=print) as deployed:
        called = deployed.call(signature, [inputs])

Each way to a device is a class in a file of its own with the methods of `Transport`, listed in
`edgec.ondevice.connecting`.
"""

from edgec.ondevice.connecting import WAYS, connect
from edgec.ondevice.deployment import Called, Deployment, Measured, Place, deploy
from edgec.ondevice.fits import refuse_target
from edgec.ondevice.transport import Transport

__all__ = [
    "WAYS",
    "Called",
    "Deployment",
    "Measured",
    "Place",
    "Transport",
    "connect",
    "deploy",
    "refuse_target",
]
