"""The child process that decodes: ``python -m metrics_core.frames.worker FD``, FD being its end of a socket pair.

It answers requests one after the other until the other end closes. Only this process loads a decoder, so a decoder that
hangs or crashes harms no other process.
"""

from __future__ import annotations

import faulthandler
import socket
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from metrics_core.facts.measure import measure_and_read, measure_video
from metrics_core.facts.pictures import VideoMeasurement
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.headers import collect_header_fields
from metrics_core.frames.messages import receive_message, send_message
from metrics_core.frames.probe import collect_probe_fields
from metrics_core.frames.records import DecodedFrames, FrameReader, FrameReadError, NotAVideo

# A worker ends itself so long after the caller's time limit, in case its caller died and cannot kill it.
GRACE_S = 5.0


def _answer_requests(channel: socket.socket) -> None:
    """Send a message that this process is ready, then answer the requests that come from the socket, until the other
    side closes it.

    A request that runs past its own time limit ends this process.
    """
    send_message(channel, {"ready": True})
    while True:
        try:
            request, _ = receive_message(channel)
        except EOFError:
            return
        # A thread outside Python's control: it ends the process even while a native decoder hangs.
        faulthandler.dump_traceback_later(request["timeout_s"] + GRACE_S, exit=True)
        _answer_request(channel, request)
        faulthandler.cancel_dump_traceback_later()


def _answer_request(channel: socket.socket, request: dict[str, Any]) -> None:
    path = Path(request["path"])
    try:
        if request["task"] == "probe":
            send_message(channel, {"facts": collect_probe_fields(path)})
            return
        if request["task"] == "probe_header":
            send_message(channel, {"found": collect_header_fields(path, request["n_read"])})
            return
        if request["task"] == "measure":
            send_message(channel, _build_answer(measure_video(path, with_models=request["with_models"])))
            return
        header, frames = _read_frames(path, request)
    except NotAVideo as error:
        send_message(channel, {"not_a_video": error.reason})
    except FrameReadError as error:
        send_message(channel, {"error": error.reason})
    except Exception as error:  # any error of a reader is sent as the answer, and the caller reports it
        send_message(channel, {"unexpected": f"unexpected {type(error).__name__}: {error}"})
    else:
        header |= {"n_frames": frames.n_frames, "reader": frames.reader}
        send_message(channel, header, frames.indices, frames.times_s, frames.pixels)


def _build_answer(measured: VideoMeasurement) -> dict[str, Any]:
    by_models = asdict(measured.by_models)
    return {"facts": asdict(measured.facts), "has_sound": measured.has_sound, "by_models": by_models}


def _read_frames(path: Path, request: dict[str, Any]) -> tuple[dict[str, Any], DecodedFrames]:
    """Return the sampled frames, and the facts of the same pass if the request asks for them."""
    fit = PictureFit(**request["fit"]) if request["fit"] else None
    sampling = request["every"], request["cap"], fit
    if request["task"] == "measure_and_read":
        measured, frames = measure_and_read(path, *sampling, with_models=request["with_models"])
        return _build_answer(measured), frames
    module, _, attribute = request["reader"].partition(":")
    reader: FrameReader = getattr(import_module(module), attribute)()
    frames = reader.read(path, *sampling)
    _check_frames(path, frames)
    return {}, frames


def _check_frames(path: Path, frames: DecodedFrames) -> None:
    """Raise `FrameReadError` if a reader returned no frame, or arrays of other types or shapes than `DecodedFrames`
    asks.
    """
    n = len(frames.indices)
    actual = [f"{array.dtype} {array.shape}" for array in (frames.indices, frames.times_s, frames.pixels)]
    promised = [f"int64 {(n,)}", f"float64 {(n,)}", f"uint8 {(n, *frames.pixels.shape[1:3], 3)}"]
    if actual != promised or not frames.pixels.size:
        raise FrameReadError(path, f"the reader returned indices, times and pixels of {', '.join(actual)}")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as caller:
        _answer_requests(caller)
