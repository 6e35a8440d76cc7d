"""The launcher, ``python -m fx.run``: ranks that find each other, end together, and start again."""

from __future__ import annotations

import sys
from contextlib import closing


def main(arguments: list[str] | None = None) -> int:
    """Run a script in several processes, as torchrun does; the exit code.

    0 where all ranks ended well; 1 where one failed and no restart was left; 2 where the arguments
    cannot be; 128 + the signal that ended the launcher.
    """
    from fx.distributed.launch.job import Job, say
    from fx.distributed.launch.options import UsageError, cores, options

    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        told = options(arguments)
        if told.hosts:
            from fx.distributed.launch.remote import Remote

            return Remote(told, arguments).run()
        if told.ranks > cores():
            say(f"warning: {told.ranks} ranks on {cores()} cores will wait for each other")
        with closing(Job(told)) as job:
            return job.run()
    except UsageError as error:
        print(f"fx.run: {error}", file=sys.stderr)
        return 2
