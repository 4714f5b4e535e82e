"""Addresses of videos outside the manifest's folder: `root://NAME/path`, URLs of stores, members of tar files, rows of
Lance tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SCHEMES = ("s3", "gs", "https", "http", "root")
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/?#]*)/?(.*)", re.DOTALL)
_HOSTS = {
    "s3": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}"),
    "gs": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}"),
    "https": re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"),
    "http": re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"),
    "root": re.compile(r"[a-z][a-z0-9_-]*"),
}
_HOST_IS = {
    "s3": "a bucket",
    "gs": "a bucket",
    "https": "a server",
    "http": "a server",
    "root": "a media root in small letters",
}
# A member may have any name; the first `.tar#`, or `.lance#`, ends that of the container.
_MEMBER = re.compile(r"(tar|lance)://(.+?\.\1)#(.+)", re.DOTALL | re.IGNORECASE)
_ROW = re.compile(r"(.+/)?[0-9]{1,18}", re.DOTALL)
_FORMS = {
    "tar": "write tar://FILE.tar#MEMBER, with the path or address of the tar file",
    "lance": "write lance://TABLE.lance#COLUMN/ROW, with the path or address of the table, and the id of the row",
}
# A user or password; a password may hold a slash, and a port is none.
_USER = re.compile(r"://([^/?#]*@|[^/?#]*:(?![0-9]{1,5}/)[^?#]*@)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# In JSON a slash may be written \/.
_USER_IN_TEXT = re.compile(r"(:(?:\\?/){2})[^\s\"'/?#]*@")
_SIGNATURE_IN_TEXT = re.compile(
    r"([?&](?:x-amz-[a-z-]+|x-goog-[a-z-]+|signature|sig|token|key|awsaccesskeyid|googleaccessid|credential|policy)=)"
    r"[^\s\"'&#]*",
    re.IGNORECASE,
)
HIDDEN = "***"


class AddressRefused(ValueError):
    """Raised for an address that a manifest may not use; the message is the remedy and holds no part of the address."""


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of an address, as in "SCHEME://HOST/PATH". `host` is a bucket, a server with its port, or the name of a
    root; `path` has no leading slash.

    >>> str(Address("s3", "clips", "2024/a.mp4"))
    's3://clips/2024/a.mp4'
    """

    scheme: str
    host: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}/{self.path}"


@dataclass(frozen=True, slots=True)
class MemberAddress:
    """The address of a file inside a tar file or a Lance table, as in "SCHEME://CONTAINER#NAME". `container` is the
    path or address of the tar file or table, and `name` that of the member in it.

    In a table it is the column and the id of the row, COLUMN/ROW, or only the id where the table has one column of
    files.

    >>> str(MemberAddress("tar", "s3://clips/000.tar", "a/0.mp4")), str(MemberAddress("lance", "c.lance", "video/7"))
    ('tar://s3://clips/000.tar#a/0.mp4', 'lance://c.lance#video/7')
    """

    scheme: str
    container: str
    name: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.container}#{self.name}"


def is_address(text: str) -> bool:
    """Return whether the text begins like an address, with two or more characters before `://`, rather than being a
    path in the manifest's folder. An address may still be invalid.

    >>> is_address("s3://clips/a.mp4"), is_address("videos/a.mp4"), is_address("file:a.mp4")
    (True, False, False)
    """
    return _ADDRESS.fullmatch(text) is not None


def parse_address(text: str) -> Address:
    """Parse an address into its parts, with the scheme and the name of a web server in small letters. Raises
    AddressRefused where the scheme is not supported, where the address holds a user, a password, a query or a fragment,
    and where it names no host or no file.

    >>> parse_address("HTTPS://Clips.example/a.mp4")
    Address(scheme='https', host='clips.example', path='a.mp4')
    """
    matched = _ADDRESS.fullmatch(text)
    if matched is None or (scheme := matched[1].lower()) not in _SCHEMES:
        raise AddressRefused(f"write {', '.join(f'{name}://' for name in _SCHEMES)} or a path in the manifest's folder")
    host, path = matched[2], matched[3]
    if has_address_user(text):
        raise AddressRefused("it holds a user or a password: take them out, credentials come from the environment")
    if "?" in path or "#" in path or text[len(matched[1]) + 3 + len(host) :][:1] in ("?", "#"):
        raise AddressRefused("it has a ? or a #, which may begin a signature: give the plain address of the file")
    if not _HOSTS[scheme].fullmatch(host):
        raise AddressRefused(f"the part after {scheme}:// does not name {_HOST_IS[scheme]}")
    if _CONTROL.search(path):
        raise AddressRefused("it has a control character: remove it")
    if not path or path.endswith("/"):
        raise AddressRefused("it does not name a file: add the file's path")
    return Address(scheme, host.lower() if scheme in ("http", "https") else host, path)


def is_member_address(text: str) -> bool:
    """Return whether the text begins like the address of a file inside a tar file or a Lance table. It may still be
    invalid.

    >>> is_member_address("tar://clips/000.tar#0.mp4"), is_member_address("clips/000.tar")
    (True, False)
    """
    return text.partition("://")[0].lower() in _FORMS and "://" in text


def parse_member_address(text: str) -> MemberAddress:
    """Parse the address of a file inside a tar file or a Lance table into its parts. The address of the container, if
    it has one, is checked too.

    Raises AddressRefused where it may not be used, where the name of the container does not end in .tar or .lance,
    where no member is named, and where a table's member has no id of a row.

    >>> parse_member_address("tar://clips/000.tar#0.mp4")
    MemberAddress(scheme='tar', container='clips/000.tar', name='0.mp4')
    """
    scheme = text.partition("://")[0].lower()
    matched = _MEMBER.fullmatch(text)
    if matched is None or (scheme == "lance" and not _ROW.fullmatch(matched[3])):
        raise AddressRefused(_FORMS[scheme])
    if _CONTROL.search(text):
        raise AddressRefused("it has a control character: remove it")
    container = matched[2]
    return MemberAddress(scheme, str(parse_address(container)) if is_address(container) else container, matched[3])


def can_name_members(scheme: str, container: str) -> bool:
    """Return whether files in a tar file or Lance table (scheme tar or lance) with this path or address can have
    addresses. They cannot where its name does not end in .tar or .lance, or has a control character or a # after such
    an ending.

    >>> [can_name_members("tar", tar) for tar in ("/data/0.tar", "/data/blob", "/data/0.tar#1/0.tar")]
    [True, False, False]
    """
    address = MemberAddress(scheme, container, "0")
    try:
        return parse_member_address(str(address)) == address
    except AddressRefused:
        return False


def hide_address_credentials(address: str) -> str:
    """Return an address with `***` in place of user and password, and in place of the whole query. A text that is no
    address is returned unchanged.

    >>> hide_address_credentials("https://ann:secret@clips.example/a.mp4?sig=1")
    'https://***@clips.example/a.mp4?***'
    """
    if not is_address(address.partition("?")[0]):
        return address
    plain, mark, _ = address.partition("?")
    if has_address_user(plain):
        plain = re.sub(r"://[^#]*@", f"://{HIDDEN}@", plain)
    return plain + (mark and mark + HIDDEN)


def has_address_user(address: str) -> bool:
    """Return whether an address holds a user or a password.

    >>> has_address_user("https://ann:secret@clips.example/a.mp4"), has_address_user("https://clips.example/@ann/a")
    (True, False)
    """
    return _USER.search(address) is not None


def hide_credentials(text: str) -> str:
    """Return any text with `***` in place of the user and password of its addresses, and of the values of these query
    parameters, in small or capital letters: token, key, sig, signature, credential, policy, awsaccesskeyid,
    googleaccessid, and all that begin with x-amz- or x-goog-. Other parameters stay, also secret ones such as
    access_token and api_key.

    >>> hide_credentials('{"path": "https://ann:secret@clips.example/a.mp4?x-amz-signature=1f"}')
    '{"path": "https://***@clips.example/a.mp4?x-amz-signature=***"}'
    """
    return _SIGNATURE_IN_TEXT.sub(rf"\1{HIDDEN}", _USER_IN_TEXT.sub(rf"\1{HIDDEN}@", text))
