"""Published files of two items, of which the tables read one, laid out anew."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks.papers.data import read_sums
from benchmarks.papers.lay_out import CHECKLIST, CORRUPTION, ITEMS, VATEX, compress, lay_out


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def write_table(file: Path, rows: Sequence[Mapping[str, str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as lines:
        table = csv.DictWriter(lines, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


@pytest.fixture
def checkouts(tmp_path: Path) -> tuple[Path, Path]:
    """Checkouts of both repositories with the files that count."""
    vcs, realsumm = tmp_path / "vcs", tmp_path / "realsumm"
    videos = {
        name: {"vid": name, "cands": ["a", "é"], "scores": "[[5.0, 4.0, 4.0], [1.0, 2.0, 2.0]]", "refs": [["r", "s"]]}
        for name in ("v1", "v2")
    }
    write(vcs / "exp/data/vatex-eval/vid_cans_score_dict.json", json.dumps(videos))
    for name in ("7", "8"):
        cases = [{"id": "1.1", "name": kind, "description": f"{kind} of {name}"} for kind in ("Brevity", "Jumble")]
        base = {"ground_truth": f"Text {name}.", "categories": [{"category": "All", "test_cases": cases}]}
        write(vcs / f"exp/data/mpii/comparison/aug_dataset_backup/{name}.json", json.dumps(base))
        results = vcs / f"exp/results/mpii/comparison_complete_results/individual_results/{name}.csv"
        write_table(results, [{"Metric": "BLEU-1", "Brevity": "0.5", "Jumble": f"0.{name}"}])
    rows = [
        {
            "Input.eventId": article,
            "Input.summaryId": "bart_out",
            "Input.qIdList": str([str(i) for i in range(30, 46)]),
            "Input.summary_text": f"Summary of {article}.",
            **{f"Input.statement_{i}": f"Statement {i}." if i < 3 else "BLANK" for i in range(1, 17)},
            # The voters agree about the first statement, and are two against two about the second.
            **{f"Answer.S{i}Answer": "p" if i == 1 or voter < 2 else "n" for i in range(1, 17)},
        }
        for article in ("cnn1", "cnn2")
        for voter in range(4)
    ]
    for kind in ("abs", "ext"):
        folder = realsumm / f"human_annotations/SCUs_and_annotations/SCU_rating_results_{kind}_systems"
        write_table(folder / "bart_out.csv", rows)
    return vcs, realsumm


@pytest.fixture
def items(tmp_path: Path) -> Path:
    file = tmp_path / "items.json"
    file.write_text(json.dumps({"vatex_eval": [1], "mpii_corruption": ["8"], "realsumm": ["cnn2"]}), encoding="utf-8")
    return file


def test_only_the_listed_items_are_laid_out(checkouts: tuple[Path, Path], items: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert lay_out(*checkouts, folder, items) == [folder / VATEX, folder / CORRUPTION, folder / CHECKLIST]
    pairs = [{"text": "a", "ratings": [5.0, 4.0, 4.0]}, {"text": "é", "ratings": [1.0, 2.0, 2.0]}]
    video = {"video_id": "v2", "references": ["r", "s"], "candidates": pairs}
    assert (folder / VATEX).read_text(encoding="utf-8") == json.dumps(video, ensure_ascii=False) + "\n"
    variants = [
        {"name": name, "category": "All", "text": f"{name} of 8", "published": {"BLEU-1": value}}
        for name, value in (("Brevity", 0.5), ("Jumble", 0.8))
    ]
    (line,) = gzip.decompress((folder / CORRUPTION).read_bytes()).decode().splitlines()
    assert json.loads(line) == {"id": "8", "ground_truth": "Text 8.", "variants": variants}
    keypoints = [
        {"scu": "30", "text": "Statement 1.", "votes": [1, 1, 1, 1], "present": 1},
        {"scu": "31", "text": "Statement 2.", "votes": [1, 1, 0, 0], "present": 0},
    ]
    assert [json.loads(each) for each in (folder / CHECKLIST).read_text(encoding="utf-8").splitlines()] == [
        {"system": f"{kind}/bart_out", "doc": "cnn2", "text": "Summary of cnn2.", "keypoints": keypoints}
        for kind in ("abs", "ext")
    ]


def test_a_file_that_is_there_is_not_replaced(checkouts: tuple[Path, Path], items: Path, tmp_path: Path) -> None:
    write(tmp_path / "data" / VATEX, "mine")
    with pytest.raises(FileExistsError):
        lay_out(*checkouts, tmp_path / "data", items)
    assert (tmp_path / "data" / VATEX).read_text() == "mine"


def test_the_listed_items_are_those_of_the_tables(shared_data: Path) -> None:
    listed = json.loads(ITEMS.read_text(encoding="utf-8"))
    packed = (shared_data / CORRUPTION).read_bytes()
    content = gzip.decompress(packed)
    assert [json.loads(line)["id"] for line in content.splitlines()] == listed["mpii_corruption"]
    assert compress(content, CORRUPTION.stem) == packed
    with (shared_data / CHECKLIST).open(encoding="utf-8") as lines:
        assert sorted({json.loads(line)["doc"] for line in lines}) == listed["realsumm"]
    with (shared_data / VATEX).open(encoding="utf-8") as lines:
        assert len(list(lines)) == len(set(listed["vatex_eval"]))
    assert {str(path) for path in (VATEX, CORRUPTION, CHECKLIST)} <= {
        path for files in read_sums().values() for path in files
    }
