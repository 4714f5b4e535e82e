"""A database of revision 0003 with scores of every metric: what it is after the upgrade, and back."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.scores.registry import METRIC_INPUTS
from db.evidence.embeddings import load_texts
from db.evidence.entailments import Judged, load_entailments, pair_sha256
from db.evidence.frames import load_frames
from db.evidence.models import find_model, fingerprint
from db.evidence.verdicts import load_verdicts
from db.schema.migrate import check_schema, downgrade, migrate
from db.scores.work import pending_samples
from tests.db.builders import (
    add_keypoint,
    add_reference,
    add_sample,
    add_video,
    make_dataset,
    undefined,
    write_fresh,
)
from tests.db.old_rows import (
    OF_VERDICTS,
    contents,
    insert_old,
    old_digest,
    old_score,
    old_scorer,
)
from tests.db.test_digests import kept, made_anew

TIMES = [{"text": "A dog runs.", "start_s": 0, "end_s": 2.5}]
DEMO = {"image_text_encoder": {"model_id": "demo encoder"}}
REAL = {"image_text_encoder": {"model_id": "ViT-B-32"}}
ENCODERS: list[dict[str, Any]] = [
    {"model_id": name, "revision": "1", "params": {"length": 256}} for name in ("mini", "clip")
]
# The first shares its identity with an encoder.
VERIFIERS: list[dict[str, Any]] = [ENCODERS[1], {"model_id": "nli", "revision": "1", "params": {}}]
PAIRS = [("A dog.", "It runs."), ("A cat.", "It sits.")]


class Old:
    """Two datasets: `clips`, whose caption "plain" has two references, and `demo`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.clips, self.demo = make_dataset(engine), make_dataset(engine, "demo")
        self.video_id = add_video(engine, self.clips, "v", content=b"frames")
        short = add_video(engine, self.clips, "w", content=b"frames")
        shown = add_video(engine, self.demo, "drawn", content=b"frames")
        for key in ("r9", "r10"):
            add_reference(engine, self.clips, self.video_id, key, f"A dog runs: {key}.", segments=TIMES)
        add_reference(engine, self.clips, short, "r", "It goes.")
        self.keypoint_id = add_keypoint(engine, self.clips, self.video_id, "k", segment_index=0)
        self.samples = {
            "plain": add_sample(engine, self.clips, self.video_id, "plain", segments=TIMES),
            "short of two": add_sample(engine, self.clips, self.video_id, "short of two", "It goes."),
            "short": add_sample(engine, self.clips, short, "short", "It runs."),
            "pair": add_sample(
                engine, self.clips, short, "pair", "Who? A dog.", kind="qa", question="Who?", answer="A dog."
            ),
            "drawn": add_sample(engine, self.demo, shown, "drawn", "A red ball."),
        }
        self.scorers = {metric: old_scorer(engine, metric) for metric in ("vcs", "vcs_short", "ecs")}
        self.scorers["evqa"] = old_scorer(engine, "evqa", DEMO)
        self._thresholds()
        self._scores()
        self._verdicts()
        self._models()

    def _thresholds(self) -> None:
        place: dict[str, Any] = {"scorer_id": self.scorers["ecs"], "dataset_id": self.clips.dataset_id}
        values: dict[str, Any] = {
            "scope": "dataset",
            "dimension": "events",
            "method": "keypoint_labels",
            "objective": "f1",
            "value": 0.25,
            "n": 9,
        }
        insert_old(self.engine, "threshold", **place, **values, details={})

    def _scores(self) -> None:
        earned = {"always_zero": False, "n_references": 2}
        for metric in ("vcs", "vcs_short"):
            self._score(metric, "plain", 0.75, **earned)
            self._score(metric, "short of two", 0.0, always_zero=True, n_references=2)
            self._score(metric, "short", 0.0, always_zero=True, n_references=1)
            self._score(metric, "pair", None)
        for name in ("plain", "drawn", "pair"):
            self._score("evqa", name, 0.5)
        self._score("ecs", "plain", 1.0, thresholds={"events": 0.25})

    def _score(self, metric: str, name: str, value: float | None, **components: Any) -> None:
        old_score(self.engine, metric, self.scorers[metric], self.samples[name], value, **components)

    def _verdicts(self) -> None:
        of = {"scorer_id": self.scorers["ecs"], "sample_id": self.samples["plain"]}
        digest = old_digest(self.engine, OF_VERDICTS, **of)
        said = {"status": "ok", "n_sentences": 1, "n_passes": 1, "run_id": "run of old"}
        insert_old(self.engine, "verdict_set", **of, input_sha256=digest, **said)
        found = {"probability": 0.75, "sentence_index": 0, "sentence": "A dog.", "is_lower_bound": False, "n_passes": 1}
        insert_old(self.engine, "ecs_verdict", **of, keypoint_id=self.keypoint_id, **found)

    def _models(self) -> None:
        """Both tables count from 1."""
        of_text, of_frames = (
            insert_old(self.engine, "encoder", **identity, fingerprint=fingerprint(identity), dim=3)
            for identity in ENCODERS
        )
        judging = [
            insert_old(self.engine, "verifier", **identity, fingerprint=fingerprint(identity)) for identity in VERIFIERS
        ]
        assert [of_text, of_frames] == judging == [1, 2]
        with self.engine.begin() as connection:
            add = "INSERT INTO text_embedding (encoder_id, text_sha256, embedding) VALUES (:id, sha256('x'), '[1,0,0]')"
            connection.execute(sa.text(add), {"id": of_text})
            values = {"id": of_frames, "video": self.video_id}
            connection.execute(
                sa.text(
                    "INSERT INTO frame_set (encoder_id, video_id, content_sha256, status, n_frames, n_sampled, reader) "
                    "SELECT :id, video_id, content_sha256, 'ok', 30, 1, 'pyav' FROM video WHERE video_id = :video"
                ),
                values,
            )
            connection.execute(
                sa.text(
                    "INSERT INTO frame_embedding (encoder_id, video_id, frame_index, time_s, embedding) "
                    "VALUES (:id, :video, 0, 0, '[0,1,0]')"
                ),
                values,
            )
        for verifier_id, pair, probability in zip(judging, PAIRS, (0.25, 0.75), strict=True):
            judged = {"pair_sha256": pair_sha256(*pair), "probability": probability, "truncated": False}
            insert_old(self.engine, "entailment", verifier_id=verifier_id, **judged)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]

    def model_id(self, identity: dict[str, Any]) -> int:
        with self.engine.connect() as connection:
            found = find_model(connection, identity)
        assert found is not None
        return found

    def pending(self, metric: str, dataset_id: int) -> set[str]:
        names = {sample_id: name for name, sample_id in self.samples.items()}
        place = {"scorer_id": self.scorers[metric], "dataset_id": dataset_id, "shard": 0}
        with self.engine.connect() as connection:
            found = pending_samples(connection, **place, inputs=METRIC_INPUTS[metric])
        return {names[sample_id] for sample_id in found}


@pytest.fixture
def old(database: URL, engine: Engine) -> Old:
    downgrade(database, "0003")
    return Old(engine)


@pytest.fixture
def upgraded(database: URL, old: Old) -> Old:
    migrate(database, METRIC_INPUTS)
    return old


def test_the_schema_is_as_it_should_be(upgraded: Old) -> None:
    with upgraded.engine.connect() as connection:
        check_schema(connection)


def test_digests_of_the_rows_that_were_there(upgraded: Old) -> None:
    found = kept(upgraded.engine)
    assert found == made_anew(upgraded.engine)
    assert {video: [digest is not None for digest in digests] for video, digests in found.items()} == {
        "v": [True, True, True],
        "w": [True, True, False],
        "drawn": [False, False, False],
    }


def test_no_score_of_a_caption_is_stale_but_those_whose_rule_changed(upgraded: Old) -> None:
    """Of several references one may have a shape that can score; and pairs are hashed in another way now."""
    stale = upgraded.rows("SELECT metric, key FROM current_score WHERE status = 'stale'")
    assert set(stale) == {
        ("vcs", "short of two"),
        ("vcs_short", "short of two"),
        ("vcs", "pair"),
        ("vcs_short", "pair"),
        ("evqa", "pair"),
    }
    clips, demo = upgraded.clips.dataset_id, upgraded.demo.dataset_id
    assert upgraded.pending("vcs", clips) == {"short of two", "pair"}
    assert upgraded.pending("evqa", demo) == set()
    assert "plain" not in upgraded.pending("ecs", clips)


def test_numbers_that_mislead_become_statuses(upgraded: Old) -> None:
    found = {(metric, key): rest for metric, key, *rest in upgraded.rows(
        "SELECT metric, key, value, status, error FROM current_score WHERE status NOT IN ('stale', 'undefined')"
    )}  # fmt: skip
    errors = {key: error for key, (_, _, error) in found.items()}
    assert {key: (value, status) for key, (value, status, _) in found.items()} == {
        ("vcs", "plain"): (0.75, "ok"),
        ("vcs_short", "plain"): (0.75, "ok"),
        ("ecs", "plain"): (1.0, "ok"),
        ("evqa", "drawn"): (0.5, "ok"),
        ("vcs", "short"): (None, "too_short"),
        ("vcs_short", "short"): (None, "too_short"),
        ("evqa", "plain"): (None, "no_model"),
    }
    assert "vcs_short" in errors["vcs", "short"]
    assert "REELSIEVE_VCS_SHORT_TEXT" in errors["vcs_short", "short"]
    assert "REELSIEVE_IMAGE_TEXT_ENCODER" in errors["evqa", "plain"]


def test_a_real_encoder_keeps_its_scores(database: URL, old: Old) -> None:
    with old.engine.begin() as connection:
        scorer = sa.Table("scorer", sa.MetaData(), autoload_with=connection)
        connection.execute(sa.update(scorer).where(scorer.c.metric == "evqa").values(models=REAL))
    migrate(database, METRIC_INPUTS)
    query = "SELECT key, value, status FROM current_score WHERE metric = 'evqa' ORDER BY key"
    assert old.rows(query) == [("drawn", 0.5, "ok"), ("pair", None, "stale"), ("plain", 0.5, "ok")]


def test_history_has_the_numbers_that_were_taken_back(upgraded: Old) -> None:
    query = (
        "SELECT metric, sample, value, status, changed_because FROM score_history WHERE replaced_at IS NOT NULL "
        "AND dataset = 'clips' AND kind = 'caption' ORDER BY metric, sample"
    )
    assert upgraded.rows(query) == [
        ("evqa", "plain", 0.5, "ok", "rule"),
        ("vcs", "short", 0.0, "ok", "rule"),
        ("vcs_short", "short", 0.0, "ok", "rule"),
    ]
    query = "SELECT metric, value, status, changed_because FROM score_history WHERE sample = 'short of two'"
    assert set(upgraded.rows(query)) == {("vcs", 0.0, "ok", "rule"), ("vcs_short", 0.0, "ok", "rule")}
    again = undefined(upgraded.samples["short of two"], "too_short")
    write_fresh(upgraded.engine, upgraded.scorers["vcs"], [again])
    query += " AND metric = 'vcs' ORDER BY replaced_at NULLS LAST"
    assert upgraded.rows(query) == [("vcs", 0.0, "ok", "rule"), ("vcs", None, "too_short", None)]


def test_every_model_keeps_its_work_in_one_table(upgraded: Old) -> None:
    engine = upgraded.engine
    of_text, of_frames = (upgraded.model_id(identity) for identity in ENCODERS)
    judging = [upgraded.model_id(identity) for identity in VERIFIERS]
    assert (of_text, of_frames, judging[0]) == (1, 2, 2)
    assert upgraded.rows("SELECT count(*) FROM model") == [(3,)]
    assert load_texts(engine, of_text, ["x"])["x"].tolist() == [1, 0, 0]
    assert load_frames(engine, of_frames, [upgraded.video_id])[upgraded.video_id].features.tolist() == [[0, 1, 0]]
    assert [load_entailments(engine, model_id, PAIRS) for model_id in judging] == [
        {PAIRS[0]: Judged(0.25, False)},
        {PAIRS[1]: Judged(0.75, False)},
    ]


def test_verdicts_are_found_again(upgraded: Old) -> None:
    caption = upgraded.samples["plain"]
    (verdict,) = load_verdicts(upgraded.engine, upgraded.scorers["ecs"], [caption])[caption].verdicts
    assert verdict.probability == 0.75
    assert upgraded.rows("SELECT covered, threshold, is_stale FROM keypoint_verdicts") == [(True, 0.25, False)]


def test_and_back(database: URL, old: Old) -> None:
    before = contents(old.engine)
    migrate(database, METRIC_INPUTS)
    downgrade(database, "0003")
    after = contents(old.engine)
    # The numbers that were taken back stay so, and a model counts as an encoder whatever it did.
    same = set(before) - {"score", "encoder", "verifier", "entailment"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert set(after) == set(before)
    query = (
        "SELECT f.model_id, e.pair_sha256, e.probability FROM entailment e JOIN verifier f USING (verifier_id) "
        "ORDER BY e.probability"
    )
    assert old.rows(query) == [
        ("clip", pair_sha256(*PAIRS[0]), 0.25),
        ("nli", pair_sha256(*PAIRS[1]), 0.75),
    ]
    query = "SELECT model_id, dim FROM encoder JOIN text_embedding USING (encoder_id)"
    assert old.rows(query) == [("mini", 3)]
    query = "SELECT model_id, dim FROM encoder JOIN frame_embedding USING (encoder_id)"
    assert old.rows(query) == [("clip", 3)]
    # A new model of either kind gets an id of its own, and the way up is open again.
    another = {"model_id": "another", "revision": "1", "params": {}}
    insert_old(old.engine, "verifier", **another, fingerprint=fingerprint(another))
    migrate(database, METRIC_INPUTS)
    with old.engine.connect() as connection:
        check_schema(connection)
    assert len({old.model_id(identity) for identity in (*ENCODERS, VERIFIERS[1], another)}) == 4
