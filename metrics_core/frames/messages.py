"""Messages between a process and its decoding worker: a JSON header followed by raw arrays, never a pickle."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("!I")


def send_message(channel: socket.socket, header: Mapping[str, object], *arrays: NDArray[Any]) -> None:
    """Send ``header`` (JSON values) and the arrays over a socket, as one message that `receive_message` reads.

    Raises:
        OSError: the other side is gone.
    """
    layout = [{"dtype": array.dtype.str, "shape": array.shape} for array in arrays]
    encoded = json.dumps({"header": dict(header), "arrays": layout}).encode()
    channel.sendall(_LENGTH.pack(len(encoded)) + encoded)
    for array in arrays:
        channel.sendall(_view_bytes(np.ascontiguousarray(array)))


def receive_message(channel: socket.socket, deadline: float | None = None) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Wait for the next message on a socket, and return its header and its list of arrays. Raises TimeoutError at the
    `deadline`, a time of `time.monotonic`, and EOFError where the other side is gone.

    Args:
        channel: one end of a connected pair.
        deadline: time of `time.monotonic` by which the whole message must have come; None waits for ever.

    Raises:
        TimeoutError: the deadline has passed.
        EOFError: the other side is gone.
    """
    prefix = bytearray(_LENGTH.size)
    _receive_into(channel, memoryview(prefix), deadline)
    encoded = bytearray(_LENGTH.unpack(prefix)[0])
    _receive_into(channel, memoryview(encoded), deadline)
    message = json.loads(encoded)
    arrays = [np.empty(layout["shape"], dtype=layout["dtype"]) for layout in message["arrays"]]
    for array in arrays:
        _receive_into(channel, _view_bytes(array), deadline)
    return message["header"], arrays


def _view_bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _receive_into(channel: socket.socket, target: memoryview, deadline: float | None) -> None:
    while target:
        if deadline is not None:
            channel.settimeout(max(deadline - time.monotonic(), 1e-6))
        try:
            received = channel.recv_into(target)
        except ConnectionError as error:
            raise EOFError("the other side closed the channel") from error
        if not received:
            raise EOFError("the other side closed the channel")
        target = target[received:]
