"""Relay requests between a Kafka client and its broker, and count those under way."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Thread

PRODUCE = 0
"""The API key of requests that append records, by the Kafka protocol."""
HOLD_S = 0.3
"""How long an answer waits for another request; a client that sends several at once has sent it."""


class Relay:
    """Relays connections to a broker on this machine, whose port it replaces in answers.

    It listens on `port`, or on any free one.
    """

    def __init__(self, broker_port: int, port: int = 0) -> None:
        self._broker_port = broker_port
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        """The port that clients connect to."""
        self._connections: list[socket.socket] = []
        self._changed = Condition()
        self._under_way = set[int]()
        self.most_under_way = 0
        self.produce_requests = 0

    @contextmanager
    def running(self) -> Iterator["Relay"]:
        """Relay while the context lasts."""
        Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            for one in (self._listener, *self._connections):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
                self._connections += [client, broker]
                for relay, source, target in (
                    (self._on_request, client, broker),
                    (self._on_answer, broker, client),
                ):
                    Thread(target=_relay, args=(relay, source, target), daemon=True).start()

    def _on_request(self, frame: bytes) -> bytes:
        api_key, _, correlation = struct.unpack_from(">hhi", frame)
        if api_key == PRODUCE:
            with self._changed:
                self._under_way.add(correlation)
                self.produce_requests += 1
                self.most_under_way = max(self.most_under_way, len(self._under_way))
                self._changed.notify_all()
        return frame

    def _on_answer(self, frame: bytes) -> bytes:
        (correlation,) = struct.unpack_from(">i", frame)
        with self._changed:
            if correlation in self._under_way:
                self._changed.wait_for(lambda: len(self._under_way) > 1, timeout=HOLD_S)
                self._under_way.discard(correlation)
        broker, relay = (struct.pack(">i", port) for port in (self._broker_port, self.port))
        return frame.replace(broker, relay)


def _relay(change: Callable[[bytes], bytes], source: socket.socket, target: socket.socket) -> None:
    """Relay frames, each with its length in four bytes before it, until a connection ends."""
    with suppress(OSError), source.makefile("rb") as stream:
        while head := stream.read(4):
            frame = change(stream.read(struct.unpack(">i", head)[0]))
            target.sendall(struct.pack(">i", len(frame)) + frame)
