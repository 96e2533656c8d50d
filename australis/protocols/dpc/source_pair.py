"""A source's proxy on two nodes: one leads, the other keeps a copy and can take over.

Two machines (`SourceMember`) keep one log, on two nodes; a third one (`SourceWitness`) keeps
the *view*: which of them leads, and whether it leads alone. Only the leader takes rows. As
long as it does not lead alone, it publishes a bucket to readers, and acknowledges a row to
its producer, when the other member has made it durable. Both serve what is published, and
their logs are equal, so readers treat them like replicas. The leader decides when the logs may
forget, for both: it knows what either has heard from the consumers.

A view changes only at the witness, which accepts a change of its current view and of no older
one. So of two members that cannot hear each other one gets the next view, and the other none:

- a member that follows and holds everything that was published takes over;
- a leader goes on alone, after which the follower may not take over until it has caught up
  and the leader has called it back (the next view).

A leader that was deposed cannot publish: its follower has a later view and confirms nothing
of an older one. What it had not published it drops when it follows, for it copies the log of
the new leader from the beginning. Any one of the three nodes may be lost for good; while the
witness is away, or of two nodes that share it with a member the one that has it, views stay
as they are, and the stream stops if it needs another.

A member that lost its disk never leads because of what it was before: it follows and copies.
A witness must not lose its disk.

Entry times in a log are by the clock of its own node: a follower converts those of a copy by the
leader's offset, which it estimates from round trips (`clocks`).

A driver may cut a long copy: it sends a first part, `partial`, and the leader sends the rest once
that part is confirmed. A member whose log ends with such a part does not take over. If it had asked
for the next view before it got that part, and is granted it now, it gives the view back: it never
leads in it, and says so by what it holds. So nothing is published in that view, and the leader
before, which still holds everything, asks for the view after it and goes on with its own log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from australis.kernel.machine import (
    Effect,
    Event,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
)
from australis.protocols.dpc.clocks import PeerClock
from australis.protocols.dpc.effects import BucketClosed, Started, Truncate
from australis.protocols.dpc.messages import Bucket, ConsumerHeard, LogDigest
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.proxies import SourceMachine
from australis.protocols.dpc.states import State

PATIENCE = 2
"""How many times as long as its leader a follower waits before it asks for the next view."""
WHOLE_AGAIN = 20
"""The number of heartbeats after which a whole log that was not confirmed is sent again."""


class SourceView(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Who leads a source, by the witness."""

    epoch: int = 0
    leader: str = ""
    alone: bool = False
    """Whether the leader publishes without the other member."""
    since: int = 0
    """The view with which the leader began to lead: members that share it share their log."""
    claim: int = 0
    """The incarnation in which the leader asked for this view."""


class SourceClaim(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A member asks the witness for the view after the one it knows."""

    view: SourceView


class SourceCopy(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A piece of the leader's log and journal for its follower; without data a sign of life."""

    view: SourceView
    to: int
    """The incarnation of the follower for which it is meant; -1 if none is known."""
    published: int
    safe: int
    """The number of rows that were acknowledged to their producers."""
    after: int
    upto: int
    rows_after: int
    rows_upto: int
    whole: bool = False
    """Whether it replaces what the follower has."""
    partial: bool = False
    """Whether the source could not be continued from its end, because its memo is left out."""
    buckets: tuple[Bucket, ...] = ()
    rows: Any = None
    """The rows of the journal."""
    memo: Any = None
    """What the leader's log remembers at `upto`."""
    trimmed_upto: int = -1
    """The last bucket that the leader's log no longer holds."""
    incarnation: int = 0
    """That of the leader, by whose clock the entry times of its buckets are."""
    restored_upto: int = -1
    """The last bucket that the leader has from an earlier incarnation."""
    asked: tuple[int, int] | None = None
    """The incarnation of the follower that was heard last, and when it would have sent that by its
    own clock if this was the immediate answer."""
    at_us: int = 0
    """What the leader's clock showed."""


class SourceHeld(Message, frozen=True, array_like=True, tag=True, gc=False):
    """What a member holds durably; to a leader of the same view it is a confirmation."""

    view: SourceView
    incarnation: int
    since: int
    """The view whose leader wrote what it holds."""
    end: int
    rows: int
    consumers: tuple[ConsumerHeard, ...] = ()
    """What it has heard from the consumers of the source."""
    at_us: int = 0
    """What its clock showed."""


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """What a member keeps on its disk."""

    view: SourceView = SourceView()
    since: int = 0
    synced: bool = False
    """Whether it holds all that was published, and always will in this view.

    A leader that was deposed does so if the other member gave the view back.
    """
    claimed: int = 0
    """The incarnation that asked for the first view."""


class SaveStanding(Effect, frozen=True, gc=False):
    """Make this standing durable, before the effects after it."""

    stream: str
    standing: Standing


class LeadSource(Effect, frozen=True, gc=False):
    """Start the source from what is on this disk."""

    stream: str


class FollowSource(Effect, frozen=True, gc=False):
    """Stop the source: no row is taken here any more, and none that waits is acknowledged."""

    stream: str


class AcknowledgeRows(Effect, frozen=True, gc=False):
    """Acknowledge the rows before this number to their producers."""

    stream: str
    rows: int


class SendCopy(Effect, frozen=True, gc=False):
    """Send these buckets and rows as `SourceCopy` in the form of the template."""

    to: str
    copy: SourceCopy


class StoreCopy(Effect, frozen=True, gc=False):
    """Make a copy durable; reports `CopyStored`."""

    stream: str
    copy: SourceCopy


class RowsJournalled(Event, frozen=True, gc=False):
    """The rows before this number are durable in the leader's journal."""

    stream: str
    rows: int


class CopyStored(Event, frozen=True, gc=False):
    """The follower's log and journal are durable up to here."""

    stream: str
    copy: SourceCopy
    digest: LogDigest | None = None
    """The digest of the log before a copy that replaces it."""
    digests: tuple[tuple[int, int], ...] = ()
    """The digests up to the last of its buckets that hold tuples."""
    fits_after: int = -1
    """The bucket after which the log fits its bytes."""


class SourceWitness:
    """Keeps the view of one source, and changes it for one member at a time."""

    def __init__(self, stream: str, view: SourceView) -> None:
        self.stream = stream
        self.view = view

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Process one event; returns the effects in order."""
        match event:
            case MessageReceived(sender=sender, message=SourceClaim(view=view)):
                effects: list[Effect] = []
                if view.epoch == self.view.epoch + 1:
                    self.view = view
                    effects.append(SaveStanding(self.stream, Standing(view)))
                return [*effects, Send(sender, self.view)]
        return []


class SourceMember(SourceMachine):
    """One of the two proxies of a source."""

    clock_class = PeerClock
    alone = False

    def __init__(
        self,
        name: str,
        stream: str,
        other: str,
        witness: str,
        consumers: tuple[str, ...],
        options: DpcOptions,
        *,
        first: bool,
        standing: Standing,
        rows: int = 0,
    ) -> None:
        """A member with this standing on its disk, and the rows before this one in its journal.

        The `first` one of the two asks for the first view.
        """
        super().__init__(stream, consumers, options)
        self.name = name
        self.other = other
        self.witness = witness
        self.first = first
        self.standing = standing
        self.local = -1
        """The last bucket of its own log; `end` is the last one that is published."""
        self.rows = self.safe = rows
        """The rows of its journal, and those that were acknowledged to their producers."""
        self.heard_us = 0
        """When a leader last heard its follower, or a follower its leader."""
        self.clock = self.clock_class()
        """The clock of the other member, as a follower knows it."""
        self._asked: tuple[int, int, int] | None = None
        """The incarnation of the follower that was heard last, its clock then, and one's own."""
        self.held = self.held_rows = -1
        """What the follower has confirmed in this view."""
        self._other = -1
        """The incarnation of the follower; -1 if it has not been heard."""
        self._known = self._known_rows = self._sent = self._sent_rows = -1
        """What the follower is known to hold, and what it was sent."""
        self._known_before = (-1, -1)
        self._shares = False
        """Whether what the follower holds, or was sent, is a part of the leader's log."""
        self._replaced_us: int | None = None
        """When the follower was last sent a whole log."""
        self._next = self._next_rows = -1
        """What a follower will hold when all that it was sent so far is stored."""
        self._taken = self._done = 0
        """The copies that a follower was told to store, and that it has stored."""
        self._replaced = self._cut = 0
        """The last of these copies that is a whole log, and the last one that is partial."""
        self._now = 0

    # --- what it is -----------------------------------------------------------------------

    @property
    def view(self) -> SourceView:
        """The latest view that it knows."""
        return self.standing.view

    @property
    def leads(self) -> bool:
        """Whether it takes rows: a view names it, and it holds what it needs to follow that."""
        return self.view.leader == self.name and self.standing.since == self.view.since

    @property
    def role(self) -> str:
        """Its role in a word, for people."""
        if self.leads:
            return "leads alone" if self.view.alone else "leads"
        if not self.view.epoch:
            return "starting"
        return "standby" if self.standing.synced else "copying"

    @property
    def state(self) -> State:
        useful = self.leads or (self.standing.synced and not self._silent(PATIENCE))
        return State.STABLE if useful else State.FAILURE

    def _silent(self, times: int = 1) -> bool:
        patience_us = self.options.heartbeat_us * (self.options.misses + 1)
        return self._now - self.heard_us > times * patience_us

    # --- events ---------------------------------------------------------------------------

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Process one event; returns the effects in order."""
        self._now = now
        match event:
            case Started():
                return [*super().handle(event, now), *self._begin()]
            case TimerFired(name="heartbeat"):
                return self._tick()
            case BucketClosed(upto=upto, digests=digests, fits_after=fits_after):
                self.fits_after = fits_after
                return self._grown(upto, self.rows, digests)
            case RowsJournalled(rows=rows):
                return self._grown(self.local, rows)
            case CopyStored():
                return self._stored(event)
            case MessageReceived(sender=sender, message=SourceView() as view):
                return self._adopt(view) if sender == self.witness else []
            case MessageReceived(sender=sender, message=SourceHeld() as held):
                return self._other_holds(held) if sender == self.other else []
            case MessageReceived(sender=sender, message=SourceCopy() as copy):
                return self._take(copy) if sender == self.other else []
        return super().handle(event, now)

    def _begin(self) -> list[Effect]:
        self.heard_us = self._now
        self.local = self.end
        self._next, self._next_rows = self.local, self.rows
        if not (self.leads and self.view.alone):
            self.end = self.trimmed_upto  # what lies beyond may be unpublished
        return [*([LeadSource(self.stream)] if self.leads else []), *self._tick()]

    def _tick(self) -> list[Effect]:
        effects: list[Effect] = []
        if self.leads:
            known = (self._known, self._known_rows)
            if known == self._known_before and self._shares:
                self._sent, self._sent_rows = known  # what followed may be lost
            self._known_before = known
            effects += self._copy() or [Send(self.other, self._sign())]
        else:
            effects.append(Send(self.other, self._holding()))
        effects += self._claim()
        return [*effects, SetTimer("heartbeat", self._now + self.options.heartbeat_us)]

    # --- views ----------------------------------------------------------------------------

    def _claim(self) -> list[Effect]:
        """Ask the witness for the next view, if another one is needed.

        A leader asks for its own one otherwise: it has to learn of the next one if the answer to an
        earlier claim was lost, since nobody takes over from a leader that may be alone.
        """
        view = self.view
        new = replace(view, epoch=view.epoch + 1, leader=self.name, claim=self.incarnation)
        if not view.epoch:
            return self._claim_first(new) if self.first else []
        if self.leads and view.alone:
            near = self.held >= self.local - self.options.near_buckets
            back = near and self.held_rows >= 0 and not self._silent()
            return self._ask(replace(new, alone=False) if back else view)
        if self.leads:
            return self._ask(replace(new, alone=True) if self._silent() else view)
        if self.standing.synced and self.standing.since != view.since:  # it was given back
            return self._ask(replace(new, alone=True, since=self.standing.since))
        if self.standing.synced and self._silent(PATIENCE):
            return self._ask(replace(new, alone=True, since=new.epoch))
        return []

    def _claim_first(self, view: SourceView) -> list[Effect]:
        effects: list[Effect] = []
        if not self.standing.claimed:
            effects = self._save(replace(self.standing, claimed=self.incarnation))
        view = replace(view, alone=True, since=1, claim=self.standing.claimed)
        return effects + self._ask(view)

    def _ask(self, view: SourceView) -> list[Effect]:
        return [Send(self.witness, SourceClaim(view))]

    def _save(self, standing: Standing) -> list[Effect]:
        self.standing = standing
        return [SaveStanding(self.stream, standing)]

    def _adopt(self, view: SourceView) -> list[Effect]:
        """Take up a later view."""
        old = self.standing
        if view.epoch <= old.view.epoch:
            return []
        led = self.leads
        since = view.since if self._may_lead(view) else old.since
        effects = self._save(Standing(view, since, False, old.claimed))
        if led and not self.leads:
            self.digests.restart(None)  # what it had not published will be replaced
            effects.append(FollowSource(self.stream))
        if self.leads:
            self.held = self.held_rows = -1
            self.heard_us = self._now
            effects += [] if led else self._lead()
            effects += [*self._publish(), Send(self.other, self._sign())]
        return effects

    def _may_lead(self, view: SourceView) -> bool:
        """Whether it can lead in a view that names it: it must hold all that was published."""
        old = self.standing
        if view.leader != self.name:
            return False
        if view.epoch == 1:
            return old.claimed == view.claim
        return self.leads or (old.synced and old.view.epoch == view.epoch - 1)

    def _gives_back(self, held: SourceHeld) -> bool:
        """Whether the other member says that it will never lead in this view, which names it.

        One that lost its disk cannot know that, and says that its log is nobody's. Both have the
        log of the leader before, which is this member.
        """
        named = held.view == self.view and self.view.leader == self.other
        return named and 0 < held.since == self.standing.since < self.view.since

    # --- the leader -------------------------------------------------------------------------

    def _lead(self) -> list[Effect]:
        self.safe = self.rows  # any of them may have been acknowledged
        self.subscribers.begin(self._now)  # the leader before may have heard them until now
        self._other = self._known = self._known_rows = self._sent = self._sent_rows = -1
        self._shares = False
        self._replaced_us = None
        return [LeadSource(self.stream), *self._limit()]

    def _truncate(self, now: int) -> list[Effect]:
        return super()._truncate(now) if self.leads else []

    def _grown(
        self, upto: int, rows: int, digests: tuple[tuple[int, int], ...] = ()
    ) -> list[Effect]:
        """Its log or its journal has grown."""
        if not self.leads:
            return []  # of a source that is being stopped
        self.digests.extend(digests, upto)
        self.local, self.rows = upto, rows
        return [*self._copy(), *self._publish()]

    def _sign(self) -> SourceCopy:
        return self._dated(SourceCopy(self.view, -1, self.end, self.safe, -1, -1, -1, -1))

    def _dated(self, copy: SourceCopy) -> SourceCopy:
        """The copy with what its follower needs to convert and to forget."""
        asked = None
        if self._asked is not None and not self._silent():
            incarnation, theirs_us, heard_us = self._asked
            asked = incarnation, theirs_us + self._now - heard_us
        return replace(
            copy,
            trimmed_upto=self.trimmed_upto,
            incarnation=self.incarnation,
            restored_upto=self.restored_upto,
            asked=asked,
            at_us=self._now,
        )

    def _copy(self) -> list[Effect]:
        """Send the follower what it has not been sent yet, or else the whole log."""
        if self._other < 0:
            return []
        after, rows = self._sent, self._sent_rows
        whole = not self._shares or after < self.trimmed_upto
        if whole:
            again_us = WHOLE_AGAIN * self.options.heartbeat_us
            if self._replaced_us is not None and self._now - self._replaced_us < again_us:
                return []
            self._replaced_us = self._now
            after = rows = -1
        elif after >= self.local and rows >= self.rows:
            return []
        copy = SourceCopy(
            self.view,
            self._other,
            self.end,
            self.safe,
            self.trimmed_upto if whole else after,
            self.local,
            rows,
            self.rows,
            whole,
        )
        if not whole:
            self._sent, self._sent_rows = self.local, self.rows
        return [SendCopy(self.other, self._dated(copy))]

    def _other_holds(self, held: SourceHeld) -> list[Effect]:
        effects = self._adopt(held.view)
        if not self.standing.synced and self._gives_back(held):
            effects += [*self._save(replace(self.standing, synced=True)), *self._claim()]
        if not self.leads or held.incarnation < self._other:
            return effects
        self.heard_us = self._now
        self._asked = held.incarnation, held.at_us, self._now
        self.subscribers.heard_elsewhere(held.consumers, self._now)
        if held.incarnation > self._other:
            self._other = held.incarnation
            self.held = self.held_rows = self._sent = self._sent_rows = -1
            self._replaced_us = None
        # Only what this leader wrote since it leads is certain to be a part of its log.
        self._shares = held.since == self.view.since
        if self._shares:
            self._known, self._known_rows = held.end, held.rows
            self._sent, self._sent_rows = (
                max(self._sent, held.end),
                max(self._sent_rows, held.rows),
            )
            if held.view.epoch == self.view.epoch:
                self.held, self.held_rows = held.end, held.rows
        if held.view.epoch < self.view.epoch:
            effects.append(Send(self.other, self._sign()))
        return [*effects, *self._publish(), *self._copy()]

    def _publish(self) -> list[Effect]:
        """Publish and acknowledge what both members hold, or what this one does if it is alone."""
        alone = self.view.alone
        effects: list[Effect] = []
        safe = self.rows if alone else min(self.rows, self.held_rows)
        if safe > self.safe:
            self.safe = safe
            effects.append(AcknowledgeRows(self.stream, safe))
        end = self.local if alone else min(self.local, self.held)
        if end > self.end:
            self.end = end
            effects += self._send()
        return effects

    # --- the follower -----------------------------------------------------------------------

    def _holding(self) -> SourceHeld:
        since = self.standing.since
        return SourceHeld(
            *(self.view, self.incarnation, since, self.local, self.rows),
            self.subscribers.heard_here(self._now),
            self._now,
        )

    def _take(self, copy: SourceCopy) -> list[Effect]:
        if copy.view.epoch < self.view.epoch:
            return [Send(self.other, self._holding())]
        effects = self._adopt(copy.view)
        if self.leads:
            return effects
        self.heard_us = self._now
        self._sample(copy)
        shares = self.standing.since == self.view.since
        if shares:
            effects += self._trim(copy.trimmed_upto)
        if self.standing.synced:
            self.end = max(self.end, min(self.local, copy.published))
        late = copy.whole and self.standing.synced  # it lacks nothing that is in such a copy
        known = not copy.buckets or copy.incarnation == self.clock.incarnation
        if copy.to != self.incarnation or late or not known:
            return [*effects, Send(self.other, self._holding()), *self._send()]
        if copy.whole:
            self.end = self.trimmed_upto  # nothing of the old log counts any more
            self.digests.restart(None)
            effects += self._save(replace(self.standing, since=0, synced=False))
            self._next, self._next_rows = copy.upto, copy.rows_upto
            return [*effects, *self._store(copy)]
        if not shares or copy.after > self._next or copy.rows_after > self._next_rows:
            return effects
        if copy.upto <= self._next and copy.rows_upto <= self._next_rows:
            # It is being stored: a slow disk should not get all of it again.
            return [*effects, Send(self.other, self._holding()), *self._send()]
        self._next = max(self._next, copy.upto)
        self._next_rows = max(self._next_rows, copy.rows_upto)
        return [*effects, *self._store(copy), *self._send()]

    def _sample(self, copy: SourceCopy) -> None:
        """Learn how far the leader's clock is ahead of this one."""
        if copy.asked is None or copy.incarnation < self.clock.incarnation:
            return
        incarnation, asked_us = copy.asked
        if incarnation == self.incarnation:
            asked_us = min(asked_us, self._now)
            self.clock.sampled(copy.incarnation, asked_us=asked_us, at_us=copy.at_us, now=self._now)

    def _in_own_clock(self, copy: SourceCopy) -> SourceCopy:
        """The copy with entry times by this node's clock."""

        def converted(bucket: Bucket) -> Bucket:
            restored = bucket.number <= copy.restored_upto
            entered_us = self.clock.entered(bucket.entered_us, now=self._now, restored=restored)
            return replace(bucket, entered_us=entered_us)

        return replace(copy, buckets=tuple(map(converted, copy.buckets)))

    def _trim(self, upto: int) -> list[Effect]:
        """Forget what the leader has forgotten."""
        upto = min(upto, self.local)
        if upto <= self.trimmed_upto:
            return []
        self.trimmed_upto, self.end = upto, max(self.end, upto)
        return [Truncate(self.stream, upto)]

    def _store(self, copy: SourceCopy) -> list[Effect]:
        effects: list[Effect] = []
        self._taken += 1
        if copy.whole:
            self._replaced = self._taken
        if copy.partial:
            self._cut = self._taken
            if self.standing.synced:  # nobody could go on from there
                effects = self._save(replace(self.standing, synced=False))
        return [*effects, StoreCopy(self.stream, self._in_own_clock(copy))]

    def _stored(self, stored: CopyStored) -> list[Effect]:
        copy = stored.copy
        self._done += 1
        self.fits_after = stored.fits_after
        if copy.whole:
            self.trimmed_upto = self.end = copy.after
            self.restored_upto = -1  # its entry times are by the clock of this incarnation
            self.local, self.rows = copy.upto, copy.rows_upto
            self.digests.restart(stored.digest)
        else:
            self.local, self.rows = max(self.local, copy.upto), max(self.rows, copy.rows_upto)
        self.digests.extend(stored.digests, self.local)
        if self.leads:  # it was sent before this member took over
            return self._publish()
        if copy.view.since != self.view.since or self._done < self._replaced:
            return []
        holds_all = self.standing.synced or (
            copy.view == self.view
            and not copy.view.alone
            and self.local >= copy.published
            and self.rows >= copy.safe
        )
        synced = holds_all and self._done > self._cut
        effects: list[Effect] = []
        if (self.view.since, synced) != (self.standing.since, self.standing.synced):
            standing = replace(self.standing, since=self.view.since, synced=synced)
            effects = self._save(standing)
        if synced:
            self.end = max(self.end, min(self.local, copy.published))
        return [*effects, Send(self.other, self._holding()), *self._send()]
