"""Errors of stores as one sentence. The clients' own messages may hold signatures, so none is repeated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from assets.media.address import Address

# missing: there is no such object; escape: it lies outside its root; unusable: it is there, and no file to be read;
# trouble: nothing is known about it.
UnavailableKind = Literal["missing", "escape", "unusable", "trouble"]

# The extra that brings the driver, where its name is not the scheme.
_EXTRAS = {"https": "http"}
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or a role that may read it",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to an account that may read it",
}
_PRIVATE = re.compile(r"refused private address ([0-9a-fA-F:.]+)")
_NO_SIGN_IN = "put a copy where it can be read without signing in"
_SIGN_IN = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "PermissionError")
_ASTRAY = ("InvalidURL", "TooManyRedirects", "RedirectClientError")
CHANGED_MEANWHILE = "the file changed while it was read: run the same command again once nothing writes to it"


class MediaUnavailable(Exception):
    """Raised when a video's file cannot be read; the message has reason and remedy. `kind` is `missing` for a file or
    object that does not exist, `escape` for a path that leads out of its root, `unusable` for a member of a tar file
    that cannot be read as a file, and `trouble` for anything else.
    """

    def __init__(self, kind: UnavailableKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def explain_store_error(address: Address, error: BaseException) -> MediaUnavailable:
    """Turn an error of the S3, Google or HTTP client into a MediaUnavailable, which is returned and not raised. Its
    message names the cause and a remedy, and repeats no text of the client.
    """
    chain = list(_list_causes(error))
    # A client may have put the text of a PrivateAddressRefused into an error of its own.
    if private := next(filter(None, (_PRIVATE.search(str(cause)) for cause in chain)), None):
        return MediaUnavailable(
            "trouble",
            f"the address leads to {private[1]} in a private network: to allow that, name the network in "
            "REELSIEVE_MEDIA_PRIVATE_NETWORKS",
        )
    if isinstance(error, ImportError):
        remedy = f"pip install 'reelsieve[{_EXTRAS.get(address.scheme, address.scheme)}]'"
        return MediaUnavailable("trouble", f"no driver for {address.scheme}:// is installed: {remedy}")
    names = {kind.__name__ for cause in chain for kind in type(cause).__mro__}
    status = next((code for cause in chain if (code := _find_status(cause)) is not None), None)
    # The HTTP client wraps all its errors in a FileNotFoundError; the one of a 404 has no cause.
    is_absent = isinstance(error, FileNotFoundError) and (address.scheme not in ("http", "https") or len(chain) == 1)
    if is_absent or status in (404, 410):
        return MediaUnavailable("missing", "there is no such object")
    if status in (401, 403) or names.intersection(_SIGN_IN):
        return MediaUnavailable("trouble", f"no permission to read it: {_CREDENTIALS.get(address.scheme, _NO_SIGN_IN)}")
    if names.intersection(_ASTRAY):
        return MediaUnavailable(
            "trouble",
            "the address is invalid, or redirects to an address that cannot be read: give the file's own address",
        )
    if status is not None:
        return MediaUnavailable("trouble", f"the server answers with status {status}: try again later")
    why = type(chain[1] if _is_cause_hidden(error) else error).__name__
    return MediaUnavailable("trouble", f"the store cannot be reached ({why}): check the network, or try again later")


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, then its cause, the cause of that, and so on. An error without a cause is followed by the one
    that was being handled when it was raised.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _find_status(error: BaseException) -> int | None:
    """Return the status of an HTTP answer, or None. The client of Google's storage has names of its own for it."""
    if type(error) is OSError and str(error).startswith("Forbidden:"):
        return 403
    code = getattr(error, "code" if type(error).__name__ == "HttpError" else "status", None)
    return code if isinstance(code, int) else None


def _is_cause_hidden(error: BaseException) -> bool:
    """Return whether the HTTP client hides the error's cause behind a FileNotFoundError, which it also raises for other
    failures.
    """
    return isinstance(error, FileNotFoundError) and error.__cause__ is not None
