"""What scripts wrote for an earlier version is refused, with the words for it now."""

import click
import pytest
from commands import invoke

from pipeall.cli.app import app
from pipeall.cli.replaced import KEYS, OPTIONS


def options_of(command):
    context, group = click.Context(app), app
    for word in command.split():
        group = group.get_command(context, word)
    group = group.commands["model"] if isinstance(group, click.Group) else group
    return {name for param in group.params for name in param.opts}


@pytest.mark.parametrize("command", KEYS)
def test_each_key_has_an_option(command):
    for renamed in KEYS[command].values():
        assert set(renamed.values()) <= options_of(command)


@pytest.mark.parametrize(("command", "old"), [(command, old) for command, row in OPTIONS.items() for old in row])
def test_options_that_are_gone(command, old):
    result = invoke(*command.split(), "x", old, "1")
    assert result.exit_code == 2 and result.stderr == f"error: {old} is now {OPTIONS[command][old]}\n"
    assert old not in options_of(command)


@pytest.mark.parametrize(
    ("words", "new"),
    [
        ("run n.onnx x.png --task detect:decoder=yolox,top=3", "--task detect --decoder yolox --top 3"),
        ("run n.onnx x.png --preprocess=caffe:mean=1/2/3", "--preprocess caffe --mean 1,2,3"),
        ("search n.onnx --precisions fp32,fp16,max-error=0.01", "--precisions fp32,fp16 --max-error 0.01"),
        ("train x --optimizer adam:rate=0.1,every=3", "--optimizer adam --lr 0.1 --step-epochs 3"),
        ("train x --mode ghost:width=8,master", "--mode ghost --ghost-width 8 --master"),
        ("train x --epochs 9:tensorboard=runs/a", "--epochs 9 --tensorboard runs/a"),
        ("nas --training rates=1/2/3,flip,warm=a.onnx", "--lr 1,2,3 --flip --pretrained a.onnx"),
        ("nas --evolution lam=sweep,presets", "--lambda sweep --presets"),
        ("nas --target fps=200", "--target-fps 200"),
        ("nas --prune 0.5:below=0.1,reward", "--prune 0.5 --prune-below 0.1 --prune-reward"),
    ],
)
def test_options_that_held_several_values(words, new):
    result = invoke(*words.split())
    assert result.exit_code == 2 and result.stderr.endswith(f" is now {new}\n")
