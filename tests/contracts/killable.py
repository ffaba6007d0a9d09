"""A process that starts training processes quickly, so that a test can kill many of them.

It imports the package once and forks for each run: `python killable.py`, then lines on stdin.
`train WORDS...` forks a process that runs `graphdrop train WORDS...` and answers its id;
`wait ID` answers its exit code, negative for the signal that ended it.
"""

import os
import shlex
import sys
from collections.abc import Callable, Mapping

NO_OTHERS: Mapping[str, Callable[[list[str]], object]] = {}


def main(others: Mapping[str, Callable[[list[str]], object]] = NO_OTHERS) -> None:
    """Start what the lines ask for: `graphdrop`, or one of `others` by the line's first word."""
    import graphdrop.train  # noqa: F401, PLC0415 - what takes seconds is done before the fork
    from graphdrop.cli import main as command  # noqa: PLC0415

    print("ready", flush=True)
    for line in sys.stdin:
        verb, *words = shlex.split(line)
        if verb == "wait":
            _, status = os.waitpid(int(words[0]), 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        process = os.fork()
        if process == 0:
            log = os.open(os.devnull, os.O_WRONLY)
            os.dup2(log, 1)
            try:
                others[verb](words) if verb in others else command([verb, *words])
            finally:
                sys.stderr.flush()
                os._exit(0 if sys.exc_info()[0] is None else _code(sys.exc_info()[1]))
        print(process, flush=True)


def _code(error: BaseException | None) -> int:
    return int(error.code or 0) if isinstance(error, SystemExit) else 1


if __name__ == "__main__":
    main()
