"""`outrider store`: make what `--drafter store` guesses from."""

from __future__ import annotations

import typer

from outrider.cli import flags
from outrider.cli.main import Job, show


def build_command(
    files: flags.TextFiles,
    out: flags.StoreOut,
    model: flags.Model = None,
) -> Job:
    """Make a store of text that the model is likely to write.

    Best is what it wrote before (store generate, or a log of its answers), then text of the same kind. A file whose
    name ends in .jsonl has one document a line: an object with token_ids, or else with text. Any other file is one
    document of plain text. A store is of one tokenizer; a model with another refuses it.

    \b
    Examples:
      outrider store build --out mine.store answers.jsonl
      outrider store build --out handbook.store chapter1.txt chapter2.txt
      outrider run --drafter store --store mine.store "Why is the sky blue?"
    """
    from outrider.cli import store_build

    return lambda tools: store_build.build(tools, store_build.Options(files, out, model))


def generate_command(
    prompts: flags.ToAnswer,
    out: flags.AnswersOut,
    samples: flags.Samples = 1,
    temperature: flags.Temperature = 0.7,
    seed: flags.BenchSeed = 0,
    max_tokens: flags.MaxTokens = 256,
    model: flags.Model = None,
    threads: flags.Threads = None,
) -> Job:
    """Let the model answer prompts, and keep the answers for a store.

    Each prompt is answered at temperature 0 and, so often as --samples says, drawn. Answers are added to the file as
    they come, with what stood last before them; nothing is lost when it is interrupted.

    \b
    Examples:
      outrider store generate --prompts prompts.txt --out answers.jsonl
      outrider store build --out mine.store answers.jsonl
    """
    from outrider.cli import store_generate

    options = store_generate.Options(prompts, out, samples, temperature, seed, max_tokens, model, threads)
    return lambda tools: store_generate.generate(tools, options)


def root(ctx: typer.Context) -> Job:
    """Make stores of text that the model is likely to write, to draft from. docs/drafters.md says how they work."""
    return lambda _: show(ctx.get_help())


def application() -> typer.Typer:
    """The commands below `outrider store`."""
    app = typer.Typer(rich_markup_mode=None)
    app.callback(invoke_without_command=True)(root)
    app.command("build")(build_command)
    app.command("generate")(generate_command)
    return app
