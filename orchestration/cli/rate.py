"""The command rate: has people rate captions in a browser."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlencode

import typer

from orchestration.cli.output import DatasetName, console, show_progress
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.port import Port
from orchestration.cli.refusals import UsageError
from orchestration.cli.served_pages import serve_pages

if TYPE_CHECKING:
    from orchestration.installation import Installation
    from orchestration.web.guard import PublicAddress


@pass_installation
def rate(
    installation: Installation,
    dataset: DatasetName,
    aspect: Annotated[str | None, typer.Option(help="Aspect to rate, such as coverage.")] = None,
    rater: Annotated[str | None, typer.Option(help="Name of the rater (default: the page asks).")] = None,
    rater_links: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="Number of raters to print addresses for: rater-1, rater-2 and so on."),
    ] = None,
    link_days: Annotated[
        int, typer.Option(min=1, max=366, help="Number of days after which those addresses expire.")
    ] = 14,
    scale: Annotated[
        str | None,
        typer.Option(
            help="Scale of ratings: 1-5, 0-100 or yes-no (default: as the aspect was rated before, else 1-5)."
        ),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Compare two captions of a video: which is better, or neither.")
    ] = False,
    keypoints: Annotated[
        bool,
        typer.Option("--keypoints", help="Label keypoints: does the caption state this fact? In place of --aspect."),
    ] = False,
    for_promise: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of a promise, as reelsieve promise prints it; only captions that it needs are shown."
        ),
    ] = None,
    guidelines: Annotated[
        Path | None, typer.Option(help="File of guidelines in Markdown, shown next to the question.")
    ] = None,
    spans: Annotated[bool, typer.Option("--spans", help="Let raters also mark the wrong words of a caption.")] = False,
    attention_check: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of questions per attention check, which shows a caption of another video and "
            "stores no rating.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the random order, which raters with the same seed share.")
    ] = 0,
    port: Port = 3001,
) -> None:
    """Serve pages where people rate captions, compare two, or label keypoints, without seeing systems or scores.

    Answers are stored at once.
    """
    from orchestration.look.guidelines import read_guidelines
    from orchestration.look.rating import SCALES
    from orchestration.look.state import RatingSetup

    if for_promise is not None:
        if unfit := _join_given({"--aspect": aspect, "--pairs": pairs, "--keypoints": keypoints}):
            raise UsageError(f"--for-promise has its own aspect and order: leave out {unfit}")
        aspect = _print_promise(installation, dataset, for_promise)
    if aspect is None and not keypoints:
        raise UsageError("it is open what to rate: give --aspect, such as --aspect coverage, or --keypoints")
    for_ratings = {
        "--aspect": aspect,
        "--scale": scale,
        "--pairs": pairs,
        "--guidelines": guidelines,
        "--attention-check": attention_check,
    }
    if keypoints and (unfit := _join_given(for_ratings)):
        raise UsageError(f"--keypoints labels keypoints instead of rating captions: leave out {unfit}")
    if scale is not None and pairs:
        raise UsageError("--scale is for one caption at a time: leave it out with --pairs")
    if spans and (unfit := _join_given({"--pairs": pairs, "--keypoints": keypoints})):
        raise UsageError(f"--spans works only while captions are rated one at a time: leave out {unfit}")
    if scale is not None and scale not in SCALES:
        raise UsageError(
            f"--scale: there is no scale {scale!r}: leave it out, or choose one of {', '.join(SCALES)} for an aspect "
            "without a scale"
        )
    if rater is not None and rater_links is not None:
        raise UsageError("--rater-links names the raters itself: leave out --rater")
    if attention_check is not None and aspect is not None and not pairs:
        _require_scale_ends(installation, dataset, aspect)
    setup = RatingSetup(None if guidelines is None else read_guidelines(guidelines), attention_check)
    parameters = {
        "aspect": aspect,
        "rater": rater,
        "scale": scale,
        "pairs": "1" if pairs else None,
        "spans": "1" if spans else None,
        "seed": str(seed),
        "for-promise": None if for_promise is None else str(for_promise),
    }
    kind = "rate/facts" if keypoints else "rate"
    given = {name: value for name, value in parameters.items() if value is not None}
    public = None
    if rater_links is not None:
        public = _print_links(installation, dataset, kind, given, rater_links, link_days, port)
    path = f"/look/{quote(dataset)}/{kind}?{urlencode(given)}"
    serve_pages(installation, path, dataset, port, {} if aspect is None else {aspect: setup}, public)


def _print_links(
    installation: Installation, name: str, kind: str, given: Mapping[str, str], n: int, days: int, port: int
) -> PublicAddress:
    """Print the addresses of n raters, which expire after these days, and return where a proxy serves them. given: the
    parameters of the page's address.
    """
    from assets.datasets.lookup import require_dataset
    from orchestration.look.rating import choose_scale
    from orchestration.web.access import TOKEN, RaterLink, format_sitting, open_page_keys
    from orchestration.web.guard import PublicAddress

    settings, dataset = installation.settings, require_dataset(installation.engine, name)
    if "aspect" in given and "pairs" not in given:
        with installation.engine.connect() as connection:
            scale, _ = choose_scale(connection, dataset, given["aspect"], given.get("scale"))
        given = {**given, "scale": scale}
    public = PublicAddress(settings.public_url, settings.allowed_hosts)
    keys, until = open_page_keys(installation.home), int(time.time()) + days * 86_400
    for rater in (f"rater-{number}" for number in range(1, n + 1)):
        sitting = {**given, "rater": rater}
        token = keys.sign(RaterLink(name, kind, format_sitting(sitting), until))
        start = public.url or f"http://127.0.0.1:{port}"
        console.print(f"{rater}: {start}/look/{quote(name)}/{kind}?{urlencode({**sitting, TOKEN: token})}")
    return public


def _join_given(options: Mapping[str, object]) -> str:
    """Return those of the options, by name, that were given, as words of a sentence; "" for none."""
    from assets.words.text import join_names

    return join_names([name for name, value in options.items() if value not in (None, False)])


def _require_scale_ends(installation: Installation, name: str, aspect: str) -> None:
    """Raise UsageError for an aspect whose scale has no ends, since no answer to an attention check can be judged."""
    from assets.agreement.scales import load_scale
    from assets.datasets.lookup import require_dataset

    dataset = require_dataset(installation.engine, name)
    with installation.engine.connect() as connection:
        if load_scale(connection, dataset, aspect).least is None:
            raise UsageError(
                f"--attention-check needs a scale with a lowest value, unlike that of {aspect}: leave it out"
            )


def _print_promise(installation: Installation, name: str, promise_id: int) -> str:
    """Print how many answers a promise needs, and return the aspect that people rate for it. Raises SelectionError, and
    UsageError for a promise that a judge answers.
    """
    from assets.datasets.lookup import require_dataset
    from assets.promise.select import load_promise_state
    from assets.promise.sentences import explain_countdown, name_judge_command
    from assets.selection.vectors import find_text_encoder

    dataset = require_dataset(installation.engine, name)
    with show_progress() as tell:
        state = load_promise_state(
            installation.engine, dataset, promise_id, lambda: find_text_encoder(installation.curation.scorers), tell
        )
    if state.terms.aspect is None:
        raise UsageError(
            f"promise {promise_id} is answered by the judge, not by raters: for more answers run "
            f"{name_judge_command(state)} with a larger --draw"
        )
    console.print(explain_countdown(state))
    return state.terms.aspect
