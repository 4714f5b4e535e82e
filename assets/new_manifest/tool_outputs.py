"""Videos and captions from the output folders of other tools."""

from __future__ import annotations

from collections.abc import Iterator

from assets.new_manifest.clip_folders import read_clip_folder
from assets.new_manifest.data_juicer import read_data_juicer
from assets.new_manifest.findings import CaptionedVideo, Findings
from assets.new_manifest.tool_names import TOOL_NAMES, Tool
from assets.new_manifest.videos import VideoRegistry


def read_tool_output(tool: Tool, videos: VideoRegistry, findings: Findings) -> Iterator[CaptionedVideo]:
    """Return an iterator over the videos with captions in the output folder of a tool, with what it measured as own
    fields. Other files are left out with the reason in `findings`. Raises NoManifest where the folder has no metadata
    in the form of the tool.
    """
    read = read_data_juicer if tool == "data-juicer" else read_clip_folder
    return read(TOOL_NAMES[tool], videos, findings)
