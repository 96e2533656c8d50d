"""The service a seller owes: tuples take no longer than the contract says, or it pays (6.2).

The measurement is not part of this module; the buyer learns of a violation by `ServiceMissed`. It
complains until the seller has admitted it, one complaint after the other, and then both have booked
the penalty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from australis.kernel.machine import Effect, Send, SetTimer
from australis.protocols.contracts.events import Carried, ContractOptions, Entry, Fined, Write
from australis.protocols.contracts.ledger import Ledger
from australis.protocols.contracts.messages import Admitted, Complaint
from australis.protocols.contracts.terms import Contract

COMPLAIN = "complain"


class Service:
    """Penalties, both booked ones and those that a seller still has to admit."""

    def __init__(self, name: str, ledger: Ledger, options: ContractOptions) -> None:
        self._name = name
        self._ledger = ledger
        self._options = options
        self._contracts: dict[tuple[str, str], Contract] = {}
        self._missed: dict[str, int] = {}
        """The number of times each seller has missed its service."""
        self._admitted: dict[str, int] = {}
        """The number of misses that each seller has admitted."""

    def sign(self, contracts: Sequence[Contract]) -> None:
        """Use these contracts from now on."""
        self._contracts |= {c.parties: c for c in contracts}

    def start(self, journal: Iterable[Entry], now: int) -> list[Effect]:
        """Restore the state from the journal."""
        for entry in journal:
            if isinstance(entry, Carried):
                for seller, buyer, number in entry.fined:
                    if buyer == self._name:
                        self._missed[seller] = self._admitted[seller] = number
            if isinstance(entry, Fined):
                if entry.buyer == self._name:
                    self._missed[entry.seller] = max(
                        entry.number, self._missed.get(entry.seller, 0)
                    )
                if entry.admitted:
                    self._book(entry.buyer, entry.seller, entry.number, entry.amount)
        return self.again(now)

    def carried(self) -> list[Entry]:
        """The entries of penalties in a compacted journal; booked ones are in the books."""
        return [
            Fined(self._name, seller, number, admitted=False, amount=0.0)
            for seller, number in self._missed.items()
        ]

    @property
    def unsettled(self) -> bool:
        """Whether a seller has not admitted a penalty yet."""
        return any(n > self._admitted.get(seller, 0) for seller, n in self._missed.items())

    def missed(self, seller: str, now: int) -> list[Effect]:
        """Note a delay beyond the limit; a contract without a limit has no penalty."""
        contract = self._contracts.get((self._name, seller))
        if contract is None or contract.max_delay_s is None:
            return []
        number = self._missed[seller] = self._missed.get(seller, 0) + 1
        fined = Fined(self._name, seller, number, admitted=False, amount=contract.penalty)
        return [Write((fined,)), *self.again(now)]

    def again(self, now: int) -> list[Effect]:
        """Complain to every seller about its first penalty that it has not admitted."""
        effects: list[Effect] = [
            Send(seller, Complaint(self._admitted.get(seller, 0) + 1))
            for seller, number in self._missed.items()
            if number > self._admitted.get(seller, 0)
        ]
        if effects:
            effects.append(SetTimer(COMPLAIN, now + self._options.resend_us))
        return effects

    def complained(self, buyer: str, message: Complaint, now: int) -> list[Effect]:
        """Book the penalty of a buyer's complaint once, and admit it after every complaint."""
        contract = self._contracts.get((buyer, self._name))
        if contract is None or contract.max_delay_s is None:
            return []
        effects: list[Effect] = []
        amount = contract.penalty
        if self._book(buyer, self._name, message.number, amount):
            fined = Fined(buyer, self._name, message.number, admitted=True, amount=amount)
            effects.append(Write((fined,)))
        return [*effects, Send(buyer, Admitted(message.number, amount))]

    def admitted(self, seller: str, message: Admitted, now: int) -> list[Effect]:
        """Book a penalty that the seller has admitted."""
        if not self._book(self._name, seller, message.number, message.amount):
            return []
        number, amount = message.number, message.amount
        fined = Fined(self._name, seller, number, admitted=True, amount=amount)
        return [Write((fined,)), *self.again(now)]

    def _book(self, buyer: str, seller: str, number: int, amount: float) -> bool:
        booked = self._ledger.fine(seller, buyer, number, amount)
        if booked and buyer == self._name:
            self._admitted[seller] = number
        return booked
