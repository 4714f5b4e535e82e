"""Generates pairs: wrong colours and counts, negations, dropped words, long premises, small scenes of our own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from lab.verifier.data import Pair, labelled

COLOURS = ("black", "white", "red", "green", "blue", "yellow", "orange", "purple", "pink", "brown", "gray")
COUNTS = ("two", "three", "four", "five", "six", "seven", "eight")
_COLOUR = re.compile(rf"\b({'|'.join(COLOURS)})\b", re.IGNORECASE)
_COUNT = re.compile(rf"\b({'|'.join(COUNTS)})\b", re.IGNORECASE)
_IS_DOING = re.compile(r"\b(is|are) (\w+ing)\b")
_CLAUSE = re.compile(r" ,? ?(?:while|as|near|next to|in front of|outside|inside|behind) .*$")

THINGS = ("car", "dog", "cat", "ball", "bird", "horse", "bicycle", "balloon", "boat", "kite", "bus", "cup")
ACTS = ("moves to the left", "moves to the right", "stands still", "spins", "falls down", "jumps", "stops", "grows")
PLACES = ("on a beach", "in a park", "on a street", "in a kitchen", "on a table", "in a field", "in the snow")
SPEAKERS = ("man", "woman", "boy", "girl")
DEEDS = {
    "cooks a meal": "cooking",
    "plays the guitar": "playing music",
    "reads a book": "reading",
    "rides a bicycle": "cycling",
    "washes a car": "washing a car",
    "sings a song": "singing",
    "opens a door": "opening a door",
    "drinks from a glass": "drinking",
}


def altered(premise: str, rng: Random) -> list[Pair]:
    """Make pairs from one premise: a copy, other colours and counts, a negation, left-out details."""
    pairs = [labelled(premise, premise, "entailment")] if rng.random() < 0.1 else []
    for pattern, options in ((_COLOUR, COLOURS), (_COUNT, COUNTS)):
        match = pattern.search(premise)
        if match:
            other = rng.choice([option for option in options if option != match[0].lower()])
            pairs.append(labelled(premise, pattern.sub(other, premise, count=1), "contradiction"))
            if pattern is _COLOUR:
                without = " ".join(pattern.sub("", premise, count=1).split())
                pairs += [labelled(premise, without, "entailment"), Pair(without, premise, 0.0)]
    if _IS_DOING.search(premise):
        pairs.append(labelled(premise, _IS_DOING.sub(r"\1 not \2", premise, count=1), "contradiction"))
    shorter = _CLAUSE.sub(" .", premise)
    if shorter != premise and len(shorter.split()) >= 4:
        pairs += [labelled(premise, shorter, "entailment"), Pair(shorter, premise, 0.0)]
    return pairs


def lengthened(pairs: Sequence[Pair], rng: Random) -> list[Pair]:
    """Add one to three other premises to the premise of every pair. Its label stays, as entailed or not entailed."""
    premises = sorted({pair.premise for pair in pairs})
    longer = []
    for pair in pairs:
        parts = rng.sample(premises, min(rng.randint(1, 3), len(premises)))
        parts.insert(rng.randint(0, len(parts)), pair.premise)
        longer.append(Pair(" ".join(parts), pair.hypothesis, pair.entailed))
    return longer


def unrelated(pairs: Sequence[Pair], rng: Random) -> list[Pair]:
    """Join premises with the hypotheses of other pairs, which are almost never entailed."""
    others = rng.sample(list(pairs), len(pairs))
    return [
        Pair(pair.premise, other.hypothesis, 0.0)
        for pair, other in zip(pairs, others, strict=True)
        if pair.premise != other.premise
    ]


def scenes(count: int, rng: Random) -> list[Pair]:
    """Make pairs about small scenes: things with colour, number, act and place, and people who do something."""
    pairs: list[Pair] = []
    while len(pairs) < count:
        pairs += _scene_of_things(rng) if rng.random() < 0.6 else _scene_of_people(rng)
    return pairs[:count]


def _scene_of_things(rng: Random) -> list[Pair]:
    colour, other_colour = rng.sample(COLOURS, 2)
    number, other_number = rng.sample(COUNTS, 2)
    thing, other_thing = rng.sample(THINGS, 2)
    act, other_act = rng.sample(ACTS, 2)
    place, other_place = rng.sample(PLACES, 2)
    single = rng.random() < 0.6
    premise = f"A {colour} {thing} {act} {place}." if single else f"There are {number} {colour} {thing}s {place}."
    if single:
        wrong = [
            f"A {other_colour} {thing} {act}.",
            f"The {thing} {other_act}.",
            f"The {thing} does not move or change.",
        ]
        right = [f"There is a {thing}.", f"The {thing} is {colour}.", f"A {thing} {act}.", f"A {thing} is {place}."]
        wrong = wrong[: 3 if act != "stands still" else 2]
    else:
        wrong = [
            f"There are {other_number} {thing}s.",
            f"All of the {thing}s are {other_colour}.",
            f"There is no {thing}.",
        ]
        right = [f"There are {number} {thing}s.", f"The {thing}s are {colour}.", f"Some {colour} {thing}s are {place}."]
    open_ = [f"There is a {other_colour} {other_thing}.", f"The {thing} is {other_place}.", f"A {other_thing} {act}."]
    return [
        labelled(premise, rng.choice(right), "entailment"),
        labelled(premise, rng.choice(wrong), "contradiction"),
        Pair(premise, rng.choice(open_), 0.0),
    ]


def _scene_of_people(rng: Random) -> list[Pair]:
    who, other_who = rng.sample(SPEAKERS, 2)
    deed, other_deed = rng.sample(sorted(DEEDS), 2)
    place = rng.choice(PLACES)
    premise = f"A {who} {deed} {place}."
    right = [f"The {who} is {DEEDS[deed]}.", f"Someone is {DEEDS[deed]}.", f"A {who} is {place}."]
    wrong = [f"The {who} is not {DEEDS[deed]}.", f"Nobody is {DEEDS[deed]}.", f"No {who} is {place}."]
    open_ = [
        f"A {other_who} is {DEEDS[deed]}.",
        f"The {who} {other_deed}.",
        f"The {who} is happy.",
        f"Two {who}s talk.",
    ]
    return [
        labelled(premise, rng.choice(right), "entailment"),
        labelled(premise, rng.choice(wrong), "contradiction"),
        Pair(premise, rng.choice(open_), 0.0),
    ]
