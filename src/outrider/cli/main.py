"""The command line: flags in, one of the commands, an exit status out. Everything heavy is imported by the command.

Exit status: 0 done; 1 a fault of ours; 2 an error that the message tells how to mend; 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

import typer

from outrider.cli import flags
from outrider.cli.tools import Load, Tools
from outrider.errors import OutriderError, UsageError

# A command turns its flags into a job, and main runs it: what goes wrong in a job is then ours to report, not the
# parser's, which has its own ways with Ctrl-C and closed pipes.
Job: TypeAlias = Callable[[Tools], int]

TRACEBACK = "OUTRIDER_TRACEBACK"
CLOSED_PIPE = 141  # 128 + SIGPIPE
INTERRUPTED = 130  # 128 + SIGINT


def run_command(
    prompt: flags.Prompt = None,
    model: flags.Model = None,
    drafter: flags.Drafting = flags.Drafter.NGRAM,
    gamma: flags.Gamma = None,
    temperature: flags.Temperature = 0.0,
    seed: flags.Seed = None,
    max_tokens: flags.MaxTokens = 256,
    stop: flags.Stop = None,
    raw: flags.Raw = False,
    ignore_eos: flags.IgnoreEos = False,
    threads: flags.Threads = None,
    as_json: flags.Json = False,
    explain: flags.Explain = False,
    color: flags.Coloring = flags.Color.AUTO,
) -> Job:
    """Answer a prompt, streaming.

    On a terminal, tokens that the drafter guessed are green, the model's own are plain, and a summary follows.

    \b
    Examples:
      outrider run "Why is the sky blue?"
      outrider run "Write a haiku" --temperature 0.8 --seed 7
      git diff | outrider run - --max-tokens 100
      outrider run "Say hello ten times" --explain
    """
    from outrider.cli import run

    load = Load(model, drafter.value, gamma, threads)
    options = run.Options(
        load, prompt, max_tokens, temperature, seed, tuple(stop or ()), raw, ignore_eos, as_json, explain, color.value
    )
    return lambda tools: run.run(tools, options)


def profile_command(
    model: flags.Model = None,
    context: flags.Context = 256,
    threads: flags.Threads = None,
    as_json: flags.Json = False,
) -> Job:
    """Measure what a pass costs here, by its number of rows.

    Speculation checks n - 1 drafted tokens in one pass of n rows; the table shows what that costs beside a pass of
    one row, and so from how many accepted tokens on it pays.

    \b
    Examples:
      outrider profile
      outrider profile --context 2048 --threads 1
      outrider profile --json > cost.json
    """
    from outrider.cli import profile

    return lambda tools: profile.profile(tools, model, context, threads, as_json)


def models_command() -> Job:
    """List the models that are cached on this machine."""
    from outrider.cli import models

    return models.models


def root(ctx: typer.Context, version: flags.Version = False) -> Job:
    """Speculative decoding that never changes a token.

    A cheap drafter guesses ahead, the model checks all guesses in one pass, and what comes out is exactly what the
    model alone would have written.

    \b
    Start here:
      outrider run "Why is the sky blue?"
    """
    if version and ctx.invoked_subcommand is not None:
        raise UsageError("--version stands alone: give it without a command")
    return show_version if version else lambda _: show(ctx.get_help())


def show_version(tools: Tools) -> int:
    """Prints the version of the installed package."""
    from importlib.metadata import version

    return show(f"outrider {version('outrider')}")


def show(text: str) -> int:
    """Prints a text; returns the exit status."""
    print(text)
    return 0


def application() -> typer.Typer:
    """The commands and their flags."""
    # Plain help and our own error lines: rich would double the time that --help takes.
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(root)
    app.command("run")(run_command)
    app.command("profile")(profile_command)
    app.command("models")(models_command)
    return app


def main(arguments: Sequence[str] | None = None, tools: Tools | None = None) -> int:
    """Runs one command; returns the exit status. tools: where models come from, by default outrider.load."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows "?" instead of a fault
    try:
        given = None if arguments is None else list(arguments)
        job: Job | int = application()(args=given, prog_name="outrider", standalone_mode=False)
        if isinstance(job, int):  # --help has had its say
            return job
        status = job(tools or real_tools())
        sys.stdout.flush()
        return status
    except (KeyboardInterrupt, typer.Abort):
        return fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Nobody reads any more (outrider run ... | head); what Python still holds back goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except typer.TyperException as error:
        where = getattr(getattr(error, "ctx", None), "command_path", "outrider")
        return fail(f"{error.format_message().rstrip('.')}; {where} --help shows what is possible", 2)
    except OutriderError as error:
        return fail(str(error), 2)
    except Exception as error:
        return fail(
            f"unexpected {type(error).__name__}: {error}; this is a fault of outrider, {TRACEBACK}=1 shows where", 1
        )


def real_tools() -> Tools:
    """The doors to the real models; imported late, because they are heavy."""
    from outrider.cli.real import TOOLS

    return TOOLS


def fail(message: str, status: int) -> int:
    """Prints one line on standard error, below the traceback for those who asked for it; returns the status."""
    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exc()
    print(f"outrider: {message}", file=sys.stderr)
    return status
