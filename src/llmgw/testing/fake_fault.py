"""What the fake engine may do wrong on order."""

from enum import StrEnum


class Fault(StrEnum):
    """What may go wrong with an answer. `arg` means something else for each."""

    HANG = "hang"
    """Nothing is ever answered."""
    STALL = "stall"
    """After `arg` chunks nothing more comes."""
    DROP = "drop"
    """The connection is closed before any byte of the answer."""
    DIE = "die"
    """The connection is reset after `arg` chunks (a plain answer: in its middle)."""
    CUT = "cut"
    """The connection is closed in good order after `arg` chunks, the stream's end missing."""
    STATUS = "status"
    """The answer is an error with status `arg`; 429 carries Retry-After."""
    SLOW = "slow"
    """`arg` seconds before each chunk."""
    SPLIT = "split"
    """Written in pieces of odd sizes."""
    CRLF = "crlf"
    """Events end in CR LF CR LF, as some servers write them."""
    COMMENTS = "comments"
    """A comment line comes before each chunk, as llama.cpp sends during a long prefill."""
    NO_USAGE = "no_usage"
    NO_DONE = "no_done"
    MALFORMED = "malformed"
    """After `arg` chunks an event comes that is no JSON."""
    STREAM_ERROR = "stream_error"
    """After `arg` chunks an error event comes, then the stream ends."""


BREAKS = frozenset({Fault.STALL, Fault.CUT, Fault.DIE, Fault.MALFORMED, Fault.STREAM_ERROR})
"""Faults that end a stream after `arg` chunks."""
