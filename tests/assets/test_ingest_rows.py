"""What a valid row is, which code every broken one gets, and when two rows have equal content."""

from __future__ import annotations

import json
import math
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.ingest import hygiene
from assets.ingest.manifest import list_table_files
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.readers import read_table
from assets.ingest.rejects import CODES, Reject
from assets.ingest.rows import (
    DIMENSIONS,
    CaptionRow,
    RawRow,
    ValidRow,
    VideoRow,
)
from assets.ingest.validate import validate_row

PROJECT = Path(__file__).resolve().parents[2]

GOOD: dict[str, dict[str, Any]] = {
    "video": {
        "video_id": "v",
        "path": "videos/v.mp4",
        "note": "a note",
        "duration_s": 2,
        "licence": "CC0-1.0",
        "source_url": "https://clips.example/v",
        "collected_at": "2026-05-31",
        "opt_out": False,
    },
    "caption": {
        "caption_id": "c",
        "video_id": "v",
        "role": "candidate",
        "system": "s",
        "text": "A pan is tossed.",
        "segments": [{"start_s": 0, "end_s": 1.5, "text": "A pan"}, {"start_s": 1.0, "end_s": 2}],
    },
    "keypoint": {
        "keypoint_id": "k",
        "video_id": "v",
        "dimension": "acoustics",
        "text": "It is silent.",
        "segment_index": 0,
    },
    "keypoint_label": {"keypoint_id": "k", "caption_id": "c", "covered": False},
    "qa": {"qa_id": "q", "video_id": "v", "question": "What?", "answer": "A pan.", "system": "s", "quality": "good"},
    "rating": {"caption_id": "c", "rater": "r1", "aspect": "coverage", "value": 5},
    "vector": {"video_id": "v", "encoder": "InternVideo2", "vector": [0.5, -1, 0]},
}

# Decided with the database or by opening the file, so at this stage these lines are valid.
DECIDED_LATER = {
    "not_a_video",
    "duplicate_conflict",
    "duplicate_identical",
    "segment_index_out_of_range",
    "segment_outside_clip",
    "dangling_reference",
    "mismatched_video",
}


def checked(kind: str, payload: dict[str, Any]) -> ValidRow | Reject:
    return validate_row(RawRow("table", 1, kind, payload, None, ""))


def changed(kind: str, **fields: Any) -> ValidRow | Reject:
    return checked(kind, {**GOOD[kind], **fields})


def without(kind: str, name: str) -> ValidRow | Reject:
    return checked(kind, {key: value for key, value in GOOD[kind].items() if key != name})


def valid(row: ValidRow | Reject) -> ValidRow:
    assert not isinstance(row, Reject), row
    return row


def rejected(row: ValidRow | Reject) -> Reject:
    assert isinstance(row, Reject), row
    return row


def test_the_record_of_a_table_names_fields_of_its_rows_with_their_types() -> None:
    assert list(MANIFEST_TABLES) == list(GOOD)
    for kind, table in MANIFEST_TABLES.items():
        row = valid(checked(kind, GOOD[kind]))
        assert table.list_id_values(row) == [GOOD[kind][name] for name in table.id_fields]
        types = {name: type(value) for name, value in row.content.items()}
        # A mean is checked as another row, whose `mean_of` stays with the rating as an own field.
        others = {"mean_of": int} if kind == "rating" else {}
        types = {name: field_type for name, field_type in types.items() if field_type is not str}
        assert types | others == table.field_types


@pytest.mark.parametrize("kind", GOOD)
def test_good_rows_keep_every_field(kind: str) -> None:
    row = valid(checked(kind, GOOD[kind]))
    assert type(row) is MANIFEST_TABLES[kind].row_model
    assert row.extra == {}
    dumped = row.model_dump(exclude_none=True)
    assert dumped == GOOD[kind]


@pytest.mark.parametrize("kind", GOOD)
def test_rows_are_frozen(kind: str) -> None:
    row = valid(checked(kind, GOOD[kind]))
    with pytest.raises(ValueError, match="frozen"):
        setattr(row, next(iter(GOOD[kind])), "other")


OPTIONAL = [
    ("video", "path"),
    ("video", "note"),
    ("video", "duration_s"),
    *(("video", name) for name in ("licence", "source_url", "collected_at", "opt_out")),
    ("caption", "segments"),
    ("keypoint", "segment_index"),
    ("qa", "system"),
    ("qa", "quality"),
]


@pytest.mark.parametrize(("kind", "name"), OPTIONAL)
def test_optional_fields_may_be_absent_or_null(kind: str, name: str) -> None:
    absent = valid(without(kind, name))
    assert getattr(absent, name) is None
    null = valid(changed(kind, **{name: None}))
    assert null == absent
    assert null.content_sha256 == absent.content_sha256


REQUIRED = [(kind, name) for kind in GOOD for name in GOOD[kind] if (kind, name) not in OPTIONAL]


@pytest.mark.parametrize(("kind", "name"), REQUIRED)
def test_required_fields_are_missed_and_named(kind: str, name: str) -> None:
    reject = rejected(without(kind, name))
    assert reject.code == "missing_field"
    assert f"'{name}'" in reject.reason


@pytest.mark.parametrize(("kind", "name"), [pair for pair in REQUIRED if pair != ("caption", "system")])
def test_null_in_a_required_field_is_a_wrong_type(kind: str, name: str) -> None:
    reject = rejected(changed(kind, **{name: None}))
    assert reject.code == "wrong_type"
    assert f"'{name}'" in reject.reason


def test_only_references_may_leave_out_their_system() -> None:
    reference = valid(
        checked("caption", {k: v for k, v in GOOD["caption"].items() if k != "system"} | {"role": "reference"})
    )
    assert isinstance(reference, CaptionRow)
    assert reference.system == "reference"
    assert reference.content_sha256 == valid(changed("caption", role="reference", system="reference")).content_sha256
    assert valid(changed("caption", role="reference", system=None)) == reference
    assert rejected(changed("caption", system=None)).code == "missing_field"


SEGMENT = {"start_s": 1.0, "end_s": 2.0}

BROKEN_METRICS: list[tuple[str, str, Any, str]] = [
    ("video", "video_id", "", "empty_text"),
    ("video", "video_id", "v" * 513, "too_long"),
    ("video", "video_id", 7, "wrong_type"),
    ("video", "path", " ", "empty_text"),
    ("video", "path", "d/" * 2049, "too_long"),
    ("video", "path", ["a.mp4"], "wrong_type"),
    ("video", "note", 3, "wrong_type"),
    ("video", "duration_s", 0, "out_of_range"),
    ("video", "duration_s", -1.0, "out_of_range"),
    ("video", "duration_s", float("nan"), "nan"),
    ("video", "duration_s", float("inf"), "not_finite"),
    ("video", "duration_s", True, "wrong_type"),
    ("video", "duration_s", "3", "wrong_type"),
    ("caption", "text", "", "empty_text"),
    ("caption", "text", " \t\n\u00a0\u2003\u3000", "empty_text"),
    ("caption", "text", "x" * 100_001, "too_long"),
    ("caption", "text", "\x00", "nul_character"),
    ("caption", "text", "\udfff", "lone_surrogate"),
    ("caption", "text", "\x85", "control_characters"),
    ("caption", "parse_error", "", "empty_text"),
    ("caption", "parse_error", 5, "wrong_type"),
    ("caption", "role", "reviewer", "unknown_role"),
    ("caption", "role", "Reference", "unknown_role"),
    ("caption", "role", 1, "wrong_type"),
    ("caption", "role", ["reference"], "wrong_type"),
    ("caption", "system", "\u2028", "empty_text"),
    ("caption", "segments", "0-3: a person", "wrong_type"),
    ("caption", "segments", {"0": SEGMENT}, "wrong_type"),
    ("caption", "segments", [3], "wrong_type"),
    ("caption", "segments", [SEGMENT, {"start_s": 1.0}], "missing_field"),
    ("caption", "segments", [{"start_s": "1", "end_s": 2}], "wrong_type"),
    ("caption", "segments", [{"start_s": False, "end_s": 2}], "wrong_type"),
    ("caption", "segments", [{"start_s": -0.5, "end_s": 2}], "out_of_range"),
    ("caption", "segments", [{"start_s": 2, "end_s": 1.999}], "segment_order"),
    ("caption", "segments", [SEGMENT, {"start_s": 4.0, "end_s": 1.5}], "segment_order"),
    ("caption", "segments", [{**SEGMENT, "end_s": float("inf")}], "not_finite"),
    ("caption", "segments", [{**SEGMENT, "text": "a\x1b[31m"}], "control_characters"),
    ("caption", "segments", [{**SEGMENT, "text": 5}], "wrong_type"),
    ("keypoint", "dimension", "mood", "unknown_dimension"),
    ("keypoint", "dimension", "Acoustics", "unknown_dimension"),
    ("keypoint", "dimension", "", "unknown_dimension"),
    ("keypoint", "dimension", 3, "wrong_type"),
    ("keypoint", "segment_index", -1, "out_of_range"),
    ("keypoint", "segment_index", 2**31, "out_of_range"),
    ("keypoint", "segment_index", 1.0, "wrong_type"),
    ("keypoint", "segment_index", "1", "wrong_type"),
    ("keypoint_label", "covered", 1, "wrong_type"),
    ("vector", "vector", [], "wrong_type"),
    ("vector", "vector", [0.5, "1"], "wrong_type"),
    ("vector", "vector", [0.5, None], "wrong_type"),
    ("vector", "vector", [0.5, math.nan], "nan"),
    ("vector", "vector", [0.5, math.inf], "not_finite"),
    ("vector", "vector", [0, 0.0, -0.0], "no_direction"),
    ("vector", "vector", [1e-16], "no_direction"),
    ("vector", "vector", [1e200], "no_direction"),
    ("vector", "vector", [1.0] * 16_001, "too_long"),
    ("keypoint_label", "covered", "true", "wrong_type"),
    ("qa", "answer", "\n", "empty_text"),
    ("qa", "question", ["What?"], "wrong_type"),
    ("qa", "quality", "", "empty_text"),
    ("rating", "value", 0, "out_of_range"),
    ("rating", "value", 6, "out_of_range"),
    ("rating", "value", 5.0, "wrong_type"),
    ("rating", "value", True, "wrong_type"),
    ("rating", "value", "5", "wrong_type"),
    ("rating", "value", float("inf"), "not_finite"),
    ("rating", "rater", " ", "empty_text"),
    ("rating", "rater", "\u0416" * 257, "too_long"),
    ("rating", "aspect", "a" * 509 + "\U0001f3c3", "too_long"),
    ("caption", "system", "\u8dd1" * 171, "too_long"),
    ("keypoint", "text", "\u200b", "empty_text"),
    ("video", "path", "\u200b", "empty_text"),
]


@pytest.mark.parametrize(("kind", "name", "value", "code"), BROKEN_METRICS)
def test_broken_fields_get_their_code_and_are_named(kind: str, name: str, value: Any, code: str) -> None:
    reject = rejected(changed(kind, **{name: value}))
    assert reject.code == code
    assert f"'{name}" in reject.reason


def test_limits_are_inclusive() -> None:
    valid(changed("video", video_id="v" * 512))
    valid(changed("video", video_id="\u8dd1" * 170 + "vv"))
    valid(changed("video", video_id="\U0001f3c3" * 128))
    valid(changed("caption", text="x" * 100_000))
    valid(changed("caption", segments=[{"start_s": 2, "end_s": 2}]))
    valid(changed("keypoint", segment_index=2**31 - 1))
    for value in range(1, 6):
        valid(changed("rating", value=value))


def test_the_dimensions_are_the_six_of_the_pack() -> None:
    six = ["segment_detail", "video_background", "acoustics", "shooting_style", "speech_content", "camera_state"]
    assert list(DIMENSIONS) == six
    for dimension in six:
        valid(changed("keypoint", dimension=dimension))


def test_a_keypoint_may_use_the_names_it_is_given_and_no_others() -> None:
    raw = RawRow("keypoints.jsonl", 1, "keypoint", {**GOOD["keypoint"], "dimension": "mood"}, None, "")
    valid(validate_row(raw, ("events", "mood")))
    reject = Reject("unknown_dimension", "field 'dimension' is 'mood': use one of events, moods")
    assert validate_row(raw, ("events", "moods")) == reject


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"raw": "[{"}, None),
        ({"text": "A pan."}, None),
        ({"parse_error": None}, "empty_text"),
        ({"parse_error": " "}, "empty_text"),
        ({"parse_error": True}, "wrong_type"),
        ({"text": " "}, "empty_text"),
        ({"text": None}, "wrong_type"),
        ({"role": "reference"}, "empty_text"),
        ({"role": "reference", "text": "A pan."}, None),
    ],
)
def test_only_a_candidate_that_says_why_may_have_an_empty_text(changes: dict[str, Any], code: str | None) -> None:
    row = changed("caption", **{"text": "", "parse_error": "line 3: no JSON", **changes})
    assert (row.code if isinstance(row, Reject) else None) == code
    if isinstance(row, CaptionRow):
        assert row.parse_error == "line 3: no JSON"
        assert row.extra == {name: value for name, value in changes.items() if name == "raw"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\n\u00a0\u2028\u3000",
        "\u200b\u200c\u200d\u2060\ufeff",
        "\u200e\u200f\u202a\u202e\u2066\u2069",
        "\u00ad \u00ad",
        "\u0301\u0308",
        "\u093e",
        "\ufe0f\U000e0100\U000e0041",
        "\u115f\u1160\u3164\uffa0\u2800",
    ],
    ids=ascii,
)
def test_a_text_without_a_visible_character_is_empty(text: str) -> None:
    assert hygiene.is_blank_text(text)
    for kind, name in [("caption", "text"), ("caption", "caption_id"), ("qa", "answer"), ("rating", "aspect")]:
        reject = rejected(changed(kind, **{name: text}))
        assert reject.code == "empty_text"
        assert f"'{name}' has no visible character" in reject.reason
    assert not hygiene.is_blank_text(f"{text}.{text}")


def test_visible_characters_of_every_kind_are_texts() -> None:
    for text in ("a", "5", "\u8dd1", "?", "\U0001f3c3", "e\u0301", "\u0915\u093e", "\ue000", "\U0001facd"):
        valid(changed("caption", text=text))


def test_unknown_fields_are_kept_in_rows_and_segments() -> None:
    extra = {"extra": 1, "model_config": "x", "licence": {"name": "CC", "years": [2020, None]}}
    row = valid(changed("caption", segments=[{**SEGMENT, "speaker": "a"}], nothing=None, **extra))
    assert row.extra == extra
    assert isinstance(row, CaptionRow)
    assert row.segments == [{"start_s": 1.0, "end_s": 2.0, "speaker": "a"}]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("\x07", "control_characters"),
        ([{"deep": ["\x00"]}], "nul_character"),
        ({"\x00": 1}, "nul_character"),
        ({"a": [float("nan")]}, "nan"),
        ([-float("inf")], "not_finite"),
        ({"a": ["x" * 100_001]}, "too_long"),
        (b"bytes", "wrong_type"),
        ([(1, 2)], "wrong_type"),
    ],
)
def test_hygiene_reaches_unknown_fields_at_any_depth(value: Any, code: str) -> None:
    reject = rejected(changed("rating", more=value))
    assert reject.code == code
    assert "'more'" in reject.reason


def test_field_names_are_checked_too_and_shown_escaped() -> None:
    reject = rejected(changed("rating", **{"na\x00me": 1}))
    assert reject == Reject("nul_character", "field 'na\\x00me' contains the NUL character U+0000: remove it")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_is_limited_without_recursion() -> None:
    # The row itself is one level.
    valid(changed("rating", more=nested(hygiene.MAX_DEPTH - 1)))
    assert rejected(changed("rating", more=nested(hygiene.MAX_DEPTH))).code == "too_deep"
    assert rejected(changed("rating", more=nested(100_000))).code == "too_deep"


def test_every_character_of_unicode_is_judged_by_its_category() -> None:
    allowed: list[str] = []
    for character in map(chr, range(0x110000)):
        category = unicodedata.category(character)
        if category == "Cs":
            expected = "lone_surrogate"
        elif category == "Cc" and character not in "\t\n\r":
            expected = "control_characters" if character != "\x00" else "nul_character"
        else:
            allowed.append(character)
            continue
        reject = hygiene.find_fault({"text": f"a{character}b"})
        assert reject is not None
        assert reject.code == expected, hex(ord(character))
    text = "".join(allowed)
    for start in range(0, len(text), hygiene.MAX_TEXT):
        assert hygiene.find_fault({"text": text[start : start + hygiene.MAX_TEXT]}) is None


def test_equal_content_has_equal_hash_in_any_order() -> None:
    fields = {**GOOD["caption"], "b": {"y": 1, "x": 2}, "a": "z"}
    backwards = {**dict(reversed(fields.items())), "b": {"x": 2, "y": 1}}
    assert valid(checked("caption", backwards)).content_sha256 == valid(checked("caption", fields)).content_sha256


def test_whole_and_decimal_seconds_are_the_same_content() -> None:
    assert (
        valid(changed("video", duration_s=2)).content_sha256 == valid(changed("video", duration_s=2.0)).content_sha256
    )


@pytest.mark.parametrize("kind", GOOD)
def test_any_change_changes_the_hash(kind: str) -> None:
    before = valid(changed(kind)).content_sha256
    assert len(before) == 32
    others: dict[str, Any] = {
        "duration_s": 3.0,
        "role": "reference",
        "segments": [SEGMENT],
        "dimension": "camera_state",
        "segment_index": 1,
        "covered": True,
        "value": 4,
        "vector": [0.5],
        "source_url": "https://clips.example/other",
        "collected_at": "2026-05-30",
        "opt_out": True,
    }
    for name in GOOD[kind]:
        other = others.get(name, "something else")
        assert valid(changed(kind, **{name: other})).content_sha256 != before, name
    assert valid(changed(kind, more="x")).content_sha256 != before


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(kind=st.sampled_from(list(GOOD)), changes=st.dictionaries(st.text(), JSON_VALUES, max_size=2), data=st.data())
def test_validate_never_raises_and_what_it_accepts_can_be_stored(
    kind: str, changes: dict[str, Any], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(list(GOOD[kind])))
    row = changed(kind, **{name: data.draw(JSON_VALUES)}, **{k: v for k, v in changes.items() if k != name})
    if isinstance(row, Reject):
        assert row.code in CODES
        assert "\x00" not in row.reason
        row.reason.encode("utf-8")
        return
    stored = json.dumps(row.model_dump(exclude_none=True), allow_nan=False, ensure_ascii=False)
    stored.encode("utf-8")
    again = valid(checked(kind, json.loads(stored)))
    assert again == row
    assert again.content_sha256 == row.content_sha256


def test_all_good_rows_of_the_pack_are_valid(shared_data: Path) -> None:
    for kind, path in list_table_files(shared_data / "clips").items():
        raw_rows = list(read_table(path, kind))
        assert len(raw_rows) == path.read_bytes().count(b"\n")
        for raw in raw_rows:
            row = valid(validate_row(raw))
            if isinstance(row, VideoRow) and row.path is not None:
                assert resolve_inside(shared_data / "clips", row.path).is_file()


def test_the_malformed_rows_of_the_pack_get_the_expected_codes(shared_data: Path) -> None:
    folder = shared_data / "clips"
    expected = json.loads((folder / "bad_rows_expected.json").read_text(encoding="utf-8"))["lines"]
    codes: dict[int, str] = {}
    for raw in read_table(folder / "bad_rows.jsonl", None):
        row = validate_row(raw)
        codes[raw.line] = row.code if isinstance(row, Reject) else "valid"
        if isinstance(row, VideoRow) and row.path is not None:
            try:
                resolve_inside(folder, row.path)
            except PathRejected as refused:
                codes[raw.line] = refused.code
        assert "\x00" not in raw.raw
        assert len(raw.raw) <= 2000
    want = {line["line"]: line["code"] for line in expected if line["expect"] != "skip"}
    assert codes == {line: "valid" if code in DECIDED_LATER else code for line, code in want.items()}
    assert set(want.values()) <= {*CODES, "valid", "duplicate_identical"}


def test_the_manual_lists_every_code_with_its_meaning() -> None:
    manual = (PROJECT / "docs" / "manifest.md").read_text(encoding="utf-8")
    for code, meaning in CODES.items():
        assert f"| `{code}` | {meaning} |" in manual
