"""``pipeall completion``: the script that makes a shell complete commands, options, networks, plans and boards."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
PROGRAM, VARIABLE = "pipeall", "_PIPEALL_COMPLETE"  # as click names it


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete words.

    \b
    eval "$(pipeall completion bash)"     in ~/.bashrc
    eval "$(pipeall completion zsh)"      in ~/.zshrc
    pipeall completion fish | source      in ~/.config/fish/config.fish

    Commands and options, networks of the zoo and .onnx files, plans, units, boards and presets are completed. Nothing
    is measured for it.
    """
    script = get_completion_class(shell)
    click.echo(script(context.find_root().command, {}, PROGRAM, VARIABLE).source())
