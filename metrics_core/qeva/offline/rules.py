"""Write questions by rule, without a model: coverage and chronology from notes, factuality from the summary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from metrics_core.ecs.premises import split_premises
from metrics_core.models.word_tokenizer import split_words
from metrics_core.protocols import ModelIdentity, SentenceSplitter
from metrics_core.qeva.chronology import build_chronology_questions
from metrics_core.qeva.records import NO, YES, Dimension, Question, QuestionSet, VideoAsFrames, VideoNotes
from metrics_core.qeva.replies import list_distinct_texts

MIN_WORDS = 3
"""A shorter text is no statement but an exclamation or a scrap."""

# A conjunction joins two clauses only where a subject follows it; "and leaves" would be a clause without one.
_SUBJECT = (
    r"(?:the|a|an|this|that|these|those|he|she|it|they|we|his|her|its|their|someone|somebody|everyone|another|"
    r"one|two|three|four|five|several|some|many|both|all)"
)
_WHEN = r"(?:then|later|next|afterwards|after that|finally|meanwhile|in the end|at the end|at last)"
CLAUSE_JOINT = re.compile(
    rf"(?:;|,? (?:and|but|while|whereas|before|until|so)(?: {_WHEN})?,?|, {_WHEN},?) (?={_SUBJECT} )", re.IGNORECASE
)

VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|can|will|do|does|did|come|go|[a-z]{2,}(?:[^s]s|es|ed))\b", re.IGNORECASE
)


def split_statements(summary: str, splitter: SentenceSplitter) -> list[str]:
    """Return the statements of a summary, clause by clause, in order. Repeated statements and those of fewer than 3
    words are left out.

    >>> from metrics_core.models.sentence_splitter import RuleSplitter
    >>> summary = "A man waits at a door, and later the dog comes back. Wow! He and his dog leave."
    >>> split_statements(summary, RuleSplitter())
    ['A man waits at a door.', 'The dog comes back.', 'He and his dog leave.']
    """
    all_clauses = [clause for sentence in split_premises(summary, splitter) for clause in split_clauses(sentence)]
    return list_distinct_texts(clause for clause in all_clauses if len(clause.split()) >= MIN_WORDS)


def split_clauses(sentence: str) -> list[str]:
    """Split a sentence where a conjunction joins clauses, and return the clauses in order; a sentence without such a
    place is returned whole. The clauses of a split sentence have at least 4 words and something that looks like a verb.

    >>> split_clauses("A dog runs to a ball and the boy follows it, then the ball and the dog are gone.")
    ['A dog runs to a ball.', 'The boy follows it.', 'The ball and the dog are gone.']
    >>> split_clauses("The tall man with a hat and the old woman are dancing.")
    ['The tall man with a hat and the old woman are dancing.']
    """
    pieces = CLAUSE_JOINT.split(sentence)
    joints = [joint.group() for joint in CLAUSE_JOINT.finditer(sentence)]
    parts = [pieces[0]]
    for joint, piece in zip(joints, pieces[1:], strict=True):
        # A piece that is no clause belongs to what follows: in "the ball and the dog are gone" the ball is gone too.
        if _is_clause(parts[-1]):
            parts.append(piece)
        else:
            parts[-1] += joint + piece
    if len(parts) > 1 and not _is_clause(parts[-1]):
        return [sentence]
    return [sentence] if len(parts) == 1 else [f"{part[0].upper()}{part[1:].rstrip(' .,;')}." for part in parts]


def _is_clause(text: str) -> bool:
    """Return whether a text has at least 4 words and something that looks like a verb.

    >>> _is_clause("the dog comes back"), _is_clause("a tall man with a hat")
    (True, False)
    """
    return len(text.split()) >= 4 and VERB.search(text) is not None


CATEGORIES = (
    "entities",
    "scene",
    "actions",
    "attributes",
    "counting",
    "spatial",
    "temporal",
    "colours",
    "emotion",
    "factual",
)


def _split_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


CATEGORY_WORDS = {
    "scene": _split_set(
        "scene setting background backdrop room kitchen bathroom bedroom house home street road city town park garden "
        "yard field beach sea lake river pool forest mountain mountains hill snow gym court stage studio office school "
        "store shop restaurant bar outdoors outside indoors inside sky desert stadium arena track area place landscape"
    ),
    "attributes": _split_set(
        "big large huge small tiny little tall short long wide narrow thick thin old young new round square flat steep "
        "wooden metal plastic glass wet dry clean dirty dark bright shiny hot cold fast slow quickly heavy light "
        "wearing dressed wears striped plain bald bearded blurry empty full open closed smooth rough"
    ),
    "counting": _split_set(
        "one two three four five six seven eight nine ten eleven twelve once twice times several many few pair dozen "
        "couple both single double"
    ),
    "spatial": _split_set(
        "left right top bottom upper lower above below under underneath behind beside near between front middle centre "
        "center corner side edge next inside outside around across through toward towards foreground opposite upward "
        "downward up down"
    ),
    "temporal": _split_set(
        "before after then first second finally last later next while during until begin begins beginning start starts "
        "starting end ends ending meanwhile again still afterwards eventually soon suddenly whole always already"
    ),
    "colours": _split_set(
        "black white red green blue yellow orange purple violet pink brown gray grey tan beige maroon teal turquoise "
        "silver gold golden blond blonde magenta cyan navy olive lavender crimson colour color coloured colored"
    ),
    "emotion": _split_set(
        "happy happily sad sadly angry angrily smile smiles smiling laugh laughs laughing cry cries crying excited "
        "excitement scared afraid fear surprised nervous proud upset calm worried bored tired cheer cheers cheering "
        "celebrate celebrates celebrating enjoy enjoys enjoying love loves frustrated joy fun"
    ),
    "entities": _split_set(
        "man men woman women boy boys girl girls child children kid kids baby person people lady guy guys crowd group "
        "team player players dog dogs cat cats horse horses animal animals car cars bus truck bike boat ball camera"
    ),
}
_ACTION = re.compile(r"\b(?:is|are|was|were|be|been|being|starts?|begins?|keeps?) \w+ing\b|\b[a-z]{3,}(?:es|s|ed)\b")


def list_categories(statement: str) -> tuple[str, ...]:
    """Return the categories of CATEGORIES that the words of a statement belong to, in that order; ("factual",) where
    there is none.

    A name inside the sentence belongs to entities, a digit to counting, a verb form to actions.

    >>> list_categories("Two red cars stop behind a bus in Rome."), list_categories("It rains.")
    (('entities', 'actions', 'counting', 'spatial', 'colours'), ('actions',))
    >>> list_categories("Hope remained elusive to him.")
    ('actions',)
    """
    words = frozenset(split_words(statement))
    named = {name for name, listed in CATEGORY_WORDS.items() if words & listed}
    if any(word.isdigit() for word in words):
        named.add("counting")
    if re.search(r"(?<=[a-z,] )[A-Z][a-z]+", statement):
        named.add("entities")
    if _ACTION.search(statement):
        named.add("actions")
    return tuple(name for name in CATEGORIES if name in named) or ("factual",)


VERSION = 1
"""Increased by hand whenever the rules write other questions."""

NO_FRAMES = "rules cannot write questions from frames: set a video model, or give the video references or keypoints"


@dataclass(frozen=True)
class RuleVideoExaminer:
    """A VideoExaminer that writes at most n coverage and n chronology questions from the notes of a video, by rule. A
    coverage question asks whether a fact holds, and its key is always "yes". The same notes and seed give the same
    questions. A video given as frames gets a set with the status "refused".

    One fact is drawn from each stretch of the list, which is cut into n equal ones, so that the questions are spread
    like the facts: over dimensions and time where `build_video_notes` made the list.
    """

    n: int = 10
    seed: int = 0

    @property
    def identity(self) -> ModelIdentity:
        """The rules' name and version, with the number of questions and the seed."""
        return ModelIdentity("rules:video-examiner", str(VERSION), {"n": self.n, "seed": self.seed})

    def compose_coverage_questions(self, videos: Sequence[VideoAsFrames | VideoNotes]) -> list[QuestionSet]:
        """Return one set of at most n coverage questions for every video, in order. The status is "refused" for a video
        given as frames.
        """
        return [self._coverage(video) for video in videos]

    def compose_chronology_questions(self, videos: Sequence[VideoAsFrames | VideoNotes]) -> list[QuestionSet]:
        """Return one set of at most n questions about the order of the notes' events for every video, in order. The
        status is "refused" for a video given as frames.
        """
        return [self._chronology(video) for video in videos]

    def _coverage(self, video: VideoAsFrames | VideoNotes) -> QuestionSet:
        if isinstance(video, VideoAsFrames):
            return _build_refused_set("coverage", self.n)
        facts = list_distinct_texts(fact for fact in video.facts if len(fact.split()) >= MIN_WORDS)
        chosen = draw_spread(len(facts), self.n, Random("\n".join((str(self.seed), *facts))))
        questions = tuple(_build_yes_no_question("coverage", facts[place]) for place in chosen)
        n_malformed = len(video.facts) - len(facts)
        reason = None if facts else "the notes of the video hold no fact of three words or more"
        return QuestionSet("coverage", questions, self.n, n_malformed, reason=reason)

    def _chronology(self, video: VideoAsFrames | VideoNotes) -> QuestionSet:
        if isinstance(video, VideoAsFrames):
            return _build_refused_set("chronology", self.n)
        return build_chronology_questions(video.events, self.n, self.seed)


@dataclass(frozen=True)
class RuleSummaryExaminer:
    """A SummaryExaminer that writes at most n questions on whether a statement of a summary is true, by rule. The key
    is always "yes". splitter: splits the summary into sentences. The same summary and seed give the same questions.

    Statements come from `split_statements`. Each category that a statement belongs to gets one question, the rarest
    category first, as long as n allows; the remaining ones are drawn from the other statements, spread over the
    summary.
    """

    splitter: SentenceSplitter
    n: int = 10
    seed: int = 0

    @property
    def identity(self) -> ModelIdentity:
        """The rules' name and version, with the splitter, the number of questions and the seed."""
        params = {"n": self.n, "seed": self.seed, "splitter": self.splitter.identity.as_dict()}
        return ModelIdentity("rules:summary-examiner", str(VERSION), params)

    def compose_factuality_questions(self, summaries: Sequence[str]) -> list[QuestionSet]:
        """Return one set of factuality questions for every summary, in order. It is empty, with a reason, where the
        summary has no statement of three words or more.
        """
        return [self._factuality(summary) for summary in summaries]

    def _factuality(self, summary: str) -> QuestionSet:
        stated = split_statements(summary, self.splitter)
        rng = Random("\n".join((str(self.seed), *stated)))
        chosen = draw_by_category([list_categories(statement) for statement in stated], self.n, rng)
        questions = tuple(
            _build_yes_no_question("factuality", stated[place], category) for place, category in sorted(chosen.items())
        )
        reason = None if stated else "the summary has no statement of three words or more"
        return QuestionSet("factuality", questions, self.n, reason=reason)


def draw_spread(n_items: int, n: int, rng: Random) -> list[int]:
    """Return at most n of the numbers 0 to n_items - 1, in order: all if there are no more than n, else one drawn from
    each of n equal stretches.

    >>> draw_spread(3, 10, Random(0)), [place // 5 for place in draw_spread(50, 10, Random(0))]
    ([0, 1, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    if n_items <= n:
        return list(range(n_items))
    edges = [i * n_items // n for i in range(n + 1)]
    return [rng.randrange(low, high) for low, high in pairwise(edges)]


def draw_by_category(categories_by_statement: Sequence[Sequence[str]], n: int, rng: Random) -> dict[int, str]:
    """Draw at most n statements, and return by the position of a drawn statement the category for which it was drawn.
    categories_by_statement: the categories of every statement, in order. The category with the fewest statements draws
    first, one statement for each category; the remaining ones are spread over the other statements.

    >>> draw_by_category([("actions",), ("actions", "colours"), ("actions",)], 2, Random(0))[1]
    'colours'
    """
    members = {name: [i for i, names in enumerate(categories_by_statement) if name in names] for name in CATEGORIES}
    chosen: dict[int, str] = {}
    for name in sorted(CATEGORIES, key=lambda name: len(members[name])):
        free = [place for place in members[name] if place not in chosen]
        if free and len(chosen) < n:
            chosen[rng.choice(free)] = name
    rest = [place for place in range(len(categories_by_statement)) if place not in chosen]
    for place in draw_spread(len(rest), n - len(chosen), rng) if len(chosen) < n else []:
        chosen[rest[place]] = min(categories_by_statement[rest[place]], key=lambda name: len(members[name]))
    return chosen


def _build_yes_no_question(dimension: Dimension, statement: str, category: str | None = None) -> Question:
    return Question(
        dimension, "yes_no", f"Is this so? “{statement}”", YES, (YES, NO), category, statements=(statement,)
    )


def _build_refused_set(dimension: Dimension, n: int) -> QuestionSet:
    return QuestionSet(dimension, (), n, status="refused", reason=NO_FRAMES)
