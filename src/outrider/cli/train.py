"""`outrider train`: make a drafter for a model out of nothing but the model."""

from __future__ import annotations

from outrider.cli import flags
from outrider.cli.main import Job


def train_command(
    out: flags.TrainOut,
    target: flags.TrainTarget = None,
    kind: flags.TrainKind = flags.Trained.EAGLE3,
    threads: flags.Threads = None,
    data: flags.TrainData = None,
    prompts: flags.TrainPrompts = None,
    only_prompts: flags.OnlyPrompts = False,
    tokens: flags.TrainTokens = 1_000_000,
    answer_tokens: flags.AnswerTokens = 256,
    opening: flags.Opening = 0,
    seed: flags.TrainSeed = 0,
    epochs: flags.Epochs = None,
    minutes: flags.Minutes = None,
    draft_vocab: flags.DraftVocab = 8192,
    depth: flags.Depth = 5,
    memory: flags.Memory = 4.0,
    states: flags.States = None,
    learning_rate: flags.LearningRate = 1e-3,
    start: flags.Start = None,
    resume: flags.Resume = True,
    dry_run: flags.DryRun = False,
) -> Job:
    """Make a drafter for a model, out of nothing but the model.

    The model writes users' questions and answers them; on that text a small head learns to guess what it writes next,
    or a store keeps the text. Whatever interrupts it, the same command goes on where it was. docs/training.md tells
    how it works, how long it takes and what it brings.
    """
    from outrider.cli import train_job

    wanted = train_job.Wanted(data or (), prompts, only_prompts, tokens, seed, answer_tokens, opening)
    training = train_job.Training(epochs, minutes, draft_vocab, depth, memory, states, learning_rate, start, resume)
    options = train_job.Options(target, out, kind.value, threads, wanted, training, dry_run)
    return lambda tools: train_job.train(tools, options)
