"""The Dagster pool of the steps that load models: steps of one machine, or of one device of it, run one by one."""

import os
import re
import socket

from assets.models.settings import DEVICE_VARIABLE


def build_pool_name() -> str:
    """Return the name of the Dagster pool for steps that load models: "encoder_" and the environment variable
    REELSIEVE_DEVICE, or the host's name without it. Characters other than letters, digits and _ become _.

    A pool's name is known in the whole installation, so steps of different machines do not wait for one another.
    """
    return "encoder_" + re.sub(r"\W", "_", os.environ.get(DEVICE_VARIABLE) or socket.gethostname())


MODEL_POOL = build_pool_name()
