"""The report of a dataset on a real database: its numbers, and what it says where something is missing."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
from scipy import stats
from sqlalchemy.engine import Engine

from assets.agreement.judged import load_judged_snapshot
from assets.reports import report
from assets.reports.report import ReportError, write_stored_report
from assets.scores.base import Explanation
from db import schema
from db.manifest.datasets import Dataset
from tests.assets.manifests import write_clip
from tests.assets.reporting import MadeReport, ToldScorer, add_captions, agree, rate, report_on
from tests.db.builders import (
    add_reference,
    add_sample,
    add_video,
    change_text,
    make_dataset,
    set_scores,
)

SYSTEMS = ("alpha", "beta", "gamma", "delta", "epsilon")
N_VIDEOS = 12
RATING = {"aspect": "coverage", "value": 3, "row_sha256": b""}
HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(2)> {{ 7 * 7 }} &amp; \u202eturned\u202c \x1b[2Jend"


def value_of(place: int) -> float:
    """A metric's value of a sample: better systems first, some noise."""
    video, system = divmod(place, len(SYSTEMS))
    return round(0.9 - 0.15 * system + 0.04 * ((video * 7 + system * 3) % 5), 3)


@pytest.fixture(scope="module")
def full(module_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[MadeReport, list[int], Dataset]:
    """A dataset with two metrics, two raters, and a reference for each video."""
    dataset = make_dataset(module_engine, "full", 2)
    ids = add_captions(module_engine, dataset, N_VIDEOS, SYSTEMS)
    with module_engine.connect() as connection:
        videos = connection.execute(sa.select(schema.video.c.video_id, schema.video.c.key)).all()
    for video_id, key in videos:
        add_reference(module_engine, dataset, video_id, f"{key}_r", "a dog runs far over the lawn")
    set_scores(module_engine, {i: value_of(place) for place, i in enumerate(ids)})
    set_scores(
        module_engine, {i: None if place % 5 == 4 else 0.5 - value_of(place) / 4 for place, i in enumerate(ids)}, "evqa"
    )
    rate(module_engine, {i: (round(5 * value_of(place)), 3 + place % 2) for place, i in enumerate(ids)})
    return report_on(module_engine, dataset, tmp_path_factory.mktemp("full"), ("vcs", "evqa", "ecs")), ids, dataset


def test_the_numbers_beside_the_page_are_the_stored_agreement(
    module_engine: Engine, full: tuple[MadeReport, list[int], Dataset]
) -> None:
    made, _, dataset = full
    agreement = made.numbers["agreement"]
    columns, query = schema.agreement.c, sa.select(*(schema.agreement.c[name] for name in agreement[0]))
    query = query.where(columns.dataset_id == dataset.dataset_id).order_by(columns.agreement_id)
    with module_engine.connect() as connection:
        assert [dict(row) for row in connection.execute(query).mappings()] == agreement
    assert [asdict(row) for row in agree(module_engine, dataset, ["vcs", "evqa", "ecs"])] == agreement


def test_systems_have_their_means_and_order(full: tuple[MadeReport, list[int], Dataset]) -> None:
    (table,) = full[0].numbers["systems"]
    assert sorted(table["systems"]) == sorted(SYSTEMS)
    # By the mean of both ranks; EVQA, which turns the order round, has no value for the worst system.
    assert table["systems"][-1] == "epsilon"
    for number, system in enumerate(SYSTEMS):
        values = [value_of(video * len(SYSTEMS) + number) for video in range(N_VIDEOS)]
        mean = table["means"][system]["vcs"]
        assert (mean["mean"], mean["n"]) == (pytest.approx(statistics.mean(values)), N_VIDEOS)
        assert mean["low"] < mean["mean"] < mean["high"]
    nothing = {"mean": None, "low": None, "high": None, "n": 0, "n_clusters": 0, "lead": None}
    assert table["means"]["epsilon"]["evqa"] == nothing
    assert table["leads"]["vcs"] < 0.005
    assert "VCS: alpha is best." in full[0].text
    assert "Without a value: epsilon." in full[0].text


def test_each_metric_is_judged_by_each_aspect(full: tuple[MadeReport, list[int], Dataset]) -> None:
    made, _, _ = full
    (aspect,) = made.numbers["trust"]["aspects"]
    values = [value_of(place) for place in range(N_VIDEOS * len(SYSTEMS))]
    people = [(round(5 * value) + 3 + place % 2) / 2 for place, value in enumerate(values)]
    assert aspect["coefficients"]["vcs"]["value"] == pytest.approx(stats.kendalltau(values, people).statistic)
    assert aspect["verdicts"]["evqa"] == {
        "level": "against",
        "sentence": "EVQAScore goes against coverage: better captions score lower.",
        "short": "against people",
    }
    assert '<span class="light bad">against people</span>' in made.html
    assert "EVQAScore is only compared on the 48 of 60 rated samples that it has a value for" in made.text
    for verdict in aspect["verdicts"].values():
        assert verdict["sentence"] in made.text
    # ECS has never looked at this dataset.
    assert set(aspect["verdicts"]) == {"vcs", "evqa"}


def test_the_page_begins_with_answers_that_follow_from_the_verdicts(
    full: tuple[MadeReport, list[int], Dataset],
) -> None:
    """VCS orders captions as people do and alpha is best by it; EVQA goes the wrong way, and counts for nothing."""
    answers = full[0].numbers["answers"]
    assert (answers["trust"]["light"], answers["trust"]["headline"]) == ("good", "VCS for coverage")
    assert (answers["best"]["light"], answers["best"]["headline"]) == ("good", "alpha")
    assert answers["best"]["sentences"] == [
        "No system clearly leads by 120 ratings of people.",
        "Best by VCS, by more than chance.",
        "VCS (τ-b 1.00) ranks the 5 systems as people do.",
        "With 5 systems, a τ-b below 1.00 may be chance; people's own order has p 0.017.",
    ]
    assert [step["command"] for step in answers["steps"]] == ["reelsieve select --dataset full --by vcs --keep 0.25"]
    assert "This share is a choice: " in answers["steps"][0]["sentence"]
    shown = [
        full[0].text.index(found)
        for found in ("Which metric to trust for captions?", "VCS for coverage", "Can a metric")
    ]
    assert shown == sorted(shown)


def test_thresholds_keep_what_they_say(full: tuple[MadeReport, list[int], Dataset]) -> None:
    values = sorted((value_of(place) for place in range(60)), reverse=True)
    for cut in full[0].numbers["cuts"]:
        if cut["metric"] == "vcs":
            assert cut["value"] == values[int(60 * cut["share"]) - 1]
            assert cut["n_asked"] == int(60 * cut["share"])
            assert cut["n_kept"] == sum(value >= cut["value"] for value in values)
            assert cut["n_at"] == values.count(cut["value"])
            assert sum(kept for kept, _ in cut["by_system"].values()) == cut["n_kept"]


def test_an_aspect_may_have_the_name_of_a_hidden_field(engine: Engine, tmp_path: Path) -> None:
    dataset = make_dataset(engine, "names")
    ids = add_captions(engine, dataset, 2, ("a",))
    set_scores(engine, dict.fromkeys(ids, 0.5))
    for aspect in ("rows", "lines"):
        rate(engine, dict.fromkeys(ids, (3,)), aspect)
    best = report_on(engine, dataset, tmp_path).numbers["groups"]["best"][0]
    assert best["ratings"] == {"rows": {"r0": 3.0}, "lines": {"r0": 3.0}}
    assert not best.keys() & {"frames", "pieces"}
    assert not best["scores"][0].keys() & {"lines", "rows", "marks"}


def test_the_best_the_worst_and_the_disputed_are_shown(full: tuple[MadeReport, list[int], Dataset]) -> None:
    groups = full[0].numbers["groups"]
    best = [sample for sample in groups["best"] if "best by VCS" in sample["why"]]
    shown = {score["metric"]: score["value"] for score in best[0]["scores"]}
    assert shown["vcs"] == max(value_of(place) for place in range(60))
    assert [sample["system"] for sample in groups["worst"][:2]] == ["epsilon", "epsilon"]
    why = [why for sample in groups["metrics"] + groups["best"] + groups["worst"] for why in sample["why"]]
    assert "VCS ranks it high, EVQAScore low" in why
    for group in groups.values():
        assert len({sample["key"] for sample in group}) == len(group)


def test_the_page_is_one_file_that_asks_for_nothing(full: tuple[MadeReport, list[int], Dataset]) -> None:
    made, _, _ = full
    assert "script" not in {tag for tag, _ in made.tags}
    addresses = [attrs[name] for _, attrs in made.tags for name in ("src", "href", "xlink:href") if attrs.get(name)]
    assert {each for each in addresses if not str(each).startswith(("#", "data:"))} == {"report.json"}
    (policy,) = [attrs["content"] for _, attrs in made.tags if attrs.get("http-equiv")]
    assert str(policy).startswith("default-src 'none'")
    ids = [attrs["id"] for _, attrs in made.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    assert {str(each)[1:] for each in addresses if str(each).startswith("#")} <= set(ids)


def test_the_same_data_give_the_same_page(
    module_engine: Engine, full: tuple[MadeReport, list[int], Dataset], tmp_path: Path
) -> None:
    again = report_on(module_engine, full[2], tmp_path, ("vcs", "evqa", "ecs"))

    def without_time(html: str) -> list[str]:
        return [line for line in html.splitlines() if "Made 2" not in line]

    assert without_time(again.html) == without_time(full[0].html)


def test_made_alone_the_page_says_where_the_stored_agreement_is_missing_or_older(
    engine: Engine, tmp_path: Path
) -> None:
    dataset = make_dataset(engine, "my clips")
    ids = add_captions(engine, dataset, 12, SYSTEMS)
    set_scores(engine, {i: value_of(place) for place, i in enumerate(ids)})
    rate(engine, {i: (round(5 * value_of(place)),) for place, i in enumerate(ids)})

    def made_alone() -> str:
        judged = load_judged_snapshot(engine, dataset)
        scorers = {"vcs": cast(Any, ToldScorer("vcs"))}
        numbers = json.loads(write_stored_report(engine, dataset, scorers, judged, tmp_path).numbers.read_text())
        (aspect,) = numbers["trust"]["aspects"]
        age, answers = numbers["trust"]["age"], numbers["answers"]["trust"]
        assert aspect["n_samples"] == 60, "what people gave is there"
        assert (age in numbers["notices"]) == (age is not None)
        assert (answers["sentences"] == [age]) == (not aspect["verdicts"])
        return str(age)

    command = "reelsieve report --dataset 'my clips' computes it"
    assert made_alone() == f"Agreement with people is not computed yet: {command}."
    report_on(engine, dataset, tmp_path)
    assert made_alone() == "None"
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.rating).where(schema.rating.c.sample_id == ids[-1]))
    with engine.begin() as connection:
        connection.execute(sa.insert(schema.rating), [{**RATING, "sample_id": ids[-1], "rater": each} for each in "ab"])
    judged_later = made_alone()
    older = r"is older than the newest scores or judgements \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\)"
    assert re.fullmatch(f"Agreement with people {older}: {command} again.", judged_later)
    report_on(engine, dataset, tmp_path)
    assert made_alone() == "None"
    set_scores(engine, {i: value_of(place + 1) for place, i in enumerate(ids)})
    assert re.search(older, made_alone())


# What is missing


Fill = Callable[[Engine, Dataset], None]


def scored(engine: Engine, dataset: Dataset, systems: tuple[str, ...] = SYSTEMS, n_videos: int = 6) -> list[int]:
    ids = add_captions(engine, dataset, n_videos, systems)
    set_scores(engine, {i: (7 * place % 11) / 11 for place, i in enumerate(ids)})
    return ids


def nothing(engine: Engine, dataset: Dataset) -> None:
    pass


def no_scores(engine: Engine, dataset: Dataset) -> None:
    rate(engine, {i: (place, place + 1) for place, i in enumerate(add_captions(engine, dataset, 3, SYSTEMS))})


def no_ratings(engine: Engine, dataset: Dataset) -> None:
    scored(engine, dataset)


def one_rater(engine: Engine, dataset: Dataset) -> None:
    rate(engine, {i: (place % 5,) for place, i in enumerate(scored(engine, dataset))})


def one_system(engine: Engine, dataset: Dataset) -> None:
    rate(engine, {i: (place % 5, place % 4) for place, i in enumerate(scored(engine, dataset, ("alone",)))})


def four_systems(engine: Engine, dataset: Dataset) -> None:
    rate(engine, {i: (place % 4, place % 4) for place, i in enumerate(scored(engine, dataset, SYSTEMS[:4]))})


def one_video(engine: Engine, dataset: Dataset) -> None:
    rate(engine, {i: (place, place + 1) for place, i in enumerate(scored(engine, dataset, n_videos=1))})


def few_videos(engine: Engine, dataset: Dataset) -> None:
    """Everything points one way, on three videos."""
    ids = add_captions(engine, dataset, 3, SYSTEMS)
    set_scores(engine, {i: value_of(place) for place, i in enumerate(ids)})
    rate(engine, {i: (5 * value_of(place), 5 * value_of(place)) for place, i in enumerate(ids)})


def one_metric_with_one_system(engine: Engine, dataset: Dataset) -> None:
    ids = add_captions(engine, dataset, N_VIDEOS, SYSTEMS)
    set_scores(engine, {i: value_of(place) for place, i in enumerate(ids)})
    set_scores(engine, {i: value_of(place) for place, i in enumerate(ids) if place % 5 == 2}, "ecs")
    rate(engine, {i: (5 * value_of(place) + place % 2, 3) for place, i in enumerate(ids)})


def constant_ratings(engine: Engine, dataset: Dataset) -> None:
    rate(engine, dict.fromkeys(scored(engine, dataset), (4, 4)))


def constant_scores(engine: Engine, dataset: Dataset) -> None:
    ids = add_captions(engine, dataset, 4, SYSTEMS)
    set_scores(engine, dict.fromkeys(ids, 0.5))
    rate(engine, {i: (place % 5, place % 3) for place, i in enumerate(ids)})


def rated_failures(engine: Engine, dataset: Dataset) -> None:
    ids = add_captions(engine, dataset, 4, SYSTEMS)
    set_scores(engine, {i: None if place % 2 else place / 20 for place, i in enumerate(ids)})
    rate(engine, {i: (1, 2) for place, i in enumerate(ids) if place % 2})


def stale_scores(engine: Engine, dataset: Dataset) -> None:
    ids = scored(engine, dataset)
    for sample_id in ids[:3]:
        change_text(engine, sample_id, "another text")
    rate(engine, {i: (place % 5, place % 3) for place, i in enumerate(ids)})


def old_ratings(engine: Engine, dataset: Dataset) -> None:
    ids = scored(engine, dataset)
    rate(engine, {i: (place % 5, place % 3) for place, i in enumerate(ids)})
    for sample_id in ids[:3]:
        change_text(engine, sample_id, "another text")


def synthetic(engine: Engine, dataset: Dataset) -> None:
    rate(engine, {i: (place % 5, place % 3) for place, i in enumerate(scored(engine, dataset))}, synthetic=True)


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (
            nothing,
            [
                "No sample has a score yet",
                "There are no ratings and no labels",
                "VCS and ECS need candidate captions.",
            ],
        ),
        (no_scores, ["No sample has a score yet", "No rated sample has a score, so no metric can be compared."]),
        (
            no_ratings,
            [
                "There are no ratings and no labels",
                "It has no rating.",
                "Let two people rate captions of at least 10 videos",
                "reelsieve rate bad --aspect overall",
            ],
        ),
        (
            one_rater,
            [
                "There is no human ceiling, which needs a second rater. Only one person rated.",
                "no second rater",
                "Let a second person rate",
                "--aspect coverage",
            ],
        ),
        (one_system, ["only alone has values", "since only one system was rated"]),
        (
            four_systems,
            ["VCS (τ-b 0.00) ranks 4 systems, too few for a claim: even people's own order has p 0.083."],
        ),
        (one_video, ["only samples of one video were rated", "by coverage is open: 1 video, 10 needed."]),
        (
            few_videos,
            [
                "Whether VCS orders captions by coverage is open: 3 videos, 10 needed.",
                "VCS: alpha has the highest mean; whether it is best is open: 3 videos, 10 needed.",
                "VCS (τ-b 1.00) is not shown to rank the 5 systems as people do: 3 videos, 10 needed.",
                "Rate captions of 7 more videos: a conclusion needs 10.",
                "reelsieve rate bad --aspect coverage",
                "good coverage: no threshold, since 15 rated samples of 3 videos have a score, and a threshold needs "
                "20 samples of 10 videos.",
            ],
        ),
        (
            one_metric_with_one_system,
            [
                "VCS (τ-b 1.00) ranks the 5 systems as people do.",
                "ECS ranks no systems: only one has scores and ratings.",
            ],
        ),
        (constant_ratings, ["all 30 samples have the same rating, 4 of 5", "its values or the ratings are all equal"]),
        (
            constant_scores,
            [
                "its values or the ratings are all equal",
                "The best 50 % would be 10 samples: 10 of these share the value 0.5000 with 10 more, which",
            ],
        ),
        (rated_failures, ["none of the rated captions has a score", "10 have no value (most of all: undefined)"]),
        (
            stale_scores,
            [
                "3 scores of VCS are stale and left out",
                "3 have a stale score",
                "27 of 30 rated samples",
                "Compute stale scores again",
            ],
        ),
        (old_ratings, ["6 ratings do not count, since their texts have changed"]),
        (
            synthetic,
            ["More", "The ratings are synthetic: made by a program, not by people.", "start with your own videos"],
        ),
    ],
)
def test_the_page_says_what_is_missing_and_why(engine: Engine, tmp_path: Path, fill: Fill, said: list[str]) -> None:
    dataset = make_dataset(engine, "bad")
    fill(engine, dataset)
    made = report_on(engine, dataset, tmp_path, ("vcs", "ecs"))
    for sentence in said:
        assert sentence in made.text
    assert "nan" not in made.text.lower().split()
    assert "None" not in made.text.split()
    if fill in (nothing, no_scores, no_ratings, one_video, few_videos, constant_scores):
        # Little data give no good answer, and select nothing.
        answers = made.numbers["answers"]
        assert {answers["trust"]["light"], answers["best"]["light"]} == {"open"}
        assert 1 <= len(answers["steps"]) <= 3
        assert not [step for step in answers["steps"] if "select" in (step["command"] or "")]


def test_the_references_that_decided_come_first(engine: Engine, tmp_path: Path) -> None:
    """Of nine references a card shows three: by order of keys, unless a metric counts another one."""
    dataset = make_dataset(engine, "many")
    video_id = add_video(engine, dataset, "v", status="text_only")
    for number in range(9):
        add_reference(engine, dataset, video_id, f"r{number}", f"story number {number}")
    set_scores(engine, {add_sample(engine, dataset, video_id, "c", "a dog runs"): 1.0})
    made = report_on(engine, dataset, tmp_path, vcs=Explanation(["why"], [], reference="r7"))
    shown = re.findall(r"3 of 9 references|This reference decided the score of VCS:|story number \d", made.text)
    stories = [f"story number {i}" for i in (7, 0, 1)]
    assert shown == ["3 of 9 references", "This reference decided the score of VCS:", *stories]


def test_nothing_in_a_dataset_is_markup(engine: Engine, tmp_path: Path) -> None:
    dataset = make_dataset(engine, "hostile")
    # Postgres refuses NUL alone.
    system, aspect = "<b>sys</b>$x$", 'aspect"><script>alert(3)</script>'
    ids = add_captions(engine, dataset, 3, [system, "other"], HOSTILE)
    set_scores(engine, {i: place / 7 for place, i in enumerate(ids)})
    rate(engine, {i: (place, place) for place, i in enumerate(ids)}, aspect)
    told = Explanation([HOSTILE], [{"<i>fact</i>": HOSTILE, "sentence": "</td></table><h1>"}])
    made = report_on(engine, dataset, tmp_path, vcs=told)
    assert {"script", "b x", "h1 x"}.isdisjoint(tag for tag, _ in made.tags)
    assert [tag for tag, _ in made.tags].count("h1") == 1
    assert not [attrs for _, attrs in made.tags if any(name.startswith("on") for name in attrs)]
    assert "<script>alert(1)</script> <img src=x onerror=alert(2)> {{ 7 * 7 }} &amp;" in made.text
    assert r"\u202eturned\u202c \u001b[2Jend" in made.text
    assert not any(character in made.html for character in "\x1b\u202e\u202c")
    assert "<b>sys</b>$x$" in made.text


def test_a_video_that_is_gone_is_named_and_others_are_shown(engine: Engine, tmp_path: Path) -> None:
    dataset = make_dataset(engine, "media")
    files = {name: write_clip(tmp_path / f"{name}.avi") for name in ("there", "gone", "changed")}
    ids = []
    for name, path in files.items():
        video_id = add_video(engine, dataset, name, content=path.read_bytes())
        state = path.resolve().stat()
        columns = {
            "uri": str(path.resolve()),
            "size_bytes": state.st_size,
            "mtime_ns": state.st_mtime_ns,
            "n_frames": 12,
            "width": 32,
            "height": 32,
        }
        with engine.begin() as connection:
            connection.execute(sa.update(schema.video).where(schema.video.c.video_id == video_id).values(columns))
        ids.append(add_sample(engine, dataset, video_id, f"{name}_caption"))
    set_scores(engine, {i: place / 3 for place, i in enumerate(ids)})
    files["gone"].unlink()
    write_clip(files["changed"], n_frames=5)
    made = report_on(engine, dataset, tmp_path / "out")
    assert "No frames: the file cannot be shown: no such file or directory: put the file back" in made.text
    assert (
        "No frames: the file cannot be shown: the file has changed since it was ingested: put the file back"
        in made.text
    )
    pictures = [attrs for tag, attrs in made.tags if tag == "img"]
    assert [attrs["alt"] for attrs in pictures] == [f"Frame at {time} s" for time in ("0.0", "0.2", "0.5", "0.8")]
    assert str(tmp_path) not in made.html


# Files


def test_a_page_that_fails_leaves_the_one_before(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = make_dataset(engine, "kept")
    before = report_on(engine, dataset, tmp_path)

    def fail(*_: object) -> str:
        raise RuntimeError("no page")

    monkeypatch.setattr(report, "render_page", fail)
    with pytest.raises(RuntimeError, match="no page"):
        report_on(engine, dataset, tmp_path)
    assert before.path.read_text(encoding="utf-8") == before.html
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "report.json"]


def test_a_folder_that_is_a_file_is_refused(engine: Engine, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(ReportError, match="name a folder with --to"):
        report_on(engine, make_dataset(engine, "refused"), taken)
    assert taken.read_text() == "mine"
