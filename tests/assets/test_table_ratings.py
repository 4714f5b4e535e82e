"""Ratings by several people in a table: a row, a column or a part of a cell for each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.new_manifest.columns import ColumnNames, parse_ratings
from assets.new_manifest.findings import NoManifest, Reason
from assets.new_manifest.make import NewManifest, create_manifest
from assets.new_manifest.rating_offers import list_rating_offers
from assets.new_manifest.rows import list_answers
from tests.assets.init_sources import left_out, put, rows, texts

NO_ANSWER = "a rating that is empty or no answer, such as N/A or skip"
SECOND = "a second rating of a caption by the same rater for the same aspect: the first is kept"
REFUSED = "a rating that ingest would refuse (wrong_type): A field has another type than the manifest asks for."


def of_table(folder: Path, content: str, *ratings: str, name: str = "t.csv", **columns: str) -> NewManifest:
    return create_manifest(put(folder, {name: content}), column_names=ColumnNames(columns, ratings))


def rated(made: NewManifest) -> list[tuple[str, str, str, Any]]:
    """Caption, rater, aspect and value of every rating."""
    by_id = texts(made)
    if not made.holdings.ratings:
        return []
    return [(by_id[row["caption_id"]], row["rater"], row["aspect"], row["value"]) for row in rows(made, "ratings")]


ANNA_AND_BEN = [("A dog.", "anna", "overall", 5), ("A dog.", "ben", "overall", 4), ("A cat.", "anna", "overall", 2)]
LONG_FORM = "\nanna,v,A dog.,5\nben,v,A dog.,4\nanna,w,A cat.,2\n"
NUMBERED = [("A dog.", "rater_1", "overall", 5), ("A dog.", "rater_2", "overall", 4)]
LETTERED = [("A dog.", "rater_a", "overall", 5), ("A dog.", "rater_b", "overall", 4)]


@pytest.mark.parametrize(
    ("table", "ratings", "expected"),
    [
        *(
            (f"{raters},video,caption,rating{LONG_FORM}", ["rating"], ANNA_AND_BEN)
            for raters in (
                "rater", "annotator_id", "worker", "WorkerId", "participant", "Participant id", "prolific id",
                "PROLIFIC_PID", "user", "judge_id", "Bewerter", "évaluateur", "评分者",
            )
        ),
        (f"WorkerId,Input.video,Input.caption,Answer.overall{LONG_FORM}", ["overall"], ANNA_AND_BEN),
        ("video,caption,score\nv,A dog.,5\nv,A dog.,4\n", ["score"], NUMBERED),
        *(
            (f"video,caption,{columns}\nv,A dog.,5,4\n", ratings, expected)
            for columns, ratings, expected in (
                ("rating_1,rating_2", ["rating_1", "rating_2"], NUMBERED),
                ("r1,r2", ["overall=r1,r2"], NUMBERED),
                ("r1,r2", ["r1", "r2"], NUMBERED),
                ("Rating 1,Rating 2", ["rating_1,rating_2"], NUMBERED),
                ("评分1,评分2", ["评分1,评分2"], NUMBERED),
                ("Answer.rater1,Answer.rater2", ["rater1,rater2"], NUMBERED),
                ("rater_a,rater_b", ["rater_a", "rater_b"], LETTERED),
                ("rating_p1,rating_p2", ["rating_p1,rating_p2"],
                 [("A dog.", "rater_p1", "overall", 5), ("A dog.", "rater_p2", "overall", 4)]),
                ("score_a,score_b", ["overall=score_a,score_b"], LETTERED),
                ("Rating (Anna),Rating (Ben)", ["Rating (Anna)", "Rating (Ben)"],
                 [("A dog.", "Anna", "overall", 5), ("A dog.", "Ben", "overall", 4)]),
                ("anna,ben", ["fluency=anna,ben"],
                 [("A dog.", "anna", "fluency", 5), ("A dog.", "ben", "fluency", 4)]),
                ("rater2_coverage,coverage_rater1", ["rater2_coverage", "coverage_rater1"],
                 [("A dog.", "rater_2", "coverage", 5), ("A dog.", "rater_1", "coverage", 4)]),
                ("q1,q2", ["q1", "q2"], [("A dog.", "rater_1", "q1", 5), ("A dog.", "rater_1", "q2", 4)]),
                ("score,mos", ["score", "mos"], [("A dog.", "rater_1", "score", 5), ("A dog.", "rater_1", "mos", 4)]),
                ("rating,fluency", ["rating", "fluency"],
                 [("A dog.", "rater_1", "overall", 5), ("A dog.", "rater_1", "fluency", 4)]),
            )
        ),
        *(
            (f"video;caption;ratings\nv;A dog.;{cell}\n", ["ratings"], NUMBERED)
            for cell in ('"[5, 4]"', '"5,4,-"', '"5;4"', "5|4", "(5, 4.0, nan)", "['5', '4']")
        ),
        ('video,caption,ratings\nv,A dog.,"5,4"\n', ["ratings"], NUMBERED),
        ("video,caption,raters,ratings\nv,A dog.,anna;ben,5;4\nw,A cat.,anna,2\n", ["ratings"], ANNA_AND_BEN),
        ('video,caption,"How good, overall?",q\nv,A dog.,5,4\n', ["How good, overall?"],
         [("A dog.", "rater_1", "How good, overall?", 5)]),
    ],
)  # fmt: skip
def test_the_ratings_of_several_people_are_read(
    tmp_path: Path, table: str, ratings: list[str], expected: list[tuple[str, str, str, Any]]
) -> None:
    made = of_table(tmp_path, table, *ratings)
    assert rated(made) == expected
    assert len(texts(made)) == len(set(texts(made).values()))


def test_rows_of_a_caption_are_one_and_whatever_differs_is_counted(tmp_path: Path, engine: Engine) -> None:
    lines = [
        "worker,video,model,caption,reference,rating,seconds,split",
        "anna,v,m1,A dog.,A black dog.,5,30,test",
        "ben,v,m1,A dog.,A black dog.,4,20,test",
        "anna,v,m2,A dog.,A black dog.,3,9,test",
        "anna,v,m1,A dog.,A black dog.,2,9,test",
        "anna,v,m1,A dog.,A black dog.,5,30,test",
        "carl,v,m1,A dog.,A black dog.,9,30,test",
        ",v,m1,A dog.,A black dog.,1,30,test",
    ]
    made = of_table(tmp_path, "\n".join(lines) + "\n", "rating")
    assert [
        (row["role"], row.get("system"), row.get("seconds"), row.get("split")) for row in rows(made, "captions")
    ] == [
        ("candidate", "m1", 30, "test"),
        ("reference", None, None, None),
        ("candidate", "m2", 9, "test"),
    ]
    assert [row[1:] for row in rated(made)] == [
        ("anna", "overall", 5),
        ("ben", "overall", 4),
        ("anna", "overall", 3),
        ("rater_1", "overall", 1),
    ]
    named = {row["left out"]: (row["n"], row["first"]) for row in made.findings.list_left_out()}
    assert named.pop(SECOND) == (2, "t.csv:5: overall 2 by anna")
    (out_of_range,) = (reason for reason in named if "out_of_range" in reason)
    assert named.pop(out_of_range) == (1, "t.csv:7: rating 9")
    assert named == {
        "a value of a caption's further row that differs from the one in its first row, which is kept": (
            2, "t.csv:3: seconds",
        )
    }  # fmt: skip
    assert "rows with the same video, system and text are one caption" in made.findings.guesses
    report = ingest_folder(engine, made.folder, "mine")
    assert (report.accepted["captions"], report.accepted["ratings"], report.rejected) == (3, 4, 0)


def test_without_ratings_equal_rows_stay_as_they_are(tmp_path: Path) -> None:
    made = of_table(tmp_path, "worker,video,caption,rating\nanna,v,A dog.,5\nben,v,A dog.,4\n")
    assert [(row["worker"], row["rating"]) for row in rows(made, "captions")] == [("anna", 5), ("ben", 4)]
    (offer,) = list_rating_offers(made.findings)
    assert offer.question == "Use column 'rating' as ratings from 1 to 5, given by those in column 'worker'?"


@pytest.mark.parametrize(
    "word",
    ["N/A", "skip", "", "-", "null", "None", "nan", "Don't know", "don’t know", "n.a.", "—", "?", "keine Angabe"],
)
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_what_is_no_answer_is_counted_and_numbers_are_read(tmp_path: Path, word: str, name: str) -> None:
    cells = ["5", word, "4.0", "3.5", "good"]
    lines = [{"video": f"v{n}", "caption": "A dog.", "rating": cell} for n, cell in enumerate(cells)]
    table = (
        "".join(json.dumps(line) + "\n" for line in lines)
        if name == "t.jsonl"
        else "\n".join(["video,caption,rating", *(",".join(line.values()) for line in lines)]) + "\n"
    )
    made = of_table(tmp_path, table, "rating", name=name)
    assert [value for _, _, _, value in rated(made)] == [5, 4]
    assert left_out(made) == {NO_ANSWER: 1, REFUSED: 2}
    first = made.findings.left_out[Reason.EMPTY_RATING, ()].first
    assert (first.startswith(f"{name}:"), f"rating {word!r}" in first or not word) == (True, True)


@pytest.mark.parametrize(
    ("table", "ratings", "values"),
    [
        ("video;caption;mos\nv;A dog.;4,5\nw;A cat.;N/A\n", ["mos=1-5, mean of 3"], [4.5]),
        ('video,caption,mos\nv,A dog.,"4,5"\n', ["mos=1-5, mean of 3"], [4.5]),
        # One rater's decimal comma is refused, and is no list of two raters.
        ("video;caption;mos\nv;A dog.;4,5\n", ["mos"], []),
        ("video;caption;mos\nv;A dog.;4,0\nw;A cat.;5\n", ["mos"], [4, 5]),
        ("video,caption,ok\nv,A dog.,yes\nw,A cat.,N/A\nx,A cow.,No\n", ["ok=yes-no"], ["yes", "No"]),
        ('{"video": "v", "caption": ["A dog.", "A cat."], "mos": [[5, 4], [3, "N/A"]]}\n', ["mos"], [5, 4, 3]),
    ],
)
def test_numbers_are_read_as_they_are_written(
    tmp_path: Path, table: str, ratings: list[str], values: list[Any]
) -> None:
    made = of_table(tmp_path, table, *ratings, name="t.jsonl" if table.startswith("{") else "t.csv")
    assert [value for _, _, _, value in rated(made)] == values


def test_a_column_of_raters_may_be_named(tmp_path: Path) -> None:
    made = of_table(tmp_path, "who,video,caption,note\nanna,v,A dog.,5\nben,v,A dog.,4\n", "note", rater="who")
    assert [(rater, value) for _, rater, _, value in rated(made)] == [("anna", 5), ("ben", 4)]


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        (["overall=rating,likes"], "has the column 'likes' that --rating names: check its name"),
        (["overall=rating", "overall=note=0-100"], "'overall' has another scale already"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, ratings: list[str], message: str) -> None:
    with pytest.raises(NoManifest, match=message):
        of_table(tmp_path, "video,caption,rating,note\nv,A dog.,5,4\n", *ratings)


@pytest.mark.parametrize(
    ("header", "row", "options", "question"),
    [
        ("rating_1,rating_2", "5,4", ("overall=rating_1,rating_2",),
         "Use columns 'rating_1' and 'rating_2' as ratings from 1 to 5?"),
        ("ratings", '"5,4,4"', ("ratings",), "Use column 'ratings' as ratings from 1 to 5?"),
        ("score", "70", ("score=0-100",), "Use column 'score' as ratings from 0 to 100?"),
        ("score", "yes", ("score=yes-no",), "Use column 'score' as ratings of yes or no?"),
        ("mos", "4.5", ("mos=1-5, mean of 3",), "Use column 'mos' as means of three people's ratings from 1 to 5?"),
        ("Answer.overall", "3", ("Answer.overall",), "Use column 'Answer.overall' as ratings from 1 to 5?"),
        ('"score, a","score, b"', "3,4", ("score, a", "score, b"),
         "Use columns 'score, a' and 'score, b' as ratings from 1 to 5?"),
    ],
)  # fmt: skip
def test_columns_that_may_be_ratings_are_offered_by_aspect(
    tmp_path: Path, header: str, row: str, options: tuple[str, ...], question: str
) -> None:
    source = put(tmp_path, {"t.csv": f"video,caption,{header}\nv,A dog.,{row}\n"})
    (offer,) = list_rating_offers(create_manifest(source, is_trial=True).findings)
    assert (offer.options, offer.question) == (options, question)
    assert offer.arguments in offer.sentence
    made = create_manifest(source, column_names=ColumnNames(ratings=offer.options))
    assert made.holdings.ratings == len(list(filter(None, list_answers(row.strip('"'))))), "the option reads the column"


def test_a_column_that_also_holds_words_is_not_offered(tmp_path: Path) -> None:
    made = of_table(tmp_path, "video,caption,note\nv,A dog.,5\nw,A cat.,blurred\n")
    assert list_rating_offers(made.findings) == []


def test_a_scale_may_be_given_to_several_columns() -> None:
    columns = parse_ratings(["overall=a,b=0-100, lowest is best", "coverage=c=1-7"])
    assert [(column.name, column.scale.name if column.scale else None) for column in columns] == [
        ("a", "0-100, lowest is best"), ("b", "0-100, lowest is best"), ("c", "1-7")
    ]  # fmt: skip
