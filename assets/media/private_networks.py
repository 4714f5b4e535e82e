"""Which machines may be asked for a video: a manifest comes from others and must not reach into a private network."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

Networks = tuple[IPv4Network | IPv6Network, ...]
# The argument that aiohttp passes: family, type, protocol, canonical name, and the address of a socket.
AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]
# NAT64 puts an IPv4 address into the last four bytes of these.
_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))


class PrivateAddressRefused(OSError):
    """Raised instead of a connection to an address in a private network."""

    def __init__(self, address: str) -> None:
        super().__init__(f"refused private address {address}")


def is_allowed_address(address: str, allowed: Networks) -> bool:
    """Return whether a machine may be asked for videos: its IP address is public, or lies in one of the `allowed`
    networks. Of an IPv6 address that contains an IPv4 address, that one counts too. Raises ValueError for a text that
    is no IP address.

    >>> is_allowed_address("93.184.216.34", ()), is_allowed_address("::ffff:169.254.169.254", ())
    (True, False)
    >>> is_allowed_address("10.1.2.3", (ip_network("10.0.0.0/8"),))
    True
    """
    meant = list(_list_meant_addresses(ip_address(address.partition("%")[0])))
    return all(
        (single.is_global and not single.is_multicast) or any(single in network for network in allowed)
        for single in meant
    )


def make_socket_factory(allowed: Networks) -> Callable[[AddressInfo], socket.socket]:
    """Make the function with which an aiohttp client creates its sockets. It raises PrivateAddressRefused for an
    address that is neither public nor in one of the `allowed` networks.
    """

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        if not is_allowed_address(str(address[0]), allowed):
            raise PrivateAddressRefused(str(address[0]))
        return socket.socket(family, kind, protocol)

    return make


def _list_meant_addresses(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the addresses to judge: an IPv6 address may contain an IPv4 address."""
    inside: list[IPv4Address | None] = []
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            yield address.ipv4_mapped
            return
        inside = [address.sixtofour, *(address.teredo or ())]
        if any(address in network for network in _NAT64):
            inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    yield address
    yield from (embedded for embedded in inside if embedded is not None)
