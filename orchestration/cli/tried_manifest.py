"""The manifest that the command try works on: the folder's own, or a new one in the folder or in the home."""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from assets.home.files import create_home_folder, keep_files_private
from orchestration.cli.init import MEDIA_ROOTS, choose_ratings, format_media_roots, print_findings, print_written_files
from orchestration.cli.output import console, print_sentence, show_progress
from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from assets.new_manifest.columns import ColumnNames
    from assets.new_manifest.make import NewManifest
    from assets.new_manifest.tool_names import Tool
    from orchestration.installation import Installation

_DIGITS = 8


def find_or_make_manifest(
    installation: Installation,
    source: Path,
    home: Path,
    to: Path | None = None,
    column_names: ColumnNames | None = None,
    tool: Tool | None = None,
) -> tuple[Path, str | None]:
    """Return the folder of the manifest of a source, and the shell command that sets the media root as done here, None
    if the folder holds the videos. A manifest in the source's folder, in `to` or in the home is used and named; else
    one is made. Raises NoManifest, ManifestError, and UsageError for columns of a ready manifest.
    """
    from assets.new_manifest.folder import require_source
    from assets.new_manifest.make import suggest_dataset_name

    path = require_source(source)
    folder = path if path.is_dir() else path.parent
    # Folders of one name must not share a manifest, nor a dataset.
    aside = home / "manifests" / f"{suggest_dataset_name(folder)}-{sha256(bytes(folder)).hexdigest()[:_DIGITS]}"
    given = None if to is None else Path(os.path.realpath(to.expanduser()))
    for place in (folder, aside) if given is None else (given,):
        if _has_manifest(place):
            if column_names or tool:
                raise UsageError(
                    f"{place} has a manifest already, to which --column, --rating and --from do not apply: remove "
                    f"{name_manifest_files(place)} to have a new one made"
                )
            there = f"found: a manifest in {place} (remove {name_manifest_files(place)} to have a new one made)"
            console.print(there)
            return place, _set_media_root(_find_new_root(folder, place))
    is_in_home = given is None and not _is_writable(folder)
    target = given or (aside if is_in_home else folder)
    made = _create_manifest(installation, path, target, column_names, tool, is_in_home=is_in_home)
    return made.folder, _set_media_root(made.new_root)


def name_manifest_files(folder: Path) -> str:
    """Return the names of the files of the manifest in a folder, as an enumeration for a sentence."""
    from assets.ingest.declarations import SCALES_FILE
    from assets.ingest.manifest import list_table_files
    from assets.words.text import join_names

    scales = [SCALES_FILE] if (folder / SCALES_FILE).is_file() else []
    return join_names([*(path.name for path in list_table_files(folder).values()), *scales])


def _has_manifest(folder: Path) -> bool:
    from assets.ingest.readers import SUFFIXES

    return any((folder / f"videos{suffix}").is_file() for suffix in SUFFIXES)


def _is_writable(folder: Path) -> bool:
    """Whether a manifest can be written into the folder."""
    from assets.new_manifest.findings import NoManifest
    from assets.new_manifest.write import check_no_manifest

    try:
        check_no_manifest(folder)
    except NoManifest:
        return False
    return os.access(folder, os.W_OK, effective_ids=True)


def _create_manifest(
    installation: Installation,
    source: Path,
    target: Path,
    column_names: ColumnNames | None,
    tool: Tool | None,
    *,
    is_in_home: bool,
) -> NewManifest:
    """Make the manifest, print what it was made of, and return it."""
    from assets.new_manifest.make import create_manifest

    with ExitStack() as stack:
        tell = stack.enter_context(show_progress())
        if is_in_home:
            create_home_folder(installation.home, "manifests")
            stack.enter_context(keep_files_private())
        made = create_manifest(
            source,
            target,
            column_names=column_names,
            tool=tool,
            tell=tell,
            choose_ratings=partial(choose_ratings, tell),
        )
    print_findings(made)
    for row in made.findings.list_left_out():
        print_sentence(f"left out: {row['left out']} ({row['n']:,}, such as {row['first']})")
    print_written_files(made)
    return made


def _find_new_root(folder: Path, manifest: Path) -> tuple[str, Path] | None:
    """Return the name and the folder of a media root that the videos need; None if the manifest's folder holds them."""
    from assets.home.settings import read_settings
    from assets.media.settings import MediaSettings
    from assets.new_manifest.videos import PathNaming

    name = PathNaming.choose(folder, manifest, read_settings(MediaSettings).media_roots).new_root
    return None if name is None else (name, folder)


def _set_media_root(root: tuple[str, Path] | None) -> str | None:
    """Set the media root in the environment of this process, and return the shell command that does so elsewhere; None
    without a root.
    """
    if root is None:
        return None
    os.environ[MEDIA_ROOTS] = format_media_roots(root)
    return f"export {MEDIA_ROOTS}={shlex.quote(os.environ[MEDIA_ROOTS])}"
