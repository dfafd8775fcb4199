"""A module and answers of others to a verdict: is it right here, and where is it wrong first."""

from edgec.verifying.bisecting import Bisected, Cause, bisect, write_part
from edgec.verifying.corners import with_corners
from edgec.verifying.framework import Fate, Framework
from edgec.verifying.layers import Layer, Layers, State
from edgec.verifying.looking import Ask, Looked, look
from edgec.verifying.outputs import Verdict, VerifiedCall, VerifiedOutput, judged
from edgec.verifying.picture import picture
from edgec.verifying.soaking import Change, Soaked, soak
from edgec.verifying.subject import Subject, open_subject
from edgec.verifying.upgrading import Upgraded, find_program, renewed, upgrade

__all__ = [
    "Ask",
    "Bisected",
    "Cause",
    "Change",
    "Fate",
    "Framework",
    "Layer",
    "Layers",
    "Looked",
    "Soaked",
    "State",
    "Subject",
    "Upgraded",
    "Verdict",
    "VerifiedCall",
    "VerifiedOutput",
    "bisect",
    "find_program",
    "judged",
    "look",
    "open_subject",
    "picture",
    "renewed",
    "soak",
    "upgrade",
    "with_corners",
    "write_part",
]
