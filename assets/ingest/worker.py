"""The process that checks rows for an ingest: `python -m assets.ingest.worker FILENO`."""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from assets.ingest.json_lines import parse_rows
from assets.ingest.packing import pack_rows
from assets.ingest.validate import validate_row


def run_worker(descriptor: int) -> None:
    """Answer each block of lines on a channel with its checked rows, pickled, until the ingest closes the channel or
    dies. The first message on the channel gives the file's name, the kind of rows, the dimensions, the scales and the
    columns. descriptor: the file descriptor of the channel.
    """
    with Connection(descriptor) as channel, suppress(EOFError, ConnectionError):
        source, kind, dimensions, scales, columns = channel.recv()
        while True:
            block = channel.recv()
            rows = parse_rows(block, source, kind, columns)
            checked = ((raw, validate_row(raw, dimensions, scales)) for raw in rows)
            channel.send_bytes(pickle.dumps(pack_rows(checked), pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    run_worker(int(sys.argv[1]))
