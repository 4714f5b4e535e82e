"""Describes a clip in words: timed sentences in several voices, keypoints, and questions with answers.

The voices ``annotator_a`` and ``annotator_b`` write the two references, ``faithful`` the true candidate, ``keypoint``
the keypoints. The clips are silent, so no sentence and no keypoint mentions acoustics or speech.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from lab.demo import wording
from lab.demo.world import FPS, ClipStatement, DemoClip, Looks, Moment

FIRST_REFERENCE = "annotator_a"


@dataclass(frozen=True)
class Sentence:
    """One sentence about a clip: its text, the statements that it makes, and its start and end in seconds from the
    clip's start.
    """

    text: str
    statements: tuple[ClipStatement, ...]
    start_s: float
    end_s: float

    @property
    def segment(self) -> dict[str, object]:
        """The sentence as a segment of a manifest's caption: a dict with start_s, end_s and text."""
        return {"start_s": self.start_s, "end_s": self.end_s, "text": self.text}


@dataclass(frozen=True)
class Keypoint:
    """A keypoint of a demo clip: its text and its statement. segment_index: the index from 0 of the sentence of the
    first reference (annotator_a) that makes the statement.
    """

    text: str
    statement: ClipStatement
    segment_index: int

    @property
    def dimension(self) -> str:
        """The dimension that the manifest gives the keypoint: segment_detail, video_background, shooting_style or
        camera_state.
        """
        return self.statement.dimension


@dataclass(frozen=True)
class DemoQuestion:
    """A question about a clip with two answers: `answer` has one or more true sentences, and `noisy_answer` is a poor
    answer of one word.
    """

    question: str
    answer: str
    noisy_answer: str


def describe_clip(clip: DemoClip, voice: str) -> tuple[Sentence, ...]:
    """Return the sentences that describe the whole clip, in time order; their times do not overlap. voice:
    "annotator_a", "annotator_b" or "faithful", which differ in wording and in the place of some sentences. The same
    clip and voice always give the same sentences.

    >>> from lab.demo.story import make_clip
    >>> story = describe_clip(make_clip(1), "annotator_a")
    >>> 10 <= len(story) <= 20, story[0].start_s, story[-1].end_s <= make_clip(1).duration_s
    (True, 0.0, True)
    """
    rng = Random(f"words/{clip.seed}/{voice}")
    before, events, after = _order_statements(clip, voice)
    first, last = clip.events[0].start, clip.events[-1].end
    timed = [
        *_spread_evenly(before, 0, first),
        *((event.start, event.end, (event.statement,)) for event in events),
        *_spread_evenly(after, last, clip.n_frames),
    ]
    return tuple(
        Sentence(format_sentence(statements, voice, rng), statements, _seconds(start), _seconds(end))
        for start, end, statements in timed
    )


def build_keypoints(clip: DemoClip) -> tuple[Keypoint, ...]:
    """Return one keypoint for every true statement about the clip, in the order of `DemoClip.list_moments`."""
    rng = Random(f"words/{clip.seed}/keypoint")
    reference = describe_clip(clip, FIRST_REFERENCE)
    return tuple(
        Keypoint(
            format_sentence((moment.statement,), "keypoint", rng),
            moment.statement,
            next(index for index, sentence in enumerate(reference) if moment.statement in sentence.statements),
        )
        for moment in clip.list_moments()
    )


def build_demo_questions(clip: DemoClip) -> tuple[DemoQuestion, ...]:
    """Return four questions with answers about a clip: on its background, one event, the camera and the ending. The
    same clip always gives the same ones.
    """
    rng = Random(f"questions/{clip.seed}")
    sentences = describe_clip(clip, "faithful")
    camera = [s for s in sentences if s.statements[0].dimension == "camera_state"]
    acts = [
        s for s in sentences if s.statements[0].dimension == "segment_detail" and s.statements[0].kind not in UNTIMED
    ]
    event, ending = rng.choice(acts), sentences[-1]
    timed_question = f"What happens {(event.start_s + event.end_s) / 2:.1f} seconds into the clip?"
    return (
        DemoQuestion("What does the background look like?", sentences[0].text, clip.pattern.split()[-1]),
        DemoQuestion(timed_question, event.text, event.statements[0].named_looks[0].shape),
        DemoQuestion("How does the camera behave?", " ".join(s.text for s in camera), "camera"),
        DemoQuestion("What is in view at the end?", ending.text, ending.statements[0].named_looks[0].shape),
    )


UNTIMED = ("waits", "remains")


def format_sentence(statements: tuple[ClipStatement, ...], voice: str, rng: Random) -> str:
    """Return one sentence that makes exactly these statements: a single one, or pattern and palette together. voice:
    who writes, "annotator_a", "annotator_b", "faithful" or "keypoint". `rng` chooses among the wordings of a voice.
    Raises KeyError where a voice has no wording.

    >>> format_sentence((ClipStatement("grows", Looks("star", "red")),), "keypoint", Random(0))
    'The red star grows.'
    """
    statement = statements[0]
    if statement.kind == "style":
        return wording.STYLE_SENTENCES[statement.target][wording.VOICES.index(voice)]
    if len(statements) == 2:
        options = wording.BACKGROUND_SENTENCES[voice]
    elif statement.kind == "pattern":
        options = wording.PATTERN_SENTENCES[voice]
    elif statement.kind == "palette":
        options = wording.PALETTE_SENTENCES[voice]
    else:
        options = wording.TEMPLATES[voice][statement.kind]
    text = rng.choice(options).format(**_fields(statements, voice))
    return text[0].upper() + text[1:]


def _order_statements(
    clip: DemoClip, voice: str
) -> tuple[list[tuple[ClipStatement, ...]], list[Moment], list[tuple[ClipStatement, ...]]]:
    """Return the statements that a voice makes before the first event, the events, and the statements after the last
    event.
    """
    moments = clip.list_moments()
    waits = [(m.statement,) for m in moments if m.statement.kind == "waits"]
    static = [(m.statement,) for m in moments if m.statement.kind == "static"]
    pattern, palette, style = (moment.statement for moment in moments[:3])
    first_event = 3 + len(static) + len(waits)
    events, ending = list(moments[first_event:-1]), (moments[-1].statement,)
    if voice == "annotator_b":
        return [(pattern,), (palette,), *waits], events, [*static, (style,), ending]
    return [(pattern, palette), (style,), *static, *waits], events, [ending]


def _spread_evenly(
    groups: list[tuple[ClipStatement, ...]], start: int, end: int
) -> list[tuple[float, float, tuple[ClipStatement, ...]]]:
    step = (end - start) / len(groups)
    return [(start + i * step, start + (i + 1) * step, statements) for i, statements in enumerate(groups)]


def _seconds(frame: float) -> float:
    """Return the frame's time in seconds, rounded down to milliseconds, so that no segment ends after the clip."""
    return int(frame * 1000 / FPS + 1e-6) / 1000


def _fields(statements: tuple[ClipStatement, ...], voice: str) -> dict[str, str]:
    statement, fields = statements[-1], {}
    if statement.palette:
        first, second = statement.palette[0], statement.palette[-1]
        pattern = statements[0].target
        fields["colours"] = first if first == second else f"{first} and {second}"
        if pattern:
            fields["backdrop"] = wording.BACKDROPS[pattern].format(first=first, second=second)
    if statement.kind == "pattern":
        fields["pattern"] = wording.PATTERN_PHRASES[statement.target]
    if statement.subject is not None:
        fields |= {"S": f"the {_noun(statement.subject, voice)}", "N": _indefinite(statement.subject, voice)}
    if statement.others:
        names = [f"the {_noun(other, voice)}" for other in statement.others]
        fields |= {"O": names[0], "list": " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))}
    agreeing = (statement.subject,) if statement.subject is not None else statement.others
    single = sum(looks.count for looks in agreeing) == 1
    fields |= {"s": "s", "es": "es", "ies": "ies", "is": "is", "its": "its", "it": "it"} if single else PLURAL
    return fields | {
        "target": wording.COLOUR_WORDS.get(voice, {}).get(statement.target, statement.target),
        "at": f"{wording.PREPOSITIONS.get(statement.target.split(' ')[-1], 'at')} the {statement.target}",
        "opposite": wording.OPPOSITES.get(statement.target, ""),
        "way": wording.WAYS.get(statement.target, ""),
        "n": wording.NUMBERS.get(statement.number, ""),
        "times": wording.TIMES.get(statement.number, ""),
    }


PLURAL = {"s": "", "es": "", "ies": "y", "is": "are", "its": "their", "it": "they"}


def _noun(looks: Looks, voice: str) -> str:
    shape = wording.SHAPE_WORDS.get(voice, {}).get(looks.shape, looks.shape)
    if looks.count > 1:
        shape += "es" if shape.endswith(("s", "x")) else "s"
    colour = wording.COLOUR_WORDS.get(voice, {}).get(looks.colour, looks.colour)
    size = wording.SIZE_WORDS.get(voice, {}).get(looks.size, looks.size)
    number = wording.NUMBERS[looks.count] if looks.count > 1 else ""
    return " ".join(filter(None, (number, size, colour, shape)))


def _indefinite(looks: Looks, voice: str) -> str:
    noun = _noun(looks, voice)
    if looks.count > 1:
        return noun
    return f"an {noun}" if noun[0] in "aeio" else f"a {noun}"
