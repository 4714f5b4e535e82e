"""Lay out published files as the papers' tables read them: `python -m benchmarks.papers.lay_out VCS REALSUMM`.

VCS and REALSUMM are checkouts of the two repositories that docs/papers-data.md names. The files come to the folder of
the papers' data, byte for byte those of papers-data.sha256: only the items of papers-data-items.json.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import DATA
from benchmarks.papers.stages import PROJECT

ITEMS = PROJECT / "docs" / "papers-data-items.json"
VATEX, CORRUPTION = Path("vatex_eval", "vatex_eval.jsonl"), Path("mpii_corruption", "corruption.jsonl.gz")
CHECKLIST = Path("realsumm", "checklist.jsonl")
USAGE = "usage: python -m benchmarks.papers.lay_out VCS REALSUMM, both folders with a checkout; see docs/papers-data.md"
MOST_STATEMENTS = 16


def build_vatex(checkout: Path, places: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield videos of VATEX-EVAL by their places in the published file, counted from 0."""
    published = json.loads((checkout / "exp/data/vatex-eval/vid_cans_score_dict.json").read_text(encoding="utf-8"))
    videos = list(published.values())
    for video in (videos[place] for place in places):
        pairs = zip(video["cands"], json.loads(video["scores"]), strict=True)
        candidates = [{"text": text, "ratings": ratings} for text, ratings in pairs]
        yield {"video_id": video["vid"], "references": video["refs"][0], "candidates": candidates}


def build_corruption(checkout: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield descriptions of the corruption test with their variants and the published values of these, by name."""
    folder = checkout / "exp" / "data" / "mpii" / "comparison" / "aug_dataset_backup"
    results = checkout / "exp" / "results" / "mpii" / "comparison_complete_results" / "individual_results"
    for name in names:
        base = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        values = {row["Metric"]: row for row in read_table(results / f"{name}.csv")}
        variants = [
            {
                "name": case["name"],
                "category": group["category"],
                "text": case["description"],
                "published": {metric: float(row[case["name"]]) for metric, row in values.items()},
            }
            for group in base["categories"]
            for case in group["test_cases"]
        ]
        yield {"id": name, "ground_truth": base["ground_truth"], "variants": variants}


def build_checklist(checkout: Path, articles: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the summaries of articles by all systems, in the order of the files, with every voter's answers about every
    statement. A statement is present if more than half of the voters answered p.
    """
    folder = checkout / "human_annotations" / "SCUs_and_annotations"
    for kind in ("abs", "ext"):
        for file in sorted((folder / f"SCU_rating_results_{kind}_systems").glob("*.csv")):
            by_article: dict[str, list[dict[str, str]]] = {}
            for row in read_table(file):
                by_article.setdefault(row["Input.eventId"], []).append(row)
            for article, voters in by_article.items():
                if article not in articles:
                    continue
                first, places = voters[0], range(1, MOST_STATEMENTS + 1)
                keypoints = []
                for name, place in zip(json.loads(first["Input.qIdList"].replace("'", '"')), places, strict=True):
                    votes = [int(row[f"Answer.S{place}Answer"] == "p") for row in voters]
                    text, present = first[f"Input.statement_{place}"], int(2 * sum(votes) > len(votes))
                    keypoints.append({"scu": name, "text": text, "votes": votes, "present": present})
                yield {
                    "system": f"{kind}/{first['Input.summaryId']}",
                    "doc": article,
                    "text": first["Input.summary_text"],
                    "keypoints": [each for each in keypoints if each["text"] != "BLANK"],
                }


def read_table(file: Path) -> list[dict[str, str]]:
    """Read the rows of a file of CSV."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def compress(content: bytes, name: str) -> bytes:
    """Compress a file by gzip, with its name and without a time."""
    packed = io.BytesIO()
    with gzip.GzipFile(name, "wb", 9, packed, mtime=0) as stream:
        stream.write(content)
    return packed.getvalue()


def lay_out(vcs: Path, realsumm: Path, folder: Path, items: Path = ITEMS) -> list[Path]:
    """Write the three files below a folder, and return their paths. Raises FileExistsError where one is there."""
    chosen = json.loads(items.read_text(encoding="utf-8"))
    built: dict[Path, Iterable[dict[str, Any]]] = {
        VATEX: build_vatex(vcs, chosen["vatex_eval"]),
        CORRUPTION: build_corruption(vcs, chosen["mpii_corruption"]),
        CHECKLIST: build_checklist(realsumm, chosen["realsumm"]),
    }
    for path, objects in built.items():
        content = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects).encode()
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (folder / path).open("xb") as file:
            file.write(compress(content, path.stem) if path.suffix == ".gz" else content)
    return [folder / path for path in built]


def main() -> None:
    """Lay out the files of the two checkouts that are named."""
    if len(sys.argv) != 3:
        raise SystemExit(USAGE)
    try:
        print(*lay_out(Path(sys.argv[1]), Path(sys.argv[2]), DATA), sep="\n")
    except FileExistsError as error:
        raise SystemExit(f"{error.filename} exists already: remove it, or name another REELSIEVE_TEST_DATA.") from error
    except FileNotFoundError as error:
        raise SystemExit(
            f"{error.filename} is missing: check out the branch that docs/papers-data.md names."
        ) from error


if __name__ == "__main__":
    main()
