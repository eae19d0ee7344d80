"""Every error that Outrider raises on purpose; each says what is wrong, the value, and the remedy.

OutriderError
+-- UsageError (also ValueError)   an argument is out of range or does not go with another
+-- SourceError                    a model could not be found, fetched or verified
+-- ModelFileError                 a model file is damaged or asks for something this version does not do
+-- BackendError                   the backend cannot do what it was asked (context full, sequence unknown)
+-- Overloaded                     too many requests wait already; retry_after_s says when to come again
+-- Draining                       no new requests are taken: the engine is about to stop
"""

from __future__ import annotations


class OutriderError(Exception):
    """Root of the tree; the command line prints it as one sentence and exits with status 2."""


class UsageError(OutriderError, ValueError):
    """An argument is out of range or does not go with another one."""


class SourceError(OutriderError):
    """A model could not be found, fetched or verified."""


class ModelFileError(OutriderError):
    """A model file is damaged, truncated, or needs something that this version does not support."""


class BackendError(OutriderError):
    """The backend cannot do what it was asked: context full, sequence unknown, or a capability is missing."""


class Overloaded(OutriderError):
    """Too many requests wait already; one is likely to be taken after retry_after_s seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Draining(OutriderError):
    """No new requests are taken: the engine is about to stop, or has stopped."""
