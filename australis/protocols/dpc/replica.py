"""A processing node: inputs, outputs and the consistency manager between them.

One `ReplicaMachine` runs the fragments of one node. The consistency manager of the
thesis (4.3) is what this class does between an event and the effects: it monitors the
upstream replicas, chooses among them, and advances the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any

from australis.kernel.machine import (
    Effect,
    Event,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
)
from australis.protocols.dpc.effects import (
    AnnounceDifference,
    AnnounceWentBack,
    Checkpointed,
    InstallSnapshot,
    LogDamaged,
    RestoredLog,
    Rewired,
    ShipSnapshot,
    SkippedAhead,
    SnapshotFailed,
    SnapshotInstalled,
    StableDone,
    Started,
    TentativeDone,
    Truncate,
)
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import (
    Heartbeat,
    HeartbeatReply,
    NoSnapshot,
    PeerDigests,
    ReconcileAnswer,
    ReconcileDone,
    ReconcileRequest,
    Snapshot,
    SnapshotRequest,
    StableData,
    TentativeData,
    reader_key,
)
from australis.protocols.dpc.monitor import Data, Monitor
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.outputs import Output, OutputConfig, ReplicaConfig
from australis.protocols.dpc.stagger import Stagger
from australis.protocols.dpc.states import Phase

HEARTBEAT = "heartbeat"


class ReplicaMachine:
    """One node that runs replicas of fragments."""

    input_class = Input
    output_class = Output
    stagger_class = Stagger
    monitor_class = Monitor

    def __init__(self, config: ReplicaConfig, options: DpcOptions, rng: Random) -> None:
        self.config = config
        self.options = options
        self.incarnation = 0
        self.version = 0
        """The version of the deployment that it knows."""
        self.monitors = self._monitors(config)
        self.inputs: dict[str, Input] = {}
        """The inputs by stream; where the node has several outputs, by stream and reader."""
        self.outputs: dict[str, Output] = {}
        for output in config.outputs:
            inputs = [self._input(stream, output) for stream in output.inputs]
            made = self.outputs[output.stream] = self.output_class(output, inputs, options)
            made.share_with(config.name, config.peers)
        self.stagger = self.stagger_class(
            config.name,
            config.peers,
            rng,
            wait_us=2 * options.heartbeat_us,
            lease_us=8 * options.heartbeat_us,
        )
        self._reader = {
            reader_key(i.stream, i.reader): o for o in self.outputs.values() for i in o.inputs
        }
        self._next_helper = 0
        self._handlers: dict[type, Callable[[Any, int], list[Effect]]] = {
            MessageReceived: self._received,
            TimerFired: self._fired,
            StableDone: self._stable_done,
            TentativeDone: self._tentative_done,
            Checkpointed: self._checkpointed,
            SkippedAhead: self._skipped_ahead,
            Started: self._started,
            Rewired: self._rewired,
            SnapshotInstalled: self._snapshot_installed,
            SnapshotFailed: self._snapshot_failed,
            LogDamaged: self._log_damaged,
        }
        self._messages: dict[type, Callable[[str, Any, int], list[Effect]]] = {
            Heartbeat: self._heartbeat,
            HeartbeatReply: self._reply,
            StableData: self._stable_data,
            TentativeData: self._tentative_data,
            ReconcileRequest: self._reconcile_request,
            ReconcileAnswer: self._reconcile_answer,
            ReconcileDone: self._reconcile_done,
            PeerDigests: self._peer_digests,
            SnapshotRequest: self._snapshot_request,
            Snapshot: self._snapshot,
            NoSnapshot: self._no_snapshot,
        }

    def _input(self, stream: str, output: OutputConfig) -> Input:
        producers = self.config.producers[stream]
        reader = output.stream if len(self.config.outputs) > 1 else ""
        monitors = {p: self.monitors[p] for p in producers}
        made = self.input_class(stream, monitors, producers[0], self.options, reader)
        made.hedged = self.options.hedged
        self.inputs[reader_key(stream, reader)] = made
        return made

    def _monitors(
        self, config: ReplicaConfig, known: Mapping[str, Monitor] = MappingProxyType({})
    ) -> dict[str, Monitor]:
        """One monitor for each producer node, those that are `known` among them."""
        producers = config.producers
        nodes = dict.fromkeys(node for replicas in producers.values() for node in replicas)
        return {
            node: known.get(node)
            or self.monitor_class(
                node, [s for s, rs in producers.items() if node in rs], self.options.misses
            )
            for node in nodes
        }

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Process one event; returns the effects in order."""
        return self._handlers[type(event)](event, now)

    def _received(self, event: MessageReceived, now: int) -> list[Effect]:
        message: Message = event.message
        return self._messages[type(message)](event.sender, message, now)

    # --- lifecycle ---------------------------------------------------------------------------

    def _started(self, event: Started, now: int) -> list[Effect]:
        self.incarnation = event.incarnation
        for output in self.outputs.values():
            output.subscribers.begin(now)
            output.begin_incarnation(event.incarnation)
            # Without a replica to ask, the state can only come from what upstream logs still hold.
            output.state_lost = output.stream in event.lost and bool(self.config.peers)
        for lane in event.lanes:
            for one in self.outputs[lane.stream].inputs:
                one.remembered = dict(lane.read).get(one.stream)
            self.outputs[lane.stream].restored(lane)
            self.outputs[lane.stream].restored_upto = lane.end
        for output in self.outputs.values():
            if not output.state_lost:
                output.restart_inputs()
        return self._tick(now)

    def _rewired(self, event: Rewired, now: int) -> list[Effect]:
        """Read from, serve and share with the machines of a newer deployment."""
        config = event.wiring
        assert isinstance(config, ReplicaConfig)
        if event.version <= self.version:
            return []
        self.version, self.config = event.version, config
        new = [node for node in self._monitors(config) if node not in self.monitors]
        self.monitors = self._monitors(config, self.monitors)
        for output in config.outputs:
            self.outputs[output.stream].rewire(output, config.name, event, now)
        self.stagger.among(config.peers)
        effects: list[Effect] = [self._ask(node, now, regular=True) for node in new]
        for one in self.inputs.values():
            repaired = one.rewire(self._of(one.stream), event.leaving, now)
            if one.choose(now) or repaired:
                effects += self._ask_all(one, now)
        for out in self.outputs.values():
            effects += self._truncate(out, now)
        return effects + self._advance(self.outputs.values(), now)

    def _of(self, stream: str) -> dict[str, Monitor]:
        """The monitors of a stream's producers, the preferred one first."""
        return {producer: self.monitors[producer] for producer in self.config.producers[stream]}

    def _fired(self, event: TimerFired, now: int) -> list[Effect]:
        if event.name == HEARTBEAT:
            return self._tick(now)
        return self._advance(self.outputs.values(), now)

    def _tick(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for node in self.monitors:
            effects.append(self._ask(node, now, regular=True))
        for one in self.inputs.values():
            if one.choose(now):
                effects += self._ask_all(one, now)
        effects += self.stagger.renew()
        effects += self._tell_digests()
        effects += self._leave_behind()
        effects += self._ask_for_snapshots()
        for output in self.outputs.values():
            effects += output.go_on_without(now)
            if output.subscribers.watches:
                effects += self._truncate(output, now)
        effects += self._advance([o for o in self.outputs.values() if not o.idle], now)
        effects.append(SetTimer(HEARTBEAT, now + self.options.heartbeat_us))
        return effects

    # --- upstream -------------------------------------------------------------------------

    def _ask(self, node: str, now: int, *, regular: bool = False) -> Send:
        monitor = self.monitors[node]
        wants = tuple(
            one.want(node, self._acknowledged(one), now)
            for one in self.inputs.values()
            if node in one.monitors
        )
        return Send(
            node, Heartbeat(self.incarnation, monitor.next_number(now, regular=regular), wants)
        )

    def _ask_all(self, one: Input, now: int) -> list[Effect]:
        """Tell every replica of an input at once that the choice has changed."""
        return [self._ask(node, now) for node in one.monitors]

    def _acknowledged(self, one: Input) -> int:
        """The last bucket to acknowledge: what a durable checkpoint covers, not what arrived."""
        return self._reader[reader_key(one.stream, one.reader)].checkpointed

    def _reply(self, sender: str, reply: HeartbeatReply, now: int) -> list[Effect]:
        monitor = self.monitors.get(sender)
        if monitor is None:
            return []
        news = monitor.replied(reply, now)
        effects = self._compare(sender, reply)
        effects += monitor.clock_news(self.options.clock_bound_us, now)
        if not news and not effects:
            return []
        for one in self.inputs.values():
            if sender in one.monitors and one.choose(now):
                effects += self._ask_all(one, now)
        return effects + self._advance(self.outputs.values(), now)

    def _stable_data(self, sender: str, data: StableData, now: int) -> list[Effect]:
        key = reader_key(data.stream, data.reader)
        one, ours = self.inputs.get(key), self._in_own_clock(sender, data, now)
        if one is None or ours is None:
            return []
        if not one.take_stable(sender, ours, now):
            differ = self._announce(one)
            return differ and differ + self._advance([self._reader[key]], now)
        more: list[Effect] = [self._ask(one.log_from, now)] if one.waits_for_more else []
        return more + self._advance([self._reader[key]], now)

    def _compare(self, sender: str, reply: HeartbeatReply) -> list[Effect]:
        """Compare what a producer says of its logs with what has arrived of them."""
        effects: list[Effect] = []
        for status in reply.streams:
            for one in self.inputs.values():
                if one.stream != status.stream or sender not in one.monitors:
                    continue
                if one.went_back != status.went_back:
                    one.went_back = status.went_back
                    reader = self._reader[reader_key(one.stream, one.reader)].stream
                    effects.append(AnnounceWentBack(one.stream, reader, one.went_back))
                if status.digest is not None:
                    one.comparison.compare(sender, status.digest)
                    effects += self._announce(one)
        return effects

    def _announce(self, one: Input) -> list[Effect]:
        news = one.comparison.news
        reader = self._reader[reader_key(one.stream, one.reader)].stream
        return [] if news is None else [AnnounceDifference(one.stream, reader, *news)]

    def _tentative_data(self, sender: str, data: TentativeData, now: int) -> list[Effect]:
        key = reader_key(data.stream, data.reader)
        one, ours = self.inputs.get(key), self._in_own_clock(sender, data, now)
        if one is None or ours is None or not one.take_tentative(sender, ours):
            return []
        return self._advance([self._reader[key]], now)

    def _in_own_clock(self, sender: str, data: Data, now: int) -> Data | None:
        monitor = self.monitors.get(sender)
        return None if monitor is None else monitor.in_own_clock(data, now)

    # --- lanes -----------------------------------------------------------------------------

    def _advance(self, outputs: Any, now: int) -> list[Effect]:
        """Advance outputs: phase changes, sending, stable work and tentative releases."""
        effects: list[Effect] = []
        for output in outputs:
            if output.keeps is not None:
                effects += output.skip()
            effects += output.advance_phase()
            if self.options.staggered:
                effects += self._take_turns(now)
            effects += output.send()
            effects += output.run_stable(now)
            effects += output.release(now)
        return effects

    def _take_turns(self, now: int) -> list[Effect]:
        """Ask the replicas for permission while some output needs to reconcile."""
        effects: list[Effect] = []
        outputs = self.outputs.values()
        if any(o.wants_to_reconcile for o in outputs):
            effects += self.stagger.ask(now)
        elif not any(o.reconciles for o in outputs):
            effects += self.stagger.done()
        for output in outputs:
            output.granted = self.stagger.active
            effects += output.advance_phase()
        return effects

    def _stable_done(self, event: StableDone, now: int) -> list[Effect]:
        output = self.outputs[event.output]
        output.stable_done(event, now)
        for one in output.inputs:
            one.forget(output.upto)
        effects = output.checkpoint()
        if output.full:
            effects += self._truncate(output, now)
        return [*effects, *self._advance([output], now)]

    def _tentative_done(self, event: TentativeDone, now: int) -> list[Effect]:
        output = self.outputs[event.output]
        output.tentative_done(event)
        return output.send()

    def _checkpointed(self, event: Checkpointed, now: int) -> list[Effect]:
        self.outputs[event.output].checkpoint_done(event)
        return []

    def _skipped_ahead(self, event: SkippedAhead, now: int) -> list[Effect]:
        output = self.outputs[event.output]
        output.skipped_ahead()
        return self._advance([output], now)

    # --- downstream --------------------------------------------------------------------------

    def _heartbeat(self, sender: str, heartbeat: Heartbeat, now: int) -> list[Effect]:
        effects: list[Effect] = []
        statuses = []
        for want in heartbeat.wants:
            output = self.outputs.get(want.stream)
            if output is None:
                continue
            output.subscribers.heard(sender, want, heartbeat.incarnation, heartbeat.number, now)
            effects += output.send(sender)
            effects += self._truncate(output, now)
            holds = output.subscribers.holds(sender, want.reader)
            statuses.append(output.status(want.have, holds=holds))  # as it is truncated now
        reply = HeartbeatReply(self.incarnation, heartbeat.number, tuple(statuses), now)
        return [Send(sender, reply), *effects]

    def _truncate(self, output: Output, now: int) -> list[Effect]:
        effects = output.subscribers.truncation(
            output.trimmed_upto, output.end, output.keeps, fits_after=output.fits_after, now=now
        )
        upto = max((e.upto for e in effects if isinstance(e, Truncate)), default=None)
        if upto is None:
            return effects
        output.trimmed_upto = upto
        return effects + output.run_stable(now)

    def _log_damaged(self, event: LogDamaged, now: int) -> list[Effect]:
        """Let go of a damaged bucket: the other replicas have it, or consumers are told."""
        output = self.outputs[event.stream]
        if event.bucket <= output.trimmed_upto:
            return []
        output.trimmed_upto = event.bucket
        return [Truncate(event.stream, event.bucket), *output.run_stable(now)]

    # --- replicas -----------------------------------------------------------------------------

    def _tell_digests(self) -> list[Effect]:
        """Tell the peers the digests of the logs that they write as well."""
        effects: list[Effect] = []
        for peer in self.config.peers:
            logs = [output.digest_for(peer) for output in self.outputs.values()]
            known = tuple(log for log in logs if log is not None)
            if known:
                effects.append(Send(peer, PeerDigests(known)))
        return effects

    def _peer_digests(self, peer: str, told: PeerDigests, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for log in told.logs:
            output = self.outputs.get(log.stream)
            if output is not None:
                news = output.peer_told(peer, log)
                effects += news and news + self._advance([output], now)
        return effects

    def _reconcile_request(self, peer: str, request: ReconcileRequest, now: int) -> list[Effect]:
        needs = any(o.wants_to_reconcile for o in self.outputs.values())
        return self.stagger.asked(peer, request, needs, now)

    def _reconcile_answer(self, peer: str, answer: ReconcileAnswer, now: int) -> list[Effect]:
        effects = self.stagger.answered(peer, answer, now)
        return effects + self._advance(self.outputs.values(), now)

    def _reconcile_done(self, peer: str, done: ReconcileDone, now: int) -> list[Effect]:
        self.stagger.released(peer)
        return self._advance(self.outputs.values(), now)

    def _leave_behind(self) -> list[Effect]:
        """Give up states that upstream logs can no longer bring up to date."""
        effects: list[Effect] = []
        for output in self.outputs.values():
            ready = output.phase is not Phase.STABILIZATION and not output.busy
            if ready and output.left_behind and not output.state_lost:
                effects += output.lose_state()
        return effects

    def _ask_for_snapshots(self) -> list[Effect]:
        lost = [o.stream for o in self.outputs.values() if o.state_lost and self._is_held(o)]
        if not lost or not self.config.peers:
            return []
        helper = self.config.peers[self._next_helper % len(self.config.peers)]
        self._next_helper += 1
        return [Send(helper, SnapshotRequest(stream)) for stream in lost]

    def _is_held(self, output: Output) -> bool:
        """Whether upstream logs hold what a state taken from now on will need."""
        return not self.config.joining or all(one.is_held for one in output.inputs)

    def _snapshot_request(self, peer: str, request: SnapshotRequest, now: int) -> list[Effect]:
        output = self.outputs.get(request.stream)
        if output is None:
            return []
        if not output.can_help:
            return [Send(peer, output.no_snapshot)]
        return [ShipSnapshot(peer, request.stream, output.checkpointed, now)]

    def _no_snapshot(self, peer: str, told: NoSnapshot, now: int) -> list[Effect]:
        output = self.outputs.get(told.stream)
        if output is not None:
            output.loss.answered(peer, told, now)
        return []

    def _snapshot(self, peer: str, snapshot: Snapshot, now: int) -> list[Effect]:
        output = self.outputs.get(snapshot.stream)
        wanted = output is not None and output.state_lost and not output.installing
        if output is None or not wanted or snapshot.upto < output.end:
            return []
        output.installing = True
        s = snapshot
        # The time that the message took counts as a difference of the clocks.
        return [InstallSnapshot(s.stream, s.upto, now - s.at_us, s.state)]

    def _snapshot_installed(self, event: SnapshotInstalled, now: int) -> list[Effect]:
        output = self.outputs[event.stream]
        output.state_lost = output.installing = False
        upto, trimmed_upto = event.upto, event.trimmed_upto
        digest = event.digest
        fits_after = event.fits_after
        output.restored(
            RestoredLog(
                event.stream, upto, trimmed_upto, upto, digest=digest, fits_after=fits_after
            )
        )
        output.restored_upto = -1
        output.restart_inputs()
        return self._tick(now)

    def _snapshot_failed(self, event: SnapshotFailed, now: int) -> list[Effect]:
        self.outputs[event.stream].installing = False
        return []
