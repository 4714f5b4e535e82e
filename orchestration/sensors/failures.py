"""The sensor that reports failed runs: to a command, to a URL, or to both."""

import json
import shlex
import subprocess
import urllib.error
import urllib.request
from typing import Any

import dagster as dg

from assets.definitions.partitions import format_tagged_partitions
from assets.definitions.step_errors import StepRefused
from metrics_core.child_processes import build_user_environment, find_caller_folder
from orchestration.passwords import hide_passwords
from orchestration.settings import get_settings

PATIENCE_S = 20
# A message is read by a person; the run in the web interface has the whole error.
MAX_NOTICE_LENGTH = 2000


class NoticeNotDelivered(RuntimeError):
    """Raised when a notice about a failed run did not arrive; the message names the variable to check, and no URL."""

    plain = True


@dg.run_failure_sensor(
    name="failures",
    monitor_all_code_locations=True,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=30,
    description="Calls REELSIEVE_FAILURE_COMMAND or posts to REELSIEVE_FAILURE_URL when a run failed.",
)
def failures(context: dg.RunFailureSensorContext) -> None:
    """Report one failed run to the command and the URL of the settings, if they are set; one that fails does not keep
    the notice from the other. Raises NoticeNotDelivered with the reasons.
    """
    chosen, reasons = get_settings(), []
    url = chosen.failure_url and chosen.failure_url.get_secret_value()
    for deliver, receiver in ((run_failure_command, chosen.failure_command), (post_notice, url)):
        try:
            if receiver:
                deliver(receiver, build_notice(context))
        except NoticeNotDelivered as error:
            reasons.append(str(error))
    if reasons:
        raise NoticeNotDelivered("; ".join(reasons))


def build_notice(context: dg.RunFailureSensorContext) -> dict[str, str]:
    """Return the notice about a failed run, with the keys run_id, job, partitions, error and text, a sentence with all
    of it. error is the message of the first failed step, without passwords and cut at 2,000 characters.
    """
    run = context.dagster_run
    of_steps = [_find_error_message(event) for event in context.get_step_failure_events()]
    error = hide_passwords((of_steps[0] if of_steps else context.failure_event.message or "").strip())[
        :MAX_NOTICE_LENGTH
    ]
    work = f"{run.job_name} of {format_tagged_partitions(run.tags)}"
    return {
        "run_id": run.run_id,
        "job": run.job_name,
        "partitions": format_tagged_partitions(run.tags),
        "error": error,
    } | {
        # The key that chat services show.
        "text": f"Reelsieve: {work} failed: {error}"
    }


def run_failure_command(command: str, content: dict[str, str]) -> None:
    """Run a command without a shell, with the notice `content` as JSON on its standard input. Raises NoticeNotDelivered
    unless it ends with exit code 0 within 20 seconds.
    """
    try:
        done = subprocess.run(
            shlex.split(command),
            input=json.dumps(content),
            text=True,
            capture_output=True,
            timeout=PATIENCE_S,
            cwd=find_caller_folder(),
            env=build_user_environment(),
        )
    except subprocess.TimeoutExpired:
        raise NoticeNotDelivered(
            f"the command of REELSIEVE_FAILURE_COMMAND was ended after {PATIENCE_S} s: give one that ends sooner"
        ) from None
    except (OSError, ValueError) as error:
        # Not the whole text of an OSError, which has the command and its secrets.
        why = error.strerror if isinstance(error, OSError) else error
        raise NoticeNotDelivered(f"REELSIEVE_FAILURE_COMMAND cannot be run ({why}): correct it") from None
    if done.returncode:
        raise NoticeNotDelivered(f"the command of REELSIEVE_FAILURE_COMMAND ended with exit code {done.returncode}")


def post_notice(url: str, content: dict[str, str]) -> None:
    """Send the notice `content` as JSON by POST to an http or https address, and follow no redirect. Raises
    NoticeNotDelivered if the server refuses it or does not answer for 20 seconds.
    """
    # The messages of these errors contain the URL, so they are not passed on.
    try:
        request = urllib.request.Request(url, json.dumps(content).encode(), {"Content-Type": "application/json"})
        if request.type not in ("http", "https"):
            raise NoticeNotDelivered("REELSIEVE_FAILURE_URL is not the address of a web server: begin it with https://")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=PATIENCE_S):
            return
    except urllib.error.HTTPError as error:
        why = f"answered with status {error.code}"
    except (OSError, ValueError) as error:
        why = f"does not answer ({type(error).__name__})"
    raise NoticeNotDelivered(f"the server of REELSIEVE_FAILURE_URL {why}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _find_error_message(event: dg.DagsterEvent) -> str:
    error = event.step_failure_data.error
    # The asset's own error; the one around it is Dagster's.
    error = error and (error.cause or error)
    if error is None:
        return ""
    return error.message.partition(": ")[2] if error.cls_name == StepRefused.__name__ else error.message
