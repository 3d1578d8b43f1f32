"""QEMU's own control: the QMP connection, on a separate thread with qemu.qmp's event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kprobe_vm.errors import ExtraMissing

try:
    from qemu.qmp import QMPClient, QMPError, Runstate
except ModuleNotFoundError:
    raise ExtraMissing from None


CONNECT_DEADLINE = 30.0
# the memory is a file that both sides have: only the devices' state travels
SHARED_RAM: Mapping[str, object] = {"capabilities": [{"capability": "x-ignore-shared", "state": True}]}


class Incoming(NamedTuple):
    """What a machine that was started with `-incoming defer` resumes from."""

    state: int  # descriptor, inherited by QEMU, at the first byte of the state
    shared_ram: bool  # whether the state lacks the memory
    refused: Callable[[str], object]  # called on the control thread with QEMU's words


class ControlLost(Exception):
    """QEMU no longer answers on its control connection, or refused a command."""


class Control:
    """Executes QMP commands from any thread and remembers why QEMU shut down."""

    def __init__(
        self, connection: socket.socket, *, port_closed: Callable[[], None], incoming: Incoming | None = None
    ) -> None:
        self._socket = connection
        self._incoming = incoming
        self._port_closed = port_closed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: QMPClient | None = None
        self._stop: asyncio.Event | None = None
        self._settled = threading.Event()  # connected, or failed to
        self.shutdown_reason = ""
        self.resumed = threading.Event()  # the guest that was given to it goes on
        self.ended = threading.Event()  # nothing more will be reported
        self._thread = threading.Thread(target=self._run, name="kprobe-vm control", daemon=True)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        """Whether QEMU has answered."""
        return self._client is not None

    def execute(self, command: str, arguments: Mapping[str, object] | None = None, *, deadline: float = 10.0) -> object:
        """Return QEMU's answer to a command; raise `ControlLost`."""
        if not self._settled.wait(CONNECT_DEADLINE) or self._client is None or self._loop is None:
            raise ControlLost("no control connection")
        try:
            future = asyncio.run_coroutine_threadsafe(self._client.execute(command, arguments), self._loop)
        except RuntimeError as error:  # the loop has ended
            raise ControlLost(str(error)) from error
        try:
            return future.result(deadline)
        except concurrent.futures.TimeoutError as error:
            future.cancel()
            raise ControlLost(f"no answer to {command} in {deadline:.0f} s") from error
        except (QMPError, concurrent.futures.CancelledError) as error:
            raise ControlLost(str(error)) from error

    def pass_descriptor(self, name: str, descriptor: int) -> None:
        """Give QEMU a descriptor, under a name that commands can use (QMP's getfd); raise `ControlLost`."""
        if not self._settled.wait(CONNECT_DEADLINE) or self._client is None or self._loop is None:
            raise ControlLost("no control connection")
        client = self._client

        async def send() -> None:
            client.send_fd_scm(descriptor)

        try:
            asyncio.run_coroutine_threadsafe(send(), self._loop).result(CONNECT_DEADLINE)
        except (RuntimeError, OSError, QMPError, concurrent.futures.TimeoutError) as error:
            raise ControlLost(f"QEMU takes no descriptor: {error}") from error
        self.execute("getfd", {"fdname": name})

    def state(self) -> str:
        """Return what QEMU says of its virtual machine, such as "running, RIP=ffffffff81c0f1ab"."""
        try:
            status = self.execute("query-status", deadline=3.0)
            words = str(status.get("status")) if isinstance(status, dict) else str(status)
            registers = self.execute("human-monitor-command", {"command-line": "info registers"}, deadline=3.0)
        except ControlLost as error:
            return f"no answer from QEMU: {error}"
        counter = [word for word in str(registers).split() if word.startswith(("RIP=", "EIP="))]
        return ", ".join([words, *counter[:1]])

    def close(self) -> None:
        """Close the connection."""
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)
        self._socket.close()

    def _run(self) -> None:
        refusal = ""
        try:
            if self._incoming is not None:
                try:
                    self._resume(self._incoming)
                except (ControlLost, OSError, ValueError) as error:
                    refusal = str(error) or type(error).__name__
                    return
            asyncio.run(self._serve())
        finally:
            self._settled.set()
            self.ended.set()
            if refusal and self._incoming is not None:
                self._incoming.refused(refusal)

    def _resume(self, incoming: Incoming) -> None:
        """Send all commands before QEMU reads them, as every wait for it would delay the clone."""
        self._socket.settimeout(CONNECT_DEADLINE)
        commands: list[tuple[str, Mapping[str, object]]] = [("qmp_capabilities", {})]
        if incoming.shared_ram:
            commands.append(("migrate-set-capabilities", SHARED_RAM))
        commands.append(("migrate-incoming", {"uri": f"fd:{incoming.state}"}))
        lines = [json.dumps({"execute": name, "arguments": arguments, "id": name}) for name, arguments in commands]
        self._socket.sendall("\n".join(lines).encode() + b"\n")
        answered = 0
        while answered < len(commands):
            answer = json.loads(self._line())
            if "event" in answer:
                self._take(answer)
            if "error" in answer:
                raise ControlLost(f"{answer.get('id', '')}: {answer['error'].get('desc', '')}")
            answered += "return" in answer

    def _line(self) -> bytes:
        """Read one line off the connection, and no byte of the next: that is for qemu.qmp."""
        line = b""
        while not line.endswith(b"\n"):
            waiting = self._socket.recv(65536, socket.MSG_PEEK)
            if not waiting:
                raise ControlLost("QEMU has closed its control connection")
            end = waiting.find(b"\n") + 1
            line += self._socket.recv(end or len(waiting))
        return line

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        client = QMPClient("kprobe-vm")
        client.logger.setLevel("CRITICAL")  # what we raise reports QEMU's end
        client.await_greeting = client.negotiate = self._incoming is None
        self._socket.setblocking(False)
        try:
            await asyncio.wait_for(client.connect(self._socket), CONNECT_DEADLINE)
        except (QMPError, OSError, EOFError, TimeoutError, AssertionError):
            # qemu.qmp asserts that it is still connected after its greeting, which isn't so where QEMU ends just then
            if client.runstate is not Runstate.IDLE:
                with contextlib.suppress(QMPError, OSError, EOFError):
                    await client.disconnect()
            return
        self._client = client
        self._settled.set()
        listener = asyncio.ensure_future(self._listen(client))
        ends = [asyncio.ensure_future(self._stop.wait()), asyncio.ensure_future(client.runstate_changed())]
        if client.runstate is Runstate.RUNNING:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(QMPError, OSError, EOFError):
            await client.disconnect()
        for task in (listener, *ends):
            task.cancel()
        for event in client.events.clear():
            self._take(event)

    async def _listen(self, client: QMPClient) -> None:
        async for event in client.events:
            self._take(event)

    def _take(self, event: Mapping[str, object]) -> None:
        data = event.get("data")
        details = data if isinstance(data, dict) else {}
        if event["event"] == "SHUTDOWN":
            self.shutdown_reason = str(details.get("reason", ""))
        elif event["event"] == "RESUME":
            self.resumed.set()
        elif event["event"] == "VSERPORT_CHANGE" and details.get("open") is False:
            self._port_closed()
