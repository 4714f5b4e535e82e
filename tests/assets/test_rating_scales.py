"""Declared scales and mean ratings: what ingest reads, what is stored, and what statistics take for the best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.agreement.judged import load_judged_samples
from assets.agreement.scales import load_scale
from assets.ingest.declarations import SCALES_FILE, read_declarations
from assets.ingest.readers import read_table
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import DIMENSIONS, RatingRow, RawRow
from assets.ingest.run import ingest_folder
from assets.ingest.scales import DEFAULT_SCALE, Scale, parse_scale
from assets.ingest.validate import validate_row
from assets.promise.estimated_means import _choose_half_width
from assets.promise.terms import PromiseTerms, check_scale
from assets.words.labels import load_ratings_note
from db.manifest.datasets import find_dataset
from db.selection.recipes import SelectionError, parse_recipe
from tests.assets.manifests import Row, candidate, write_lines, write_manifest
from tests.db.builders import make_dataset
from tests.db.freezing import freeze_recipe

SCALES = {
    "overall": "1-7",
    "points": "0-100",
    "errors": "0-20, lowest is best",
    "true": "yes-no",
    "z": "real",
}


def scale(name: str) -> Scale:
    parsed = parse_scale(name)
    assert parsed is not None
    return parsed


def row(aspect: str, value: Any, rater: str | None = "ann", caption: str = "c1", **more: Any) -> Row:
    fields = {"caption_id": caption, "rater": rater, "aspect": aspect, "value": value, **more}
    return {name: field for name, field in fields.items() if field is not None}


def check(fields: Row) -> RatingRow | Reject:
    scales = {aspect: scale(name) for aspect, name in SCALES.items()}
    checked = validate_row(RawRow("ratings.jsonl", 1, "rating", fields, None, ""), DIMENSIONS, scales)
    assert isinstance(checked, RatingRow | Reject)
    return checked


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        (row("overall", 7), 7),
        (row("overall", 7.0), 7),
        (row("points", 0), 0),
        (row("errors", 20), 20),
        (row("true", True), 1),
        (row("true", "No"), 0),
        (row("true", 0.25, None, mean_of=4), 0.25),
        (row("z", -1.5), -1.5),
        (row("fluency", 4.5, None, mean_of=2), 4.5),
        (row("overall", 6.5, "panel", mean_of=2), 6.5),
    ],
)
def test_a_rating_on_its_scale_is_accepted(fields: Row, value: float) -> None:
    checked = check(fields)
    assert isinstance(checked, RatingRow)
    assert checked.value == value
    assert checked.rater == fields.get("rater", f"mean of {fields.get('mean_of')}")
    assert checked.extra == ({"mean_of": fields["mean_of"]} if "mean_of" in fields else {})


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        (row("overall", 8), "out_of_range", "field 'value' is 8: the scale is 1-7"),
        (row("overall", 0), "out_of_range", "field 'value' is 0: the scale is 1-7"),
        (row("points", 0.5), "wrong_type", "mean_of with the number of raters"),
        (row("errors", True), "wrong_type", "give a number, since the scale is 0-20, lowest is best"),
        (row("true", "perhaps"), "wrong_type", "give yes or no, since the scale is yes-no"),
        (row("true", 2), "out_of_range", "the scale is yes-no"),
        (row("z", "high"), "wrong_type", "give a number, since the scale is real"),
        (row("z", [1]), "wrong_type", "give a number"),
        (row("z", -1.1e12), "out_of_range", "on the scale real give a number from -1e12 to 1e12"),
        (row("z", 10**299, None, mean_of=2), "out_of_range", "from -1e12 to 1e12"),
        (row("fluency", 5.5, None, mean_of=2), "out_of_range", "the scale is 1-5"),
        (row("fluency", 4.5, None, mean_of=1), "out_of_range", "field 'mean_of' is 1"),
        (row("fluency", 4.5, None, mean_of="three"), "wrong_type", "field 'mean_of' is 'three'"),
        (row("overall", 4, None), "missing_field", "field 'rater' is missing: add it"),
        # As before there were scales.
        (row("fluency", 4.5), "wrong_type", "field 'value' is 4.5: input should be a valid integer"),
        (row("fluency", 7), "out_of_range", "field 'value' is 7: input should be less than or equal to 5"),
        (row("fluency", True), "wrong_type", "field 'value' is True: input should be a valid integer"),
        (row("fluency", 4, None), "missing_field", "field 'rater' is missing: add it"),
    ],
)
def test_any_other_rating_is_refused(fields: Row, code: str, reason: str) -> None:
    refused = check(fields)
    assert isinstance(refused, Reject)
    assert refused.code == code
    assert reason in refused.reason


@pytest.mark.parametrize("name", ["1-5", "-3-3", "yes-no, lowest is best", "real", "real, lowest is best"])
def test_a_scale_is_read_by_its_name(name: str) -> None:
    assert scale(name).name == name


@pytest.mark.parametrize("name", ["", "5-1", "1-1", "1", "0.5-1", "1-5 ", "real, highest is best", "yes", "1-5,lowest"])
def test_any_other_name_is_no_scale(name: str) -> None:
    assert parse_scale(name) is None


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[]", "it is not an object"),
        ("{", "scales.json: "),
        ('{"overall": "5-1"}', "'5-1' is not a scale for 'overall'"),
        ('{"overall": 5}', "5 is not a scale for 'overall'"),
        ('{"overall": "1-5", "overall": "1-7"}', "scales.json: "),
        ('{"caf\xe9": "1-5"}', "scales.json: byte 6 is not valid UTF-8"),
    ],
)
def test_a_file_without_scales_is_refused(tmp_path: Path, content: str, fault: str) -> None:
    (tmp_path / SCALES_FILE).write_text(content, encoding="latin-1")
    with pytest.raises(ManifestError, match="give a JSON object such as") as refused:
        read_declarations(tmp_path)
    assert fault in str(refused.value)


def manifest(folder: Path, ratings: list[Row], scales: dict[str, str] | None = None) -> Path:
    captions = [candidate(f"c{n}", f"v{n}", f"A dog runs {n} times.") for n in range(1, 4)]
    write_manifest(folder, ["v1", "v2", "v3"], captions=captions, ratings=ratings)
    if scales is not None:
        (folder / SCALES_FILE).write_text(json.dumps(scales))
    return folder


def stored(engine: Engine, view: str = "rating") -> dict[tuple[str, str, str], float]:
    query = f"SELECT key, aspect, rater, v.value FROM {view} v JOIN sample USING (sample_id)"
    with engine.connect() as connection:
        return {(key, aspect, rater): value for key, aspect, rater, value in connection.execute(sa.text(query))}


def test_ratings_are_stored_as_declared_and_statistics_take_the_highest_for_the_best(
    engine: Engine, tmp_path: Path
) -> None:
    ratings = [
        row("errors", 3),
        row("overall", 6),
        row("z", -2.5),
        row("z", 1.25, caption="c2"),
        row("fluency", 4.5, None, mean_of=3),
        row("points", 80.5),
    ]
    report = ingest_folder(engine, manifest(tmp_path / "m", ratings, {**SCALES, "z": "real, lowest is best"}), "set")
    assert (report.accepted["ratings"], report.rejected) == (5, 1)
    expected = {
        ("c1", "errors", "ann"): 3.0,
        ("c1", "overall", "ann"): 6.0,
        ("c1", "z", "ann"): -2.5,
        ("c2", "z", "ann"): 1.25,
        ("c1", "fluency", "mean of 3"): 4.5,
    }
    assert stored(engine) == stored(engine, "current_rating") == expected
    # 0 + 20 - 3, and 0 minus the number on real numbers.
    turned = {("c1", "errors", "ann"): 17.0, ("c1", "z", "ann"): 2.5, ("c2", "z", "ann"): -1.25}
    assert stored(engine, "random_rating") == {**expected, **turned}
    with engine.connect() as connection:
        dataset = find_dataset(connection, "set")
        assert dataset is not None
        judged = load_judged_samples(connection, dataset, [])
        assert judged.raters["fluency"] == ("mean of 3",)
        assert judged.ratings["errors"][0, 0] == 17
        assert load_scale(connection, dataset, "errors") == scale("0-20, lowest is best")
        assert load_scale(connection, dataset, "fluency") == DEFAULT_SCALE
        note = load_ratings_note(connection, dataset.dataset_id)
        means = connection.scalar(sa.text("SELECT mean_ratings FROM sample_scores WHERE sample = 'c1'"))
    assert note["lowest is best"] == (
        "statistics use 20 minus the rating of errors and 0 minus the rating of z, since the lowest is best"
    )
    assert means == {"errors": 3, "fluency": 4.5, "overall": 6, "z": -2.5}


@pytest.mark.parametrize(
    ("recipe", "field"),
    [({"by": "rating_errors"}, "by"), ({"by": "words", "at_least": {"rating_errors": 2}}, "at_least")],
)
def test_a_recipe_never_takes_the_highest_where_the_lowest_is_best(
    engine: Engine, tmp_path: Path, recipe: dict[str, Any], field: str
) -> None:
    ratings = [row("errors", n, caption=f"c{n}") for n in range(1, 4)]
    ratings += [row("overall", n, caption=f"c{n}") for n in range(1, 4)]
    ingest_folder(engine, manifest(tmp_path / "m", ratings, SCALES), "set")
    dataset = make_dataset(engine, "set")
    with (
        engine.begin() as connection,
        pytest.raises(SelectionError, match=f"the recipe's {field} names rating_e.* a recipe takes the highest"),
    ):
        freeze_recipe(connection, dataset, parse_recipe({**recipe, "keep": 1.0}))
    best = parse_recipe({"by": "rating_overall", "where": '"rating_errors" <= 2', "keep": 1.0})
    with engine.begin() as connection:
        assert freeze_recipe(connection, dataset, best).n == 2


def test_a_second_ingest_changes_nothing_and_the_scales_stay_with_the_dataset(engine: Engine, tmp_path: Path) -> None:
    folder = manifest(tmp_path / "m", [row("overall", 6)], {"overall": "1-7"})
    ingest_folder(engine, folder, "set")
    assert ingest_folder(engine, folder, "set").accepted["ratings"] == 0
    (folder / SCALES_FILE).unlink()
    write_lines(folder / "ratings.jsonl", [row("overall", 6), row("overall", 7, "bob")])
    assert ingest_folder(engine, folder, "set").accepted["ratings"] == 1
    assert sorted(stored(engine).values()) == [6, 7]


def test_a_scale_declared_later_reads_the_refused_ratings(engine: Engine, tmp_path: Path) -> None:
    folder = manifest(tmp_path / "m", [row("overall", 6), row("overall", 2, "bob")])
    assert ingest_folder(engine, folder, "set").rejected == 1
    (folder / SCALES_FILE).write_text('{"overall": "1-7"}')
    report = ingest_folder(engine, folder, "set")
    assert (report.rejected, sorted(stored(engine).values())) == (0, [2, 6])
    (folder / SCALES_FILE).write_text('{"overall": "1-5"}')
    with pytest.raises(ManifestError, match="has ratings of 'overall' that are not on the scale 1-5"):
        ingest_folder(engine, folder, "set")


@pytest.mark.parametrize(("page_scale", "declared"), [("0-100", "0-100"), ("yes-no", "1-7"), ("1-5", "1-7")])
def test_answers_of_a_page_do_not_change_their_scale(
    engine: Engine, tmp_path: Path, page_scale: str, declared: str
) -> None:
    folder = manifest(tmp_path / "m", [row("overall", 4, scale=page_scale)])
    ingest_folder(engine, folder, "set")
    (folder / SCALES_FILE).write_text(json.dumps({"overall": declared}))
    with pytest.raises(ManifestError, match=f"not on the scale {declared}"):
        ingest_folder(engine, folder, "set")


def test_tables_of_all_formats_read_scales_alike(tmp_path: Path) -> None:
    scales = {"overall": scale("1-7"), "true": scale("yes-no")}
    lines = write_lines(
        tmp_path / "ratings.jsonl", [row("overall", 6), row("true", "yes"), row("a", 2.5, None, mean_of=2)]
    )
    (tmp_path / "csv").mkdir()
    table = tmp_path / "csv" / "ratings.csv"
    table.write_text("caption_id,rater,aspect,value,mean_of\nc1,ann,overall,6,\nc1,ann,true,yes,\nc1,,a,2.5,2\n")
    expected = [("ann", 6), ("ann", 1), ("mean of 2", 2.5)]
    digests = []
    for path in (lines, table):
        rows = [validate_row(raw, scales=scales) for raw in read_table(path, "rating")]
        assert [(each.rater, each.value) for each in rows if isinstance(each, RatingRow)] == expected
        digests.append([each.content_sha256 for each in rows if isinstance(each, RatingRow)])
    assert digests[0] == digests[1]


def test_a_promise_counts_ratings_on_the_scale_of_their_aspect() -> None:
    terms = PromiseTerms(limit=0.1, error_below=6, aspect="overall")
    check_scale(terms, scale("1-7"))
    check_scale(terms, scale("real"))
    with pytest.raises(SelectionError, match="above 1 and at most 5, since ratings go from 1 to 5"):
        check_scale(terms, DEFAULT_SCALE)
    with pytest.raises(SelectionError, match="the lowest rating of overall is best"):
        check_scale(terms, scale("0-20, lowest is best"))


def test_means_are_wanted_to_a_twentieth_of_the_scale() -> None:
    import numpy as np

    ratings = np.array([1.0, 2.0, 5.0])
    halves = [_choose_half_width(scale(name), ratings) for name in ("1-5", "0-100", "real")]
    assert halves == pytest.approx([0.2, 5.0, 0.2])
    assert _choose_half_width(scale("real"), ratings[:1]) == 1.0
