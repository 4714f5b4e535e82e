"""Video files for a browser: the file itself by ranges of bytes, and a sheet of some of its frames."""

from __future__ import annotations

import io
import mimetypes
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from assets.media.files import IngestedFileUnreadable, hold_ingested_file
from assets.reports.thumbnails import encode_jpeg, read_thumbnails

FRAME_HEIGHT = 144
# Pixels between frames of a sheet, which has two columns.
_GAP = 2
_SHEETS = 512


class NoPicture(ValueError):
    """Raised when a video, or a sheet of its frames, cannot be shown; the message gives the reason."""

    plain = True


class VideoFileResponse:
    """ASGI response with the file of a video, or the range of bytes that the request asks for. Only the file that was
    ingested is sent. video: the columns of a row of table `video`, with its key as "video". headers: added to the
    response.

    The path comes only from the database, never from the request.
    """

    def __init__(self, video: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Hold the file of a video until it is sent; a remote one is fetched. Raises NoPicture if there is no file to
        show, or another one than was ingested.
        """
        if reason := explain_missing_file(video):
            raise NoPicture(reason)
        self._stack = ExitStack()
        named = SimpleNamespace(**{**video, "key": video["video"]})
        try:
            path = self._stack.enter_context(hold_ingested_file(named))
        except IngestedFileUnreadable as error:
            raise NoPicture(f"the file cannot be shown: {error}") from error
        guessed, _ = mimetypes.guess_type(PurePosixPath(video["uri"]).name)
        # A file that a manifest calls a video is never served as a page.
        kind = guessed if guessed and guessed.startswith("video/") else "video/mp4"
        # A member of a tar file is another file in memory for each request, with times of its own.
        tag = f'"{bytes(video["content_sha256"]).hex()}"'
        self._response = FileResponse(path, media_type=kind, headers={**headers, "ETag": tag})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, or the part of it that the request asks for. The local copy of a remote file is kept until
        then.
        """
        try:
            await self._response(scope, receive, send)
        finally:
            # If the file changed while it was read, this answer cannot be taken back; the next request is refused.
            with suppress(IngestedFileUnreadable):
                await run_in_threadpool(self._stack.close)


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
