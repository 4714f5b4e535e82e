"""Random operations on one home for a long time, with kills among them, and an oracle of acknowledged writes only.

Datasets are ingested, changed and dropped; described, scored, given imported numbers, rated and labelled on
the pages, and selected from. Commands and the server are killed at random moments, and what was killed is asked for
again. After some operations all is read back by SQL: nothing that was acknowledged is lost, doubled or altered.

Run it with `python -m tests.attack.generator --minutes 20 --seed 1`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import typer

import reelsieve as rs
from db.scores.imported_scores import IMPORTED_VERSION
from db.server.embedded import stop_embedded
from db.server.engine import open_engine
from tests.assets.manifests import candidate, keypoint, reference, write_manifest
from tests.assets.verifying import dataset_of
from tests.attack.campaign import Campaign, Seed, open_folder
from tests.attack.rater_races import Answer, Rater, answer_in
from tests.attack.world import DOES, WHO, invent_text
from tests.db.marks import wrong_marks
from tests.homes import make_home
from tests.orchestration.conftest import save_text_encoder
from tests.orchestration.looking import Shown, served
from tests.orchestration.survival import Command, Home, removed, rows, warm_up

MOST_DATASETS, MOST_VIDEOS = 3, 12
METRICS = ("judge_1", "judge_2", "judge_3")
COMPARED_EVERY = 5
"""So many operations lie between two comparisons with the oracle."""
KILLED, SERVER_KILLED = 0.2, 0.1
"""The shares of commands that are killed, and under which the server is."""
LONGEST_S = 4.0
"""The longest time that a command works before it is killed, or the server."""
MOST_TRIES = 10
# Why a command cannot do it right after a kill: the server has not noticed yet that its work is over.
BUSY = ("works on dataset", "has not ended")
WAYS = ("rating", "keypoint_label")
REFERENCE = " ".join(f"{who} {does}." for who, does in zip(WHO, DOES, strict=True))


@dataclass
class Known:
    """What was acknowledged of a dataset, by the keys of captions; a number or an answer with the text it is about."""

    captions: dict[str, str] = field(default_factory=dict)
    described: dict[str, str] = field(default_factory=dict)
    scored: dict[str, str] = field(default_factory=dict)
    imported: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)
    answers: dict[tuple[Any, ...], Answer] = field(default_factory=dict)


def main(minutes: float = 20.0, seed: Seed = None) -> None:
    """Do random operations for so many minutes."""
    campaign = Campaign("generator", seed)
    with open_folder() as folder:
        warm_up()
        (folder / "encoder").mkdir()
        home = Home(folder / "home", save_text_encoder(folder / "encoder"))
        home.folder.mkdir()
        make_home(home.folder)
        attack(home, folder, _until(time.monotonic() + 60 * minutes), campaign)
    campaign.finish()


def _until(end: float) -> Iterator[None]:
    while time.monotonic() < end:
        yield


def attack(home: Home, folder: Path, steps: Iterable[object], campaign: Campaign) -> None:
    """Do an operation for each step, comparing with the oracle now and then and at the end; the home goes."""
    history = _History(home, folder, campaign)
    try:
        history.ingest()
        for number, _ in enumerate(steps, 1):
            history.step()
            if number % COMPARED_EVERY == 0:
                history.compare()
        history.compare()
    except AssertionError as error:
        # What is stored now is not known.
        campaign.expect(False, f"the operations ended: {error}")
    finally:
        removed(home)


class _History:
    """The home, and what the oracle knows of it."""

    def __init__(self, home: Home, folder: Path, campaign: Campaign) -> None:
        self._home, self._folder, self._campaign, self._random = home, folder, campaign, campaign.random
        self._datasets: dict[str, Known] = {}
        # By the number of a selection the captions that it took, best first, with their texts.
        self._selections: dict[int, list[tuple[str, str]]] = {}
        self._n_names = 0

    def step(self) -> None:
        """Do one operation, drawn at random."""
        often = (self.ingest, self.score, self.describe, self.import_numbers, self.answer, self.select)
        operation = self._random.choice((*often, *often, *often, self.drop, self.restart))
        if not self._datasets:
            operation = self.ingest
        self._campaign.counts[f"operations: {operation.__name__}"] += 1
        operation()

    def ingest(self) -> None:
        """Ingest a new dataset, or one with new and changed rows, some being left out of the manifest."""
        is_new = not self._datasets or (len(self._datasets) < MOST_DATASETS and self._random.random() < 0.2)
        name = self._new_name() if is_new else self._any()
        known = self._datasets.get(name, Known())
        captions = dict(known.captions)
        for key in self._random.sample(sorted(captions), min(3, len(captions))):
            captions[key] = invent_text(self._random, 5)
        for _ in range(self._random.randrange(3) if captions else 4):
            captions[f"v{self._random.randrange(MOST_VIDEOS)}_c{len(captions)}"] = invent_text(self._random, 5)
        for key in self._random.sample(sorted(captions), self._random.randrange(3)):
            # What a manifest does not name stays as it is.
            del captions[key]
        self._run("ingest", str(self._write(name, captions)), "-d", name, "--shards", "2")
        self._datasets.setdefault(name, known).captions = {**known.captions, **captions}

    def score(self) -> None:
        """Score a dataset."""
        name = self._any()
        self._run("score", "-d", name, "--metric", "vcs")
        self._datasets[name].scored = dict(self._datasets[name].captions)

    def describe(self) -> None:
        """Measure the facts of a dataset."""
        name = self._any()
        self._run("facts", "-d", name)
        self._datasets[name].described = dict(self._datasets[name].captions)

    def import_numbers(self) -> None:
        """Import numbers of some captions."""
        name, metric = self._any(), self._random.choice(METRICS)
        known = self._datasets[name]
        keys = self._random.sample(sorted(known.captions), self._random.randrange(1, len(known.captions) + 1))
        frame = pd.DataFrame({"caption_id": keys, "value": [self._random.random() for _ in keys]})
        url = self._home.url.render_as_string(hide_password=False)
        counts = rs.import_scores(frame, metric, name, url=url)
        self._campaign.expect(sum(counts.values()) == len(keys), f"{counts} of {len(keys)} numbers")
        for key, value in zip(frame["caption_id"], frame["value"], strict=True):
            known.imported[metric, key] = float(value), known.captions[key]

    def answer(self) -> None:
        """Rate some captions, or label some facts, on the pages."""
        name, way = self._any(), self._random.choice(WAYS)
        known = self._datasets[name]
        with self._pages(name) as shown:
            rater = Rater(shown, name, way, self._random.randrange(2), self._campaign)
            for _ in range(self._random.randrange(1, 6)):
                question = rater.question()
                self._campaign.counts["answers"] += question is not None and rater.answer(question)
        for given in rater.stored:
            # A fact is labelled once, by any rater.
            at = (way, given.ids, "" if way == "keypoint_label" else given.rater)
            before = known.answers.get(at)
            # A caption that comes twice keeps its first answer.
            known.answers[at] = before if before and before.digests == given.digests else given

    def select(self) -> None:
        """Freeze the longest captions."""
        name = self._any()
        captions = self._datasets[name].captions
        n = self._random.randrange(1, len(captions) + 1)
        rule = ("--by", "n_characters", "--count", str(n))
        selection_id = self._run("select", "-d", name, *rule, "--json").json()["selection_id"]
        taken = self._taken().get(selection_id, [])
        longest = sorted((len(text) for text in captions.values()), reverse=True)[:n]
        is_right = [len(text) for _, text in taken] == longest and dict(taken).items() <= captions.items()
        self._campaign.expect(is_right, f"selection {selection_id} of {name} took {taken}")
        self._selections.setdefault(selection_id, taken)

    def drop(self) -> None:
        """Drop a dataset."""
        name = self._any()
        self._run("dataset", "drop", name, "--yes", is_done=lambda: name not in self._names())
        del self._datasets[name]

    def restart(self) -> None:
        """Stop the server, or kill it; the next command starts it."""
        _ = self._home.url
        if self._random.random() < 0.5:
            self._home.kill_server()
        else:
            stop_embedded(self._home.folder)

    def compare(self) -> None:
        """Read everything back, and compare it with what was acknowledged."""
        texts = {(name, key): text for name, of in self._datasets.items() for key, text in of.captions.items()}
        self._same("captions", texts, "SELECT d.name, s.key, s.text FROM sample s JOIN dataset d USING (dataset_id)")
        self._compare_numbers(texts)
        self._compare_answers()
        taken = self._taken()
        self._expect("selections", taken == self._selections, f"{taken} in place of {self._selections}")
        marks = wrong_marks(partial(rows, self._home.url))
        self._expect("marks", not marks, str(marks[:3]))
        self._campaign.counts["comparisons"] += 1

    def _compare_numbers(self, texts: Mapping[tuple[str, str], str]) -> None:
        """Compare imported numbers, facts, and which scores there are and stale. texts: by dataset and key."""
        of_scorer = "FROM current_score c JOIN dataset d USING (dataset_id) JOIN scorer r USING (scorer_id)"
        numbers, stale, words = {}, {}, {}
        for name, of in self._datasets.items():
            for (metric, key), (value, text) in of.imported.items():
                numbers[name, metric, key] = (value, "ok") if texts[name, key] == text else (None, "stale")
            stale |= {(name, key): (texts[name, key] != text,) for key, text in of.scored.items()}
            current = {key: text for key, text in of.described.items() if texts[name, key] == text}
            words |= {(name, key): len(text.split()) for key, text in current.items()}
        query = (
            f"SELECT d.name, c.metric, c.key, c.value, c.status {of_scorer} WHERE r.code_version = '{IMPORTED_VERSION}'"
        )
        self._same("numbers", numbers, query)
        self._same("scores", stale, f"SELECT d.name, c.key, c.status = 'stale' {of_scorer} WHERE c.metric = 'vcs'")
        described = rows(self._home.url, "SELECT dataset, sample, words FROM sample_scores")
        measured = {row[:2]: row[2] for row in described if row[:2] in words}
        self._campaign.counts["facts compared"] += len(measured)
        self._expect("facts", measured == words, f"{measured} in place of {words}")

    def _compare_answers(self) -> None:
        given = Counter(answer for of in self._datasets.values() for answer in of.answers.values())
        stored = Counter(
            answer_in(way, row[0], is_repeat=False)
            for way in WAYS
            for row in rows(self._home.url, f"SELECT to_jsonb(t) FROM {way} t")
        )
        self._campaign.counts["answers compared"] += given.total()
        self._expect("answers", stored == given, f"lost {given - stored}, and there are {stored - given}")

    def _same(self, of: str, expected: Mapping[tuple[str, ...], Any], query: str) -> None:
        """Compare the rows of a query, a key and then values, with the values that are expected under each key."""
        stored = Counter(rows(self._home.url, query))
        wanted = Counter((*key, *(value if isinstance(value, tuple) else (value,))) for key, value in expected.items())
        self._campaign.counts[f"{of} compared"] += stored.total()
        self._expect(of, stored == wanted, f"lost {wanted - stored}, and there are {stored - wanted}")

    def _expect(self, of: str, holds: bool, fault: str) -> None:
        n = sum(n for name, n in self._campaign.counts.items() if name.startswith("operations"))
        self._campaign.expect(holds, f"after {n} operations, {of}: {fault}")

    def _run(self, *words: str, is_done: Callable[[], bool] = lambda: False) -> Command:
        """Run a command to its end, perhaps killed before, and the server under it; returns the one that ended well.

        is_done: whether a killed one had done it all, so that the same command is refused.
        """
        chance = self._random.random()
        if chance < KILLED + SERVER_KILLED:
            _ = self._home.url  # so that there is a server to kill
            command = self._home.run(*words)
            if command.runs_after(self._random.uniform(0, LONGEST_S)):
                self._kill(words, command, is_server=chance >= KILLED)
        for _ in range(MOST_TRIES):
            command = self._home.run(*words)
            self._check_words(words, command)
            if command.wait() == 0 or is_done():
                return command
            if not any(reason in command.stderr for reason in BUSY):
                break
            self._campaign.counts["commands that were refused since a killed one seemed at work"] += 1
        raise AssertionError(f"{' '.join(words)} ended badly: {command.stderr}")

    def _kill(self, words: Sequence[str], command: Command, *, is_server: bool) -> None:
        self._campaign.counts["kills of the server" if is_server else "kills of commands"] += 1
        if is_server:
            self._home.kill_server()
            self._check_words(words, command)
        else:
            command.kill()

    def _check_words(self, words: Sequence[str], command: Command) -> None:
        """A command ends well, or with one sentence and the exit code of mistakes."""
        try:
            code, output = command.wait(), command.stdout + command.stderr
        except AssertionError as error:
            raise AssertionError(f"{' '.join(words)}: {error}") from None
        n_errors = sum(line.startswith("error: ") for line in output.splitlines())
        self._campaign.counts[f"commands that ended with {code}"] += 1
        self._expect(
            "words", code in (0, 1) and n_errors == code and "Traceback" not in output, f"{words}: {code}: {output}"
        )

    @contextmanager
    def _pages(self, name: str) -> Iterator[Shown]:
        engine = open_engine(self._home.url)
        with served(engine, dataset_of(engine, name), [], [], self._folder) as shown:
            yield shown
        engine.dispose()

    def _write(self, name: str, captions: Mapping[str, str]) -> Path:
        """Write a manifest of these captions, with a reference and a keypoint of each video."""
        videos = {key: key.partition("_")[0] for key in captions}
        lines = [candidate(key, videos[key], text) for key, text in captions.items()]
        lines += [reference(f"{video}_r", video, REFERENCE) for video in sorted({*videos.values()})]
        keypoints = [keypoint(f"{video}_k", video) for video in sorted({*videos.values()})]
        return write_manifest(self._folder / name, sorted({*videos.values()}), captions=lines, keypoints=keypoints)

    def _taken(self) -> dict[int, list[tuple[str, str]]]:
        """The captions and texts of every frozen selection, best first."""
        taken: dict[int, list[tuple[str, str]]] = {}
        query = "SELECT selection_id, sample, text FROM selection_item ORDER BY selection_id, rank"
        for selection_id, key, text in rows(self._home.url, query):
            taken.setdefault(selection_id, []).append((key, text))
        return taken

    def _names(self) -> set[str]:
        return {row[0] for row in rows(self._home.url, "SELECT name FROM dataset")}

    def _any(self) -> str:
        return self._random.choice(sorted(self._datasets))

    def _new_name(self) -> str:
        self._n_names += 1
        return f"d{self._n_names}"


if __name__ == "__main__":
    typer.run(main)
