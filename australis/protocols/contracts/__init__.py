"""Load shared under contracts: the bounded-price mechanism (thesis chapters 6 and 7, medusa).

Participants own their machines and their tasks. Two of them may have a contract: what the one
pays the other for each unit of load that it moves there, a price or a small range of prices. A
participant offers the tasks that cost it more than a partner would be paid (`choices`), takes
those that cost it less, and nothing else: nobody has to reveal its costs, and every movement
leaves both sides better off.

    machine = ParticipantMachine("alpha", contracts, Valuation(costs=costs))
    effects = machine.handle(Started(1, tasks), now)

Whoever drives it carries out the effects in order: `Write` is durable before the next one.
After a crash a new machine begins with `Started` and what was written.

Promises, under any loss, delay and repetition of messages and any crash:

1. A movement makes neither side worse off by what it expected when it agreed.
2. A task runs somewhere: at its buyer until the seller's receipt is there.
3. Both sides book the same times d for a movement, each once, as soon as they can talk.
4. Under a load that does not change, and if tasks move for good, movements come to an end.

Where this differs from the thesis: a movement has a receipt, since messages get lost; a time d
is paid for in advance and the next one is agreed on by two more messages; sellers that asked for
more than a task costs ask for no more than that once they were left.
"""
