"""A source of which a manifest is made, and the rows that one of its kinds finds in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from assets.new_manifest.columns import ColumnNames
from assets.new_manifest.extract import VideoExtractor
from assets.new_manifest.findings import CaptionedVideo, Findings, Reason
from assets.new_manifest.folder import FileKind, SourceFolder
from assets.new_manifest.videos import VideoRegistry

# Why an unread file is left out, whatever kind of source was found.
UNREAD_REASONS: Mapping[FileKind, Reason] = {
    "packed": Reason.PACKED_FILE,
    "lance": Reason.LANCE_TABLE,
    "other": Reason.OTHER_FILE,
}


@dataclass(frozen=True, slots=True)
class Source:
    """A source, and what its rows need: `videos` gives ids to videos, `extractor` writes those inside tables and
    shards, and `findings` get guesses and what is left out. `column_names` are those that the user gave, and `aside` is
    a folder for rows that were read.
    """

    videos: VideoRegistry
    extractor: VideoExtractor
    findings: Findings
    column_names: ColumnNames
    aside: Path

    @property
    def folder(self) -> SourceFolder:
        """The files of the source."""
        return self.videos.folder


class FoundRows(NamedTuple):
    """The rows that a kind of source finds: a description of the source, its videos with captions, which are read as
    they are taken, and by kind of file why unread ones are left out.
    """

    description: str
    videos: Iterator[CaptionedVideo]
    unread_reasons: Mapping[FileKind, Reason]
