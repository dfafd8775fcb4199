"""A module and answers of others to a verdict: is it right here, and where is it wrong first."""

from edgec.verifying.layers import Layer, Layers, State
from edgec.verifying.looking import Ask, Looked, look
from edgec.verifying.outputs import Verdict, VerifiedCall, VerifiedOutput, judged
from edgec.verifying.picture import picture
from edgec.verifying.subject import Subject, open_subject

__all__ = [
    "Ask",
    "Layer",
    "Layers",
    "Looked",
    "State",
    "Subject",
    "Verdict",
    "VerifiedCall",
    "VerifiedOutput",
    "judged",
    "look",
    "open_subject",
    "picture",
]
