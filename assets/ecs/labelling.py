"""A judge's labels on keypoints: a chat model reads captions, so that thresholds can be calibrated without people."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Engine

from assets.ecs.verification import KeypointVerification, MissingTimes
from assets.models.chat import ChatSettings, ChatTally, CountingChatModel
from assets.sources.base import LineWriter
from db.evidence.embeddings import text_sha256
from db.evidence.labels import (
    JudgeLabel,
    LabelKey,
    delete_labels,
    format_judge_source,
    list_captions_with_keypoints,
    load_label_digests,
    store_labels,
)
from db.evidence.verdicts import VERDICT_INPUTS
from db.manifest.datasets import Dataset
from db.schema.inputs import KEYPOINTS
from db.scores.pending import PendingSample, load_samples, split_ids
from metrics_core.ecs.judge import CaptionKeypoints, CaptionLabels, ChatJudge
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.protocols import ModelIdentity

# Captions judged between two writes. Replies that a crash keeps from the labels stand in table chat_reply.
CAPTIONS_AT_A_TIME = 64


class NoJudge(ValueError):
    """Labels of a judge are wanted, and no judge is named."""

    plain = True


@dataclass(frozen=True, slots=True)
class LabellingResult:
    """What a judge did. counts: captions by what became of them, new labels, calls and tokens.

    why: the first caption without labels, with the reason; None where there is none.
    """

    counts: Mapping[str, int | str]
    first_failure: str | None


@dataclass(frozen=True, slots=True)
class LabellingTask:
    """Keypoints of one caption that are held against one text.

    digests: of what a judge is asked about each keypoint. text_sha256: of the whole caption.
    """

    sample_id: int
    sample_key: str
    keypoint_ids: tuple[int, ...]
    checked: CaptionKeypoints
    digests: tuple[bytes, ...]
    text_sha256: bytes

    @property
    def digest_by_key(self) -> dict[LabelKey, bytes]:
        """The digest that the label of each keypoint must have."""
        keys = ((self.sample_id, keypoint_id) for keypoint_id in self.keypoint_ids)
        return dict(zip(keys, self.digests, strict=True))

    def drop_labelled(self, labelled: Mapping[LabelKey, bytes]) -> LabellingTask:
        """The sheet without the keypoints that have a label."""
        kept = [i for i, (key, digest) in enumerate(self.digest_by_key.items()) if labelled.get(key) != digest]
        return LabellingTask(
            self.sample_id,
            self.sample_key,
            tuple(self.keypoint_ids[i] for i in kept),
            CaptionKeypoints(self.checked.sentences, tuple(self.checked.keypoints[i] for i in kept)),
            tuple(self.digests[i] for i in kept),
            self.text_sha256,
        )

    def build_labels(self, judgement: CaptionLabels) -> Iterator[JudgeLabel]:
        """The labels of the keypoints, with the sentence that covers them."""
        facts = zip(self.keypoint_ids, self.checked.keypoints, self.digests, judgement.labels, strict=True)
        for keypoint_id, fact, digest, label in facts:
            sentence = None if label.sentence is None else self.checked.sentences[label.sentence]
            texts, extra = (self.text_sha256, text_sha256(fact)), {"sentence": sentence}
            yield JudgeLabel(self.sample_id, keypoint_id, label.covered, digest, *texts, extra)


class KeypointLabeller:
    """Labels keypoints by a judge, each on the sentences that ECS holds it against. chat_model: None for no judge."""

    def __init__(
        self, chat_model: ChatModel | None, settings: ChatSettings, verification: KeypointVerification
    ) -> None:
        self._chat_model = chat_model
        self._settings = settings
        self._verification = verification

    @property
    def source(self) -> str:
        """The source of the labels; raises NoJudge."""
        return format_judge_source(self._require_judge().identity.model_id)

    def check_judge(self) -> None:
        """Raise NoJudge where no judge is named."""
        self._require_judge()

    def label_captions(
        self, engine: Engine, dataset: Dataset, *, run_id: str, tell: LineWriter, limit: int | None = None
    ) -> LabellingResult:
        """Have the judge label the keypoints of a dataset's captions, and store the labels, some captions at a time.

        limit: the most captions with labels; the same ones always come first. What is labelled is not asked again.
        Labels on what has changed since are deleted, and within the limit made anew. A caption for which the judge
        fails or declines gets none. Raises NoJudge.
        """
        tally = ChatTally()
        chat_model = self._settings.add_cache(self._require_judge(), engine, run_id)
        judge, source = ChatJudge(CountingChatModel(chat_model, tally)), self.source
        with engine.connect() as connection:
            sample_ids = list_captions_with_keypoints(connection, dataset.dataset_id)
        counts: Counter[str] = Counter(captions=0, judged=0, labels=0, failed=0, refused=0, without_times=0)
        why: list[str] = []
        chosen = sample_ids if limit is None else sample_ids[:limit]
        for ids in split_ids(chosen, CAPTIONS_AT_A_TIME):
            sheets = self._list_open_tasks(engine, source, judge.identity, ids, counts)
            judged = judge.label_keypoints([sheet.checked for sheet in sheets])
            failed = {s.sample_id: (s, j) for s, j in zip(sheets, judged, strict=True) if j.status != "ok"}
            pairs = [(s, j) for s, j in zip(sheets, judged, strict=True) if s.sample_id not in failed]
            counts["labels"] += store_labels(engine, source, [label for s, j in pairs for label in s.build_labels(j)])
            counts.update(captions=len(ids), judged=len({sheet.sample_id for sheet, _ in pairs}))
            counts.update(judgement.status for _, judgement in failed.values())
            why += [f"{sheet.sample_key}: {judgement.reason}" for sheet, judgement in failed.values()]
            tell(f"keypoints of {counts['captions']} of {len(chosen)} captions judged by {judge.identity.model_id}")
        for ids in split_ids(sample_ids[len(chosen) :], CAPTIONS_AT_A_TIME):
            self._list_open_tasks(engine, source, judge.identity, ids, Counter())
        of_chat = {f"chat_{name}": value for name, value in tally.as_metadata().items()}
        return LabellingResult({**counts, **of_chat}, why[0] if why else None)

    def _require_judge(self) -> ChatModel:
        if self._chat_model is None:
            raise NoJudge("there is no judge of keypoints: name a chat model by REELSIEVE_ECS_JUDGE_MODEL")
        return self._chat_model

    def _list_open_tasks(
        self, engine: Engine, source: str, identity: ModelIdentity, ids: list[int], counts: Counter[str]
    ) -> list[LabellingTask]:
        """What is to be judged of these captions, once labels on what has changed are deleted."""
        with engine.connect() as connection:
            samples = load_samples(connection, ids, VERDICT_INPUTS)
            labelled = load_label_digests(connection, source, ids)
        sheets: list[LabellingTask] = []
        for sample in samples:
            try:
                sheets += self._build_tasks(sample, identity)
            except MissingTimes:
                counts["without_times"] += 1
        expected = {key: digest for sheet in sheets for key, digest in sheet.digest_by_key.items()}
        delete_labels(engine, source, [key for key, digest in labelled.items() if expected.get(key) != digest])
        rest = [sheet.drop_labelled(labelled) for sheet in sheets]
        return [sheet for sheet in rest if sheet.keypoint_ids]

    def _build_tasks(self, sample: PendingSample, identity: ModelIdentity) -> list[LabellingTask]:
        """One sheet for every text that keypoints of a caption are held against."""
        places: dict[str, list[int]] = {}
        for place, premise in enumerate(self._verification.choose_premises(sample).premises):
            places.setdefault(premise, []).append(place)
        return [
            _build_task(sample, self._verification.split_sentences(premise), places[premise], identity)
            for premise in places
        ]


def _build_task(
    sample: PendingSample, sentences: Sequence[str], places: Sequence[int], identity: ModelIdentity
) -> LabellingTask:
    keypoints = [sample[KEYPOINTS][place] for place in places]
    texts = tuple(keypoint.text for keypoint in keypoints)
    return LabellingTask(
        sample.sample_id,
        sample.key,
        tuple(keypoint.keypoint_id for keypoint in keypoints),
        CaptionKeypoints(tuple(sentences), texts),
        tuple(_compute_digest([identity.as_dict(), list(sentences), text]) for text in texts),
        text_sha256(sample.text),
    )


def _compute_digest(asked: list[Any]) -> bytes:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
