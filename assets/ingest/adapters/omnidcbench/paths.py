"""Clip paths of OmniDCBench: predictions and judgements may name a clip by another folder than the references."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from assets.ingest.rejects import ManifestError


def match_clips(paths: Iterable[str], clips: Collection[str], source: str) -> dict[str, str]:
    """The clips by path: the clip of the same path, else the only clip with the same file name.

    Paths without a clip are left out. A clip whose full path is among `paths` gets no other path. Raises ManifestError
    if a file name fits two clips, or if two paths fit one clip.

    >>> match_clips(["a/1.mp4", "elsewhere/2.mp4", "b/3.mp4"], ["a/1.mp4", "a/2.mp4"], "predictions.jsonl")
    {'a/1.mp4': 'a/1.mp4', 'elsewhere/2.mp4': 'a/2.mp4'}
    """
    known = set(clips)
    distinct_paths = list(dict.fromkeys(paths))
    matched = {path: path for path in distinct_paths if path in known}
    by_name: dict[str, list[str]] = {}
    for clip in clips:
        by_name.setdefault(_file_name(clip), []).append(clip)
    path_by_clip: dict[str, str] = {}
    for path in distinct_paths:
        alike = by_name.get(_file_name(path), [])
        if path in matched or all(clip in matched for clip in alike):
            continue
        if len(alike) > 1:
            raise ManifestError(f"{source}: {path!r} may be {alike[0]!r} or {alike[1]!r}: give full clip paths")
        if (other := path_by_clip.setdefault(alike[0], path)) != path:
            raise ManifestError(f"{source}: {other!r} and {path!r} may both be {alike[0]!r}: give full clip paths")
    return {**matched, **{path: clip for clip, path in path_by_clip.items()}}


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]
