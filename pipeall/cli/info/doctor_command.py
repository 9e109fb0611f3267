"""``pipeall doctor``: what this machine has, what is wrong with it and what to do."""

from __future__ import annotations

import click

from ...diagnosis.doctor import doctor as examine
from ..options import Command, json_option
from ..output import print_json
from ..tables import print_text


@click.command(cls=Command)
@click.option("--quick", is_flag=True, help="Without the self-test: nothing runs, files are looked at alone.")
@json_option
@click.pass_context
def doctor(context: click.Context, quick: bool, as_json: bool) -> None:
    """Find out what is wrong with this machine.

    \b
    pipeall doctor
    pipeall doctor --quick
    pipeall doctor --json > doctor.json

    A page to paste into a report: it names no user, no machine and no home folder. It ends with OK, or with what to do,
    and then the exit status is 1.
    """
    found = examine(not quick)
    if as_json:
        print_json("doctor", **found.to_dict())
    else:
        for line in str(found).splitlines():
            print_text(line, hang=6)
    context.exit(0 if found.ok else 1)
