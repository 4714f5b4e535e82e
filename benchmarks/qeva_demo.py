"""QEVA without a server on the demo world's six systems: `python -m benchmarks.qeva_demo`.

The world is drawn and told by a program, so the numbers say whether the parts work together, not how QEVA fares on real
summaries. Notes come from keypoints and references, and once from references alone. Constants were looked at on clips
of another seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import RESULTS, save
from benchmarks.qeva_anet import cell
from benchmarks.qeva_run import SPLITTER, Bench, Judged, mean_with_interval, scores
from demo.build import demo_clips, manifest_rows
from demo.systems import SYSTEMS
from metrics_core.arithmetic import wilson_interval
from metrics_core.qeva.notes import NotedKeypoint, Reference, Segment, video_notes
from metrics_core.qeva.records import DIMENSIONS
from metrics_core.qeva.result import QevaScore

N_CLIPS, SEED = 24, 7
# In each the first system should have more of the named value than the second.
EXPECTED = (
    ("qeva", "sys_faithful", "sys_hallucinating"),
    ("chronology", "sys_faithful", "sys_shuffled"),
    ("factuality", "sys_faithful", "sys_wrong_details"),
    ("coverage", "sys_faithful", "sys_brief"),
    ("qeva", "sys_faithful", "sys_offtopic"),
)


def videos_of(with_keypoints: bool) -> list[Judged]:
    """The clips of the demo world with the captions of its systems."""
    rows: Mapping[str, Sequence[Mapping[str, Any]]] = manifest_rows(demo_clips(N_CLIPS, SEED))
    videos = []
    for name in (row["video_id"] for row in rows["videos"]):
        captions = [row for row in rows["captions"] if row["video_id"] == name]
        references = [
            Reference(row["text"], tuple(Segment(**segment) for segment in row["segments"]))
            for row in captions
            if row["role"] == "reference"
        ]
        keypoints = [
            NotedKeypoint(row["text"], row["dimension"], row["segment_index"])
            for row in rows["keypoints"]
            if row["video_id"] == name and with_keypoints
        ]
        notes = video_notes(references, keypoints, SPLITTER)
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
    }
    wins = []
    for name, better, worse in EXPECTED:
        values = [(value_of(each[better], name), value_of(each[worse], name)) for each in found]
        known = [(one, other) for one, other in values if one is not None and other is not None]
        n_wins = sum(one > other for one, other in known)
        low, high = wilson_interval(n_wins, len(known))
        wins.append({"value": name, "better": better, "worse": worse, "wins": n_wins, "of": len(known)})
        wins[-1] |= {"low": low, "high": high, "undefined": len(values) - len(known)}
    return {"means": means, "wins": wins}


def table(results: Mapping[str, Any]) -> list[str]:
    """The lines to print."""
    lines = []
    for system, values in results["means"].items():
        lines.append(f"{system:18s}" + "".join(f"  {name} {cell(each)}" for name, each in values.items()))
    for each in results["wins"]:
        interval = "-" if each["low"] is None else f"[{each['low']:.3f}, {each['high']:.3f}]"
        lines.append(
            f"{each['value']}: {each['better']} above {each['worse']} in {each['wins']} of {each['of']} {interval}"
        )
    return lines


def main() -> None:
    """Score both kinds of notes, print the tables and write results/qeva_demo.json."""
    import torch

    torch.set_num_threads(1)
    bench = Bench()
    result: dict[str, Any] = {"answerer": bench.answerer().identity.as_dict(), "clips": N_CLIPS}
    for name, with_keypoints in (("keypoints and references", True), ("references", False)):
        result[name] = results_of(scores(videos_of(with_keypoints), bench))
        print(name, *table(result[name]), sep="\n", flush=True)
    result["cost"] = {"seconds": bench.seconds, "pairs": bench.verifier.n_pairs}
    print(f"written to {save(RESULTS / 'qeva_demo.json', result)}")


if __name__ == "__main__":
    main()
