"""`outrider plan`: what speculation would bring, from formulas and published figures; `here` measures it."""

from __future__ import annotations

import typer

from outrider.cli import flags
from outrider.cli.main import Job, show
from outrider.errors import UsageError
from outrider.plan.export import Method


def breakeven_command(
    gamma: flags.DraftLength,
    draft_cost: flags.DraftCost,
    verify_cost: flags.VerifyCost = 1.0,
    plot: flags.Plot = None,
    as_json: flags.Json = False,
) -> Job:
    """From which acceptance on speculation pays.

    \b
    Example:
      outrider plan breakeven --gamma 4 --draft-cost 0.1
    """
    from outrider.cli import plan_answers as answers

    return lambda _: answers.breakeven(answers.Drafting(gamma, draft_cost, verify_cost), plot, as_json)


def speedup_command(
    alpha: flags.Alpha,
    gamma: flags.DraftLength,
    draft_cost: flags.DraftCost,
    verify_cost: flags.VerifyCost = 1.0,
    plot: flags.Plot = None,
    as_json: flags.Json = False,
) -> Job:
    """What a draft length brings at an acceptance.

    \b
    Examples:
      outrider plan speedup --alpha 0.8 --gamma 4 --draft-cost 0.1
      outrider plan speedup --alpha 0.8,0.7,0.6 --gamma 3 --draft-cost 0 --verify-cost 1.3
    """
    from outrider.cli import plan_answers as answers

    drafting = answers.Drafting(gamma, draft_cost, verify_cost)
    return lambda _: answers.speedup(acceptance(alpha), drafting, plot, as_json)


def gamma_command(
    alpha: flags.Alpha,
    draft_cost: flags.DraftCost,
    verify_costs: flags.VerifyCosts = None,
    plot: flags.Plot = None,
    as_json: flags.Json = False,
) -> Job:
    """The draft length with the highest speed-up.

    \b
    Examples:
      outrider plan gamma --alpha 0.8 --draft-cost 0.1
      outrider plan gamma --alpha 0.6 --draft-cost 0 --verify-costs 1.02,1.1,1.15,1.3
    """
    from outrider.cli import plan_answers as answers

    costs = None if verify_costs is None else numbers("--verify-costs", verify_costs)
    accepted = acceptance(alpha)
    return lambda _: answers.best_gamma(accepted, draft_cost, costs, plot, as_json)


def batch_command(
    target: flags.Target,
    draft: flags.DraftName,
    hardware: flags.Hardware,
    alpha: flags.Alpha,
    gamma: flags.SameLength = None,
    context: flags.EachContext = 0,
    weights: flags.Weights = "fp16",
    most_batch: flags.MostBatch = 1024,
    plot: flags.Plot = None,
    as_json: flags.Json = False,
) -> Job:
    """At which batch size speculation stops paying.

    From the published figures of machines and models: a roofline, which docs/planner.md explains. The hardware `here`
    is this machine, measured with the default model.

    \b
    Examples:
      outrider plan batch --target llama-70b --draft llama-1b --hardware h100 --alpha 0.8
      outrider plan batch --target qwen3-8b --draft ngram --hardware l40s --alpha 0.5,0.4 --context 8192
    """
    from outrider.cli import plan_batch

    asked = plan_batch.Asked(target, draft, hardware, weights, context, acceptance(alpha), gamma, most_batch)
    return lambda tools: plan_batch.batch(tools, asked, plot, as_json)


def export_command(
    engine: flags.ForEngine,
    gamma: flags.DraftLength,
    method: flags.ExportMethod = Method.NGRAM,
    draft_model: flags.DraftModel = None,
    as_json: flags.Json = False,
) -> Job:
    """Write settings as another engine's own configuration.

    \b
    Examples:
      outrider plan export --for vllm --gamma 4
      outrider plan export --for llama.cpp --method draft-model --draft-model draft.gguf --gamma 6
    """
    from outrider.cli import plan_export

    return lambda _: plan_export.export(engine, method, gamma, draft_model, as_json)


def here_command(
    prompts: flags.Prompts = None,
    most_prompts: flags.MostPrompts = 16,
    model: flags.Model = None,
    drafter: flags.TimedDrafter = "ngram",
    gammas: flags.Gammas = None,
    threads: flags.Threads = None,
    max_tokens: flags.MaxTokens = 128,
    rounds: flags.Rounds = 3,
    quick: flags.Quick = False,
    refresh: flags.Refresh = False,
    plot: flags.Plot = None,
    as_json: flags.Json = False,
) -> Job:
    """Whether speculation pays here: this machine, this model, your prompts.

    Half of the prompts and the measured cost of passes say what to expect; the other half shows whether it is true.

    \b
    Examples:
      outrider plan here
      outrider plan here --prompts mine.txt --gamma 2,4,8
    """
    from outrider.cli import plan_here

    options = plan_here.Options(
        prompts,
        most_prompts,
        model,
        drafter,
        gammas,
        threads,
        max_tokens,
        rounds,
        quick,
        refresh,
        plot,
        as_json,
    )
    return lambda tools: plan_here.plan_here(tools, options)


def root(ctx: typer.Context) -> Job:
    """What speculation would bring, before anything is run.

    c, the draft cost, is a draft step's time over a pass's; alpha, the acceptance, is the share of drafted tokens that
    are kept once they are reached; gamma is the number of tokens drafted a pass. docs/planner.md has the formulas.
    """
    return lambda _: show(ctx.get_help())


def application() -> typer.Typer:
    """The commands below `outrider plan`."""
    app = typer.Typer(rich_markup_mode=None)
    app.callback(invoke_without_command=True)(root)
    app.command("breakeven")(breakeven_command)
    app.command("speedup")(speedup_command)
    app.command("gamma")(gamma_command)
    app.command("batch")(batch_command)
    app.command("export")(export_command)
    app.command("here")(here_command)
    return app


def acceptance(given: str) -> float | tuple[float, ...]:
    """--alpha: one probability, or one for each position. Raises UsageError."""
    found = numbers("--alpha", given)
    return found[0] if len(found) == 1 else found


def numbers(flag: str, given: str) -> tuple[float, ...]:
    """Numbers between commas. Raises UsageError."""
    try:
        return tuple(float(one) for one in given.split(","))
    except ValueError:
        raise UsageError(
            f"{flag} is {given!r}: give a number, or several with commas between, such as 0.8,0.7"
        ) from None
