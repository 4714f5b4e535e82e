"""Video files for a browser: the file itself by ranges of bytes, and a sheet of some of its frames."""

from __future__ import annotations

import io
import mimetypes
import re
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from assets.media.errors import MediaUnavailable
from assets.media.files import hold_ingested_file, read_ingested_part
from assets.reports.thumbnails import encode_jpeg, read_thumbnails

FRAME_HEIGHT = 144
# Pixels between frames of a sheet, which has two columns.
_GAP = 2
_SHEETS = 512
_PART_BYTES = 4 << 20
# Those for which the system names another use of the suffix, or none.
_MEDIA_TYPES = {
    **dict.fromkeys((".ts", ".m2ts", ".mts", ".m2t"), "video/mp2t"),
    ".3gp": "video/3gpp",
    ".3g2": "video/3gpp2",
}
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})?")


class NoPicture(ValueError):
    """Raised when a video, or a sheet of its frames, cannot be shown; the message gives the reason."""

    plain = True


class VideoFileResponse:
    """ASGI response with the file of a video, or the range of bytes that the request asks for. Only the file that was
    ingested is sent. video: the columns of a row of table `video`, with its key as "video". headers: added to the
    response. asked: the headers of the request.

    The path comes only from the database, never from the request.
    """

    def __init__(self, video: Mapping[str, Any], headers: Mapping[str, str], asked: Mapping[str, str]) -> None:
        """Hold the file of a video until it is sent; a remote one is fetched. Of a video inside a tar file that did not
        change only the range is read, or its first 4 MiB. Raises NoPicture if there is no file to show, or another one
        than was ingested.
        """
        if reason := explain_missing_file(video):
            raise NoPicture(reason)
        self._stack = ExitStack()
        named = SimpleNamespace(**{**video, "key": video["video"]})
        kind = guess_media_type(video["uri"])
        # A member of a tar file is another file in memory for each request, with times of its own.
        tag = f'"{bytes(video["content_sha256"]).hex()}"'
        headers = {**headers, "ETag": tag}
        part = None
        if asked.get("if-range", tag) == tag:
            part = _build_part_response(named, asked.get("range", ""), kind, headers)
        self._response = part or FileResponse(self._hold_file(named), media_type=kind, headers=headers)

    def _hold_file(self, video: Any) -> Path:
        try:
            return self._stack.enter_context(hold_ingested_file(video)).path
        except MediaUnavailable as error:
            raise NoPicture(f"the file cannot be shown: {error}") from error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, or the part of it that the request asks for. The local copy of a remote file is kept until
        then.
        """
        try:
            await self._response(scope, receive, send)
        finally:
            # If the file changed while it was read, this answer cannot be taken back; the next request is refused.
            with suppress(MediaUnavailable):
                await run_in_threadpool(self._stack.close)


def guess_media_type(name: str) -> str:
    """Return the media type of a video by the suffix of its name: a file that a manifest calls a video is never served
    as a page.

    >>> guess_media_type("a.TS"), guess_media_type("a.webm"), guess_media_type("a.html")
    ('video/mp2t', 'video/webm', 'video/mp4')
    """
    suffix = PurePosixPath(name).suffix.lower()
    guessed = _MEDIA_TYPES.get(suffix) or mimetypes.guess_type(f"x{suffix}")[0] or ""
    return guessed if guessed.startswith(("video/", "image/gif")) else "video/mp4"


def _build_part_response(video: Any, asked: str, kind: str, headers: Mapping[str, str]) -> Response | None:
    """Build the response to a request for one range of a video inside a tar file; None where the whole is needed.
    asked: the range, "" for none.
    """
    size = video.size_bytes
    if (matched := _RANGE.fullmatch(asked)) is None or int(matched[1]) >= size:
        return None
    first, last = int(matched[1]), min(int(matched[2] or size), size - 1)
    # A player asks for the rest, and continues where an answer ends.
    part = read_ingested_part(video, first, min(last - first + 1, _PART_BYTES)) if last >= first else None
    if part is None:
        return None
    headers = {**headers, "Content-Range": f"bytes {first}-{first + len(part) - 1}/{size}", "Accept-Ranges": "bytes"}
    return Response(part, 206, headers, kind)


def explain_missing_file(video: Mapping[str, Any]) -> str | None:
    """Return the reason why a video has no file to show: it came without one, or its file does not decode. None in
    other cases, also if the file is gone. Reads only `video`, the columns of a row of table `video`, and no file.
    """
    if video["status"] == "text_only" or not video["uri"] or video["content_sha256"] is None:
        return "this video came without a file"
    if video["status"] == "undecodable":
        return f"the file does not decode: {video['error']}"
    return None


def render_frame_sheet(video: Mapping[str, Any]) -> bytes:
    """Return a JPEG with up to four frames of a video, two in a row. video: the columns of a row of table `video`, with
    its key as "video". The last 512 sheets are kept in memory. Raises NoPicture if no frame can be read.
    """
    return _render_frame_sheet(tuple(video.items()))


@lru_cache(_SHEETS)
def _render_frame_sheet(columns: tuple[tuple[str, Any], ...]) -> bytes:
    """Return the sheet of frames, cached by all columns of the video: another file has another sheet."""
    import numpy as np
    from PIL import Image

    frames, reason = read_thumbnails(dict(columns), FRAME_HEIGHT)
    if reason is not None:
        raise NoPicture(reason)
    pictures = [Image.open(io.BytesIO(data)) for _, data in frames]
    width, height = (max(getattr(picture, side) for picture in pictures) for side in ("width", "height"))
    n_rows = -(-len(pictures) // 2)
    whole = Image.new("RGB", (2 * width + _GAP, n_rows * (height + _GAP) - _GAP), "white")
    for place, picture in enumerate(pictures):
        whole.paste(picture, (place % 2 * (width + _GAP), place // 2 * (height + _GAP)))
    return encode_jpeg(np.asarray(whole))
