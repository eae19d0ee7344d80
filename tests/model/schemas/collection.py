"""All schema cases."""

from __future__ import annotations

from tests.model.schemas import config, extraction, forms, payloads, refused, shapes, tools

CASES = [case for module in (tools, extraction, forms, payloads, config, shapes) for case in module.CASES]
REFUSED = refused.CASES
