"""Load shared under contracts: the bounded-price mechanism (thesis chapters 6 and 7, medusa).

Participants own their machines and their tasks. Two of them may have a contract: the price, or a
small range of prices, that the buyer pays the seller for each unit of load it moves there. A
participant offers the tasks that cost it more than the price (`choices`) and takes those that cost
it less: no participant reveals its costs, and every movement leaves both sides better off.

    machine = ParticipantMachine("alpha", contracts, Valuation(costs=costs))
    effects = machine.handle(Started(1, tasks), now)

The driver carries out the effects in order: a `Write` is durable before the next effect. After a
crash a new machine starts with `Started` and the journal.

Guarantees under any loss, delay and duplication of messages and any crash:

1. A movement makes neither side worse off by what it expected when it agreed.
2. A task is always run: by its buyer until the seller's receipt has arrived.
3. Both sides book the same times d for a movement, each once, as soon as they can talk.
4. Under a load that does not change, and if tasks move for good, movements come to an end.

Where this differs from the thesis: a movement has a receipt, since messages get lost; a time d is
paid for in advance and two more messages agree on the next one; a seller whose counter-offer above
the cost of a task was not taken asks for no more than the cost next time.
"""
