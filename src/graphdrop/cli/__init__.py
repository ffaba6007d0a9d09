"""The command `graphdrop`: its subcommands, and errors in one line."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import graphdrop
from graphdrop.cli import data, demo, report, reproduce, runs, search, train

DEBUG_VARIABLE = "GRAPHDROP_DEBUG"
_DEBUG = "--debug"

app = typer.Typer(
    name="graphdrop",
    help="Learnable connection sampling and uncertainty for graph neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
demo.add_to(app)
train.add_to(app)
runs.add_to(app)
reproduce.add_to(app)
search.add_to(app)
report.add_to(app)
app.add_typer(data.app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"graphdrop {graphdrop.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(_DEBUG, help=f"Show where an error arose (also {DEBUG_VARIABLE}=1)."),
    ] = False,
) -> None:
    # The version is printed by its callback, and main looks for --debug itself.
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. An error is one line on stderr and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = _DEBUG in given or os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0")
    # One adds --debug at the end of the line that failed; as an option of all it belongs in front.
    ordered = [_DEBUG] * (_DEBUG in given) + [word for word in given if word != _DEBUG]
    try:
        app(ordered)
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        if debug or not _is_expected(error):
            raise
        print(f"graphdrop: error: {_in_one_line(error)}", file=sys.stderr)
        sys.exit(2)


def _is_expected(error: Exception) -> bool:
    """Whether an error is about what was given; torch has no class for memory it cannot get."""
    return not isinstance(error, RuntimeError) or _is_memory(error)


def _is_memory(error: Exception) -> bool:
    words = ("allocate memory", "not enough memory", "Storage size calculation overflowed")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def _in_one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fspath(error.filename)}: {error.strerror}"
    if isinstance(error, (MemoryError, RuntimeError)):
        return f"memory ran out ({text or 'no size given'}): take a smaller network or graph"
    return text
