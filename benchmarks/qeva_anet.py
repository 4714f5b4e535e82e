"""QEVA without a server on two annotators of ActivityNet Captions: `python -m benchmarks.qeva_anet`.

The first annotator's timed sentences stand in for the video, the second's are the summary. Beside the summary as it was
written stand spoilt ones:

- shuffled: its sentences in another order, ten times with different seeds; chronology should fall;
- reversed: its sentences from the last to the first; chronology should fall;
- exchanged: a quarter of its sentences, at least one, comes from the summaries of other videos; factuality should fall;
- swapped: the summary of the next video; QEVA should fall, as does the share of words in common.

The 200 reported videos are the first by the hash of their name; constants were chosen on others (places 1000 to 1300).
A fall on a video is a difference above zero; a tie is no fall. Intervals are bootstraps over videos.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from benchmarks.ecs_data import require
from benchmarks.measure import RESULTS, save
from benchmarks.qeva_run import SPLITTER, Bench, Judged, how_often, how_often_above, mean_with_interval, scores
from metrics_core.agreement import compute_words_in_common
from metrics_core.qeva.offline.notes import NoteReference, NoteSegment, build_video_notes
from metrics_core.qeva.records import DIMENSIONS
from metrics_core.qeva.score import QevaScore

N_VIDEOS = 200
N_SHUFFLES = 10
MIN_EVENTS = 3
Value = Callable[[QevaScore], float | None]


def reported() -> list[str]:
    """The names of the videos that both annotators described, in the order of their hashes."""
    one, other = (read(number) for number in (1, 2))
    return sorted(one.keys() & other.keys(), key=lambda name: hashlib.sha256(name.encode()).digest())[:N_VIDEOS]


def read(number: int) -> dict[str, Any]:
    """One annotator's file."""
    content: dict[str, Any] = json.loads((require("anet_captions") / f"val_{number}.json").read_text(encoding="utf-8"))
    return content


def segments_of(row: Mapping[str, Any]) -> list[NoteSegment]:
    """An annotator's sentences in order of time."""
    rows = zip(row["timestamps"], row["sentences"], strict=True)
    segments = [NoteSegment(start, end, text.strip()) for (start, end), text in rows if any(map(str.isalnum, text))]
    return sorted(segments, key=lambda segment: (segment.start_s, segment.end_s))


def videos_of(names: Sequence[str]) -> list[Judged]:
    """The videos with their notes and their summaries: written, exchanged, swapped, reversed, shuffled from 0 on."""
    one, other = read(1), read(2)
    told = {name: [segment.text for segment in segments_of(other[name])] for name in names}
    videos = []
    for name, following in zip(names, [*names[1:], names[0]], strict=True):
        segments = segments_of(one[name])
        notes = build_video_notes([NoteReference("", tuple(segments))], [], SPLITTER)
        if notes is None:
            raise SystemExit(f"{name} has no sentence of the first annotator")
        strangers = [sentence for stranger in names if stranger != name for sentence in told[stranger]]
        rng = Random(name)
        spoilt = {"exchanged": exchanged(told[name], strangers, rng)}
        spoilt |= {f"shuffled {k}": shuffled(told[name], rng) for k in range(N_SHUFFLES) if len(told[name]) > 1}
        spoilt |= {"reversed": told[name][::-1]} if len(told[name]) > 1 else {}
        spoilt |= {"swapped": told[following]}
        summaries = {"written": told[name], **spoilt}
        videos.append(Judged(notes, {system: "\n".join(sentences) for system, sentences in summaries.items()}))
    return videos


def shuffled(sentences: Sequence[str], rng: Random) -> list[str]:
    """The sentences in another order."""
    order = list(range(len(sentences)))
    while order == sorted(order):
        rng.shuffle(order)
    return [sentences[place] for place in order]


def exchanged(sentences: Sequence[str], strangers: Sequence[str], rng: Random) -> list[str]:
    """The sentences with a quarter of them, at least one, exchanged for strangers."""
    places = rng.sample(range(len(sentences)), max(1, round(len(sentences) / 4)))
    drawn = dict(zip(places, rng.sample(strangers, len(places)), strict=True))
    return [drawn.get(place, sentence) for place, sentence in enumerate(sentences)]


def falls(found: Sequence[Mapping[str, QevaScore]], systems: Sequence[str], value: Value) -> dict[str, Any]:
    """How much lower `value` is than as written, with the mean over the systems as the spoilt one's."""
    differences: list[float | None] = []
    for of_video in found:
        written = value(of_video["written"])
        spoilt = [each for system in systems if system in of_video and (each := value(of_video[system])) is not None]
        known = written is not None and spoilt
        differences.append(written - sum(spoilt) / len(spoilt) if known and written is not None else None)
    measured = [each for each in differences if each is not None]
    return {
        "difference": mean_with_interval(differences),
        "share_of_videos_that_fall": mean_with_interval([None if d is None else float(d > 1e-12) for d in differences]),
        "ties": sum(abs(each) <= 1e-12 for each in measured),
    }


def results_of(videos: Sequence[Judged], found: Sequence[Mapping[str, QevaScore]]) -> dict[str, Any]:
    """Means of every dimension and system, and the two falls."""
    all_shuffles = [f"shuffled {k}" for k in range(N_SHUFFLES)]
    several = [each for video, each in zip(videos, found, strict=True) if len(video.notes.events) >= MIN_EVENTS]
    means = {
        system: {
            dimension: mean_with_interval([getattr(each[system], dimension).value for each in found if system in each])
            for dimension in DIMENSIONS
        }
        for system in ("written", all_shuffles[0], "reversed", "exchanged", "swapped")
    }
    return {
        "videos": len(videos),
        "videos_with_3_events": len(several),
        "means": means,
        "written_is_above": {
            "swapped, by QEVA": above(found, "swapped", lambda score: score.value),
            "swapped, by words in common": above_in_words(videos),
            "shuffled once, by chronology": above(found, all_shuffles[0], lambda score: score.chronology.value),
            "reversed, by chronology": above(found, "reversed", lambda score: score.chronology.value),
        },
        "chronology_falls_mean_of_shuffles": falls(several, all_shuffles, lambda score: score.chronology.value),
        "chronology_falls_first_shuffle": falls(several, all_shuffles[:1], lambda score: score.chronology.value),
        "coverage_falls_mean_of_shuffles": falls(found, all_shuffles, lambda score: score.coverage.value),
        "factuality_falls_exchanged": falls(found, ["exchanged"], lambda score: score.factuality.value),
    }


def above(found: Sequence[Mapping[str, QevaScore]], system: str, value: Value) -> dict[str, float | int | None]:
    """In how many videos `value` is greater as written than of a spoilt summary; a tie is not greater."""
    return how_often_above((value(each["written"]), value(each[system])) for each in found if system in each)


def above_in_words(videos: Sequence[Judged]) -> dict[str, float | int | None]:
    """In how many videos the summary has more words in common with the notes than the next video's."""
    told = [[" ".join(video.notes.events)] for video in videos]
    own, other = (
        compute_words_in_common([video.summaries[system] for video in videos], told).tolist()
        for system in ("written", "swapped")
    )
    return how_often_above(zip(own, other, strict=True))


def table(results: Mapping[str, Any]) -> list[str]:
    """The lines to print."""
    lines = [f"{results['videos']} videos, {results['videos_with_3_events']} of them with {MIN_EVENTS} events or more"]
    for system, dimensions in results["means"].items():
        lines.append(f"{system:12s}" + "".join(f"  {name} {cell(each)}" for name, each in dimensions.items()))
    lines += [f"written above {name}: {how_often(each)}" for name, each in results["written_is_above"].items()]
    for name in (key for key in results if "_falls_" in key):
        share, difference = results[name]["share_of_videos_that_fall"], results[name]["difference"]
        ties = results[name]["ties"]
        lines.append(f"{name}: by {cell(difference)}, in {cell(share)} of {share['n']} videos, {ties} ties")
    return lines


def cell(each: Mapping[str, Any]) -> str:
    """A mean with its interval."""
    return "-" if each["mean"] is None else f"{each['mean']:.3f} [{each['low']:.3f}, {each['high']:.3f}]"


def main() -> None:
    """Score everything, print the table and write results/qeva_anet.json."""
    import torch

    torch.set_num_threads(1)
    bench = Bench()
    videos = videos_of(reported())
    found = scores(videos, bench)
    results = results_of(videos, found)
    print(*table(results), sep="\n")
    seconds = {**bench.seconds, "of these embedding": bench.encoder.seconds, "of these judging": bench.verifier.seconds}
    cost = {"seconds": seconds, "pairs": bench.verifier.n_pairs}
    print(cost)
    answerer = bench.answerer().identity.as_dict()
    print(f"written to {save(RESULTS / 'qeva_anet.json', {'answerer': answerer, **results, 'cost': cost})}")


if __name__ == "__main__":
    main()
