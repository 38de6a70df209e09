"""A channel to a service whose processes come and go, down to none and back.

gRPC alone is not enough for that. A name without addresses is asked for again at growing intervals, up to two minutes,
and pods that were added are not looked for while those known answer. A new channel begins without that history and takes
over the connections that exist, so this one is exchanged: every few seconds while nobody answers, and now and then while
somebody does. Calls end on the channel that they began on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

import grpc

from spade_rl.config import TlsSection
from spade_rl.errors import UnavailableError
from spade_rl.rpc import LOCAL, open_channel

ATTEMPT_SECONDS = 2.0
REFRESH_SECONDS = 10.0
# Between attempts while the service is away.
PAUSE_SECONDS = 0.5

_T = TypeVar("_T")


class ElasticChannel:
    """Channels to ``address``, one after the other. ``service`` names it in errors.

    ``reachable_seconds``: how long ``ready`` waits for a process that answers; ``call_seconds``: the longest that a call may
    still take when its channel was exchanged.
    """

    def __init__(
        self, address: str, tls: TlsSection = LOCAL, *, service: str, reachable_seconds: float, call_seconds: float
    ) -> None:
        self._address, self._tls, self._service = address, tls, service
        self._reachable_seconds, self._call_seconds = reachable_seconds, call_seconds
        # Within one process nobody comes or goes.
        self._fixed = address.startswith("unix:")
        self._channel = open_channel(address, tls)
        self._clock = asyncio.get_running_loop().time
        self._opened = self._clock()
        self._connecting: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ElasticChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every channel."""
        tasks = [*self._closing, *([self._connecting] if self._connecting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._channel.close()

    async def ready(self) -> grpc.aio.Channel:
        """Return a channel on which somebody answers. Raises UnavailableError after ``reachable_seconds``."""
        if self._fixed:
            return self._channel
        if not self._connected(self._channel):
            try:
                async with asyncio.timeout(self._reachable_seconds):
                    while not self._connected(self._channel):
                        await asyncio.shield(self._exchange(self._reconnect))
            except TimeoutError:
                raise UnavailableError(
                    f"no {self._service} service answered at {self._address} within {self._reachable_seconds:g} s: "
                    "is one running, and may it scale up from none?"
                ) from None
        elif self._clock() - self._opened > REFRESH_SECONDS:
            self._exchange(self._refresh)
        return self._channel

    def _connected(self, channel: grpc.aio.Channel) -> bool:
        return channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY

    def _exchange(self, how: Callable[[], Coroutine[None, None, None]]) -> asyncio.Task[None]:
        """Return the exchange that is under way, begun now if there was none."""
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.create_task(how())
        return self._connecting

    async def _reconnect(self) -> None:
        """Wait for the channel there is; if nobody answers, go on with a new one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await self._channel.channel_ready()
                return
        self._replace(open_channel(self._address, self._tls))

    async def _refresh(self) -> None:
        """Go on with a new channel once somebody answers there."""
        channel = open_channel(self._address, self._tls)
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await channel.channel_ready()
        except TimeoutError:
            # The one there is may still serve: those who are being ended finish what they have.
            self._opened = self._clock()
            await channel.close()
            return
        self._replace(channel)

    def _replace(self, channel: grpc.aio.Channel) -> None:
        old, self._channel, self._opened = self._channel, channel, self._clock()
        task = asyncio.create_task(old.close(self._call_seconds))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def while_unavailable(
    attempt: Callable[[], Awaitable[_T]], *, seconds: float, again: Callable[[UnavailableError], None]
) -> _T:
    """Return what ``attempt`` returns, made anew for as long as ``seconds`` after processes first went away.

    ``again`` is told of every failure that is followed by another attempt. Raises the last UnavailableError.
    """
    clock = asyncio.get_running_loop().time
    deadline: float | None = None
    while True:
        try:
            return await attempt()
        except UnavailableError as error:
            deadline = clock() + seconds if deadline is None else deadline
            if clock() >= deadline:
                raise
            again(error)
        await asyncio.sleep(PAUSE_SECONDS)
