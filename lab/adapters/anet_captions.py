"""ActivityNet Captions without media: one annotator's captions are the references, another's are the candidates.

A file is one JSON object: video id -> {"duration": seconds, "timestamps": [[start, end], ..], "sentences": [..]}.
Run it as a program:

    python -m lab.adapters.anet_captions REFERENCES.json CANDIDATES.json FOLDER
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from assets.ingest.resolve import SEGMENT_TOLERANCE_S


def convert(references: Path, candidates: Path, folder: Path) -> dict[str, int]:
    """Write videos.jsonl and captions.jsonl for the videos that both files have, and return the numbers of rows.

    A caption has no segments if one of them does not end after its start, or ends after the video; `untimed` counts
    such captions, which keep their text. Ids are `<video>__reference` and `<video>__candidate`; the systems are the
    names of the files without suffix.
    """
    files = {"reference": references, "candidate": candidates}
    entries = {role: json.loads(path.read_text(encoding="utf-8")) for role, path in files.items()}
    shared = [video for video in entries["reference"] if video in entries["candidate"]]
    folder.mkdir(parents=True, exist_ok=True)
    untimed = 0
    with (
        (folder / "videos.jsonl").open("w", encoding="utf-8") as videos,
        (folder / "captions.jsonl").open("w", encoding="utf-8") as captions,
    ):
        for video in shared:
            duration = max(entries[role][video]["duration"] for role in files)
            videos.write(json.dumps({"video_id": video, "duration_s": duration}) + "\n")
            for role, path in files.items():
                row = _caption(video, role, path.stem, entries[role][video])
                if not _is_usable(row["segments"], duration):
                    del row["segments"]
                    untimed += 1
                captions.write(json.dumps(row, ensure_ascii=False) + "\n")
    return {"videos": len(shared), "captions": 2 * len(shared), "untimed": untimed}


def _caption(video: str, role: str, system: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    sentences = [" ".join(sentence.split()) for sentence in entry["sentences"]]
    times = zip(entry["timestamps"], sentences, strict=True)
    return {
        "caption_id": f"{video}__{role}",
        "video_id": video,
        "role": role,
        "system": system,
        "text": " ".join(sentences),
        "segments": [{"start_s": start, "end_s": end, "text": text} for (start, end), text in times],
    }


def _is_usable(segments: list[dict[str, Any]], duration: float) -> bool:
    return all(0 <= s["start_s"] < s["end_s"] <= duration + SEGMENT_TOLERANCE_S for s in segments)


def main(
    references: Annotated[Path, typer.Argument(help="JSON file of the annotator taken as the reference.")],
    candidates: Annotated[Path, typer.Argument(help="JSON file of the annotator taken as the candidate.")],
    folder: Annotated[Path, typer.Argument(help="Manifest folder to write.")],
) -> None:
    """Rewrite two files of ActivityNet Captions as a manifest folder."""
    counts = convert(references, candidates, folder)
    typer.echo(json.dumps(counts))


if __name__ == "__main__":
    typer.run(main)
