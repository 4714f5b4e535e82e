"""The words of every voice for every kind of statement. This module holds only data.

Fields: {S} the actor ("the red star"), {N} the actor when it is new ("a red star"), {O} the other actor,
{target}, {at} ("in the middle"), {opposite} and {way} of a direction, {n} a number word, {times} ("twice"),
{list} the actors left at the end, {colours}, {backdrop}, {pattern}.
{s} {es} {ies} {is} {its} {it} are singular or plural, as the actors are.
"""

from __future__ import annotations

VOICES = ("annotator_a", "annotator_b", "faithful", "keypoint")

NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
TIMES = {2: "twice", 3: "three times", 4: "four times"}

OPPOSITES = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}
PREPOSITIONS = {"corner": "in", "middle": "in", "side": "on", "centre": "at"}
WAYS = {"left": "to the left", "right": "to the right", "top": "upward", "bottom": "downward"}

COLOUR_WORDS: dict[str, dict[str, str]] = {
    "annotator_b": {"purple": "violet", "cyan": "turquoise"},
}

SHAPE_WORDS: dict[str, dict[str, str]] = {
    "annotator_a": {"plus": "plus sign", "crescent": "crescent moon"},
    "annotator_b": {
        "circle": "disc",
        "square": "box",
        "star": "five-pointed star",
        "diamond": "rhombus",
        "ring": "hoop",
        "plus": "cross",
        "hexagon": "six-sided hexagon",
        "heart": "heart shape",
        "crescent": "half moon",
        "arrow": "arrow sign",
    },
    "faithful": {"circle": "round disc", "plus": "plus sign", "crescent": "moon", "ring": "hollow ring"},
    "keypoint": {"plus": "plus sign"},
}

SIZE_WORDS: dict[str, dict[str, str]] = {
    "annotator_b": {"small": "little", "large": "big"},
    "faithful": {"small": "tiny", "large": "big"},
}

BACKDROPS = {
    "plain": "a plain {first} surface",
    "gradient": "a smooth gradient from {first} at the top to {second} at the bottom",
    "checkerboard": "a checkerboard of {first} and {second} squares",
    "vertical stripes": "upright stripes in {first} and {second}",
    "horizontal stripes": "horizontal bands in {first} and {second}",
    "diagonal stripes": "slanted diagonal stripes in {first} and {second}",
    "grid": "a grid of thin {first} lines on {second}",
    "polka dots": "{first} polka dots on {second}",
}

PATTERN_PHRASES = {
    "plain": "one flat colour",
    "gradient": "a gradual colour gradient",
    "checkerboard": "a chessboard pattern",
    "vertical stripes": "a pattern of vertical stripes",
    "horizontal stripes": "a pattern of horizontal stripes",
    "diagonal stripes": "a pattern of diagonal stripes",
    "grid": "a grid of crossing lines",
    "polka dots": "a polka dot pattern",
}

STYLE_SENTENCES = {
    "letterbox": (
        "Black bars at the top and bottom give the shot a widescreen cinema look.",
        "It is filmed in letterbox format, with a black strip above and below the image.",
        "The picture is letterboxed with black bars like a cinema film.",
        "Black bars run along the top and the bottom of the picture.",
    ),
    "vignette": (
        "The corners of the picture are darkened by a strong vignette.",
        "Toward its corners the image falls off into shadow, as through an old lens.",
        "A dark vignette shades all four corners of the image.",
        "A vignette darkens the corners of the picture.",
    ),
    "border": (
        "A thin white border frames the whole picture like a printed photograph.",
        "The footage is surrounded by a narrow white frame.",
        "The image has a white margin all around, like a photo print.",
        "A white border frames the picture.",
    ),
    "scanlines": (
        "Fine dark scan lines cover the image like on an old television.",
        "The recording looks like a vintage monitor with thin lines across the screen.",
        "Scan lines run over the whole picture as on a tube television.",
        "Horizontal scan lines cover the picture.",
    ),
}

Templates = dict[str, tuple[str, ...]]

ANNOTATOR_A: Templates = {
    "static": ("The camera never moves.", "The camera stays perfectly still for the whole clip."),
    "waits": ("At the start {N} rest{s} {at}.", "{N} {is} already there {at}."),
    "enters": ("{N} enter{s} from the {target}.", "{N} come{s} into the picture from the {target}."),
    "crosses": (
        "{N} cross{es} the whole picture from {opposite} to {target} and is gone.",
        "{N} race{s} across the screen from the {opposite} to the {target} edge.",
    ),
    "leaves": ("{S} leave{s} the picture at the {target}.", "{S} exit{s} through the {target} edge."),
    "fades": ("{S} slowly fade{s} away to nothing.", "{S} fade{s} out until nothing is left."),
    "moves": ("{S} move{s} to the {target}.", "{S} glide{s} over to the {target}."),
    "stops": (
        "{S} dash{es} to the {target} and stop{s} dead.",
        "{S} rush{es} to the {target} and halt{s} there.",
    ),
    "grows": ("{S} grow{s} much larger.", "{S} swell{s} to almost double size."),
    "shrinks": ("{S} shrink{s} to about half its size.", "{S} become{s} much smaller."),
    "bounces": ("{S} bounce{s} up and down {times}.", "{S} hop{s} {times} on the spot."),
    "blinks": ("{S} blink{s} off and on {times}.", "{S} flash{es} {times}."),
    "spins": ("{S} spin{s} around once in place.", "{S} rotate{s} through a full turn."),
    "trembles": ("{S} tremble{s} nervously from side to side.", "{S} shiver{s} left and right."),
    "recolours": ("{S} change{s} colour to {target}.", "{S} turn{s} {target}."),
    "splits": ("{S} split{s} into {n} smaller pieces.", "{S} break{s} apart into {n} small copies."),
    "merges": ("{S} merge into a single one.", "{S} join together and become one."),
    "orbits": ("{S} circle{s} once around {O}.", "{S} make{s} a loop around {O}."),
    "pans": ("The camera pans {way}.", "The view sweeps {way} as the camera pans."),
    "zooms_in": ("The camera zooms in closer.", "The camera zooms in and everything looks bigger."),
    "zooms_out": ("The camera zooms out.", "The camera zooms out and everything looks smaller."),
    "camera_shakes": ("The camera shakes briefly.", "The whole picture jolts as the camera shakes."),
    "remains": ("At the end only {list} remain{s} in view.", "Finally just {list} {is} left in the picture."),
}

ANNOTATOR_B: Templates = {
    "static": (
        "It is one fixed shot without any camera movement.",
        "The viewpoint is locked off throughout.",
    ),
    "waits": ("First we see {N} {at}.", "The clip opens with {N} sitting {at}."),
    "enters": (
        "From the {target}, {N} slide{s} in.",
        "{N} appear{s} at the {target} edge and drift{s} inside.",
    ),
    "crosses": (
        "{N} fl{ies} straight through the frame toward the {target} and vanish{es}.",
        "Coming from the {opposite}, {N} speed{s} past and disappear{s} on the {target}.",
    ),
    "leaves": ("{S} drift{s} off beyond the {target} side.", "{S} slip{s} out of the frame at the {target}."),
    "fades": ("{S} dissolve{s} and turn{s} invisible.", "{S} vanish{es} by becoming transparent."),
    "moves": ("{S} travel{s} toward the {target}.", "{S} shift{s} position and settle{s} {at}."),
    "stops": (
        "With a quick dart {S} reach{es} the {target} and freeze{s}.",
        "{S} shoot{s} off and come{s} to a sudden stop {at}.",
    ),
    "grows": ("{S} get{s} bigger.", "{S} expand{s} and take{s} up more room."),
    "shrinks": ("{S} get{s} smaller.", "{S} contract{s} to a fraction of its former size."),
    "bounces": ("{S} jump{s} into the air {times}.", "{S} bob{s} up and down {times} like a ball."),
    "blinks": ("{S} flicker{s} {times}.", "{S} disappear{s} and reappear{s} {times} like a blinking light."),
    "spins": ("{S} whirl{s} about its own centre.", "{S} do{es} a complete twirl."),
    "trembles": ("{S} vibrate{s} sideways.", "{S} wobble{s} and shake{s} as if it were cold."),
    "recolours": ("{S} take{s} on the colour {target}.", "The colour of {S} switches to {target}."),
    "splits": ("{S} divide{s} into {n} little ones.", "Out of {S} come {n} smaller parts."),
    "merges": ("{S} fuse into one.", "{S} come together as a single larger shape."),
    "orbits": ("{S} orbit{s} {O}.", "{S} travel{s} once around {O} and return{s}."),
    "pans": ("The viewpoint shifts {way}.", "The framing slides {way} in a camera pan."),
    "zooms_in": ("The shot tightens as we zoom in.", "We move in closer to the scene."),
    "zooms_out": ("The shot widens as we zoom out.", "We pull back from the scene."),
    "camera_shakes": ("The handheld shot wobbles for a moment.", "There is a short rattle of the camera."),
    "remains": ("In the last moments {list} {is} still visible.", "The clip closes on {list}."),
}

FAITHFUL: Templates = {
    "static": ("The camera remains motionless from beginning to end.",),
    "waits": ("In the beginning {N} stand{s} {at}.",),
    "enters": ("{N} float{s} in from the {target}.", "{N} arrive{s} from the {target} side."),
    "crosses": ("{N} zip{s} across the frame from {opposite} to {target} and leave{s} again.",),
    "leaves": ("{S} depart{s} past the {target} edge.", "{S} go{es} out of view at the {target}."),
    "fades": ("{S} gradually fade{s} from sight.",),
    "moves": ("{S} wander{s} to the {target}.", "{S} proceed{s} to the {target}."),
    "stops": ("{S} sprint{s} to the {target} and stop{s} abruptly.",),
    "grows": ("{S} grow{s} considerably bigger.", "{S} enlarge{s}."),
    "shrinks": ("{S} shrink{s} and become{s} small.",),
    "bounces": ("{S} bounce{s} {times}.", "{S} leap{s} up {times} and land{s} again."),
    "blinks": ("{S} blink{s} {times}.", "{S} flash{es} on and off {times}."),
    "spins": ("{S} turn{s} once around its own axis.",),
    "trembles": ("{S} quiver{s} from left to right.",),
    "recolours": ("{S} become{s} {target}.", "{S} change{s} into {target}."),
    "splits": ("{S} separate{s} into {n} smaller pieces.",),
    "merges": ("{S} unite and form just one.",),
    "orbits": ("{S} go{es} round {O} in a circle.",),
    "pans": ("The camera swings {way} in a pan.",),
    "zooms_in": ("The camera zooms in on the scene.",),
    "zooms_out": ("The camera zooms out from the scene.",),
    "camera_shakes": ("The camera trembles for an instant.",),
    "remains": ("When the clip ends, {list} can still be seen.",),
}

KEYPOINT: Templates = {
    "static": ("The camera does not move.",),
    "waits": ("At the start {N} {is} {at}.",),
    "enters": ("{N} enter{s} from the {target}.",),
    "crosses": ("{N} cross{es} the picture from {opposite} to {target}.",),
    "leaves": ("{S} leave{s} at the {target}.",),
    "fades": ("{S} fade{s} away.",),
    "moves": ("{S} move{s} to the {target}.",),
    "stops": ("{S} dash{es} to the {target} and stop{s}.",),
    "grows": ("{S} grow{s}.",),
    "shrinks": ("{S} shrink{s}.",),
    "bounces": ("{S} bounce{s} {times}.",),
    "blinks": ("{S} blink{s} {times}.",),
    "spins": ("{S} spin{s} around once.",),
    "trembles": ("{S} tremble{s}.",),
    "recolours": ("{S} turn{s} {target}.",),
    "splits": ("{S} split{s} into {n}.",),
    "merges": ("{S} merge into one.",),
    "orbits": ("{S} circle{s} around {O}.",),
    "pans": ("The camera pans {way}.",),
    "zooms_in": ("The camera zooms in.",),
    "zooms_out": ("The camera zooms out.",),
    "camera_shakes": ("The camera shakes.",),
    "remains": ("At the end {list} {is} in view.",),
}

BACKGROUND_SENTENCES = {
    "annotator_a": ("The background is {backdrop}.", "Everything takes place in front of {backdrop}."),
    "faithful": ("The scene is set against {backdrop}.",),
}
PATTERN_SENTENCES = {
    "annotator_b": ("Behind the shapes there is {pattern}.", "The backdrop shows {pattern}."),
    "keypoint": ("The background is {pattern}.",),
}
PALETTE_SENTENCES = {
    "annotator_b": ("The backdrop is coloured {colours}.", "{colours} fills the space behind everything."),
    "keypoint": ("The background is coloured {colours}.",),
}

TEMPLATES: dict[str, Templates] = dict(zip(VOICES, (ANNOTATOR_A, ANNOTATOR_B, FAITHFUL, KEYPOINT), strict=True))
