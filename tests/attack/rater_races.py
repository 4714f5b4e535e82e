"""Raters who answer in the browser while the texts of their captions change: an answer counts for its own text only.

Raters rate captions, compare two, and label facts on the pages of `reelsieve look`, some of them twice at once, and
take answers back, while one ingest after the other gives captions and keypoints new texts or earlier ones. The oracle
keeps every answer that a page acknowledged, with the text that it showed. A trigger of the campaign's own notes what
becomes of the tables: it must be these answers, once. What counts at the end is what is of the text as it is, and the
pages ask for all else again.

Run it with `python -m tests.attack.rater_races --rounds 20 --seed 1`.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from html import unescape
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from tests.assets.manifests import candidate, keypoint, write_manifest
from tests.assets.reporting import agree
from tests.assets.verifying import dataset_of
from tests.attack.campaign import Campaign, Seed, empty_database
from tests.attack.world import invent_text
from tests.db.builders import set_scores
from tests.orchestration.looking import Shown, served

DATASET, ASPECT = "raced", "coverage"
N_VIDEOS, SYSTEMS, N_KEYPOINTS = 6, ("brief", "long"), 2
STEPS = 30
"""What a rater does in a round."""
WAYS = ("rating", "preference", "keypoint_label")
"""How raters answer, by the table that has their answers."""
N_RATERS = 2
"""Raters of every way."""
_PAGES = {"rating": "rate", "preference": "rate", "keypoint_label": "rate/facts"}
_CHOICES = {"rating": "12345", "preference": ("a", "b", "tie"), "keypoint_label": ("yes", "no")}
_ANSWER = re.compile(r'data-answer="([^"]+)"')
_TEXT = re.compile(r'<p class="caption[^"]*" dir="auto">(.*?)</p>', re.DOTALL)
_OLD = "for an older text: it does not count"
# Every change of a table of answers, in the order of the server.
_NOTES = """
CREATE TABLE answer_note (note_id bigserial, way text, before jsonb, after jsonb);
CREATE FUNCTION note_answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO answer_note (way, before, after) VALUES (TG_TABLE_NAME, to_jsonb(OLD), to_jsonb(NEW));
    RETURN NULL;
END $$;
"""
_NOTE = "CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW EXECUTE FUNCTION note_answer()"


class Answer(NamedTuple):
    """What a rater said about rows, by their ids in ascending order (keypoint and caption), of texts of these digests.

    value: a rating; the id of the better caption, 0 for neither; whether the caption states the fact.
    """

    way: str
    rater: str
    value: float
    ids: tuple[int, ...]
    digests: tuple[str, ...]


class Question(NamedTuple):
    """What a page asks: the address that takes the answer, and ids and digests of what it shows, as of an answer.

    first: the id of the caption that stands first.
    """

    address: str
    ids: tuple[int, ...]
    digests: tuple[str, ...]
    first: int


def main(rounds: int = 20, seed: Seed = None) -> None:
    """Race so many times, and let the raters finish after each."""
    campaign = Campaign("rater_races", seed)
    with empty_database() as (folder, engine):
        attack(engine, folder / "manifest", rounds, campaign)
    campaign.finish()


def attack(engine: Engine, folder: Path, rounds: int, campaign: Campaign) -> None:
    """Race so many times, compare with the oracle after each, and compute agreement at the end."""
    texts = _Texts(engine, folder, campaign)
    texts.ingest()
    with engine.begin() as connection:
        connection.exec_driver_sql(_NOTES)
        for way in WAYS:
            connection.exec_driver_sql(_NOTE.format(way))
    with served(engine, dataset_of(engine, DATASET), [], [], folder) as shown:
        raters = [Rater(shown, DATASET, way, number, campaign) for way in WAYS for number in range(N_RATERS)]
        for number in range(rounds):
            _race(raters, texts)
            oracle = _Oracle(engine, texts, raters, campaign, f"round {number}")
            oracle.check_history()
            oracle.check_views()
            oracle.check_pages(shown)
            oracle.let_all_finish()
            oracle.check_views()
        if rounds:
            oracle.check_agreement()


def _race(raters: Sequence[Rater], texts: _Texts) -> None:
    """Let all raters answer at once, and ingest changed texts as long as they do."""
    is_over = threading.Event()

    def ingest() -> None:
        while not is_over.is_set():
            texts.change()
            texts.ingest()

    with ThreadPoolExecutor(len(raters) + 1) as pool:
        changing = pool.submit(ingest)
        racing = [pool.submit(rater.race) for rater in raters]
        try:
            for race in racing:
                race.result()
        finally:
            is_over.set()
            changing.result()


class _Texts:
    """The texts of all captions and keypoints by key, as they were ingested last."""

    def __init__(self, engine: Engine, folder: Path, campaign: Campaign) -> None:
        self._engine, self._folder, self._campaign = engine, folder, campaign
        self._random = Random(campaign.random.random())
        videos = [f"v{number}" for number in range(N_VIDEOS)]
        self.captions = {f"{video}_{system}": invent_text(self._random) for video in videos for system in SYSTEMS}
        facts = [f"{video}_{number}" for video in videos for number in range(N_KEYPOINTS)]
        self.keypoints = {key: invent_text(self._random) for key in facts}
        self._earlier: dict[str, list[str]] = {}

    def change(self) -> None:
        """Give some rows another text, at times one that they had before."""
        for _ in range(self._random.randrange(1, 6)):
            texts = self._random.choice((self.captions, self.captions, self.keypoints))
            key = self._random.choice([*texts])
            earlier = self._earlier.setdefault(key, [])
            is_again = earlier and self._random.random() < 0.3
            text = self._random.choice(earlier) if is_again else invent_text(self._random)
            earlier.append(texts[key])
            texts[key] = text

    def ingest(self) -> None:
        """Ingest all rows as they are now."""
        captions = [
            candidate(key, key.partition("_")[0], text, system=key.partition("_")[2])
            for key, text in self.captions.items()
        ]
        keypoints = [keypoint(key, key.partition("_")[0], text=text) for key, text in self.keypoints.items()]
        videos = sorted({row["video_id"] for row in captions})
        write_manifest(self._folder, videos, captions=captions, keypoints=keypoints)
        report = ingest_folder(self._engine, self._folder, DATASET, n_shards=1)
        self._campaign.counts["ingests"] += 1
        self._campaign.expect(report.rejected == 0, f"{report.rejected} rows refused")


class Rater:
    """A person with a name who answers in one way, and what the pages acknowledged."""

    def __init__(self, shown: Shown, dataset: str, way: str, number: int, campaign: Campaign) -> None:
        self._shown, self.way, self._campaign = shown, way, campaign
        self.name = f"{way} {number}"
        self.stored: list[Answer] = []
        self.n_taken_back = 0
        self._random = Random(campaign.random.random())
        session = {"rater": self.name, "aspect": ASPECT, "seed": number % 2}
        session |= {"rating": {"scale": "1-5"}, "preference": {"pairs": 1}}.get(way, {})
        self._at, self._query = f"/look/{dataset}/{_PAGES[way]}", urlencode(session)

    def race(self) -> None:
        """Answer some questions, one now and then in two windows at once, and take some answers back."""
        for _ in range(STEPS):
            if self._random.random() < 0.1:
                self.n_taken_back += self._post(f"{self._at}/undo?{self._query}")
                continue
            question = self.question()
            if question is None:
                continue
            choices = self._random.choices(_CHOICES[self.way], k=2 if self._random.random() < 0.2 else 1)
            with ThreadPoolExecutor(len(choices)) as windows:
                is_stored = [*windows.map(partial(self.answer, question), choices)]
            self._campaign.expect(sum(is_stored) < 2, f"{self.name} stored two answers to {question}")

    def question(self) -> Question | None:
        """What the page asks now; None at the end."""
        status, page = self._ask(f"{self._at}?{self._query}")
        address = _ANSWER.search(page)
        if status != 200 or address is None:
            return None
        about = parse_qs(urlsplit(unescape(address[1])).query)
        ids = [int(number) for name in ("sample", "keypoint") for number in about.get(name, ())]
        digests = [sha256(unescape(text).encode()).hexdigest() for text in _TEXT.findall(page)]
        shown = [*zip(ids, digests, strict=True)]
        shown = shown[::-1] if self.way == "keypoint_label" else sorted(shown)
        return Question(unescape(address[1]), *zip(*shown, strict=True), first=ids[0])

    def answer(self, question: Question, choice: str | None = None) -> bool:
        """Give an answer, drawn at random unless it is given; whether the page acknowledged it."""
        choice = choice or self._random.choice(_CHOICES[self.way])
        is_stored = self._post(f"{question.address}&answer={choice}")
        if is_stored:
            value = _value(self.way, choice, question)
            self.stored.append(Answer(self.way, self.name, value, question.ids, question.digests))
        return is_stored

    def _post(self, address: str) -> bool:
        status, _ = self._ask(address, "POST")
        return status == 200

    def _ask(self, address: str, method: str = "GET") -> tuple[int, str]:
        answer = self._shown.ask(address, method, *([{}] if method == "POST" else []))
        body = answer.read().decode()
        self._campaign.counts[f"{self.way}: {method} answered with {answer.status}"] += 1
        # A question that changed meanwhile is no fault.
        self._campaign.expect(
            answer.status == 200 or (method, answer.status) == ("POST", 409),
            f"{self.name}: {method} {address} ended with {answer.status}: {body[-500:]}",
        )
        return answer.status, body


def _value(way: str, choice: str, question: Question) -> float:
    """The value, as of an answer, of a choice on the page of a question."""
    if way == "rating":
        return float(choice)
    if way == "keypoint_label":
        return float(choice == "yes")
    one, two = question.ids
    better = {"a": question.first, "b": one + two - question.first, "tie": 0}
    return better[choice]


class _Oracle:
    """What the acknowledged answers and the texts as they are say about the tables, the views and the pages."""

    def __init__(self, engine: Engine, texts: _Texts, raters: Sequence[Rater], campaign: Campaign, when: str) -> None:
        self._engine, self._raters, self._campaign, self._when = engine, raters, campaign, when
        self._captions = self._digests("sample", texts.captions)
        self._keypoints = self._digests("keypoint", texts.keypoints)

    def check_history(self) -> None:
        """Every acknowledged answer was stored once and no other one was, and only the rater's own were taken back."""
        stored, taken_back = Counter[Answer](), Counter[str]()
        for way, before, after in self._ask("SELECT way, before, after FROM answer_note ORDER BY note_id"):
            was_again, is_again = (bool(row and "again" in row["extra"]) for row in (before, after))
            is_same = bool(before and after) and _digests_in(way, before) == _digests_in(way, after)
            if after is None or (is_same and was_again and not is_again):
                taken_back[_rater_in(way, before)] += 1
                continue
            is_repeat = is_same and is_again and not was_again
            stored[answer_in(way, after, is_repeat=is_repeat)] += 1
            self._expect(is_repeat or not is_same, f"{before} became {after}")
        acknowledged = Counter(answer for rater in self._raters for answer in rater.stored)
        self._campaign.counts["answers compared"] = acknowledged.total()
        self._expect(
            stored == acknowledged, f"lost: {acknowledged - stored}, not acknowledged: {stored - acknowledged}"
        )
        gone = Counter({rater.name: rater.n_taken_back for rater in self._raters})
        self._campaign.counts["answers taken back"] = gone.total()
        self._expect(+taken_back == +gone, f"taken back were {taken_back}, and the raters took back {gone}")

    def check_views(self) -> None:
        """The views have the answers about the texts as they are, and no other."""
        of_ratings = ("sample_id", "rater", "aspect", "value")
        for view, way, columns in (
            ("current_rating", "rating", of_ratings),
            ("random_rating", "rating", of_ratings),
            ("current_label", "keypoint_label", ("keypoint_id", "sample_id", "source", "covered")),
        ):
            expected = Counter(tuple(row[name] for name in columns) for row in self._counting(way))
            shown = Counter(map(tuple, self._ask(f"SELECT {', '.join(columns)} FROM {view}")))
            self._campaign.counts[f"rows of {view} compared"] += shown.total()
            self._expect(shown == expected, f"{view} lacks {expected - shown} and has {shown - expected}")

    def check_pages(self, shown: Shown) -> None:
        """The page of a caption shows its ratings of older texts as old, and no other."""
        old = Counter(row["sample_id"] for row in self._given("rating"))
        old -= Counter(row["sample_id"] for row in self._counting("rating"))
        for sample_id in self._campaign.random.sample(sorted(self._captions), 3):
            page = shown.ask(f"/look/{DATASET}/sample/{sample_id}").read().decode()
            self._campaign.counts["old ratings on pages"] += old[sample_id]
            self._expect(page.count(_OLD) == old[sample_id], f"{page.count(_OLD)} on the page, not {old[sample_id]}")

    def let_all_finish(self) -> None:
        """Let every rater answer to the end: they are asked about all that has no answer about the present texts."""
        for rater in self._raters:
            # A fact is labelled once, by any rater.
            answered = {
                _ids_in(rater.way, row)
                for row in self._counting(rater.way)
                if rater.way == "keypoint_label" or row["rater"] == rater.name
            }
            wanted = self._askable(rater.way) - answered
            while (question := rater.question()) is not None:
                is_repeat = question.ids in answered
                self._campaign.counts[f"{rater.way}: asked {'twice' if is_repeat else 'at the end'}"] += 1
                self._expect(is_repeat or question.ids in wanted, f"{rater.name} is asked about {question.ids}")
                if not rater.answer(question):
                    self._expect(False, f"{rater.name} cannot answer {question}, and nothing changes")
                    break
                answered.add(question.ids)
            self._expect(wanted <= answered, f"{rater.name} was not asked about {wanted - answered}")

    def check_agreement(self) -> None:
        """Agreement rests on the answers that count: every rater has rated every caption as it is."""
        set_scores(self._engine, {i: place / 100 for place, i in enumerate(sorted(self._captions))})
        rows = agree(self._engine, dataset_of(self._engine, DATASET), ["vcs"])
        of_metric = ("vcs", ASPECT, "captions", "people", "kendall_b")
        sizes = {row.n for row in rows if (row.metric, row.aspect, row.over, row.against, row.statistic) == of_metric}
        self._campaign.counts["rows of agreement"] += len(rows)
        self._expect(sizes == {len(self._captions)}, f"agreement is of {sizes} captions, not {len(self._captions)}")

    def _counting(self, way: str) -> list[dict[str, Any]]:
        """The rows of a table of answers that are about the texts as they are."""
        first = self._keypoints if way == "keypoint_label" else self._captions
        return [
            row
            for row in self._given(way)
            if tuple(texts[i] for texts, i in zip((first, self._captions), _ids_in(way, row), strict=False))
            == _digests_in(way, row)
        ]

    def _given(self, way: str) -> list[dict[str, Any]]:
        """All rows of a table of answers."""
        return [row[0] for row in self._ask(f"SELECT to_jsonb(t) FROM {way} t")]

    def _askable(self, way: str) -> set[tuple[int, ...]]:
        """The ids of all that a rater can be asked about."""
        pairs = {
            "rating": "SELECT sample_id FROM sample",
            "preference": "SELECT a.sample_id, b.sample_id FROM sample a JOIN sample b USING (video_id) "
            "WHERE a.sample_id < b.sample_id",
            "keypoint_label": "SELECT keypoint_id, sample_id FROM keypoint JOIN sample USING (video_id)",
        }
        return set(map(tuple, self._ask(pairs[way])))

    def _digests(self, table: str, texts: Mapping[str, str]) -> dict[int, str]:
        """The digest of the text that each row has by the oracle, by the row's id."""
        ids = self._ask(f"SELECT {table}_id, key FROM {table}")
        return {row[0]: sha256(texts[row[1]].encode()).hexdigest() for row in ids}

    def _ask(self, query: str) -> list[Any]:
        with self._engine.connect() as connection:
            return [*connection.execute(sa.text(query))]

    def _expect(self, holds: bool, fault: str) -> None:
        self._campaign.expect(holds, f"{self._when}: {fault}")


_IDS = {
    "rating": ("sample_id",),
    "preference": ("sample_id", "other_id"),
    "keypoint_label": ("keypoint_id", "sample_id"),
}
_DIGESTS = {
    "rating": ("text_sha256",),
    "preference": ("text_sha256", "other_sha256"),
    "keypoint_label": ("keypoint_sha256", "text_sha256"),
}


def _ids_in(way: str, row: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(row[name] for name in _IDS[way])


def _digests_in(way: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name].removeprefix("\\x") for name in _DIGESTS[way])


def _rater_in(way: str, row: Mapping[str, Any]) -> str:
    return str(row["extra"]["rater"] if way == "keypoint_label" else row["rater"])


def answer_in(way: str, row: Mapping[str, Any], *, is_repeat: bool) -> Answer:
    """The answer that a row of a table has; is_repeat: the second one."""
    ids = _ids_in(way, row)
    value = row["covered"] if way == "keypoint_label" else (row["extra"]["again"] if is_repeat else row)["value"]
    value = {1: ids[0], -1: ids[-1], 0: 0}[value] if way == "preference" else float(value)
    return Answer(way, _rater_in(way, row), value, ids, _digests_in(way, row))


if __name__ == "__main__":
    typer.run(main)
