"""Facts on a report's page: numbers and what stands out by hand, nothing of another content, samples without scores."""

from __future__ import annotations

import hashlib
import shlex
import statistics
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.reports.dataset_facts import load_dataset_facts
from assets.selection.select import make_selection
from assets.sources.facts import measure_texts
from db import schema
from db.evidence.facts import VideoFacts, store_video_facts
from db.manifest.datasets import Dataset, find_dataset
from db.selection.recipes import parse_recipe
from tests.assets.reporting import MadeReport, add_captions, report_on
from tests.db.builders import add_sample, add_video, change_text, make_dataset, set_scores

# By video: motion, the share of still frames, brightness, cuts, sound, and the byte of which its signature is made.
VIDEOS: dict[str, tuple[float | None, float, float, int, bool, int]] = {
    "v0": (0.0, 1.0, 0.5, 0, True, 0b11110000),
    "v1": (2.0, 0.0, 0.1, 2, True, 0b11110000),
    "v2": (8.0, 0.25, 0.75, 0, False, 0b01010101),
    "v3": (None, 0.9, 0.6, 0, True, 0b00110011),
}
CAPTIONS = {
    "c0": ("v0", "A dog runs over the green lawn."),
    "c1": ("v1", "A dog runs over the green lawn."),
    "c2": ("v2", "The video shows a brown dog on the grass. It runs."),
    "c3": ("v3", "Ein Hund rennt über die grüne Wiese, und die Kinder lachen laut."),
    "c4": ("v3", "A dog."),
}


def described(engine: Engine, name: str = "facts") -> Dataset:
    dataset = make_dataset(engine, name)
    rows = []
    for key, (motion, still, brightness, cuts, has_sound, bits) in VIDEOS.items():
        content = key.encode()
        facts: dict[str, Any] = {"motion": motion, "static_share": still, "brightness": brightness, "cuts": cuts}
        signs = bytes([bits]) * 64 + bytes([255 - bits]) * 64
        facts |= {"has_sound": has_sound, "signature": signs, "black_share": 0.0}
        video_id = add_video(engine, dataset, key, content=content, uri=None)
        rows.append(VideoFacts(video_id, hashlib.sha256(content).digest(), facts))
        for caption, (video, text) in CAPTIONS.items():
            if video == key:
                add_sample(engine, dataset, video_id, caption, text)
    store_video_facts(engine, "rule", None, rows)
    measure_texts(engine, dataset, 0, lambda _: None)
    return dataset


@pytest.fixture(scope="module")
def page(module_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> MadeReport:
    return report_on(module_engine, described(module_engine), tmp_path_factory.mktemp("page"), ("vcs", "ecs"))


def summary(made: MadeReport, fact: str) -> dict[str, Any]:
    (found,) = [each["summary"] for each in made.numbers["described"]["facts"] if each["fact"] == fact]
    return dict(found)


def test_each_fact_has_its_ends_its_median_and_all_its_values_in_bins(page: MadeReport) -> None:
    motion = summary(page, "motion")
    assert (motion["n"], motion["median"]) == (3, 2.0)
    assert [(motion[end]["value"], motion[end]["key"]) for end in ("least", "greatest")] == [(0.0, "v0"), (8.0, "v2")]
    low, high, step, first, counts, _ = motion["histogram"]
    assert (low, high, sum(counts), first) == (0.0, 8.0, 3, 0)
    assert [counts[int(value / step)] for value in (0.0, 2.0, 8.0)] == [1, 1, 1]
    words = [len(text.split()) for _, text in CAPTIONS.values()]
    assert (summary(page, "words")["n"], summary(page, "words")["median"]) == (5, statistics.median(words))
    # Nothing has it: a fact without a value is not on the page.
    assert "letterbox" not in {each["fact"] for each in page.numbers["described"]["facts"]}


def test_what_stands_out_is_counted_and_named_with_its_condition(page: MadeReport) -> None:
    notable = {each["condition"]: each["sentence"] for each in page.numbers["described"]["notable"]}
    assert notable == {
        "static_share >= 0.9": "2 of 4 videos hardly move: v0, v3.",
        "brightness < 0.15": "1 of 4 videos is dark: v1.",
        "cuts >= 1": "1 of 4 videos has a hard cut: v1.",
        "has_sound = false": "1 of 4 videos has no sound track: v2.",
        "words < 5": "1 of 5 captions has fewer than five words: c4.",
        "boilerplate > 0": "1 of 5 captions has a stock phrase: c2.",
        "language <> 'en'": "1 of 5 captions is not in en, the commonest language: c3.",
        "dedupe: 1": "2 of 5 captions have the same text as another caption: c0, c1.",
        "dedupe_videos: 0.6": "1 of 4 videos is a copy or near-copy of another video: v1 of v0.",
    }
    for sentence in notable.values():
        assert sentence in page.text


def test_damaged_videos_come_first_by_the_names_of_their_files(engine: Engine) -> None:
    dataset = described(engine)
    table = schema.video
    with engine.begin() as connection:
        for key, status in (("v1", "undecodable"), ("v3", "damaged")):
            values = {"status": status, "error": "cut", "uri": f"/clips/of {key}/{key}.mp4"}
            connection.execute(sa.update(table).where(table.c.key == key).values(values))
        found = load_dataset_facts(connection, dataset)
    assert found is not None
    first, *_ = found.notable
    assert first["sentence"] == "2 of 4 videos are damaged: v1.mp4, v3.mp4."
    recipe = parse_recipe({"by": "words", "keep": 1.0, "where": first["condition"], "choose": "random", "seed": 1})
    set_scores(engine, {})
    assert make_selection(engine, dataset, recipe, lambda: pytest.fail("needs no encoder"), lambda _: None).n == 3


def test_every_copy_is_named_with_the_video_that_it_is_most_like(page: MadeReport) -> None:
    assert page.numbers["described"]["copies"] == [{"key": "v1", "original": "v0", "similarity": pytest.approx(1)}]
    table = page.text[page.text.index("Videos that are copies of others") :]
    assert table.index("v1") < table.index("v0") < table.index("1.00")


def test_without_a_score_the_first_screen_has_facts_and_what_each_metric_needs(page: MadeReport) -> None:
    assert "What is unusual?" in page.text
    assert "Which system is best?" not in page.text
    trust = page.numbers["answers"]["trust"]["sentences"]
    assert trust[:3] == [
        "No sample has a score yet.",
        "VCS needs references: none found.",
        "ECS needs keypoints: none found.",
    ]
    commands = [step["command"] for step in page.numbers["answers"]["steps"]]
    assert commands[0] == "reelsieve look facts"
    assert not [command for command in commands if command and "score" in command]


def selected(engine: Engine, dataset: Dataset, command: str) -> int:
    """How many captions the command of a step takes."""
    words = shlex.split(command)
    assert words[:4] == ["reelsieve", "select", "--dataset", dataset.name]
    options = dict(zip(words[4::2], words[5::2], strict=True))
    rule = {name.removeprefix("--"): value for name, value in options.items()}
    rule |= {"seed": int(options["--seed"]), "keep": float(options["--keep"])}
    return make_selection(engine, dataset, parse_recipe(rule), lambda: pytest.fail("no text"), lambda _: None).n


def proposals(made: MadeReport) -> list[tuple[str, str]]:
    steps = [(step["sentence"], step["command"] or "") for step in made.numbers["answers"]["steps"]]
    return [(sentence, command) for sentence, command in steps if " select " in command]


def test_the_proposed_condition_takes_as_many_as_the_page_says(page: MadeReport, module_engine: Engine) -> None:
    ((sentence, command),) = proposals(page)
    # c4 is short, c2 has a stock phrase. Clips that stand still have three of the five captions: too many.
    assert sentence == "Select the 3 of 5 captions that meet a condition on facts."
    assert "--where 'words >= 5 and boilerplate = 0'" in command
    assert page.numbers["described"]["proposed"] == {"condition": "words >= 5 and boilerplate = 0", "n": 3}
    with module_engine.connect() as connection:
        dataset = find_dataset(connection, "facts")
    assert dataset is not None
    assert selected(module_engine, dataset, command) == 3


@pytest.mark.parametrize(
    ("still", "words", "condition"),
    [
        ((1.0, 1.0, 1.0, 1.0), "A dog runs over the lawn.", None),
        ((0.0, 0.0, 0.0, 0.0), "A dog runs over the lawn.", None),
        ((None, None, None, None), "A dog.", None),
        ((1.0, 1.0, 1.0, 0.0), "A dog runs over the lawn.", None),
        ((1.0, 1.0, 0.0, 0.0), "A dog runs over the lawn.", "static_share < 0.9"),
        ((None, 0.0, 0.0, 1.0), "A dog runs over the lawn.", "static_share < 0.9"),
    ],
)
def test_no_condition_is_proposed_that_takes_nothing_or_all(
    engine: Engine, tmp_path: Path, still: tuple[float | None, ...], words: str, condition: str | None
) -> None:
    dataset = make_dataset(engine, "part")
    for place, share in enumerate(still):
        content = bytes([place])
        video_id = add_video(engine, dataset, f"v{place}", content=content, uri=None)
        add_sample(engine, dataset, video_id, f"c{place}", words)
        facts = {"static_share": share, "black_share": 0.0, "letterbox": 0.0}
        store_video_facts(engine, "rule", None, [VideoFacts(video_id, hashlib.sha256(content).digest(), facts)])
    measure_texts(engine, dataset, 0, lambda _: None)
    made = report_on(engine, dataset, tmp_path, ("vcs", "ecs"))
    found = proposals(made)
    if condition is None:
        assert not found
        return
    ((sentence, command),) = found
    assert sentence == "Select the 2 of 4 captions that meet a condition on facts."
    assert f"--where '{condition}'" in command
    assert selected(engine, dataset, command) == 2


def test_without_a_score_the_samples_are_the_extremes_with_all_their_facts(page: MadeReport) -> None:
    samples = {sample["key"]: sample for sample in page.numbers["groups"]["facts"]}
    assert "least motion: 0" in samples["c0"]["why"]
    assert "most static share: 1" in samples["c0"]["why"]
    assert "most motion: 8" in samples["c2"]["why"]
    # Of the video it is the first caption, of a fact about texts the caption itself.
    assert "least words: 2" in samples["c4"]["why"]
    assert samples["c1"]["facts"]["brightness"] == 0.1
    assert "motion" not in samples["c3"]["facts"]


def test_scores_put_the_facts_below_the_answers(engine: Engine, tmp_path: Path) -> None:
    dataset = described(engine)
    with engine.connect() as connection:
        ids = connection.scalars(sa.select(schema.sample.c.sample_id)).all()
    set_scores(engine, {sample_id: place / 5 for place, sample_id in enumerate(ids)})
    made = report_on(engine, dataset, tmp_path)
    shown = [made.text.index(found) for found in ("Which system is best?", "2 of 4 videos hardly move", "Samples to")]
    assert shown == sorted(shown)
    assert set(made.numbers["groups"]) == {"best", "worst", "metrics", "people"}
    assert made.numbers["groups"]["best"][0]["facts"]["words"] > 0


def test_facts_of_another_text_or_file_are_not_on_the_page(engine: Engine, tmp_path: Path) -> None:
    dataset = described(engine)
    with engine.begin() as connection:
        changed = connection.scalar(sa.select(schema.sample.c.sample_id).where(schema.sample.c.key == "c4"))
        other = {"content_sha256": hashlib.sha256(b"another file").digest()}
        connection.execute(sa.update(schema.video).where(schema.video.c.key == "v2").values(other))
    assert changed is not None
    change_text(engine, changed, "A long text that nobody has described yet.")
    found = report_on(engine, dataset, tmp_path, ("vcs", "ecs"))
    assert [found.numbers["described"][name] for name in ("n_videos", "n_captions")] == [3, 4]
    assert summary(found, "motion")["greatest"]["key"] == "v1"
    conditions = {each["condition"] for each in found.numbers["described"]["notable"]}
    assert conditions.isdisjoint({"words < 5", "has_sound = false"})


def test_without_facts_there_is_no_such_section(engine: Engine, tmp_path: Path) -> None:
    dataset = make_dataset(engine, "bare")
    add_captions(engine, dataset, 2, ["a"])
    made = report_on(engine, dataset, tmp_path)
    assert made.numbers["described"] is None
    assert "What are the clips" not in made.text
    assert "reelsieve facts --dataset bare" in [step["command"] for step in made.numbers["answers"]["steps"]]
