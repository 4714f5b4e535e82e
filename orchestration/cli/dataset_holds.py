"""The command dataset holds: lists what holds a video, for a request to delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation

_SHOWN = 3


@pass_installation
def show_holders(
    installation: Installation,
    name: Annotated[
        str,
        typer.Argument(
            metavar="VIDEO|URL",
            help="Key of a video, path of its file or the end of that, address, or the URL it was collected from.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """List the datasets and frozen selections that hold a video, such as for a request to delete it.

    Copies of its file under other names count too, and all that a tar file or Lance table of this machine holds.
    Exports are files that Reelsieve does not keep track of: the passport of an export names its selection.
    """
    from assets.home.settings import read_settings
    from assets.media.held_video import find_held_video
    from assets.media.settings import MediaSettings
    from db.selection.holders import list_holding_datasets, list_holding_selections

    held = find_held_video(name, read_settings(MediaSettings))
    with installation.engine.connect() as connection:
        videos, selections = list_holding_datasets(connection, held), list_holding_selections(connection, held)
    if as_json:
        print_json({"videos": videos, "selections": selections})
        return
    print_rows(videos, empty="no dataset holds it")
    shown = [
        {
            **row,
            "made": row["made"].strftime("%Y-%m-%d %H:%M"),
            "videos": ", ".join(row["videos"][:_SHOWN]) + (", …" if len(row["videos"]) > _SHOWN else ""),
        }
        for row in selections
    ]
    print_rows(shown, empty="no selection holds it")
    if selections:
        print_sentence("exports of these selections hold it too: their passports have the numbers of the selections")
