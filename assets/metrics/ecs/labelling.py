"""Labels that a judge, a chat model, gives to keypoints, so that thresholds can be calibrated without people."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Engine

from assets.metrics.ecs.verification import KeypointVerification, MissingTimes
from assets.models.chat import ChatSettings, ChatTally, CountingChatModel
from assets.progress import LineWriter
from assets.words.text import format_count
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

# Captions judged between two writes. Table chat_reply keeps replies that a crash kept out of the labels.
CAPTIONS_AT_A_TIME = 64


class NoJudge(ValueError):
    """Raised when labels of a judge are asked for but the settings name no chat model as judge."""

    plain = True


@dataclass(frozen=True, slots=True)
class LabellingResult:
    """The result of labelling by a judge. counts: by name, such as captions, labels, failed and chat_tokens_in.
    first_failure: "KEY: REASON" for the first caption that the judge gave no labels; None if there is none.
    """

    counts: Mapping[str, int | str]
    first_failure: str | None


@dataclass(frozen=True, slots=True)
class _LabellingTask:
    """One task for a judge: keypoints of one caption to be compared with one text, the caption or a part of it.
    checked: the sentences of that text, and the texts of the keypoints. digests: for every keypoint the hash of what
    the judge labels it. text_sha256: the hash of the whole caption.
    """

    sample_id: int
    sample_key: str
    keypoint_ids: tuple[int, ...]
    checked: CaptionKeypoints
    digests: tuple[bytes, ...]
    text_sha256: bytes

    @property
    def digest_by_key(self) -> dict[LabelKey, bytes]:
        """The digests of the task's keypoints, by (sample_id, keypoint_id). A stored label is up to date if it has this
        digest.
        """
        keys = ((self.sample_id, keypoint_id) for keypoint_id in self.keypoint_ids)
        return dict(zip(keys, self.digests, strict=True))

    def exclude_labelled(self, labelled: Mapping[LabelKey, bytes]) -> _LabellingTask:
        """Return a copy of the task without the keypoints that have an up-to-date label; it may have no keypoint left.
        labelled: the digests of stored labels, by (sample_id, keypoint_id).
        """
        kept = [i for i, (key, digest) in enumerate(self.digest_by_key.items()) if labelled.get(key) != digest]
        return _LabellingTask(
            self.sample_id,
            self.sample_key,
            tuple(self.keypoint_ids[i] for i in kept),
            CaptionKeypoints(self.checked.sentences, tuple(self.checked.keypoints[i] for i in kept)),
            tuple(self.digests[i] for i in kept),
            self.text_sha256,
        )

    def build_labels(self, judgement: CaptionLabels) -> Iterator[JudgeLabel]:
        """Yield the labels to store, one for every keypoint in order, with the sentence that covers the keypoint or
        None. judgement: the judge's answers on the task's keypoints, in the same order.
        """
        rows = zip(self.keypoint_ids, self.checked.keypoints, self.digests, judgement.labels, strict=True)
        for keypoint_id, keypoint, digest, label in rows:
            sentence = None if label.sentence is None else self.checked.sentences[label.sentence]
            texts, extra = (self.text_sha256, text_sha256(keypoint)), {"sentence": sentence}
            yield JudgeLabel(self.sample_id, keypoint_id, label.covered, digest, *texts, extra)


class KeypointLabeller:
    """Lets a judge, which is a chat model, label keypoints of a dataset's captions, on the same sentences that ECS
    compares them with. chat_model: the judge; None if the settings name none. verification: the rules of ECS that
    choose the sentences.
    """

    def __init__(
        self, chat_model: ChatModel | None, settings: ChatSettings, verification: KeypointVerification
    ) -> None:
        self._chat_model = chat_model
        self._settings = settings
        self._verification = verification

    @property
    def source(self) -> str:
        """The value of column `source` that labels are stored under: "judge:" and the name of the chat model. Raises
        NoJudge if the settings name no judge.
        """
        return format_judge_source(self._require_judge().identity.model_id)

    def check_judge(self) -> None:
        """Raise NoJudge if the settings name no judge. Asks nothing."""
        self._require_judge()

    def label_captions(
        self, engine: Engine, dataset: Dataset, *, run_id: str, tell: LineWriter, limit: int | None = None
    ) -> LabellingResult:
        """Let the judge label the keypoints of a dataset's captions, store the labels in the database, and return the
        counts and the first failure. Only labels that are missing or out of date are asked for. limit: the most
        captions with labels, None for all; the same captions always come first. Raises NoJudge.

        Labels that are out of date, such as those on changed texts, are deleted, and within the limit made again. A
        caption for which the judge fails or declines gets none. run_id: the run that requests are recorded under. tell:
        takes lines about progress.
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
            tasks = self._list_open_tasks(engine, source, judge.identity, ids, counts)
            judged = judge.label_keypoints([task.checked for task in tasks])
            failed = {s.sample_id: (s, j) for s, j in zip(tasks, judged, strict=True) if j.status != "ok"}
            pairs = [(s, j) for s, j in zip(tasks, judged, strict=True) if s.sample_id not in failed]
            counts["labels"] += store_labels(engine, source, [label for s, j in pairs for label in s.build_labels(j)])
            counts.update(captions=len(ids), judged=len({task.sample_id for task, _ in pairs}))
            counts.update(judgement.status for _, judgement in failed.values())
            why += [f"{task.sample_key}: {judgement.reason}" for task, judgement in failed.values()]
            n_captions = format_count(len(chosen), "caption")
            tell(f"keypoints of {counts['captions']:,} of {n_captions} judged by {judge.identity.model_id}")
        for ids in split_ids(sample_ids[len(chosen) :], CAPTIONS_AT_A_TIME):
            self._list_open_tasks(engine, source, judge.identity, ids, Counter())
        chat_counts = {f"chat_{name}": value for name, value in tally.as_metadata().items()}
        return LabellingResult({**counts, **chat_counts}, why[0] if why else None)

    def _require_judge(self) -> ChatModel:
        if self._chat_model is None:
            raise NoJudge("there is no judge of keypoints: name a chat model in REELSIEVE_ECS_JUDGE_MODEL")
        return self._chat_model

    def _list_open_tasks(
        self, engine: Engine, source: str, identity: ModelIdentity, ids: list[int], counts: Counter[str]
    ) -> list[_LabellingTask]:
        """Return the tasks with keypoints of these captions that have no up-to-date label; deletes outdated labels.

        Adds captions without the times that the mode needs to `counts`.
        """
        with engine.connect() as connection:
            samples = load_samples(connection, ids, VERDICT_INPUTS)
            labelled = load_label_digests(connection, source, ids)
        tasks: list[_LabellingTask] = []
        for sample in samples:
            try:
                tasks += self._build_tasks(sample, identity)
            except MissingTimes:
                counts["without_times"] += 1
        expected = {key: digest for task in tasks for key, digest in task.digest_by_key.items()}
        delete_labels(engine, source, [key for key, digest in labelled.items() if expected.get(key) != digest])
        rest = [task.exclude_labelled(labelled) for task in tasks]
        return [task for task in rest if task.keypoint_ids]

    def _build_tasks(self, sample: PendingSample, identity: ModelIdentity) -> list[_LabellingTask]:
        """Return one task for every text that keypoints of a caption are compared with."""
        places: dict[str, list[int]] = {}
        for place, premise in enumerate(self._verification.choose_premises(sample).premises):
            places.setdefault(premise, []).append(place)
        return [
            _build_task(sample, self._verification.split_sentences(premise), places[premise], identity)
            for premise in places
        ]


def _build_task(
    sample: PendingSample, sentences: Sequence[str], places: Sequence[int], identity: ModelIdentity
) -> _LabellingTask:
    keypoints = [sample[KEYPOINTS][place] for place in places]
    texts = tuple(keypoint.text for keypoint in keypoints)
    return _LabellingTask(
        sample.sample_id,
        sample.key,
        tuple(keypoint.keypoint_id for keypoint in keypoints),
        CaptionKeypoints(tuple(sentences), texts),
        tuple(_compute_digest([identity.as_dict(), list(sentences), text]) for text in texts),
        text_sha256(sample.text),
    )


def _compute_digest(asked: list[Any]) -> bytes:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).digest()
