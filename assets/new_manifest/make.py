"""Makes a manifest of a folder or a file: the tables that `reelsieve ingest` reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from assets.datasets import DEMO_DATASET
from assets.media.settings import media_settings
from assets.new_manifest.extract import Extracted
from assets.new_manifest.found import Clip, Findings, NoManifest
from assets.new_manifest.media_files import MediaFiles, Places
from assets.new_manifest.recognise import recognise
from assets.new_manifest.tables import TableReader
from assets.new_manifest.write import Written, require_no_manifest, write_manifest

_NO_NAME = re.compile(r"^[^A-Za-z0-9]+|[^A-Za-z0-9_.-]+")
_TELL_EVERY = 1000
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Made:
    """What was made of a source: the manifest's folder, what the source was taken for, and what is in it.

    new_root: name and folder of a root that a machine needs to find the videos; None where it needs none.
    """

    folder: Path
    kind: str
    written: Written
    findings: Findings
    extracted: Extracted
    new_root: tuple[str, Path] | None

    @property
    def dataset(self) -> str:
        """A name for the dataset, made of the folder's."""
        name = _NO_NAME.sub("_", self.folder.name).strip("_")[:100]
        return name if name and name != DEMO_DATASET else "mine"


def make_manifest(
    source: Path,
    target: Path | None = None,
    *,
    video: str | None = None,
    caption: str | None = None,
    is_trial: bool = False,
    tell: Tell = lambda _: None,
) -> Made:
    """Make a manifest of a folder or a file. target: the manifest's folder; the source's where it is None.

    video, caption: names of the columns of a table; None to guess. is_trial: write nothing, only count. Nothing is
    overwritten, and nothing of the source is run or unpickled. Raises NoManifest, or ManifestError for a table that
    cannot be read.
    """
    source = source.expanduser()
    if not source.exists():
        raise NoManifest(f"{source}: no such folder or file: give a folder of videos, a table or tar shards")
    source = source.resolve()
    folder = source if source.is_dir() else source.parent
    target = (target.expanduser() if target else folder).resolve()
    require_no_manifest(target)
    findings = Findings()
    places = Places.of(folder, target, media_settings().media_roots)
    extracted = Extracted(target, findings, is_trial)
    reader = TableReader(MediaFiles.of(places, findings), extracted, findings, video, caption)
    found = recognise(source, reader)
    written = write_manifest(_told(found.clips, tell), target, is_trial=is_trial)
    if not written.videos:
        why = findings.said() or "it is empty"
        raise NoManifest(f"{source}: {found.kind}, but no video with a caption in it: {why}")
    root = (places.new_root, folder) if places.new_root and written.in_roots else None
    return Made(target, found.kind, written, findings, extracted, root)


def _told(clips: Iterable[Clip], tell: Tell) -> Iterator[Clip]:
    for n, clip in enumerate(clips, 1):
        yield clip
        if n % _TELL_EVERY == 0:
            tell(f"{n} rows read")
