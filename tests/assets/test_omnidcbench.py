"""OmniDCBench as a manifest: which rows come out of all its spellings, what is kept of broken output, and labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
import typer
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sqlalchemy.engine import Engine
from typer.testing import CliRunner

from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow
from assets.ingest.run import ingest_folder
from assets.ingest.validate import validate_row
from assets.metrics.evqa.scorer import EVQAScorer
from assets.metrics.evqa.settings import EVQASettings
from assets.metrics.vcs.scorer import VCSScorer, VCSSettings, VCSShortScorer, VCSShortSettings
from assets.scores.base import Scorer
from assets.scores.run import score_shard
from assets.sources.texts import TextVectors
from lab.adapters.omnidcbench.__main__ import main
from lab.adapters.omnidcbench.convert import convert, covered_keypoints, match_clips
from lab.adapters.omnidcbench.references import Keypoint, span_of
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.protocols import ModelIdentity
from tests.assets.manifests import TABLE_NAMES, Row, write_lines
from tests.assets.verifying import dataset_of, make_kind

ONE, TWO, THREE = "Movie/77/1_4s.mp4", "Movie/78/1_4s.mp4", "Youtube/z__z/9.mp4"


def segment(timestamp: object, keypoints: dict[str, list[str]] | None = None, **fields: Any) -> Row:
    points = {name: {"gt_keypoints": texts} for name, texts in (keypoints or {}).items()}
    return {"timestamp": timestamp, **fields, **({"keypoints": points} if points else {})}


def clip(path: str, *segments: Row, name: str = "human_json_anno") -> Row:
    return {"clip_path": path, "duration": 60, name: list(segments)}


FIRST = segment(
    "00:00-00:10",
    {"acoustics_content": ["Rain falls.", " ", "Rain falls."], "segment_detail_caption": ["A man sits."]},
    camera_state="A slow pan.",
    segment_detail_caption=" A man sits. ",
)
SECOND = segment(
    [12.5, 10], {"speech_content": [], "storyline": ["It begins."]}, speech_content_en="Hi!", speech_content="嗨"
)
CLIPS = [
    clip(ONE, FIRST, SECOND),
    clip(TWO, segment("5-5", {"camera_state_en": ["It zooms."]}), name="human_json_anno_en"),
    clip(THREE),
]
SAID = [
    {"timestamp": "00:00-00:09", "caption": "A man sits.\nHe waits."},
    {"timestamp": "00:09-00:13", "caption": "Someone says hi."},
]


@pytest.fixture
def references(tmp_path: Path) -> Path:
    """Three clips, the last one without segments."""
    return write_lines(tmp_path / "references.jsonl", CLIPS)


@pytest.fixture
def converted(references: Path, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], dict[str, list[Row]]]]:
    """Convert the references with one system's predictions: the counts, and the rows of all tables."""

    def run(predictions: Sequence[Row] | str | bytes, labels: Sequence[Row] | None = None) -> Any:
        source = tmp_path / "sys.jsonl"
        if isinstance(predictions, bytes):
            source.write_bytes(predictions)
        elif isinstance(predictions, str):
            source.write_text(predictions, encoding="utf-8")
        else:
            write_lines(source, predictions)
        judged = {} if labels is None else {"sys": write_lines(tmp_path / "labels.jsonl", labels)}
        counts = convert(references, tmp_path / "out", predictions={"sys": source}, labels=judged)
        written = (name for name in TABLE_NAMES.values() if name not in ("qa", "ratings", "vectors"))
        return counts, {name: table(tmp_path / "out", name) for name in written}

    return run


def table(folder: Path, name: str) -> list[Row]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def candidates(tables: dict[str, list[Row]]) -> dict[str, Row]:
    return {row["video_id"]: row for row in tables["captions"] if row["role"] == "candidate"}


# Times


@pytest.mark.parametrize(
    ("timestamp", "want"),
    [
        ("00:00-00:10", (0, 10, False)),
        ("01:05-62:07", (65, 3727, False)),
        ("00:01:05-01:00:07", (65, 3607, False)),
        ("59:59-1:00:01", (3599, 3601, False)),
        (" 3 - 4.25 ", (3, 4.25, False)),
        ("00:03.5–00:04", (3.5, 4, False)),
        ("12-00:03", (3, 12, True)),
        ("00:07-00:07", (7, 7, False)),
        ([1, 2.5], (1, 2.5, False)),
        ([2.5, 1], (1, 2.5, True)),
        (["00:01", "2"], (1, 2, False)),
    ],
)
def test_times_are_read_in_all_spellings(timestamp: object, want: tuple[float, float, bool]) -> None:
    assert span_of(timestamp) == want


NO_TIMES: list[object] = [
    *("", "00:10", "a-b", "1-2-3", "-1-2", "1:2:3:4-5", "٣-4", "1e3-2", "nan-1", f"0-{'9' * 400}", "1.-2", "[0, 1]"),
    *(None, 5, [1], [1, 2, 3], [True, 2], [-1, 2], [0, float("inf")], [None, 1], {"start": 1, "end": 2}),
]


@pytest.mark.parametrize("timestamp", NO_TIMES)
def test_what_is_no_time_is_none(timestamp: object) -> None:
    assert span_of(timestamp) is None


@given(start=st.integers(0, 10**6), length=st.integers(0, 10**5), swapped=st.booleans())
def test_a_span_is_read_back(start: int, length: int, swapped: bool) -> None:
    def clock(seconds: int) -> str:
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    ends = [start, start + length][:: -1 if swapped else 1]
    want = (start, start + length, swapped and length > 0)
    assert span_of("-".join(map(clock, ends))) == span_of("-".join(map(str, ends))) == span_of(ends) == want


# References


def test_the_rows_of_the_references(converted: Any) -> None:
    counts, tables = converted([{"clip_path": ONE, "pred": SAID}])
    assert {name: counts[name] for name in ("clips", "references", "keypoints", "swapped", "dropped")} == {
        "clips": 3, "references": 2, "keypoints": 4, "swapped": 1, "dropped": 2
    }  # fmt: skip
    assert tables["videos"] == [{"video_id": ONE}, {"video_id": TWO}, {"video_id": THREE}]
    reference = {"role": "reference", "system": "reference"}
    assert tables["captions"][:2] == [
        {
            "caption_id": f"{ONE}__reference", "video_id": ONE, **reference,
            "text": "A man sits.\nA slow pan.\nHi!",
            "segments": [
                {"start_s": 0, "end_s": 10, "text": "A man sits.\nA slow pan."},
                {"start_s": 10, "end_s": 12.5, "text": "Hi!"},
            ],
        },
        {
            "caption_id": f"{TWO}__reference", "video_id": TWO, **reference,
            "text": "It zooms.",
            "segments": [{"start_s": 5, "end_s": 5, "text": "It zooms."}],
        },
    ]  # fmt: skip
    keypoints = [
        (row["keypoint_id"], row["video_id"], row["dimension"], row["text"], row["segment_index"])
        for row in tables["keypoints"]
    ]
    assert keypoints == [
        (f"{ONE}__0__segment_detail__1", ONE, "segment_detail", "A man sits.", 0),
        (f"{ONE}__0__acoustics__1", ONE, "acoustics", "Rain falls.", 0),
        (f"{ONE}__0__acoustics__3", ONE, "acoustics", "Rain falls.", 0),
        (f"{TWO}__0__camera_state__1", TWO, "camera_state", "It zooms.", 0),
    ]


GOOD = clip("good.mp4", FIRST)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "line 2, the line: the JSON stops after 1 characters"),
        ("[]", "line 2, the line: the line must be a JSON object"),
        (json.dumps({"human_json_anno": []}), "line 2, clip_path: it is None: give a path"),
        (json.dumps(clip("x" * 401)), "line 2, clip_path: it is 'xxx"),
        (json.dumps(clip("good.mp4")), "line 2, clip_path: 'good.mp4' came before"),
        (json.dumps({"clip_path": "a"}), "line 2, human_json_anno: it is None: give the list"),
        (json.dumps({"clip_path": "a", "human_json_anno_en": "x"}), "line 2, human_json_anno_en: it is 'x'"),
        (json.dumps({"clip_path": "a", "human_json_anno": ["x"]}), "line 2, human_json_anno[0]: it is 'x'"),
        (json.dumps(clip("a", FIRST, segment("soon"))), "line 2, human_json_anno[1].timestamp: it is 'soon': write"),
        (json.dumps(clip("a", segment([0, 1], camera_state=5))), "line 2, human_json_anno[0].camera_state: it is 5"),
        (json.dumps(clip("a", segment([0, 1], {"mood": []}))), "line 2, human_json_anno[0].keypoints: 'mood' is no"),
        (
            json.dumps(clip("a", {"timestamp": "0-1", "keypoints": {"camera_state": ["x"]}})),
            "line 2, human_json_anno[0].keypoints.camera_state: it is ['x']: give",
        ),
        (
            json.dumps(clip("a", segment("0-1", {"camera_state": ["x", 5]}))),  # type: ignore[list-item]  # on purpose
            "line 2, human_json_anno[0].keypoints.camera_state: it is {'gt_keypoints': ['x', 5]}: give",
        ),
        (
            json.dumps(clip("a", segment("0-1", camera_state="\x07"))),
            "line 2, field 'human_json_anno' contains the con",
        ),
        (
            json.dumps(clip("a", segment("0-1", camera_state="x" * 100_001))),
            "line 2, field 'human_json_anno' has 100001",
        ),
    ],
)
def test_bad_references_are_refused_by_line_and_field(tmp_path: Path, line: str, named: str) -> None:
    source = tmp_path / "refs.jsonl"
    source.write_text(f"{json.dumps(GOOD)}\n{line}\n")
    with pytest.raises(ManifestError) as caught:
        convert(source, tmp_path / "out", predictions={})
    assert str(caught.value).startswith(f"refs.jsonl, {named}")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_file_without_clips_or_no_file_is_refused(tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "empty.jsonl", [])
    for source, named in ((empty, r"empty\.jsonl: there is no clip"), (tmp_path / "none", "none: cannot be read")):
        with pytest.raises(ManifestError, match=named):
            convert(source, tmp_path / "out", predictions={})


# Predictions


FIELDS = [
    {"timestamp": "00:00-00:09", "storyline": "He waits.", "segment_detail_caption": "A man sits."},
    {"timestamp": "00:09-00:13", "speech_content_en": "Someone says hi.", "speech_content": "嗨", "shots": 3},
]
FORMS: dict[str, object] = {
    "parsed": [{"clip_path": ONE, "prediction": "no JSON", "prediction_json": FIELDS}],
    "captions": [{"clip_path": ONE, "pred": SAID}],
    "text": [{"clip_path": ONE, "prediction": json.dumps(FIELDS), "prediction_json": None}],
    "fenced": [{"clip_path": ONE, "prediction": f"Here it is:\n```json\n{json.dumps(FIELDS, indent=1)}\n```\nDone."}],
    "open fence": [{"clip_path": ONE, "prediction": f"```JSON {json.dumps(SAID)}"}],
    "object": json.dumps({ONE: SAID}, indent=2),
    "object of texts": "\ufeff" + json.dumps({ONE: json.dumps(SAID)}),
    "by name": json.dumps({"elsewhere/1_4s.mp4": SAID}),
}


@pytest.mark.parametrize("form", [name for name in FORMS if name != "by name"])
def test_all_forms_of_predictions_give_the_same_caption(converted: Any, form: str) -> None:
    counts, tables = converted(FORMS[form])
    assert tables["captions"][2:] == [
        {
            "caption_id": f"{ONE}__sys", "video_id": ONE, "role": "candidate", "system": "sys",
            "text": "A man sits.\nHe waits.\nSomeone says hi.",
            "segments": [
                {"start_s": 0, "end_s": 9, "text": "A man sits.\nHe waits."},
                {"start_s": 9, "end_s": 13, "text": "Someone says hi."},
            ],
        }
    ]  # fmt: skip
    assert counts["systems"]["sys"] == {
        "predictions": 1, "malformed": 0, "missing": 2, "swapped": 0, "unreadable_segments": 0, "untimed_segments": 0,
        "repeated": 0, "unmatched": 0, "lines_without_clip": 0,
    }  # fmt: skip


BROKEN: list[tuple[object, str]] = [
    ("FAILED", "not valid JSON at character 1: Expecting value"),
    ('[{"timestamp": "0-1", "caption": "A man', "the JSON stops after 39 characters, before it is complete"),
    ('{"timestamp": "0-1", "caption": "A man."}', "it is {'timestamp': '0-1', 'caption': 'A man.'}, not a list"),
    ("12", "it is 12, not a list of segments"),
    ("[]", "none of its 0 segments holds a text"),
    ('[{"timestamp": "0-1"}, "A man.", {"caption": " "}, {"caption": 5}]', "none of its 4 segments holds a text"),
    ('[{"caption": "a", "caption": "b"}]', "field 'caption' appears twice"),
    ('[{"timestamp": [0, NaN], "caption": "a"}]', "NaN is not valid JSON"),
    ("[" * 100_000, "it is nested more than 32 levels deep"),
    (json.dumps([{"caption": "x" * 60_000}] * 2), "field 'text' has 120001 characters"),
    ([{"caption": "nul \x00"}], "none of its 1 segments holds a text"),
    ({"caption": "A man."}, "it is {'caption': 'A man.'}, not a list of segments"),
    (None, "prediction_json, prediction, pred are all absent or empty"),
    ("", "prediction_json, prediction, pred are all absent or empty"),
    ("```json\nsorry \x07\n```", "not valid JSON at character 1"),
]


@pytest.mark.parametrize(("output", "fault"), BROKEN)
def test_output_that_cannot_be_read_is_kept(converted: Any, output: object, fault: str) -> None:
    counts, tables = converted([{"clip_path": TWO, "pred": SAID}, {"clip_path": ONE, "prediction": output}])
    row = candidates(tables)[ONE]
    assert (row["text"], "segments" in row) == ("", False)
    assert row["parse_error"].startswith(f"sys.jsonl, line 2: {fault}")
    if not output:
        assert "raw" not in row
    else:
        text = output if isinstance(output, str) else json.dumps(output)
        assert row["raw"] == text.replace("\x07", "\\u0007")[:20_000]
    assert (counts["systems"]["sys"]["predictions"], counts["systems"]["sys"]["malformed"]) == (2, 1)
    assert candidates(tables)[TWO]["text"] == "A man sits.\nHe waits.\nSomeone says hi."


def test_a_line_that_broke_off_is_kept_where_it_names_its_clip(converted: Any) -> None:
    whole = json.dumps({"clip_path": TWO, "pred": SAID})
    counts, tables = converted(f'{whole}\n{{"clip_path": "{ONE}", "prediction": "[{{\n{{"clip_pa\n{{"pred": []}}\n[]\n')
    row = candidates(tables)[ONE]
    assert row["parse_error"].startswith("sys.jsonl, line 2: the JSON stops after")
    assert row["raw"] == f'{{"clip_path": "{ONE}", "prediction": "[{{'
    assert {n: counts["systems"]["sys"][n] for n in ("predictions", "malformed", "lines_without_clip")} == {
        "predictions": 2, "malformed": 1, "lines_without_clip": 3
    }  # fmt: skip


def test_of_a_prediction_what_can_be_read_is_kept(converted: Any) -> None:
    said = [
        {"timestamp": "00:09-00:04", "caption": "First."},
        "Second.",
        {"timestamp": "later", "caption": "Third."},
        {"timestamp": "0-1", "caption": ""},
        {"caption": "Fourth."},
        {"timestamp": "20-20", "caption": "Fifth."},
        {"timestamp": "0-1", "caption": "half a \ud83d character"},
    ]
    counts, tables = converted(
        [{"clip_path": ONE, "pred": said}, {"clip_path": TWO, "pred": [{"caption": "No times."}]}]
    )
    row = candidates(tables)[ONE]
    assert row["text"] == "First.\nThird.\nFourth.\nFifth."
    assert row["segments"] == [
        {"start_s": 4, "end_s": 9, "text": "First."},
        {"start_s": 20, "end_s": 20, "text": "Fifth."},
    ]
    assert (row["unreadable_segments"], row["untimed_segments"]) == (3, 2)
    untimed = candidates(tables)[TWO]
    assert (untimed["text"], "segments" in untimed, untimed["untimed_segments"]) == ("No times.", False, 1)
    assert "unreadable_segments" not in untimed
    totals = counts["systems"]["sys"]
    names = ("malformed", "swapped", "unreadable_segments", "untimed_segments")
    assert [totals[name] for name in names] == [0, 1, 3, 3]


def test_the_last_of_repeated_predictions_counts(converted: Any) -> None:
    counts, tables = converted([{"clip_path": ONE, "prediction": "FAILED"}, {"clip_path": ONE, "pred": SAID}])
    assert candidates(tables)[ONE]["segments"][0]["end_s"] == 9
    assert (counts["systems"]["sys"]["repeated"], counts["systems"]["sys"]["malformed"]) == (1, 0)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "no line names a clip, and it is not one JSON object (the JSON stops after 0 characters"),
        ('{"a.mp4": [{"caption"', "no line names a clip, and it is not one JSON object (the JSON stops after 21 "),
        ('{"pred": []}\n{"pred": []}', "no line names a clip, and it is not one JSON object (not valid JSON at chara"),
        ('{"clip_path": 5}', "no line names a clip, and it is not one JSON object: give JSON Lines with clip_path"),
    ],
)
def test_a_file_that_names_no_clip_is_refused(converted: Any, tmp_path: Path, content: str, named: str) -> None:
    with pytest.raises(ManifestError) as caught:
        converted(content)
    assert str(caught.value).startswith(f"sys.jsonl: {named}")
    assert not (tmp_path / "out").exists()


PIECES = st.sampled_from(
    [
        *(
            b'{"clip_path": "',
            ONE.encode(),
            b'", "prediction": "',
            b'", "pred": [',
            b"]}",
            b"\n",
            b"{",
            b"}",
            b"[",
            b"]",
        ),
        *(b'{"caption": "A man."}', b'"timestamp": "00:01-00:02"', b"```json", b"NaN", b"1e999", b"\xff", b"\\u0000"),
        *(b"\\ud83d", b"\x00", b'\\"', b'"', b",", b":", b"\xef\xbb\xbf", b"9" * 400),
    ]
)


@given(content=st.lists(PIECES | st.binary(max_size=8), max_size=25).map(b"".join))
def test_no_bytes_make_predictions_crash_and_every_row_is_valid(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    references = write_lines(folder / "references.jsonl", CLIPS)
    refusals = []
    for made in (content, b'{"clip_path": "%s", "pred": [%s]}' % (ONE.encode(), content)):
        (folder / "sys.jsonl").write_bytes(made)
        try:
            counts = convert(references, folder / "out", predictions={"sys": folder / "sys.jsonl"})["systems"]["sys"]
        except ManifestError as error:
            refusals.append(str(error))
            continue
        assert counts["predictions"] + counts["missing"] == 3
        for kind in ("caption", "keypoint"):
            for row in table(folder / "out", TABLE_NAMES[kind]):
                assert not isinstance(validate_row(RawRow("", 1, kind, row, None, "")), Reject)
    assert all(refusal.startswith("sys.jsonl: ") for refusal in refusals)


# Which clip is meant


def test_paths_are_matched_in_full_and_then_by_name() -> None:
    clips = ["a/1.mp4", "b/1.mp4", "c/2.mp4", "3.mp4"]
    paths = ["c/1.mp4", "b/1.mp4", "a/1.mp4", "x\\y\\2.mp4", "d/4.mp4", "/3.mp4"]
    want = {"b/1.mp4": "b/1.mp4", "a/1.mp4": "a/1.mp4", "x\\y\\2.mp4": "c/2.mp4", "/3.mp4": "3.mp4"}
    assert match_clips(paths, clips, "p") == want
    assert match_clips(["other/2.mp4", "c/2.mp4"], clips, "p") == {"c/2.mp4": "c/2.mp4"}


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["1.mp4"], "p: '1.mp4' may be 'a/1.mp4' or 'b/1.mp4': give full clip paths"),
        (["a/1.mp4", "c/1.mp4"], "p: 'c/1.mp4' may be 'a/1.mp4' or 'b/1.mp4': give full clip paths"),
        (["x/2.mp4", "y/2.mp4"], "p: 'x/2.mp4' and 'y/2.mp4' may both be 'c/2.mp4': give full clip paths"),
    ],
)
def test_an_ambiguous_name_is_an_error_that_names_both(paths: list[str], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        match_clips(paths, ["a/1.mp4", "b/1.mp4", "c/2.mp4"], "p")
    assert str(caught.value) == message


def test_predictions_of_other_clips_are_counted(converted: Any) -> None:
    counts, tables = converted([{"clip_path": path, "pred": SAID} for path in ("far/9.mp4", "far/10.mp4", "11.mp4")])
    assert list(candidates(tables)) == [THREE]
    totals = counts["systems"]["sys"]
    assert (totals["predictions"], totals["missing"], totals["unmatched"]) == (1, 2, 2)
    with pytest.raises(ManifestError, match=r"'Movie/77/1_4s\.mp4' or 'Movie/78/1_4s\.mp4'"):
        converted(FORMS["by name"])


@pytest.mark.parametrize("system", ["", " ", "reference", "a__b", "_a", "x" * 101])
def test_a_system_has_a_name_that_keeps_ids_apart(references: Path, tmp_path: Path, system: str) -> None:
    source = write_lines(tmp_path / "p.jsonl", [{"clip_path": ONE, "pred": SAID}])
    with pytest.raises(ManifestError, match=r"its name is part of ids"):
        convert(references, tmp_path / "out", predictions={system: source})


# Labels


def judged(path: str, **by_dim: list[object]) -> Row:
    answers = {name: {"correct_keypoints": texts, "correct_count": 99} for name, texts in by_dim.items()}
    return {"clip_path": path, "by_dim": answers}


def test_labels_of_a_judge(converted: Any) -> None:
    predictions = [{"clip_path": ONE, "pred": SAID}, {"clip_path": TWO, "prediction": "FAILED"}]
    answers = [
        judged(
            ONE,
            acoustics_content=["RAIN\u00a0 ｆａｌｌｓ", "Thunder.", 7],
            segment_detail_caption=["a man sits!", "A man sits."],
            mood=["A man sits."],
        ),
        judged(TWO, camera_state=[]),
        judged(THREE, camera_state=["x"]),
    ]
    counts, tables = converted(predictions, answers)
    assert [(row["keypoint_id"], row["caption_id"], row["covered"]) for row in tables["keypoint_labels"]] == [
        (f"{ONE}__0__segment_detail__1", f"{ONE}__sys", True),
        (f"{ONE}__0__acoustics__1", f"{ONE}__sys", True),
        (f"{ONE}__0__acoustics__3", f"{ONE}__sys", False),
        (f"{TWO}__0__camera_state__1", f"{TWO}__sys", False),
    ]
    totals = counts["systems"]["sys"]
    assert {name: totals[name] for name in ("labels", "judge_unmatched", "judgements_without_caption")} == {
        "labels": 4, "judge_unmatched": 4, "judgements_without_caption": 1
    }  # fmt: skip


WORDS = st.lists(st.sampled_from(["rain", "Wind", "ﬁre", "Straße", "100"]), min_size=1, max_size=3)
POINTS = st.lists(st.tuples(st.sampled_from(["acoustics", "camera_state"]), WORDS), max_size=8)


@given(points=POINTS, data=st.data())
def test_as_many_equal_keypoints_are_covered_as_were_returned(
    points: list[tuple[str, list[str]]], data: st.DataObject
) -> None:
    keypoints = [Keypoint(0, name, place, " ".join(words) + ".") for place, (name, words) in enumerate(points)]
    chosen = data.draw(st.lists(st.sampled_from(points), max_size=8)) if points else []
    spelt = [
        (name, "  ".join(words).upper() + data.draw(st.sampled_from(["", "!", " ?", "..."]))) for name, words in chosen
    ]
    covered, unmatched = covered_keypoints(keypoints, spelt)
    for point in points:
        places = [i for i, other in enumerate(points) if other == point]
        n = min(len(places), chosen.count(point))
        assert [covered[i] for i in places] == [True] * n + [False] * (len(places) - n)
    assert sum(covered) + unmatched == len(chosen)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ({"by_dim": {}}, "labels.jsonl, line 1, clip_path: Field required: give one object per clip"),
        ({"clip_path": ONE}, "labels.jsonl, line 1, by_dim: Field required"),
        ({"clip_path": ONE, "by_dim": {"camera_state": ["x"]}}, "labels.jsonl, line 1, by_dim.camera_state: Input"),
    ],
)
def test_bad_labels_are_refused_by_line_and_field(converted: Any, line: Row, named: str) -> None:
    with pytest.raises(ManifestError) as caught:
        converted([{"clip_path": ONE, "pred": SAID}], [line])
    assert str(caught.value).startswith(named)


def test_labels_need_predictions_and_come_once_per_clip(converted: Any, references: Path, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="judged twice"):
        converted([{"clip_path": ONE, "pred": SAID}], [judged(ONE), judged(ONE)])
    with pytest.raises(ManifestError, match="give the predictions of this system too"):
        convert(references, tmp_path / "out", predictions={}, labels={"sys": references})


# As a program, and into the database


def test_as_a_program(references: Path, tmp_path: Path) -> None:
    program = typer.Typer()
    program.command()(main)
    predictions = write_lines(
        tmp_path / "p=1.jsonl", [{"clip_path": ONE, "pred": SAID}, {"clip_path": TWO, "pred": []}]
    )
    labels = write_lines(tmp_path / "labels.jsonl", [judged(ONE)])
    options = [f"--predictions=a={predictions}", f"--predictions=b={predictions}", f"--labels=a={labels}"]
    folders = tmp_path / "first", tmp_path / "second"
    for folder in folders:
        done = CliRunner().invoke(program, [str(references), str(folder), *options])
        assert done.exit_code == 0, done.output
        systems = json.loads(done.stdout)["systems"]
        assert [systems[name]["malformed"] for name in "ab"] == [1, 1]
        assert (systems["a"]["labels"], "labels" in systems["b"]) == (3, False)
    names = {path.name for path in folders[0].iterdir()}
    assert names == {"videos.jsonl", "captions.jsonl", "keypoints.jsonl", "keypoint_labels.jsonl"}
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--predictions", "sys"], "--predictions sys: write SYSTEM=FILE"),
        (["--predictions", "sys="], "--predictions sys=: write SYSTEM=FILE"),
        (["--predictions", "s=a", "--predictions", "s=b"], "--predictions s=b: system 's' has a file already"),
        (["--predictions", "s=/nowhere.jsonl"], "nowhere.jsonl: cannot be read: No such file or directory"),
    ],
)
def test_wrong_options_end_in_one_sentence(references: Path, tmp_path: Path, options: list[str], named: str) -> None:
    program = typer.Typer()
    program.command()(main)
    refused = CliRunner().invoke(program, [str(references), str(tmp_path / "no"), *options])
    assert (refused.exit_code, refused.output.startswith(named)) == (1, True), refused.output


class TextHashes:
    """One random direction per text."""

    identity = ModelIdentity("text hashes", "1", {})

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts]
        vectors = np.stack([np.random.default_rng(seed).normal(size=16) for seed in seeds])
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def test_every_row_is_ingested_and_what_could_not_be_read_gets_a_status(
    converted: Any, tmp_path: Path, engine: Engine
) -> None:
    broken = [{"clip_path": TWO, "prediction": "so \ud83d sorry"}, {"clip_path": THREE, "prediction": "\x00"}]
    counts, tables = converted([{"clip_path": ONE, "pred": SAID}, *broken], [judged(ONE), judged(TWO)])
    assert counts["systems"]["sys"]["malformed"] == 2
    report = ingest_folder(engine, tmp_path / "out", "omni", n_shards=1)
    assert report.rejected == 0
    assert {name: n for name, n in report.accepted.items() if n} == {name: len(rows) for name, rows in tables.items()}
    with engine.connect() as connection:
        query = "SELECT key, text, extra->>'parse_error', extra->>'raw' FROM sample WHERE text = '' ORDER BY key"
        found = [tuple(row) for row in connection.execute(sa.text(query))]
    unread = [row for row in tables["captions"] if not row["text"]]
    assert found == [(row["caption_id"], "", row["parse_error"], row["raw"]) for row in unread]
    assert [row[3] for row in found] == ["so \\ud83d sorry", "\\u0000"]

    encoder = TextHashes()
    scorers = (
        VCSScorer(VCSSettings(vcs_shape_zeros=True), encoder, RuleSplitter()),
        VCSShortScorer(VCSShortSettings(vcs_shape_zeros=True), encoder),
    )
    assert [outcomes(engine, scorer) for scorer in scorers] == 2 * [
        {ONE: ("ok", True), TWO: ("empty_text", False), THREE: ("no_reference", False)}
    ]
    assert set(outcomes(engine, EVQAScorer.from_settings(EVQASettings())).values()) == {("no_frames", False)}


def outcomes(engine: Engine, scorer: Scorer) -> dict[str, tuple[str, bool]]:
    """Status, and whether there is a value, of every video's caption."""
    dataset = dataset_of(engine, "omni")
    make_kind(engine, scorer, TextVectors, dataset)
    scorer_id = score_shard(engine, scorer, dataset, 0, run_id="run").scorer_id
    query = (
        "SELECT v.key, c.status, c.value IS NOT NULL FROM score c JOIN sample USING (sample_id) "
        "JOIN video v USING (video_id) WHERE scorer_id = :id"
    )
    with engine.connect() as connection:
        return {
            key: (status, has_value) for key, status, has_value in connection.execute(sa.text(query), {"id": scorer_id})
        }
