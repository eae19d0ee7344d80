"""The engine that Outrider is made for: C++ kernels that read each weight once a pass, for every row."""

from outrider.backends.native.backend import NativeBackend, NativeScores

__all__ = ["NativeBackend", "NativeScores"]
