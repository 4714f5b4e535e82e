"""Vectors of clips by other tools as rows of a manifest, and those of NeMo Curator and Cosmos-Curate, which are in
MODEL_embd_parquet/*.parquet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from assets.ingest.files import open_file
from assets.ingest.parquet_reader import read_arrow_rows
from assets.ingest.paths import resolve_inside
from assets.ingest.rejects import ManifestError, Reject
from assets.new_manifest.findings import CaptionedVideo, Findings, Reason
from assets.new_manifest.folder import SourceFolder
from assets.new_manifest.videos import VideoEntry

# The model, and what the tool calls its variant if it names one.
_TABLE = re.compile(r"([a-z0-9]+)_embd(?:_(.+))?_parquet/[^/]+\.parquet")
_ENCODERS = {"iv2": "InternVideo2", "ce1": "Cosmos-Embed1"}


def read_clip_vectors(
    folder: SourceFolder, clips: Mapping[str, VideoEntry], findings: Findings
) -> Iterator[CaptionedVideo]:
    """Yield the videos of a tool's folder again, each with a vector that a table has for it, row by row. clips: the
    videos by the tool's id. Rows that ingest would refuse by themselves, of other clips, or with a clip that has such a
    vector already, are left out with the reason in `findings`.
    """
    seen: set[tuple[str, str]] = set()
    for file in folder.list_files("table"):
        if (named := _TABLE.fullmatch(file)) is None:
            continue
        folder.mark_read(file)
        encoder = " ".join(filter(None, (_ENCODERS.get(named[1], named[1]), named[2])))
        number = 0
        try:
            path = resolve_inside(folder.path, file)
            with open_file(path) as opened:
                for number, row in read_arrow_rows(opened, path):
                    where = f"{file}:{number}"
                    video = _build_video(row, encoder, clips, findings, where)
                    if video is None:
                        continue
                    if (key := (encoder, video.video_id)) in seen:
                        findings.leave_out(Reason.SECOND_VECTOR, where)
                        continue
                    seen.add(key)
                    yield video
        except ManifestError as error:
            findings.leave_out_table(error, f"{file}:{number + 1}", is_whole=number == 0)


def build_vector_row(
    video_id: str, encoder: str, vector: object, findings: Findings, where: str
) -> dict[str, object] | None:
    """Build the row of table `vectors` for a video, with no more digits than single precision has. Where ingest would
    refuse it by itself, return None and count it as left out with the reason. vector: what the tool wrote, of any type.
    where: how people find it.
    """
    if isinstance(vector, list):
        vector = [float(f"{number:.9g}") if isinstance(number, float) else number for number in vector]
    row = {"video_id": video_id, "encoder": encoder, "vector": vector}
    return row if findings.accept_row("vector", row, where) else None


def _build_video(
    row: Mapping[str, object] | Reject, encoder: str, clips: Mapping[str, VideoEntry], findings: Findings, where: str
) -> CaptionedVideo | None:
    if isinstance(row, Reject):
        findings.leave_out_refused("vector", row.code, where)
        return None
    clip = clips.get(str(row.get("id")))
    if clip is None:
        findings.leave_out(Reason.VECTOR_OF_NO_CLIP, where)
        return None
    vector = build_vector_row(clip.video_id, encoder, row.get("embedding"), findings, where)
    return None if vector is None else CaptionedVideo(clip.video_id, clip.path, (), vectors=(vector,))
