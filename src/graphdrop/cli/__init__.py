"""The command `graphdrop`: its subcommands, and errors in one line."""

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

import graphdrop
from graphdrop.cli import data, demo, output, predict, report, runs, train
from graphdrop.io.memory import VARIABLE
from graphdrop.io.visible import say

DEBUG_VARIABLE = "GRAPHDROP_DEBUG"
_DEBUG = "--debug"
_MAX_BYTES = "--max-bytes"
_ANYWHERE = (_DEBUG, output.JSON, output.QUIET)
_SHOWS_TEXT = {"--help", "--help-all", "--version", "--show-completion", "--install-completion"}

app = typer.Typer(
    name="graphdrop",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(demo.demo)
app.command(epilog=train.SETTINGS, cls=train.TrainCommand)(train.train)
for command in (runs.evaluate, predict.predict, report.edges, report.report, report.card):
    app.command()(command)
app.add_typer(data.app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"graphdrop {graphdrop.__version__}")
        raise typer.Exit


def _limit_memory(context: typer.Context, wanted: int | None) -> None:
    """Put the limit into the environment, which other processes of this command share."""
    if wanted is None:
        return
    former = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(wanted)

    def restore() -> None:
        os.environ.pop(VARIABLE)
        if former is not None:
            os.environ[VARIABLE] = former

    context.call_on_close(restore)


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
    as_json: Annotated[
        bool,
        typer.Option(output.JSON, help="Print the result as one JSON document, and nothing else."),
    ] = False,
    quiet: Annotated[
        bool, typer.Option(output.QUIET, help="Print no progress and no notes.")
    ] = False,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            _MAX_BYTES,
            min=0,
            callback=_limit_memory,
            show_default="half of the free memory, and 400 times the size of a file",
            help=f"Memory that data and a network may take (also {VARIABLE}).",
        ),
    ] = None,
) -> None:
    """Learnable connection sampling and uncertainty for graph neural networks.

    The options below may stand anywhere in the line. Exit codes: 0 done, 2 wrong input, 1 a defect
    of the program, 128 + N stopped by signal N (130 by Ctrl+C; train --resume goes on).
    """
    # The version is printed by its callback, and main looks for the others itself.


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. An error is one line on stderr and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = _DEBUG in given or os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0")
    # One adds such words at the end of a line; as options of all commands they belong in front.
    front, rest, words = [word for word in _ANYWHERE if word in given], list[str](), iter(given)
    for word in words:
        if word.partition("=")[0] == _MAX_BYTES:
            front += [word] if "=" in word else [word, *islice(words, 1)]
        elif word not in _ANYWHERE:
            rest.append(word)
    as_json = output.JSON in given and not _SHOWS_TEXT.intersection(given)
    try:
        with (
            output.for_machines(as_json=as_json, quiet=output.QUIET in given),
            warnings.catch_warnings(),  # a command may change the filter
        ):
            app([*front, *rest], prog_name="graphdrop")
    except SystemExit as stop:
        if as_json:
            code = stop.code if isinstance(stop.code, int) else 0
            say(output.document(code, "the words of the command are wrong" if code == 2 else None))
        raise
    except Exception as error:
        if debug:
            raise
        code, line = _describe_error(error)
        say(f"graphdrop: error: {line}", file=sys.stderr)
        if as_json:
            say(output.document(code, line))
        sys.exit(code)


def _describe_error(error: Exception) -> tuple[int, str]:
    """The exit code of an error, 2 if it is about what was given and 1 for a defect; one line."""
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return 2, f"{os.fspath(error.filename)}: {error.strerror}"
    # torch has no class for memory that it cannot get
    words = ("allocate memory", "not enough memory", "Storage size calculation overflowed")
    if isinstance(error, MemoryError) or any(word in text for word in words):
        return 2, f"memory ran out ({text or 'no size given'}): take a smaller network or graph"
    if isinstance(error, (ValueError, OSError, FloatingPointError)):
        return 2, text
    places = traceback.extract_tb(error.__traceback__)
    where = f"{Path(places[-1].filename).name}, line {places[-1].lineno}" if places else "unknown"
    return 1, (
        f"a defect of graphdrop ({type(error).__name__}: {text[:300]}; {where}). Run the command "
        f"again with {_DEBUG} to see more, and report it, please"
    )
