"""Commands that are imported when they are called, so that `australis --help` imports none."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is defined, and its entry in a list of commands."""

    target: str
    """`module:attribute` of the command."""
    short_help: str
    """The command's own short help; a test compares both."""
    subcommands: tuple[str, ...] = ()
    """Commands of other modules, as `module:attribute`, that are added to this group."""

    def load(self) -> click.Command:
        """Import the command and its subcommands."""
        command = _import(self.target)
        for target in self.subcommands:
            assert isinstance(command, click.Group), f"{self.target} is no group"
            command.add_command(_import(target))
        return command


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of a group by name; looking one up imports it."""

    def __init__(self, table: dict[str, LazyCommand]) -> None:
        self.table = table
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            self._loaded[name] = self.table[name].load()
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.table, **self._loaded})

    def __len__(self) -> int:
        return len({**self.table, **self._loaded})

    def __contains__(self, name: object) -> bool:
        return name in self.table or name in self._loaded


class LazyGroup(click.Group):
    """A group that lists its commands without importing them."""

    def __init__(self, *args: Any, table: dict[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands = LazyCommands(table)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands as click does, from the table alone."""
        assert isinstance(self.commands, LazyCommands)
        listed = click.Group(
            commands={
                name: click.Command(name, help=lazy.short_help)
                for name, lazy in self.commands.table.items()
            }
        )
        listed.format_commands(ctx, formatter)


def _import(target: str) -> click.Command:
    module, _, attribute = target.partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command), f"{target} is no command"
    return command
