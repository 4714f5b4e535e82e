"""Tables get the scores that plain values get, in any kind of table; a bad row stops no other."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import reelsieve as rs
from tests.assets.manifests import write_clip
from tests.reelsieve.test_values import ENCODER, KEYPOINTS, MIXED, OTHER, STORY, TOLD, near

ROWS: dict[str, list[Any]] = {
    "id": [7, 8, 9, 10],
    "caption": [TOLD, MIXED, None, STORY[1]],
    "references": [[TOLD, OTHER], [TOLD], [TOLD], None],
}


def by_row(table: Any, name: str) -> list[Any]:
    return [None if isinstance(one, float) and math.isnan(one) else one for one in list(table[name])]


def as_arrow(rows: dict[str, list[Any]]) -> Any:
    return pa.table(rows)


def as_pandas(rows: dict[str, list[Any]]) -> Any:
    return pd.DataFrame(rows, index=list("dcba"))


@pytest.mark.parametrize("make", [as_pandas, as_arrow, datasets.Dataset.from_dict])
def test_a_table_comes_back_with_its_scores(make: Any) -> None:
    given = make(ROWS)
    scored = rs.score(given, metrics=["vcs", "vcs_short"])
    assert type(scored) is type(given)
    names = list(scored.columns if isinstance(scored, pd.DataFrame) else scored.column_names)
    assert names[3:] == [f"{metric}{end}" for metric in ("vcs", "vcs_short") for end in ("", "_status", "_reason")]
    values = scored if isinstance(scored, pd.DataFrame) else scored.to_pandas() if make is not as_arrow else None
    table = values if values is not None else scored.to_pandas()
    assert table["id"].tolist() == ROWS["id"]
    assert by_row(table, "vcs_status") == ["ok", "ok", "refused", "no_reference"]
    expected = [rs.vcs([TOLD, OTHER], TOLD).value, rs.vcs([TOLD], MIXED).value, None, None]
    assert near(by_row(table, "vcs"), expected)
    reason = by_row(table, "vcs_reason")[2]
    assert reason == "caption: field 'text' is None: input should be a valid string"
    again = rs.score(scored, metrics="vcs")
    if isinstance(again, pd.DataFrame):
        assert again.index.tolist() == list("dcba")
        pd.testing.assert_frame_equal(again, scored)
    else:
        assert set(again.column_names) == set(names)


def test_videos_keypoints_and_pairs_are_read(tmp_path: Path) -> None:
    clip = str(write_clip(tmp_path / "v.avi"))
    rows = pd.DataFrame(
        {
            "text": [TOLD, None, TOLD],
            "question": [None, "What is tossed?", float("nan")],
            "answer": [None, "A pancake.", None],
            "video": [clip, clip, str(tmp_path / "gone.avi")],
            "keypoints": [np.array(STORY, object), None, STORY[:1]],
        }
    )
    scored = rs.score(rows, ["evqa", "ecs"], **ENCODER)
    assert by_row(scored, "evqa_status") == ["ok", "ok", "no_frames"]
    assert "there is no file" in by_row(scored, "evqa_reason")[2]
    assert near(by_row(scored, "evqa")[0], rs.evqa(clip, TOLD, **ENCODER).value)
    assert by_row(scored, "ecs_status") == ["ok", "not_applicable", "ok"]
    plain = [keypoint["text"] for keypoint in KEYPOINTS]
    assert near(by_row(scored, "ecs")[0], rs.ecs(plain, TOLD).value)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_progress_is_shown_on_a_terminal_only(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setattr("rich.status.Status.update", lambda _, line: print(line, file=sys.stderr))
    rs.score(as_pandas(ROWS), metrics=["vcs_short"])
    shown = capsys.readouterr()
    assert ("reading rows" in shown.err, "vcs_short: 0 of 3 rows scored" in shown.err) == (is_terminal, is_terminal)
    assert shown.out == ""


def test_an_empty_table_gets_its_columns() -> None:
    scored = rs.score(pa.table({"caption": pa.array([], pa.string())}), ["vcs"])
    assert (scored.num_rows, scored.schema.field("vcs").type) == (0, pa.float64())


@pytest.mark.parametrize(
    ("frame", "metrics", "settings", "sentence"),
    [
        ([1], ["vcs"], {}, "builtins.list is not a table"),
        (pd.DataFrame({"a": [1]}), ["vcs"], {}, "the table has no column of captions (columns: 'a')"),
        (pd.DataFrame([["a", "b"]], columns=["caption"] * 2), ["vcs"], {}, "several columns of the table are named"),
        (pd.DataFrame(), ["vcs"], {}, "the table has no column of captions (columns: none)"),
        (pa.table(ROWS), ["vsc"], {}, "there is no metric 'vsc', did you mean 'vcs'?"),
        (pa.table(ROWS), [], {}, "metrics is empty: name some of vcs"),
        (pa.table(ROWS), ["vcs", "ecs"], {"ecs_mod": "x"}, "has a setting 'ecs_mod', did you mean 'ecs_mode'?"),
        (pa.table(ROWS), ["vcs"], {"text_encoder": "/no/such"}, "model '/no/such'"),
    ],
)
def test_bad_input_is_one_sentence(frame: Any, metrics: Any, settings: Any, sentence: str) -> None:
    with pytest.raises(rs.ReelsieveError, match=r"^[^\n]*$") as error:
        rs.score(frame, metrics, **settings)
    assert sentence in str(error.value)
