"""Find times at which a video lacks frames, from time stamps only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# A stream is steady when at least this share of its steps is equal. In a steady stream, a step is a pause if it is
# longer than MIN_PAUSE_S seconds and than MIN_PAUSE_STEPS usual steps.
MIN_STEADY_SHARE = 0.95
MIN_PAUSE_S = 0.5
MIN_PAUSE_STEPS = 5
# Matroska rounds times to milliseconds.
TOLERANCE_S = 0.0025


def list_times_without_picture(shown_s: Sequence[float], decoded_s: Sequence[float]) -> list[float]:
    """List the times in `shown_s` (of packets) that lie more than 0.9 frames away from every time in `decoded_s` (of
    frames), in increasing order. These packets gave no frame. [] for fewer than two frames.

    A frame in exactly the packet's place is not asked for, because of the hidden frames of VP8 and the half images
    of interlaced video. A frame lasts the median distance between two frames.

    Args:
        shown_s: times of the packets, in any order.
        decoded_s: times of the frames decoded from them, in any order.

    Examples:
        >>> list_times_without_picture([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.0, 0.1, 0.2, 0.4, 0.5])
        [0.3]
    """
    if len(decoded_s) < 2:
        return []
    shown, decoded = np.sort(shown_s), np.sort(decoded_s)
    right = np.clip(np.searchsorted(decoded, shown), 1, len(decoded) - 1)
    distance = np.minimum(np.abs(shown - decoded[right - 1]), np.abs(shown - decoded[right]))
    missing: list[float] = shown[distance > 0.9 * np.median(np.diff(decoded))].tolist()
    return missing


def list_pauses(shown_s: Sequence[float]) -> list[tuple[float, float]]:
    """List pauses without a packet in a stream of steady rate: (begin, end) in seconds, in order; [] if the rate
    varies. shown_s: times of the packets, in any order. A pause is longer than half a second and than five usual steps
    between packets.

    Examples:
        >>> list_pauses([0.25 * k for k in range(100) if not 40 <= k < 48])
        [(9.75, 12.0)]
    """
    shown = np.sort(shown_s)
    steps = np.diff(shown)
    if not len(steps):
        return []
    usual = float(np.median(steps))
    # Matroska rounds to milliseconds.
    steady = np.abs(steps - usual) <= max(0.1 * usual, 0.0015)
    if steady.mean() < MIN_STEADY_SHARE:
        return []
    (before,) = np.nonzero(steps > max(MIN_PAUSE_S, MIN_PAUSE_STEPS * usual))
    return [(float(shown[index]), float(shown[index + 1])) for index in before]


def lacks_data(pause: tuple[float, float], key_s: Sequence[float], sound_s: Sequence[float]) -> bool:
    """Whether frames were lost in a pause (begin, end), rather than one frame held on purpose: the sound pauses, too,
    or the key frames around it are as far apart as others are. key_s, sound_s: times of the key frames and of the
    packets of sound, in order.

    An encoder that counts frames sets a key frame later where a frame is held.

    Examples:
        >>> lacks_data((2.1, 2.9), [0.0, 1.0, 2.0, 3.0, 4.0], []), lacks_data((2.1, 2.9), [0.0, 1.0, 2.0, 3.7, 4.7], [])
        (True, False)
        >>> sound_s = [0.02 * k for k in range(300)]
        >>> lacks_data((2.1, 2.9), [0.0], sound_s), lacks_data((2.1, 2.9), [0.0], sound_s[:110] + sound_s[140:])
        (False, True)
    """
    begin, end = pause
    quarter = (end - begin) / 4
    heard_before, heard_in = np.searchsorted(sound_s, (begin + quarter, end - quarter))
    if 0 < heard_before == heard_in < len(sound_s):
        return True
    keys = np.asarray(key_s)
    distances, place = np.diff(keys), int(np.searchsorted(keys, begin, side="right")) - 1
    if not 0 <= place < len(distances) or len(distances) < 2:
        return False
    are_as_far = np.abs(np.delete(distances, place) - distances[place]) <= TOLERANCE_S
    return bool(are_as_far.mean() >= MIN_STEADY_SHARE)
