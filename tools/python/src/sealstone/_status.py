"""Outcomes, by the numbers of the C interface."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """The outcome for one block, or of a call that failed.

    Only ``OK`` means that bytes were verified and delivered, or stored. All
    else is a miss with a reason: the destination of a get then holds what it
    held before, or zeros where ``wait_for_device`` was asked for.

    A number that this version of the package does not know becomes a member
    ``UNKNOWN_...``: treat it as a miss.
    """

    NONE = 0
    """No outcome. Nothing that is finished has it."""
    OK = 1
    """A get verified every byte and delivered it; a put is stored."""
    MISS = 2
    """The store does not hold the block: compute it."""
    CORRUPT = 3
    """The block was there and did not verify: compute it. It is quarantined."""
    IO_ERROR = 4
    """Device or file system failed. A get may be tried again; a put is
    unknown: later wholly visible, or not at all."""
    TIMEOUT = 5
    """The time ran out first. A put is unknown. From ``lookup_now``: memory
    alone does not know."""
    SHED = 6
    """A bound was reached, and the work refused before anything of it was
    visible."""
    TOO_LARGE = 7
    """The block is larger than the store accepts."""
    LENGTH_MISMATCH = 8
    """Buffers or ranges do not fit what is stored or declared."""
    LAYOUT_MISMATCH = 9
    """The planes are not those of the layout."""
    STALE_EPOCH = 10
    """The namespace was opened before ``bump_epoch``: open it again."""
    CLOSED = 11
    """The store is closed or closing."""
    INVALID = 12
    """The request is malformed; the reason says how."""

    # Of calls only, as the ``status`` of an error.
    BAD_HANDLE = 32
    """Closed before, or of another store."""
    FORKED = 33
    """This process is the child of the one that loaded the library."""
    INTERNAL = 34
    """A bug in the library; ``Store.health`` keeps what is known."""
    LOCKED = 35
    """Another process has the directory open."""
    NO_STORE = 36
    """The directory holds no store, or is not there."""
    UNSUPPORTED = 37
    """Written by a newer version, or not possible in this mode."""
    DAMAGED = 38
    """A file without which the store can not be opened is damaged."""
    CAPACITY = 39
    """The capacity is too small; the message has the least figure."""
    PATH_REFUSED = 40
    """The forced I/O path is not proven here."""
    CLOSING = 41
    """Requests are still in flight."""
    TOO_SMALL = 42
    """A buffer for an answer was too small."""
    READ_ONLY = 43
    """The store was opened read-only, or has become so."""
    UNAVAILABLE = 44
    """The server can not be reached."""
    DENIED = 45
    """The server refuses the token, or the right is missing."""

    @classmethod
    def _missing_(cls, value: object) -> Status | None:
        if not isinstance(value, int):
            return None
        unknown = int.__new__(cls, value)
        unknown._name_ = f"UNKNOWN_{value}"
        unknown._value_ = value
        return unknown
