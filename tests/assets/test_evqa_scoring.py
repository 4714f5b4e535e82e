"""EVQAScore on a real database: real video files, the demo encoder, and all ways in which a sample has no score."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.definitions.score_checks import evaluate_checks
from assets.home.folder import DEMO_DATASET
from assets.ingest.run import ingest_folder
from assets.metrics.evqa.scorer import EVQAScorer
from assets.metrics.evqa.settings import EVQASettings
from assets.models.settings import DEMO_ENCODER, ImageTextSettings
from assets.scores.pending import (
    count_pending_by_shard,
    list_samples_to_score,
    store_scorer,
    update_active_scorer_if_complete,
)
from assets.scores.run import ShardScores, score_shard
from assets.sources.base import MissingEvidence
from assets.sources.facts import count_unmeasured_videos, measure_videos
from assets.sources.frames import SampledFrames
from assets.sources.texts import TextVectors
from db.manifest.datasets import Dataset
from db.scores.quality import count_shard_scores
from db.scores.store import count_statuses
from demo.encoder import make_demo_encoder
from metrics_core.evqa import evqa_from_features
from metrics_core.facts.models import find_fact_models
from metrics_core.facts.pictures import PICTURE_FACTS_VERSION
from metrics_core.frames import get_shared_worker
from metrics_core.keywords import RuleKeywords
from metrics_core.models.sentence_splitter import RuleSplitter
from tests.assets.manifests import candidate, qa, write_clip, write_manifest
from tests.assets.verifying import Counts, dataset_of, make_kind, order_for

SHORT = "A red circle stands in the middle. A blue square slides to the left."
LONG = " ".join(f"A red circle number {i} slides to the left side and a green square blinks twice." for i in range(9))
FRAMES_EVERY = 5


class CountingEncoder:
    """The demo encoder, perhaps under another name, counting the images and texts that it encodes."""

    batch_size: int

    def __init__(self, name: str = DEMO_ENCODER) -> None:
        self._encoder = make_demo_encoder()
        self.identity = replace(self._encoder.identity, model_id=name)
        self.n_images = 0
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode_preprocessed(self, images: Sequence[Any]) -> NDArray[np.float32]:
        self.n_images += len(images)
        return self._encoder.encode_preprocessed(images)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return self._encoder.encode_texts(texts)


class Bench(NamedTuple):
    """A database, a manifest folder in it, and the encoder that is watched."""

    engine: Engine
    folder: Path
    encoder: CountingEncoder
    # The demo encoder scores the demo's dataset alone.
    name: str = DEMO_DATASET

    def scorer(self, **settings: Any) -> EVQAScorer:
        chosen = EVQASettings(**{"frames_every": FRAMES_EVERY, **settings})
        return EVQAScorer(chosen, self.encoder, RuleKeywords(), RuleSplitter())  # type: ignore[arg-type]  # counts only

    @property
    def dataset(self) -> Dataset:
        return dataset_of(self.engine, self.name)

    def ingest(self) -> None:
        assert ingest_folder(self.engine, self.folder, self.name, n_shards=1).rejected == 0

    def frames(self, scorer: EVQAScorer) -> Counts:
        return make_kind(self.engine, scorer, SampledFrames, self.dataset)

    def settle(self, scorer: EVQAScorer) -> None:
        update_active_scorer_if_complete(
            self.engine, scorer, [self.dataset], count_pending_by_shard(self.engine, scorer, [self.dataset])
        )

    def texts(self, scorer: EVQAScorer) -> Counts:
        return make_kind(self.engine, scorer, TextVectors, self.dataset)

    def run(self, scorer: EVQAScorer) -> ShardScores:
        self.frames(scorer)
        self.texts(scorer)
        return score_shard(self.engine, scorer, self.dataset, 0, run_id="run")

    def scores(self, scorer: EVQAScorer) -> dict[str, Any]:
        query = sa.text(
            "SELECT s.key, c.* FROM score c JOIN sample s USING (sample_id) "
            "WHERE scorer_id = :id AND s.dataset_id = :dataset_id"
        )
        values = {"id": store_scorer(self.engine, scorer), "dataset_id": self.dataset.dataset_id}
        with self.engine.connect() as connection:
            found = connection.execute(query, values)
            return {row.key: row for row in found}


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    """Two videos of noise and one without a file, with captions and a question."""
    folder = tmp_path / "set"
    folder.mkdir()
    for name, n_frames, brightness in (("dark", 12, 40), ("bright", 23, 220)):
        write_clip(folder / "videos" / f"{name}.avi", n_frames=n_frames, brightness=brightness)
    write_manifest(
        folder,
        ["told", *({"video_id": name, "path": f"videos/{name}.avi"} for name in ("dark", "bright"))],
        captions=[
            candidate("short", "dark", SHORT),
            candidate("long", "bright", LONG),
            candidate("again", "bright", SHORT),
            candidate("function words", "bright", "It is what it is."),
            candidate("no file", "told", SHORT),
        ],
        qa=[qa("asked", "bright", "What colour is the circle?", "The red circle is red.")],
    )
    bench = Bench(engine, folder, CountingEncoder())
    bench.ingest()
    return bench


def by_hand(path: Path, chunks: Sequence[str], tokens: Sequence[int], keywords: Sequence[str]) -> Any:
    """The result from pixels and strings, without the platform."""
    encoder = make_demo_encoder()
    frames = encoder.encode_images(list(get_shared_worker().read_frames(path, every=FRAMES_EVERY).pixels))
    rows = encoder.encode_texts(chunks).astype(np.float64)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return evqa_from_features(frames, encoder.encode_texts(keywords), np.average(units, axis=0, weights=tokens))


# Values


def test_a_caption_scores_as_by_hand(bench: Bench) -> None:
    scorer = bench.scorer()
    bench.run(scorer)
    row = bench.scores(scorer)["short"]
    keywords = ["red circle", "stands", "middle", "blue square", "slides", "left"]
    want = by_hand(bench.folder / "videos" / "dark.avi", [SHORT], [1], keywords)
    assert (row.status, row.error) == ("ok", None)
    assert row.value == pytest.approx(want.score, abs=1e-6)
    for part in ("precision", "recall", "f1", "coarse", "score"):
        assert row.components[part] == pytest.approx(getattr(want, part), abs=1e-6)
    # Frames 0, 5 and 10 of 12; start and end token and 16 words and stops.
    assert {name: row.components[name] for name in ("keywords", "n_keywords", "n_frames", "text_truncated")} == {
        "keywords": keywords,
        "n_keywords": 6,
        "n_frames": 3,
        "text_truncated": False,
    }
    assert row.components["text_tokens"] == make_demo_encoder().count_tokens(SHORT)
    assert row.components["text_chunks"] == 1


def test_a_question_answer_pair_scores_times_the_logarithm_of_its_keywords(bench: Bench) -> None:
    scorer = bench.scorer()
    bench.run(scorer)
    row = bench.scores(scorer)["asked"]
    text = "What colour is the circle? The red circle is red."
    want = by_hand(bench.folder / "videos" / "bright.avi", [text], [1], row.components["keywords"])
    assert row.components["keywords"] == ["colour", "circle", "red circle", "red"]
    assert row.value == pytest.approx(want.score * math.log(5), abs=1e-6)
    assert row.components["score"] == pytest.approx(want.score, abs=1e-6)


def test_keywords_may_come_from_the_answer_alone(bench: Bench) -> None:
    scorer = bench.scorer(evqa_keywords_from="answer", evqa_dedup=False)
    bench.run(scorer)
    rows = bench.scores(scorer)
    assert rows["asked"].components["keywords"] == ["red circle", "red"]
    assert rows["short"].components["keywords"][0] == "red circle"


def test_raw_and_cleaned_keywords_are_kept(bench: Bench) -> None:
    scorer = bench.scorer()
    bench.run(scorer)
    components = bench.scores(scorer)["long"].components
    assert components["keywords_raw"].count("green square blinks twice") == 9
    assert components["keywords"].count("green square blinks twice") == 1
    assert len(components["keywords_raw"]) > components["n_keywords"] == len(components["keywords"])


def test_a_long_text_is_averaged_over_its_chunks_or_cut(bench: Bench) -> None:
    mean, cut = bench.scorer(), bench.scorer(evqa_long_text="truncate")
    for scorer in (mean, cut):
        bench.run(scorer)
    averaged, shortened = bench.scores(mean)["long"], bench.scores(cut)["long"]
    path, keywords = bench.folder / "videos" / "bright.avi", averaged.components["keywords"]
    assert averaged.components["text_chunks"] > 1
    assert (
        averaged.components["text_tokens"] == shortened.components["text_tokens"] > make_demo_encoder().context_length
    )
    assert (averaged.components["text_truncated"], shortened.components["text_truncated"]) == (False, True)
    assert shortened.value == pytest.approx(by_hand(path, [LONG], [1], keywords).score, abs=1e-6)
    assert abs(averaged.components["coarse"] - shortened.components["coarse"]) > 1e-4
    assert bench.scores(cut)["short"].value == pytest.approx(bench.scores(mean)["short"].value, abs=1e-6)


# No value


def test_what_has_no_score_says_why(bench: Bench) -> None:
    scorer = bench.scorer()
    report = bench.run(scorer)
    rows = bench.scores(scorer)
    assert report.n_written == len(rows) == 6
    undefined = {key: (row.value, row.status, row.error) for key, row in rows.items() if row.status != "ok"}
    assert undefined == {
        "function words": (None, "no_keywords", "the text has no keyword"),
        "no file": (None, "no_frames", "the video has no file: EVQAScore compares texts with frames"),
    }
    assert rows["function words"].components["coarse"] is not None
    with bench.engine.connect() as connection:
        quality = count_shard_scores(connection, store_scorer(bench.engine, scorer), bench.dataset.dataset_id, 0)
    assert set(evaluate_checks(quality, scorer.value_range).values()) == {True}


NO_MODEL = (
    "the built-in encoder only works on the demo: set REELSIEVE_IMAGE_TEXT_ENCODER and "
    "REELSIEVE_IMAGE_TEXT_CHECKPOINT to a real encoder"
)


def test_the_demo_encoder_scores_no_data_but_the_demos(bench: Bench) -> None:
    elsewhere = bench._replace(name="films")
    elsewhere.ingest()
    scorer = elsewhere.scorer()
    report = elsewhere.run(scorer)
    rows = elsewhere.scores(scorer)
    assert report.n_written == len(rows) == 6
    undefined = {key: (row.value, row.status, row.error) for key, row in rows.items()}
    assert undefined.pop("no file")[1] == "no_frames"
    assert set(undefined.values()) == {(None, "no_model", NO_MODEL)}
    # No video is decoded and no text embedded for what cannot have a score.
    assert (elsewhere.encoder.n_images, elsewhere.encoder.texts) == (0, [])
    assert (elsewhere.frames(scorer)["videos"], elsewhere.texts(scorer)["texts_wanted"]) == (0, 0)
    with bench.engine.connect() as connection:
        tables = ("frame_set", "text_embedding")
        stored = [connection.scalar(sa.text(f"SELECT count(*) FROM {name}")) for name in tables]
        dataset_id = elsewhere.dataset.dataset_id
        counts = count_statuses(connection, store_scorer(bench.engine, scorer), dataset_id)
        quality = count_shard_scores(connection, store_scorer(bench.engine, scorer), dataset_id, 0)
    assert (stored, counts) == ([0, 0], {"no_frames": 1, "no_model": 5})
    # It is final: no run tries again, and no check complains.
    assert list_samples_to_score(bench.engine, scorer, elsewhere.dataset, 0) == []
    assert set(evaluate_checks(quality, scorer.value_range).values()) == {True}
    seen = scorer.frames.examine(order_for(bench.engine, scorer, elsewhere.dataset))
    assert set(seen.passed.values()) == {True}
    # The same files under the name of the demo's own dataset have scores.
    bench.run(scorer)
    assert bench.encoder.n_images > 0
    assert [row.status for row in bench.scores(scorer).values()].count("ok") == 4


def test_another_encoder_scores_any_data(bench: Bench) -> None:
    encoder = CountingEncoder("a real encoder")
    elsewhere = bench._replace(name="films", encoder=encoder)
    elsewhere.ingest()
    scorer = elsewhere.scorer()
    elsewhere.run(scorer)
    assert encoder.n_images == 8
    rows = elsewhere.scores(scorer)
    assert {key for key, row in rows.items() if row.status == "ok"} == {"short", "long", "again", "asked"}
    assert store_scorer(bench.engine, scorer) != store_scorer(bench.engine, bench.scorer())


def test_a_prediction_that_could_not_be_read_has_no_score(bench: Bench) -> None:
    write_manifest(bench.folder, [], captions=[candidate("unread", "dark", "", parse_error="no JSON")])
    bench.ingest()
    scorer = bench.scorer()
    bench.run(scorer)
    row = bench.scores(scorer)["unread"]
    assert (row.status, row.value, row.error) == ("empty_text", None, "the caption is empty")


def test_a_file_that_is_gone_or_changed_is_tried_again(bench: Bench) -> None:
    dark, bright = (bench.folder / "videos" / name for name in ("dark.avi", "bright.avi"))
    kept, original = dark.read_bytes(), dark.stat()
    dark.unlink()
    write_clip(bright, n_frames=30)
    scorer = bench.scorer()
    bench.run(scorer)
    rows = bench.scores(scorer)
    assert {rows[key].status for key in ("short", "long", "again", "asked")} == {"failed"}
    assert "no such file" in rows["short"].error
    assert "changed since it was ingested" in rows["long"].error
    assert all("ingest the folder" in rows[key].error for key in ("short", "long"))
    assert len(list_samples_to_score(bench.engine, scorer, bench.dataset, 0)) == 5

    dark.write_bytes(kept)
    os.utime(dark, ns=(original.st_atime_ns, original.st_mtime_ns))
    bench.ingest()
    bench.run(scorer)
    rows = bench.scores(scorer)
    assert {rows[key].status for key in ("short", "long", "again", "asked")} == {"ok"}
    assert rows["long"].components["n_frames"] == 6
    assert len(list_samples_to_score(bench.engine, scorer, bench.dataset, 0)) == 0


def test_a_file_that_is_replaced_while_it_is_read_is_tried_again(bench: Bench) -> None:
    encoder: Any = bench.encoder
    preprocess = encoder.preprocess

    def replaces_the_file(pixels: NDArray[np.uint8]) -> Any:
        write_clip(bench.folder / "other.avi", n_frames=15)
        # At once, so that no decoder meets half a file.
        (bench.folder / "other.avi").replace(bench.folder / "videos" / "dark.avi")
        return preprocess(pixels)

    encoder.preprocess = replaces_the_file  # as another program would
    scorer = bench.scorer()
    bench.run(scorer)
    row = bench.scores(scorer)["short"]
    assert row.status == "failed"
    assert "changed while it was read" in row.error


def rewrite(path: Path) -> None:
    """Change a byte of the last frame and set the time back: neither size nor modification time tell."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[-400] ^= 0xFF
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_a_file_changed_under_its_old_size_and_time_is_not_scored_as_the_old_one(bench: Bench) -> None:
    rewrite(bench.folder / "videos" / "dark.avi")
    scorer = bench.scorer()
    bench.run(scorer)
    row = bench.scores(scorer)["short"]
    assert (row.status, row.value) == ("failed", None)
    assert (
        "dark.avi: the file has changed since it was ingested: put the file back or ingest the folder of video dark"
        in row.error
    )
    bench.ingest()
    bench.run(scorer)
    assert bench.scores(scorer)["short"].status == "ok"


def test_a_video_that_became_a_link_out_of_the_folder_is_not_scored(bench: Bench, tmp_path: Path) -> None:
    path, elsewhere = bench.folder / "videos" / "dark.avi", tmp_path / "elsewhere.avi"
    # Content, size and time are those of the file that was ingested.
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    scorer = bench.scorer()
    bench.run(scorer)
    row = bench.scores(scorer)["short"]
    assert (row.status, row.value) == ("failed", None)
    assert f"the path leads to {elsewhere} through a link made since it was ingested" in row.error


def test_a_restored_copy_is_scored_without_another_ingest(bench: Bench) -> None:
    path = bench.folder / "videos" / "dark.avi"
    copy = Path(shutil.copy2(path, path.with_suffix(".backup")))
    copy.replace(path)
    scorer = bench.scorer()
    bench.run(scorer)
    assert bench.scores(scorer)["short"].status == "ok"


@pytest.mark.parametrize("width", [2, 16])
def test_a_narrow_video_is_scored_beside_the_others(bench: Bench, width: int) -> None:
    write_clip(bench.folder / "videos" / "narrow.avi", width=width)
    narrow = [{"video_id": "narrow", "path": "videos/narrow.avi"}]
    write_manifest(bench.folder, narrow, captions=[candidate("of the narrow one", "narrow", SHORT)])
    bench.ingest()
    scorer = bench.scorer()
    bench.run(scorer)
    rows = bench.scores(scorer)
    assert {rows[key].status for key in ("of the narrow one", "short", "long", "again", "asked")} == {"ok"}


def test_the_pass_that_decodes_frames_measures_facts_where_they_are_wanted(bench: Bench) -> None:
    scorer, others = bench.scorer(frames_every=4), bench.scorer()

    def facts() -> dict[str, Any]:
        with bench.engine.connect() as connection:
            rows = connection.execute(sa.text("SELECT key, f.* FROM video_fact f JOIN video USING (video_id)"))
            return {row.key: {**row._mapping, "measured_at": None} for row in rows}

    make_kind(bench.engine, scorer, SampledFrames, bench.dataset)
    assert facts() == {}
    counts = make_kind(bench.engine, others, SampledFrames, bench.dataset, facts=True)
    assert counts["videos"] == 2
    in_one_pass = facts()
    assert set(in_one_pass) == {"dark", "bright"}
    models = find_fact_models()
    assert {row["models"] for row in in_one_pass.values()} == {models}
    assert measure_videos(bench.engine, bench.dataset, 0, lambda _: None, models) == 0
    with bench.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM video_fact"))
    assert count_unmeasured_videos(bench.engine, bench.dataset, models) == 2
    assert measure_videos(bench.engine, bench.dataset, 0, lambda _: None, models) == 2
    assert facts() == in_one_pass
    assert count_unmeasured_videos(bench.engine, bench.dataset, models) == 0


def test_one_pass_adds_facts_by_models_to_those_measured_without(bench: Bench) -> None:
    measure_videos(bench.engine, bench.dataset, 0, lambda _: None)
    make_kind(bench.engine, bench.scorer(), SampledFrames, bench.dataset, facts=True)
    with bench.engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT models, text_share FROM video_fact WHERE status = 'ok'")).all()
    assert set(rows) == {(find_fact_models(), 0.0)}


def test_one_pass_replaces_facts_by_old_rules_and_leaves_those_of_a_file_that_is_gone(bench: Bench) -> None:
    measure_videos(bench.engine, bench.dataset, 0, lambda _: None)
    with bench.engine.begin() as connection:
        connection.execute(sa.text("UPDATE video_fact SET motion = 7 WHERE status = 'ok'"))
        connection.execute(sa.text("UPDATE video_fact SET rule = 'old'"))
    (bench.folder / "videos" / "bright.avi").unlink()
    make_kind(bench.engine, bench.scorer(), SampledFrames, bench.dataset, facts=True)
    with bench.engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT key, rule, motion FROM video_fact JOIN video USING (video_id)"))
        facts = {row.key: (row.rule, row.motion) for row in rows}
    assert facts["bright"] == ("old", 7)
    assert facts["dark"][0] == PICTURE_FACTS_VERSION
    assert facts["dark"][1] != 7


def test_a_decoder_that_does_not_answer_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = bench.scorer()
    with monkeypatch.context() as busy:
        busy.setattr("metrics_core.frames.pool.TIMEOUT_S", 1e-3)
        busy.setattr("metrics_core.frames.pool.TIMEOUT_PER_SECOND_OF_VIDEO", 0.0)
        bench.run(scorer)
    rows = bench.scores(scorer)
    assert {rows[key].status for key in ("short", "long", "again", "asked")} == {"failed"}
    assert "exceeded the limit" in rows["short"].error
    bench.run(scorer)
    assert bench.scores(scorer)["short"].status == "ok"


def test_a_file_without_a_readable_frame_is_given_up(bench: Bench) -> None:
    path = bench.folder / "videos" / "dark.avi"
    with bench.engine.begin() as connection:
        path.write_bytes(b"RIFF" + bytes(400))
        stat = path.stat()
        connection.execute(
            sa.text(
                "UPDATE video SET size_bytes = :size, mtime_ns = :modified, ctime_ns = :changed WHERE key = 'dark'"
            ),
            {"size": stat.st_size, "modified": stat.st_mtime_ns, "changed": stat.st_ctime_ns},
        )
    scorer = bench.scorer()
    bench.run(scorer)
    row = bench.scores(scorer)["short"]
    assert (row.value, row.status) == (None, "no_frames")
    assert "dark.avi" in row.error
    assert len(list_samples_to_score(bench.engine, scorer, bench.dataset, 0)) == 0


# Work


def test_each_video_and_text_is_encoded_once(bench: Bench) -> None:
    first = bench.scorer()
    report = bench.frames(first)
    counts = [report[name] for name in ("videos", "frames_embedded", "videos_without_frames")]
    assert counts == [2, 3 + 5, 0]
    bench.run(first)
    assert bench.encoder.n_images == 8
    assert len(bench.encoder.texts) == len(set(bench.encoder.texts))
    # Nothing of a sample whose video has no file.
    assert bench.run(first).n_pending == 0

    other = bench.scorer(evqa_keywords_from="answer")
    bench.run(other)
    assert bench.encoder.n_images == 8, "another scorer with the same encoder and sampling shares the frames"
    bench.run(bench.scorer(frames_every=2))
    assert bench.encoder.n_images == 8 + 6 + 12


def test_a_changed_file_makes_its_own_samples_stale(bench: Bench) -> None:
    scorer = bench.scorer()
    bench.run(scorer)
    before = bench.scores(scorer)
    write_clip(bench.folder / "videos" / "dark.avi", n_frames=26, brightness=90)
    bench.ingest()
    assert len(list_samples_to_score(bench.engine, scorer, bench.dataset, 0)) == 1
    with pytest.raises(
        MissingEvidence, match=r"The one video has no frames embedded by demo encoder, such as 'dark': materialise"
    ):
        score_shard(bench.engine, scorer, bench.dataset, 0, run_id="early")
    bench.run(scorer)
    after = bench.scores(scorer)
    assert bench.encoder.n_images == 8 + 6
    assert after["short"].components["n_frames"] == 6
    assert after["short"].value != before["short"].value
    assert after["long"].scored_at == before["long"].scored_at


def test_the_scorer_before_stays_active_until_its_successor_scores(bench: Bench) -> None:
    first, second = bench.scorer(), bench.scorer(frames_every=7)
    bench.run(first)
    query = sa.text("SELECT params->>'frames_every' FROM scorer WHERE status = 'active'")

    def active() -> str:
        with bench.engine.connect() as connection:
            return str(connection.scalar(query))

    bench.frames(second)
    bench.texts(second)
    assert active() == str(FRAMES_EVERY)
    bench.run(second)
    assert active() == "7"
    bench.settle(second)
    bench.settle(bench.scorer(frames_every=9))
    assert active() == "7"
    bench.settle(first)
    assert active() == str(FRAMES_EVERY)


# Settings


def test_another_model_sampling_or_rule_is_another_scorer(bench: Bench) -> None:
    rules: list[dict[str, Any]] = [
        {},
        {"frames_every": 7},
        {"frames_cap": 4},
        {"evqa_long_text": "truncate"},
        {"evqa_keywords_from": "answer"},
        {"evqa_dedup": False},
    ]
    ids = {store_scorer(bench.engine, bench.scorer(**rule)) for rule in rules}
    assert len(ids) == len(rules)
    # All readers give the same frames.
    by_decord = bench.scorer(frame_reader="decord")
    assert by_decord.frames.encoder.reader == "decord"
    assert store_scorer(bench.engine, by_decord) == store_scorer(bench.engine, bench.scorer())


def test_the_default_is_the_demo_encoder_and_says_so() -> None:
    scorer = EVQAScorer.from_settings(EVQASettings())
    assert scorer.models()["image_text_encoder"]["model_id"] == "demo encoder"
    assert scorer.models()["image_text_encoder"]["revision"].startswith("sha256:")
    settings = ImageTextSettings(
        image_text_encoder={"model": "ViT-B-32", "checkpoint": "laion2b_s34b_b79k", "precision": "bf16"}
    )
    named = settings.make_image_text_encoder().identity
    assert (named.model_id, named.revision) == ("ViT-B-32/laion2b_s34b_b79k", "open_clip:laion2b_s34b_b79k")
    assert named.params == {"architecture": "ViT-B-32", "precision": "fp32"}, "no GPU here"


@pytest.mark.parametrize("given", [{"model": "ViT-B-32"}, {"model": "demo", "checkpoint": "laion2b_s34b_b79k"}])
def test_encoder_and_checkpoint_go_together(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"takes no checkpoint: leave it out|has no checkpoint: give one as a file"):
        EVQASettings(image_text_encoder=given)
