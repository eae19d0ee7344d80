"""/tokenize and /detokenize."""

from __future__ import annotations

from outrider.server import messages
from outrider.server.house import House
from outrider.server.problems import BAD, NOT_FOUND, Problem
from outrider.server.reading import Reader

Json = dict[str, object]


def tokenize(data: object, house: House) -> Json:
    """The ids of a prompt (as it stands), of a text (nothing in it is a control token) or of messages."""
    reader = Reader(data)
    _model(reader, house)
    prompt, text, told = reader.text("prompt"), reader.text("text"), reader.items("messages")
    pieces = reader.flag("pieces", False)
    reader.done()
    if (prompt is None) + (text is None) + (told is None) != 2:
        raise Problem(BAD, "give one of prompt, text and messages", "prompt")
    if told is not None:
        ids = house.face.chat(messages.read(told))
    elif prompt is not None:
        ids = house.face.raw(prompt)
    else:
        ids = house.face.plain(text or "")
    found: Json = {"tokens": ids, "count": len(ids), "max_model_len": house.face.context}
    return {**found, "pieces": [house.face.token_text(token) for token in ids]} if pieces else found


def detokenize(data: object, house: House) -> Json:
    """The text of ids; special tokens have none unless they are asked for."""
    reader = Reader(data)
    _model(reader, house)
    ids, special = reader.items("tokens"), reader.flag("special", False)
    reader.done()
    if ids is None:
        raise Problem(BAD, "tokens is missing; give a list of ids", "tokens")
    known = [token for token in ids if isinstance(token, int) and not isinstance(token, bool)]
    if len(known) != len(ids):
        raise reader.wrong("tokens", next(token for token in ids if token not in known), "give ids, whole numbers")
    face = house.face
    prompt = "".join(map(face.token_text, known)) if special else face.text(known)
    return {"prompt": prompt}


def _model(reader: Reader, house: House) -> None:
    name = reader.text("model")
    if name is not None and name != house.model:
        raise Problem(NOT_FOUND, f"there is no model {name!r} here; it is {house.model!r}", "model", "model_not_found")
