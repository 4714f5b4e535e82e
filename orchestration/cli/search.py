"""The command search: finds captions and frames by what they show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from orchestration.cli.output import AsJson, print_error, print_json, print_rows, show_progress
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def search(
    installation: Installation,
    text: Annotated[str | None, typer.Argument(help="Text to search by, such as `a red circle bounces`.")] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="VIDEO", help="Key of a video to search by instead of a text, by the manifest's vectors."),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Name of the vectors' encoder, for --like where there are several.")
    ] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="Name of the dataset (default: all).")] = None,
    frames: Annotated[bool, typer.Option("--frames", help="Search frames of videos instead of captions.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of results to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Find the captions or frames nearest to a text, or the videos nearest to a video, by stored vectors.

    Captions of the dataset without a vector get one first. Scoring by evqa stores those of frames. Vectors of whole
    videos come with the manifest. The similarity orders the hits; it is
    not a score.
    """
    from assets.datasets.lookup import require_dataset
    from assets.search import SearchSettings, search_captions, search_frames, search_like_video

    if text is None and like is None:
        raise UsageError("it is open what to search for: give a text in quotes, or --like VIDEO")
    if text is not None and like is not None:
        raise UsageError("a text and --like cannot be combined: give one of them")
    if text is not None and encoder is not None:
        raise UsageError("--encoder is for --like: leave it out with a text")
    if like is not None and frames:
        raise UsageError("--frames is for a text: leave it out with --like")
    if text is not None and not text.strip():
        raise UsageError("the text is empty: give words to search for")
    chosen = require_dataset(installation.engine, dataset) if dataset is not None else None
    if text is None:
        result = search_like_video(installation.engine, like or "", encoder, chosen, limit)
    else:
        # The settings of all metrics include those of all encoders.
        settings = cast(SearchSettings, installation.settings)
        if frames:
            result = search_frames(installation.engine, settings, text, chosen, limit)
        else:
            with show_progress() as tell:
                result = search_captions(installation.engine, settings, text, chosen, limit, tell)
    if as_json:
        print_json({"encoder": result.encoder, "notes": list(result.notes), "found": result.rows})
        return
    print_rows([_format_hit(row, chosen is None) for row in result.rows], empty="nothing was found")
    for note in result.notes:
        print_error(f"note: {note}")


def _format_hit(row: Mapping[str, Any], with_dataset: bool) -> dict[str, Any]:
    """Return the columns of a search hit that fit on a line or two."""
    from assets.words.tables import shorten_text

    dataset = {"dataset": row["dataset"]} if with_dataset else {}
    if "text" not in row:
        time = {"time_s": row["time_s"]} if "time_s" in row else {}
        return {"similarity": row["similarity"], **dataset, "video": row["video"], **time}
    return {"similarity": row["similarity"], **dataset, "sample": row["sample"], "text": shorten_text(row["text"], 90)}
