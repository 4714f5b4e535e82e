"""Which steps may not run at once: a pool for every machine, or for every device where a machine has several."""

import os
import re
import socket

from assets.models.settings import DEVICE_VARIABLE


def build_pool_name() -> str:
    """The pool of the steps that load models, of this machine or of the device that REELSIEVE_DEVICE names.

    A pool is known in the whole installation by its name; so machines with names of their own do not wait for each
    other.
    """
    return "encoder_" + re.sub(r"\W", "_", os.environ.get(DEVICE_VARIABLE) or socket.gethostname())


MODEL_POOL = build_pool_name()
