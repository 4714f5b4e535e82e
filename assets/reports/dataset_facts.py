"""Facts of a dataset for its report: how the most useful ones are distributed, and which videos and captions are
unusual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from sqlalchemy.engine import Connection

from assets.words.text import format_portion
from db.manifest.datasets import Dataset
from db.reports.facts import (
    VIDEO_FACT_NAMES,
    Extreme,
    FactSubject,
    FactSummary,
    count_matching_captions,
    create_fact_tables,
    find_commonest_language,
    list_matches,
    list_repeated_texts,
    load_fact_summary,
    load_signatures,
)
from db.reports.summary import count_video_statuses, list_unreadable_videos
from metrics_core.facts.signatures import convert_to_unit_vectors
from metrics_core.selection.duplicates import find_originals, mark_distinct_rows

# The facts with a histogram, and the meaning of their numbers.
_HISTOGRAM_FACTS: Mapping[str, str] = {
    "motion": "in frame heights per second",
    "frame_change": "mean change of the frame in 0.2 s, in grey levels of 0 to 255",
    "static_share": "share of the time without motion",
    "sharpness": "variance of the Laplacian",
    "brightness": "mean luma, 0 to 1",
    "contrast": "standard deviation of the luma, 0 to 1",
    "cuts": "hard cuts inside the video",
    "letterbox": "share of the frame under black bars",
    "text_share": "share of the frames with text on screen",
    "speech_share": "share of the time with speech",
    "words": "number of words of the caption",
    "words_per_second": "words per second of video",
    "repetition": "share of three-word sequences that occur earlier in the caption",
    "boilerplate": "share of sentences with a stock phrase",
}
# Unusual videos or captions: a condition of the filter language, and the words for one of them and for several.
_NOTABLE: tuple[tuple[FactSubject, str, str, str], ...] = (
    ("video", "static_share >= 0.9", "hardly moves", "hardly move"),
    ("video", "black_share >= 0.1", "has black frames", "have black frames"),
    ("video", "brightness < 0.15", "is dark", "are dark"),
    ("video", "letterbox >= 0.1", "has black bars", "have black bars"),
    ("video", "cuts >= 1", "has a hard cut", "have hard cuts"),
    ("video", "has_sound = false", "has no sound track", "have no sound track"),
    ("video", "text_share >= 0.5", "shows text half of the time or more", "show text half of the time or more"),
    ("video", "speech_share >= 0.5", "has speech half of the time or more", "have speech half of the time or more"),
    ("caption", "words < 5", "has fewer than five words", "have fewer than five words"),
    ("caption", "repetition >= 0.1", "repeats itself", "repeat themselves"),
    ("caption", "boilerplate > 0", "has a stock phrase", "have stock phrases"),
)
_LANGUAGE = ("is not in {}, the commonest language", "are not in {}, the commonest language")
# Conditions that leave out videos and captions that are rarely useful for training, the simplest first.
_CONDITIONS = (
    "words >= 5",
    "static_share < 0.9",
    "black_share < 0.1",
    "repetition < 0.1",
    "letterbox < 0.1",
    "boilerplate = 0",
)
_MOST_CONDITIONS = 2
MOST_NAMED = 3
# Videos with at least this similarity are copies, as measured in docs/facts.md; more videos are not compared.
ALIKE, MOST_COMPARED = 0.6, 5000


@dataclass(frozen=True, slots=True)
class FactDistribution:
    """How one fact is distributed over the videos or captions that have it: median, extremes and histogram (`summary`).
    of: "video" or "caption". meaning: unit or meaning of its numbers.
    """

    fact: str
    meaning: str
    of: FactSubject
    summary: FactSummary

    def list_extremes(self) -> Iterator[tuple[str, Extreme]]:
        """Yield ("least", extreme) and ("most", extreme): the lowest and the highest value, each with the key that has
        it. An end that equals the median is left out.
        """
        for word, end in (("least", self.summary.least), ("most", self.summary.greatest)):
            if end.value != self.summary.median:
                yield word, end


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A dataset described by its facts: distributions (`facts`), notable groups, copies, and a condition to select by.
    n_videos, n_captions: those that have facts.

    notable: rows of a sentence and the condition of a recipe that selects what it is about, or for copies the option
    that leaves them out. copies: rows in order of keys: a copy, the earlier video most similar to it, and their cosine;
    () for too many videos. proposed: a condition with the number n of captions that meet it; None where no condition
    leaves out some, but at most half.
    """

    n_videos: int
    n_captions: int
    facts: tuple[FactDistribution, ...]
    notable: tuple[Mapping[str, str], ...]
    copies: tuple[Mapping[str, Any], ...]
    proposed: Mapping[str, Any] | None


def load_dataset_facts(connection: Connection, dataset: Dataset) -> DatasetFacts | None:
    """Describe a dataset by its stored facts: distributions, unusual videos and captions, copies, and a condition to
    select by. None where no facts are measured yet. Copies are not looked for among more than 5,000 videos. Creates
    temporary tables, which last until the transaction ends.
    """
    n = create_fact_tables(connection, dataset)
    if not any(n.values()):
        return None
    summaries = {fact: load_fact_summary(connection, fact) for fact in _HISTOGRAM_FACTS}
    facts = tuple(
        FactDistribution(fact, _HISTOGRAM_FACTS[fact], "video" if fact in VIDEO_FACT_NAMES else "caption", summary)
        for fact, summary in summaries.items()
        if summary is not None
    )
    copies = _find_copies(connection) if n["video"] <= MOST_COMPARED else ()
    notable = (*_list_damaged(connection, dataset), *_list_notable(connection, n, copies))
    return DatasetFacts(n["video"], n["caption"], facts, notable, copies, _propose_condition(connection, n["caption"]))


def _list_damaged(connection: Connection, dataset: Dataset) -> Iterator[Mapping[str, str]]:
    """Yield a sentence on the videos that do not decode from end to end, by the names of their files."""
    damaged = list_unreadable_videos(connection, dataset.dataset_id)
    if damaged:
        names = [PurePosixPath(each.uri or each.key).name for each in damaged[:MOST_NAMED]]
        n_videos = sum(count_video_statuses(connection, dataset.dataset_id).values())
        sentence = _format_notable(len(damaged), n_videos, "video", "is damaged", "are damaged", names)
        yield {"sentence": sentence, "condition": "video_status in ('damaged', 'undecodable')"}


def _list_notable(
    connection: Connection, n: Mapping[FactSubject, int], copies: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, str]]:
    """Yield a sentence and a condition for every way in which some videos or captions are unusual."""
    language = find_commonest_language(connection)
    has, have = (phrase.format(language) for phrase in _LANGUAGE)
    other: tuple[tuple[FactSubject, str, str, str], ...] = (("caption", f"language <> '{language}'", has, have),)
    for of, condition, has, have in (*_NOTABLE, *(other if language else ())):
        n_meeting, keys = list_matches(connection, of, condition, MOST_NAMED)
        if n_meeting:
            yield {"sentence": _format_notable(n_meeting, n[of], of, has, have, keys), "condition": condition}
    n_same, keys = list_repeated_texts(connection, MOST_NAMED)
    if n_same:
        have = "have the same text as another caption"
        yield {
            "sentence": _format_notable(n_same, n["caption"], "caption", "", have, keys),
            "condition": "dedupe: 1",
        }
    if copies:
        has, have = "is a copy or near-copy of another video", "are copies or near-copies of other videos"
        pairs = [f"{copy['key']} of {copy['original']}" for copy in copies[:MOST_NAMED]]
        yield {
            "sentence": _format_notable(len(copies), n["video"], "video", has, have, pairs),
            "condition": f"dedupe_videos: {ALIKE}",
        }


def _propose_condition(connection: Connection, n_captions: int) -> Mapping[str, Any] | None:
    """Return the first conditions that leave out some captions, but no more than half of them together; None without
    one.
    """
    chosen: list[str] = []
    left = n_captions
    for condition in _CONDITIONS:
        n = count_matching_captions(connection, " and ".join([*chosen, condition]))
        if n_captions / 2 <= n < left:
            chosen.append(condition)
            left = n
        if len(chosen) == _MOST_CONDITIONS:
            break
    return {"condition": " and ".join(chosen), "n": left} if chosen else None


def _find_copies(connection: Connection) -> tuple[Mapping[str, Any], ...]:
    """Return the videos that are nearly the same as one with an earlier key, each with the one that it is most similar
    to.
    """
    keys, signatures = load_signatures(connection)
    if not keys:
        return ()
    units = convert_to_unit_vectors(signatures)
    places = zip(*find_originals(units, mark_distinct_rows(units, ALIKE)), strict=True)
    return tuple(
        {"key": keys[copy], "original": keys[original], "similarity": float(units[copy] @ units[original])}
        for copy, original in places
    )


def _format_notable(n: int, total: int, row_kind: FactSubject, has: str, have: str, keys: list[str]) -> str:
    """Return how many videos or captions have something in common, with the first keys."""
    portion = format_portion(n, total, row_kind, has, have)
    return f"{portion}." if n == total else f"{portion}: {', '.join(keys)}{', …' if n > len(keys) else '.'}"
