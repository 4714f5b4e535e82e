"""Numbers imported by `rs.import_scores` beside scoring, ingests and drops: no deadlock, and nothing is lost.

Several programs import metrics, known and new ones, into a dataset of their own, and some into one that is dropped and
ingested again; meanwhile commands score the others, and ingests change texts. The oracle keeps every acknowledged
number with the text that it was for: at the end it is there, or stale where the text is another one by now. What was
scored meanwhile is compared with the scores of the same rows in a dataset that nobody disturbs.

Run it with `python -m tests.attack.imports_beside_scoring --rounds 12 --seed 1`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pandas as pd
import typer

import reelsieve as rs
from assets.ingest.run import ingest_folder
from db.scores.imported_scores import IMPORTED_VERSION
from db.server.engine import open_engine
from tests.assets.manifests import candidate, reference, write_manifest
from tests.attack.campaign import Campaign, Seed, open_folder
from tests.attack.differences import difference
from tests.attack.kills import ROUNDING
from tests.attack.world import DOES, WHO, invent_text
from tests.db.marks import wrong_marks
from tests.homes import make_home
from tests.orchestration.conftest import save_text_encoder
from tests.orchestration.survival import Command, Home, removed, rows, warm_up

KEPT, DROPPED, UNDISTURBED = ("a", "b", "c"), "gone", "undisturbed"
KNOWN = ("judge_1", "judge_2")
N_VIDEOS, N_SHARDS = 20, 2
IMPORTS, INGESTS = 6, 3
"""What happens to a dataset in a round."""
# Why an import may be refused here.
REFUSALS = ("is not that of sample", "was dropped meanwhile", "there is no dataset", "does not have, such as")
Texts = dict[str, str]


def main(rounds: int = 12, seed: Seed = None) -> None:
    """Import beside everything else so many times."""
    campaign = Campaign("imports_beside_scoring", seed)
    with open_folder() as folder:
        warm_up()
        (folder / "encoder").mkdir()
        home = Home(folder / "home", save_text_encoder(folder / "encoder"))
        home.folder.mkdir()
        make_home(home.folder)
        attack(home, folder, rounds, campaign)
    campaign.finish()


def attack(home: Home, folder: Path, rounds: int, campaign: Campaign) -> None:
    """Import beside everything else so many times, and compare with the oracle after each; the home goes."""
    beside = _Beside(home, folder, campaign)
    try:
        beside.prepare()
        for number in range(rounds):
            beside.disturb(number)
            beside.check(f"round {number}")
        beside.check_scores()
    finally:
        removed(home)


class _Beside:
    """The datasets, their texts as they were ingested last, and the numbers that were acknowledged."""

    def __init__(self, home: Home, folder: Path, campaign: Campaign) -> None:
        self._home, self._folder, self._campaign = home, folder, campaign
        self._texts: dict[str, Texts] = {name: _texts(campaign.random) for name in (*KEPT, DROPPED)}
        # By dataset, metric and key the number and the text that it was for.
        self._imported: dict[tuple[str, str, str], tuple[float, str]] = {}

    def prepare(self) -> None:
        """Ingest the datasets."""
        for name in self._texts:
            self._command("ingest", str(self._write(name)), "-d", name, "--shards", str(N_SHARDS))

    def disturb(self, number: int) -> None:
        """Do everything at once."""
        metrics = [*KNOWN, *(f"new_{number}_{place}" for place in range(3))]
        works = [partial(self._import, name, metrics, self._draw()) for name in self._texts]
        works += [partial(self._change, name, self._draw()) for name in KEPT]
        works += [partial(self._command, "score", "-d", name, "--metric", "vcs") for name in KEPT[:2]]
        works.append(self._drop)
        self._campaign.random.shuffle(works)
        with ThreadPoolExecutor(len(works)) as pool:
            for done in [pool.submit(work) for work in works]:
                done.result()

    def check(self, when: str) -> None:
        """Every acknowledged number is there, once, and stale where its text is another one by now."""
        query = (
            "SELECT d.name, c.metric, c.key, c.value, c.status FROM current_score c JOIN dataset d USING (dataset_id) "
            f"JOIN scorer r USING (scorer_id) WHERE r.code_version = '{IMPORTED_VERSION}' AND d.name <> '{DROPPED}'"
        )
        found = rows(self._home.url, query)
        stored = {row[:3]: row[3:] for row in found}
        expected = {
            (dataset, metric, key): (value, "ok") if text == self._texts[dataset][key] else (None, "stale")
            for (dataset, metric, key), (value, text) in self._imported.items()
        }
        self._campaign.counts["numbers compared"] += len(found)
        self._campaign.counts["stale numbers"] += sum(status == "stale" for _, status in expected.values())
        wrong = {at: (stored.get(at), expected.get(at)) for at in stored.keys() | expected.keys()}
        wrong = {at: (of, wanted) for at, (of, wanted) in wrong.items() if of != wanted}
        self._campaign.expect(len(stored) == len(found), f"{when}: {len(found) - len(stored)} numbers are doubled")
        self._campaign.expect(not wrong, f"{when}: {len(wrong)} numbers are wrong, as {[*wrong.items()][:3]}")
        marks = wrong_marks(partial(rows, self._home.url))
        self._campaign.expect(not marks, f"{when}: marks or counts are wrong: {marks[:3]}")
        shown = [f"count({metric})" for metric in sorted({metric for _, metric, _ in self._imported})]
        if shown:
            # Every imported metric has its column.
            rows(self._home.url, f"SELECT {', '.join(shown)} FROM sample_scores")

    def check_scores(self) -> None:
        """Scored to the end, a dataset has the scores of the same rows where nothing happened."""
        name = KEPT[0]
        self._texts[UNDISTURBED] = self._texts[name]
        self._command("ingest", str(self._write(UNDISTURBED)), "-d", UNDISTURBED, "--shards", str(N_SHARDS))
        for dataset in (name, UNDISTURBED):
            self._command("score", "-d", dataset, "--metric", "vcs")
        query = (
            "SELECT c.key, c.value, c.status FROM current_score c JOIN dataset d USING (dataset_id) "
            "WHERE c.metric = 'vcs' AND d.name = '{}' ORDER BY c.key"
        )
        found, expected = (rows(self._home.url, query.format(dataset)) for dataset in (name, UNDISTURBED))
        self._campaign.counts["scores compared"] = len(expected)
        other = difference(found, expected, ROUNDING)
        self._campaign.expect(other is None and len(expected) == N_VIDEOS, f"scores differ: {other}")

    def _import(self, dataset: str, metrics: Sequence[str], random: Random) -> None:
        """Import numbers of some captions of a dataset, again and again."""
        for _ in range(IMPORTS):
            metric = random.choice(metrics)
            texts = self._texts[dataset]
            keys = random.sample(sorted(texts), random.randrange(1, len(texts)))
            frame = pd.DataFrame({"caption_id": keys, "text": [texts[key] for key in keys]})
            frame["value"] = [random.random() for _ in keys]
            try:
                rs.import_scores(frame, metric, dataset, url=self._home.url.render_as_string(hide_password=False))
            except rs.ReelsieveError as error:
                is_known = any(words in str(error) for words in REFUSALS)
                self._campaign.expect(is_known, f"an import into {dataset} was refused: {error}")
                self._campaign.counts["imports refused"] += 1
                continue
            self._campaign.counts["imports"] += 1
            if dataset != DROPPED:
                of = zip(frame["caption_id"], frame["value"], frame["text"], strict=True)
                self._imported |= {(dataset, metric, key): (float(value), text) for key, value, text in of}

    def _change(self, dataset: str, random: Random) -> None:
        """Give captions of a dataset other texts, again and again."""
        engine = open_engine(self._home.url)
        for _ in range(INGESTS):
            texts = dict(self._texts[dataset])
            texts |= {key: invent_text(random, 5) for key in random.sample(sorted(texts), 4)}
            self._texts[dataset] = texts
            report = ingest_folder(engine, self._write(dataset), dataset, n_shards=N_SHARDS)
            self._campaign.expect(report.rejected == 0, f"{report.rejected} rows refused")
            self._campaign.counts["ingests"] += 1
        engine.dispose()

    def _drop(self) -> None:
        """Drop a dataset, and ingest it again."""
        self._command("dataset", "drop", DROPPED, "--yes")
        self._command("ingest", str(self._write(DROPPED)), "-d", DROPPED, "--shards", str(N_SHARDS))

    def _command(self, *arguments: str) -> Command:
        command = self._home.run(*arguments)
        code = command.wait()
        self._campaign.counts[f"{arguments[0]} ended with {code}"] += 1
        self._campaign.expect(code == 0, f"{' '.join(arguments)} ended with {code}: {command.stderr[-2000:]}")
        return command

    def _write(self, dataset: str) -> Path:
        videos = {key: key.partition("_")[0] for key in self._texts[dataset]}
        captions = [candidate(key, videos[key], text) for key, text in self._texts[dataset].items()]
        captions += [reference(f"{video}_r", video, _REFERENCE) for video in videos.values()]
        return write_manifest(self._folder / dataset, videos.values(), captions=captions)

    def _draw(self) -> Random:
        return Random(self._campaign.random.random())


_REFERENCE = " ".join(f"{who} {does}." for who, does in zip(WHO, DOES, strict=True))


def _texts(random: Random) -> Texts:
    return {f"v{number}_c": invent_text(random, 5) for number in range(N_VIDEOS)}


if __name__ == "__main__":
    typer.run(main)
