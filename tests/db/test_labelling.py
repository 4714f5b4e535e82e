"""Labels on keypoints that are given in a browser: each fact of a caption once, stored like those of a manifest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from db.evidence.embeddings import text_sha256
from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.answers import Key, Question, Rater, count_answers, delete_last_answer, find_next_question
from db.manifest.datasets import Dataset
from db.manifest.rows import store_rows
from db.reports.judgements import LABELS_ASPECT
from db.reports.summary import count_labelled_samples
from db.schema import keypoint, keypoint_label, sample
from db.server.engine import open_psycopg_transaction
from tests.conftest import filled_template
from tests.db.answering import give_answer
from tests.db.builders import (
    add_keypoint,
    add_sample,
    add_video,
    change,
    change_text,
    make_dataset,
    remove,
    wait_for_lock,
)
from tests.db.judging import list_ratings


def fill(engine: Engine) -> Dataset:
    """Three videos with two captions and two keypoints each, a question, and another dataset."""
    dataset, other = make_dataset(engine), make_dataset(engine, "other")
    for of, keys in ((dataset, "uvw"), (other, "x")):
        for key in keys:
            video = add_video(engine, of, key)
            for number in range(2):
                add_sample(engine, of, video, f"{key}{number}", f"caption {number} of {key}", system=f"s{number}")
                add_keypoint(engine, of, video, f"{key}k{number}", text=f"fact {number} of {key}")
            add_sample(engine, of, video, f"{key}q", kind="qa", question="What?", answer="That.")
    return dataset


template = filled_template(fill)


def labeller(dataset: Dataset, name: str) -> Rater:
    return Rater(dataset, name, kind="label")


def following(engine: Engine, rater: Rater, skipped: tuple[Key, ...] = ()) -> Question | None:
    with engine.connect() as connection:
        return find_next_question(connection, rater, skipped)


def answer(engine: Engine, rater: Rater, fact: Question, *, covered: bool = True) -> bool:
    with engine.begin() as connection:
        return give_label(connection, rater, fact, covered=covered)


def give_label(connection: Connection, rater: Rater, fact: Question, *, covered: bool) -> bool:
    extra = {"answer": "yes" if covered else "no", "seed": rater.seed}
    return give_answer(connection, rater, fact, float(covered), extra)


def count_labels(connection: Connection, rater: Rater) -> int:
    return count_answers(connection, rater)[0]


def test_each_fact_of_each_caption_comes_once_and_a_caption_stays_until_it_is_done(
    engine: Engine, clips: Dataset
) -> None:
    ann, bob = labeller(clips, "ann"), labeller(clips, "bob")
    seen = []
    while (fact := following(engine, bob if len(seen) % 3 else ann)) is not None:
        assert answer(engine, bob if len(seen) % 3 else ann, fact, covered=len(seen) % 2 == 0)
        seen.append(fact)
    assert len({fact.key for fact in seen}) == len(seen) == 12
    assert all((fact.keypoint or (0, ""))[1][-1] == fact.captions[0].text[-1] != "x" for fact in seen), (
        "of one video of the dataset"
    )
    assert [one.sample_ids for one in seen[::2]] == [other.sample_ids for other in seen[1::2]]
    with engine.connect() as connection:
        assert (count_labels(connection, ann), count_labels(connection, bob)) == (4, 8)
        assert _list_shares(connection, clips) == [0.5] * 6
        rows = connection.execute(sa.select(keypoint_label)).all()
    assert {row.source for row in rows} == {MANIFEST_LABEL_SOURCE}
    assert {row.extra["rater"] for row in rows} == {"ann", "bob"}
    assert all(row.extra["answer"] == ("yes" if row.covered else "no") for row in rows)
    with engine.begin() as connection:
        assert delete_last_answer(connection, ann)
    assert following(engine, bob) == seen[9], "the last one that ann labelled"


def test_a_second_label_and_one_about_another_text_are_not_stored(engine: Engine, clips: Dataset) -> None:
    ann, bob = labeller(clips, "ann"), labeller(clips, "bob")
    fact = following(engine, ann)
    assert fact is not None
    assert answer(engine, ann, fact)
    assert not answer(engine, bob, fact, covered=False)
    second = following(engine, bob)
    assert second is not None
    assert second.sample_ids == fact.sample_ids
    change_text(engine, second.sample_ids[0], "it says something else")
    assert not answer(engine, bob, second)
    third = following(engine, bob, (fact.key, second.key))
    assert third is not None
    assert third.key not in (fact.key, second.key)
    with engine.begin() as connection:
        connection.execute(
            sa.update(keypoint).where(keypoint.c.keypoint_id == third.key[0]).values(text="another fact")
        )
    assert not answer(engine, bob, third)
    remove(engine, keypoint, third.key[0])
    assert not answer(engine, bob, third)
    with engine.connect() as connection:
        assert [row.covered for row in connection.execute(sa.select(keypoint_label))] == [True]


def test_only_own_labels_of_a_browser_are_taken_back(engine: Engine, clips: Dataset) -> None:
    ann = labeller(clips, "ann")
    fact = following(engine, ann)
    assert fact is not None
    row = {
        "keypoint_id": fact.key[0],
        "sample_id": fact.key[1],
        "source": MANIFEST_LABEL_SOURCE,
        "covered": True,
    }
    with engine.begin() as connection:
        connection.execute(sa.insert(keypoint_label), [{**row, "row_sha256": b""}])
        assert not delete_last_answer(connection, ann)
    second = following(engine, ann)
    assert second is not None
    assert answer(engine, ann, second)
    with engine.begin() as connection:
        assert not delete_last_answer(connection, labeller(clips, "bob"))
        assert delete_last_answer(connection, ann)
        assert not delete_last_answer(connection, ann)


def test_a_label_of_older_texts_counts_nowhere_and_its_fact_is_asked_again(engine: Engine, clips: Dataset) -> None:
    ann, bob = labeller(clips, "ann"), labeller(clips, "bob")
    fact = following(engine, ann)
    assert fact is not None

    def labelled() -> tuple[list[float], int, int]:
        with engine.connect() as connection:
            shares = _list_shares(connection, clips)
            return shares, count_labelled_samples(connection, clips.dataset_id), count_labels(connection, ann)

    assert answer(engine, ann, fact)
    assert labelled() == ([1.0], 1, 1)
    for table, key in ((sample, fact.key[1]), (keypoint, fact.key[0])):
        (text,) = texts(engine, table, key)
        set_text(engine, table, key, "something else")
        assert labelled() == ([], 0, 0)
        again = following(engine, bob)
        assert again is not None
        assert again.key == fact.key, "it is asked again"
        set_text(engine, table, key, text)
        assert labelled() == ([1.0], 1, 1), "as soon as the text is the old one, the label counts"
    set_text(engine, sample, fact.key[1], "something else")
    again = following(engine, bob)
    assert again is not None
    assert answer(engine, bob, again, covered=False)
    assert not answer(engine, ann, again)
    assert labelled() == ([0.0], 1, 0)


def test_a_row_of_a_manifest_counts_for_the_texts_beside_which_it_was_given(engine: Engine, clips: Dataset) -> None:
    fact = following(engine, labeller(clips, "ann"))
    assert fact is not None
    key = {"keypoint_id": fact.key[0], "sample_id": fact.key[1], "source": MANIFEST_LABEL_SOURCE}

    def ingest(row: bytes) -> int:
        with open_psycopg_transaction(engine) as driver:
            rows = [{**key, "covered": True, "extra": None, "row_sha256": row}]
            store_rows(driver, "keypoint_label", rows, may_exist=True)
        with engine.connect() as connection:
            return count_labelled_samples(connection, clips.dataset_id)

    assert ingest(b"first") == 1
    set_text(engine, sample, fact.key[1], "something else")
    assert ingest(b"first") == 0, "an unchanged row is about the text of before"
    assert ingest(b"second") == 1, "a changed row is about the text of now"


def texts(engine: Engine, table: sa.Table, row_id: int) -> list[str]:
    (key,) = table.primary_key.columns
    with engine.connect() as connection:
        return list(connection.scalars(sa.select(table.c.text).where(key == row_id)))


def set_text(engine: Engine, table: sa.Table, row_id: int, text: str) -> None:
    digest = {"text_sha256": text_sha256(text)} if table is sample else {}
    change(engine, table, row_id, text=text, **digest)


def test_nobody_takes_back_a_label_that_somebody_else_gives_meanwhile(engine: Engine, clips: Dataset) -> None:
    ann, bob = labeller(clips, "ann"), labeller(clips, "bob")
    fact = following(engine, ann)
    assert fact is not None
    assert answer(engine, ann, fact)
    change_text(engine, fact.key[1], "another text")
    changed = following(engine, bob)
    assert changed is not None

    def take_back() -> bool:
        with engine.begin() as connection:
            return delete_last_answer(connection, ann)

    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            assert give_label(connection, bob, changed, covered=False)
            taken = pool.submit(take_back)
            wait_for_lock(engine, taken)
        assert not taken.result()
    with engine.connect() as connection:
        assert (count_labels(connection, ann), count_labels(connection, bob)) == (0, 1)


def _list_shares(connection: Connection, dataset: Dataset) -> list[float]:
    """Return the shares of labelled facts that captions cover, in their order."""
    return [row[3] for row in list_ratings(connection, dataset) if row[2] == LABELS_ASPECT]
