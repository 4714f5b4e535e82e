"""Clip paths of OmniDCBench: a file about a clip may know it by another folder than the references do."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from assets.ingest.rejects import ManifestError


def match_clips(paths: Iterable[str], clips: Collection[str], source: str) -> dict[str, str]:
    """The clip of each path: the same path, else the one clip whose file has the same name; other paths are left out.

    A clip that is there by its full path is not looked for by name. Raises ManifestError where a name fits two clips or
    two paths fit one.

    >>> match_clips(["a/1.mp4", "elsewhere/2.mp4", "b/3.mp4"], ["a/1.mp4", "a/2.mp4"], "predictions.jsonl")
    {'a/1.mp4': 'a/1.mp4', 'elsewhere/2.mp4': 'a/2.mp4'}
    """
    known = set(clips)
    wanted = list(dict.fromkeys(paths))
    matched = {path: path for path in wanted if path in known}
    by_name: dict[str, list[str]] = {}
    for clip in clips:
        by_name.setdefault(_file_name(clip), []).append(clip)
    found: dict[str, str] = {}
    for path in wanted:
        alike = by_name.get(_file_name(path), [])
        if path in matched or all(clip in matched for clip in alike):
            continue
        if len(alike) > 1:
            raise ManifestError(f"{source}: {path!r} may be {alike[0]!r} or {alike[1]!r}: give full clip paths")
        if (other := found.setdefault(alike[0], path)) != path:
            raise ManifestError(f"{source}: {other!r} and {path!r} may both be {alike[0]!r}: give full clip paths")
    return {**matched, **{path: clip for clip, path in found.items()}}


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]
