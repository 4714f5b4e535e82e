"""QEVA without a server on the systems of the demo world and of ten real clips: `python -m benchmarks.qeva_demo`.

The demo world is drawn and told by a program, so its numbers say whether the parts work together, not how QEVA fares on
real summaries. Notes come from keypoints and references, and once from references alone. Constants were looked at on
demo clips of another seed. The captions of the real clips were written by one author as five types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from benchmarks.ecs_data import read_lines, require
from benchmarks.measure import RESULTS, save
from benchmarks.qeva_anet import cell
from benchmarks.qeva_run import SPLITTER, Bench, Judged, how_often, how_often_above, mean_with_interval, scores
from lab.demo.build import build_manifest_rows, make_demo_clips
from lab.demo.systems import SYSTEMS
from metrics_core.qeva.offline.notes import NoteKeypoint, NoteReference, NoteSegment, build_video_notes
from metrics_core.qeva.records import DIMENSIONS
from metrics_core.qeva.score import QevaScore

Tables: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
N_CLIPS, SEED = 24, 7
# In each the first system should have more of the named value than the second.
EXPECTED = (
    ("qeva", "sys_faithful", "sys_hallucinating"),
    ("chronology", "sys_faithful", "sys_shuffled"),
    ("factuality", "sys_faithful", "sys_wrong_details"),
    ("coverage", "sys_faithful", "sys_brief"),
    ("qeva", "sys_faithful", "sys_offtopic"),
)


def demo_rows() -> Tables:
    """The demo world as a manifest."""
    return build_manifest_rows(make_demo_clips(N_CLIPS, SEED))


def clip_rows() -> Tables:
    """The manifest of the real clips."""
    return {name: read_lines(require("clips") / f"{name}.jsonl") for name in ("captions", "keypoints")}


def videos_of(rows: Tables, with_keypoints: bool) -> list[Judged]:
    """The clips of a manifest that have keypoints, with the captions of its systems."""
    videos = []
    for name in dict.fromkeys(row["video_id"] for row in rows["keypoints"]):
        captions = [row for row in rows["captions"] if row["video_id"] == name]
        references = [
            NoteReference(row["text"], tuple(NoteSegment(**segment) for segment in row.get("segments", ())))
            for row in captions
            if row["role"] == "reference"
        ]
        keypoints = [
            NoteKeypoint(row["text"], row["dimension"], row.get("segment_index"))
            for row in rows["keypoints"]
            if row["video_id"] == name and with_keypoints
        ]
        notes = build_video_notes(references, keypoints, SPLITTER)
        if notes is None:
            raise SystemExit(f"{name} has no reference")
        videos.append(Judged(notes, {row["system"]: row["text"] for row in captions if row["role"] == "candidate"}))
    return videos


def value_of(score: QevaScore, name: str) -> float | None:
    """QEVA or a dimension of it."""
    return score.value if name == "qeva" else getattr(score, name).value


def results_of(found: Sequence[Mapping[str, QevaScore]]) -> dict[str, Any]:
    """Means by system, and in how many clips the expected one of two systems has more."""
    means = {
        system: {
            name: mean_with_interval([value_of(each[system], name) for each in found]) for name in ("qeva", *DIMENSIONS)
        }
        for system in SYSTEMS
        if system in found[0]
    }
    wins = [
        {
            "value": name,
            "better": better,
            "worse": worse,
            **how_often_above((value_of(each[better], name), value_of(each[worse], name)) for each in found),
        }
        for name, better, worse in EXPECTED
        if worse in found[0]
    ]
    return {"clips": len(found), "means": means, "wins": wins}


def table(results: Mapping[str, Any]) -> list[str]:
    """The lines to print."""
    lines = [f"{results['clips']} clips"]
    for system, values in results["means"].items():
        cells = (f"  {name} {cell(each)} of {each['n']}" for name, each in values.items())
        lines.append(f"{system:18s}{''.join(cells)}")
    return lines + [
        f"{each['value']}: {each['better']} above {each['worse']} in {how_often(each)}" for each in results["wins"]
    ]


def main() -> None:
    """Score demo and clips with both kinds of notes, print the tables and write results/qeva_demo.json."""
    import torch

    torch.set_num_threads(1)
    bench = Bench()
    result: dict[str, Any] = {
        "answerer": bench.answerer().identity.as_dict(),
    }
    for shown, rows in (("demo", demo_rows()), ("ten real clips", clip_rows())):
        for notes, with_keypoints in (("keypoints and references", True), ("references", False)):
            name = f"{shown}, {notes}"
            result[name] = results_of(scores(videos_of(rows, with_keypoints), bench))
            print(name, *table(result[name]), sep="\n", flush=True)
    result["cost"] = {"seconds": bench.seconds, "pairs": bench.verifier.n_pairs}
    print(f"written to {save(RESULTS / 'qeva_demo.json', result)}")


if __name__ == "__main__":
    main()
