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

from outrider.api import LogprobsMode
from outrider.cli import flags
from outrider.cli.tools import Load, Options, Tools
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
    drafter: flags.Drafting = flags.AUTO,
    draft_model: flags.SmallModel = None,
    store: flags.StoreFile = None,
    head: flags.HeadFolder = None,
    prediction: flags.Prediction = None,
    gamma: flags.Gamma = None,
    max_draft: flags.MaxDraft = None,
    no_speculate: flags.NoSpeculate = False,
    rule: flags.Accepting = flags.Rule.COUPLED,
    threads: flags.Threads = None,
    temperature: flags.Temperature = 0.0,
    top_k: flags.TopK = 0,
    top_p: flags.TopP = 1.0,
    min_p: flags.MinP = 0.0,
    typical_p: flags.TypicalP = 1.0,
    seed: flags.Seed = None,
    frequency: flags.Frequency = 0.0,
    presence: flags.Presence = 0.0,
    repetition: flags.Repetition = 1.0,
    bias: flags.Bias = None,
    allowed: flags.Allowed = None,
    banned: flags.Banned = None,
    max_tokens: flags.MaxTokens = 256,
    min_tokens: flags.MinTokens = 0,
    stop: flags.Stop = None,
    stop_ids: flags.StopIds = None,
    ignore_eos: flags.IgnoreEos = False,
    json_schema: flags.JsonSchema = None,
    json_object: flags.JsonObject = False,
    regex: flags.Regex = None,
    grammar: flags.Grammar = None,
    after: flags.After = None,
    raw: flags.Raw = False,
    n: flags.N = 1,
    echo: flags.Echo = False,
    logprobs: flags.Logprobs = None,
    logprobs_mode: flags.OfLaw = LogprobsMode.RAW,
    prompt_logprobs: flags.PromptLogprobs = None,
    as_json: flags.Json = False,
    explain: flags.Explain = False,
    color: flags.Coloring = flags.Color.AUTO,
) -> Job:
    """Answer a prompt, streaming.

    On a terminal, guessed tokens are green, those that the answer's form forced are cyan, and a summary follows."""
    from outrider.asking import Ask, Chance, Ending, Form, Guessing, Nudges, Telling
    from outrider.cli import checks, run

    load = Load(model, drafter, gamma, threads, rule.value, draft_model, store, head)
    chance = Chance(temperature, top_k, top_p, min_p, typical_p, seed)
    nudges = Nudges(frequency, presence, repetition, *checks.tokens(bias, allowed, banned))
    ending = Ending(max_tokens, min_tokens, ignore_eos, stop, checks.ids("--stop-token-ids", stop_ids))
    form = Form(json_schema, json_object, regex, grammar, after)
    telling = Telling(n, logprobs, logprobs_mode.value, prompt_logprobs, echo)
    ask = Ask(raw, chance, nudges, ending, form, telling, Guessing(not no_speculate, max_draft, prediction))
    return lambda tools: run.run(tools, Options(load, prompt, ask, as_json, explain, color.value))


def profile_command(
    model: flags.Model = None,
    drafter: flags.TimedDrafter = "ngram",
    context: flags.OneContext = None,
    threads: flags.Threads = None,
    quick: flags.Quick = False,
    refresh: flags.Refresh = False,
    plot: flags.Plot = None,
    as_json: flags.Json = False,
) -> Job:
    """Measure what a pass costs here, by its rows, sequences and context; once, for it is kept.

    Speculation checks n - 1 drafted tokens in one pass of n rows; the table shows what that costs beside a pass of
    one row, and so from how many accepted tokens on it pays. docs/cost.md says how it is measured.

    \b
    Examples:
      outrider profile
      outrider profile --context 2048 --threads 1
      outrider profile --refresh --plot cost.png
      outrider profile --json > cost.json
    """
    from outrider.cli import profile

    options = profile.Options(model, drafter, context, threads, quick, refresh, plot, as_json)
    return lambda tools: profile.profile(tools, options)


def bench_command(
    questions: flags.Questions = None,
    per_group: flags.PerGroup = 4,
    drafters: flags.Drafters = None,
    draft_model: flags.SmallModel = None,
    store: flags.StoreFile = None,
    head: flags.HeadFolders = None,
    rounds: flags.Rounds = 3,
    url: flags.Url = None,
    api_model: flags.ApiModel = None,
    model: flags.Model = None,
    threads: flags.Threads = None,
    temperature: flags.Temperature = 0.0,
    seed: flags.BenchSeed = 0,
    max_tokens: flags.MaxTokens = 128,
    as_json: flags.Json = False,
    report: flags.Report = None,
) -> Job:
    """Measure drafters on questions: speed, acceptance, and whether the answers stay the same.

    Every drafter answers every prompt in turn, round after round. The exit status is 1 when an answer differs from
    plain decoding, or a prompt failed.
    """
    from outrider.cli import bench

    options = bench.Options(
        questions,
        per_group,
        drafters,
        draft_model,
        store,
        head or (),
        rounds,
        url,
        api_model,
        model,
        threads,
        temperature,
        seed,
        max_tokens,
        as_json,
        report,
    )
    return lambda tools: bench.bench(tools, options)


def serve_command(
    model: flags.ServedModel = None,
    host: flags.Host = "127.0.0.1",
    port: flags.Port = 8000,
    api_key_file: flags.KeyFile = None,
    insecure: flags.Insecure = False,
    allowed_host: flags.AllowedHosts = None,
    cors_origin: flags.Origins = None,
    drafter: flags.Drafting = flags.AUTO,
    draft_model: flags.SmallModel = None,
    store: flags.StoreFile = None,
    head: flags.HeadFolder = None,
    gamma: flags.Gamma = None,
    rule: flags.Accepting = flags.Rule.COUPLED,
    threads: flags.Threads = None,
    kv_bytes: flags.KvBytes = None,
    slots: flags.Slots = 32,
    queue: flags.Queue = 256,
    max_prompt: flags.MostPrompt = None,
    max_tokens: flags.MostAnswer = None,
    max_body: flags.MostBody = "4M",
    timeout: flags.Timeout = 600.0,
    drain: flags.Drain = 30.0,
    temperature: flags.ApiTemperature = 1.0,
    name: flags.ServedName = None,
    scope_by_user: flags.ByUser = False,
    log_prompts: flags.LogPrompts = False,
) -> Job:
    """Serve many users at once over the OpenAI API, with a page that shows speculation at work.

    docs/serving.md has the API, field by field.
    """
    from outrider.cli import serve

    options = serve.Options(
        Load(model, drafter, gamma, threads, rule.value, draft_model, store, head),
        host,
        port,
        api_key_file,
        insecure,
        tuple(allowed_host or ()),
        tuple(cors_origin or ()),
        name,
        serve.size("--kv-bytes", kv_bytes),
        slots,
        queue,
        max_prompt,
        max_tokens,
        serve.size("--max-body", max_body) or 0,
        timeout,
        drain,
        temperature,
        scope_by_user,
        log_prompts,
    )
    return lambda tools: serve.serve(tools, options)


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
    from outrider.cli import plan, store, train

    # Plain help and our own error lines: rich would double the time that --help takes.
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(root)
    app.command("run", cls=flags.Themed, epilog=flags.RUN_EXAMPLES)(run_command)
    app.command("profile")(profile_command)
    app.command("bench", cls=flags.Themed, epilog=flags.BENCH_EXAMPLES)(bench_command)
    app.command("serve", cls=flags.Themed, epilog=flags.SERVE_EXAMPLES)(serve_command)
    app.add_typer(plan.application(), name="plan")
    app.add_typer(store.application(), name="store")
    app.command("train", cls=flags.Themed, epilog=flags.TRAIN_EXAMPLES)(train.train_command)
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
