"""A GGUF file as a ModelFile: all that the architecture needs is there and well-formed, and nothing is left over.

Shapes of matrices are (outputs, inputs).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from outrider.errors import ModelFileError
from outrider.models.gguf_header import Header, Scalar, Value, quoted, read_header
from outrider.models.gguf_keys import FIXED, INTEGERS, REALS, is_known, is_wanted
from outrider.models.gguf_layout import ValueType
from outrider.models.spec import ModelFile, ModelSpec, Rope, RopeKind, Tensor, TensorType, TokenizerData

ARCHITECTURES = ("llama",)

# Bounds of single values: far above every published model, and small enough that no product of two of them is absurd.
_MAX_LAYERS = 1 << 12
_MAX_WIDTH = 1 << 20
_MAX_VOCAB = 1 << 22
_MAX_CONTEXT = 1 << 20  # what the native engine can address
_MIN_REAL, _MAX_REAL = 1e-30, 1e30  # well inside float32
_QUANTIZATION_VERSION = 2
_QUANTISED = (TensorType.Q4_0, TensorType.Q4_1, TensorType.Q8_0)


class _Keys:
    """Typed access to metadata values; each error names the key, the value and what is allowed."""

    def __init__(self, values: dict[str, Value]) -> None:
        self._values = values

    def has(self, key: str) -> bool:
        return key in self._values

    def _data(self, key: str, allowed: tuple[ValueType, ...], expected: str) -> Scalar:
        value = self._values.get(key)
        if value is None:
            raise ModelFileError(f"key '{key}' is missing; it must be {expected}")
        if value.type not in allowed or value.data is None or isinstance(value.data, list):
            raise ModelFileError(f"key '{key}' has type {value.describe()}; it must be {expected}")
        return value.data

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        if default is not None and not self.has(key):
            return default
        number = int(self._data(key, INTEGERS, f"an integer from {low} to {high}"))
        if not low <= number <= high:
            raise ModelFileError(f"key '{key}' is {number}; it must be from {low} to {high}")
        return number

    def positive(self, key: str, default: float | None = None) -> float:
        if default is not None and not self.has(key):
            return default
        number = float(self._data(key, REALS, "a positive number"))
        if not _MIN_REAL <= number <= _MAX_REAL:
            raise ModelFileError(f"key '{key}' is {number}; it must be from {_MIN_REAL} to {_MAX_REAL}")
        return number

    def text(self, key: str, default: str | None = None) -> str:
        if default is not None and not self.has(key):
            return default
        return str(self._data(key, (ValueType.STRING,), "a string"))

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._data(key, (ValueType.BOOL,), "a BOOL")) if self.has(key) else default

    def optional_id(self, key: str, vocab: int) -> int | None:
        return self.integer(key, 0, vocab - 1) if self.has(key) else None

    def array(self, key: str, items: tuple[ValueType, ...]) -> list[Scalar]:
        value = self._values.get(key)
        expected = f"an ARRAY of {' or '.join(item.name for item in items)}"
        if value is None:
            raise ModelFileError(f"key '{key}' is missing; it must be {expected}")
        if value.item not in items or not isinstance(value.data, list):
            raise ModelFileError(f"key '{key}' has type {value.describe()}; it must be {expected}")
        return value.data

    def check_fixed(self) -> None:
        """Refuse every key that may have one value only and has another, or that nobody knows."""
        for key, value in self._values.items():
            if not is_known(key):
                raise ModelFileError(f"key {quoted(key)} is not known to this version, so that it would be left unused")
            if key in FIXED and value.data != FIXED[key]:
                raise ModelFileError(f"key '{key}' is {quoted(value.data)}; only {FIXED[key]!r} is supported")


def _check_general(keys: _Keys, tensors: dict[str, Tensor]) -> str:
    """The architecture, once everything that all of them share is as it must be."""
    kind = keys.text("general.type", "model")
    if kind != "model":
        raise ModelFileError(f"key 'general.type' is {quoted(kind)}; only 'model' can be run")
    architecture = keys.text("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ModelFileError(
            f"architecture {quoted(architecture)} is not supported; supported: {', '.join(ARCHITECTURES)}"
        )
    keys.check_fixed()
    parts = keys.integer("split.count", 0, 1 << 16, 0)
    if parts > 1:
        raise ModelFileError(f"the file is one of {parts} parts (split.count); join them with gguf-split --merge")
    version = keys.integer("general.quantization_version", 0, 1 << 16, _QUANTIZATION_VERSION)
    quantised = next((tensor for tensor in tensors.values() if tensor.type in _QUANTISED), None)
    if quantised is not None and version != _QUANTIZATION_VERSION:
        raise ModelFileError(
            f"key 'general.quantization_version' is {version}; tensor {quoted(quantised.name)} of type "
            f"{quantised.type.value} needs {_QUANTIZATION_VERSION}"
        )
    return architecture


def _rope(keys: _Keys, head_dim: int, tensors: dict[str, Tensor]) -> Rope:
    dims = keys.integer("llama.rope.dimension_count", 2, _MAX_WIDTH, head_dim)
    if dims != head_dim:
        raise ModelFileError(f"key 'llama.rope.dimension_count' is {dims}; it must equal the head size {head_dim}")
    if dims % 2:
        raise ModelFileError(f"the head size is {dims}; rotary positions need an even one")
    scaled = keys.has("llama.rope.scaling.factor")
    kind = keys.text("llama.rope.scaling.type", "linear" if scaled else "none")
    if kind not in ("none", "linear"):
        raise ModelFileError(f"key 'llama.rope.scaling.type' is {quoted(kind)}; supported: none, linear")
    if kind == "linear" and not scaled:
        raise ModelFileError("key 'llama.rope.scaling.factor' is missing; rope.scaling.type 'linear' needs it")
    factor = keys.positive("llama.rope.scaling.factor", 1.0)
    if kind == "none" and factor != 1.0:
        raise ModelFileError(f"key 'llama.rope.scaling.factor' is {factor}, but rope.scaling.type is 'none'")
    base = keys.positive("llama.rope.freq_base", 10000.0)
    factors = "rope_freqs.weight" if "rope_freqs.weight" in tensors else None
    return Rope(RopeKind.INTERLEAVED, base, dims, factor, factors)


def _head_dim(keys: _Keys, hidden: int, heads: int) -> int:
    key = keys.integer("llama.attention.key_length", 1, _MAX_WIDTH, 0)
    value = keys.integer("llama.attention.value_length", 1, _MAX_WIDTH, key)
    if key == 0:
        if hidden % heads:
            raise ModelFileError(
                f"key 'llama.attention.head_count' is {heads}; it must divide llama.embedding_length, {hidden}, "
                "or llama.attention.key_length must be given"
            )
        key = hidden // heads
        value = value or key
    if key != value:
        raise ModelFileError(
            f"key 'llama.attention.key_length' is {key} and 'llama.attention.value_length' is {value}; "
            "they must be equal (without key_length it is embedding_length / head_count)"
        )
    return key


def _spec(keys: _Keys, architecture: str, tensors: dict[str, Tensor], vocab: int) -> ModelSpec:
    layers = keys.integer("llama.block_count", 1, _MAX_LAYERS)
    hidden = keys.integer("llama.embedding_length", 1, _MAX_WIDTH)
    heads = keys.integer("llama.attention.head_count", 1, _MAX_WIDTH)
    kv_heads = keys.integer("llama.attention.head_count_kv", 1, _MAX_WIDTH, heads)
    if heads % kv_heads:
        raise ModelFileError(
            f"key 'llama.attention.head_count_kv' is {kv_heads}; it must divide llama.attention.head_count, {heads}"
        )
    declared = keys.integer("llama.vocab_size", 1, _MAX_VOCAB, vocab)
    if declared != vocab:
        raise ModelFileError(f"key 'llama.vocab_size' is {declared}, but tokenizer.ggml.tokens has {vocab}")
    head_dim = _head_dim(keys, hidden, heads)
    return ModelSpec(
        architecture=architecture,
        name=keys.text("general.name", ""),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward=keys.integer("llama.feed_forward_length", 1, _MAX_WIDTH),
        vocab=vocab,
        context=keys.integer("llama.context_length", 1, _MAX_CONTEXT),
        norm_eps=keys.positive("llama.attention.layer_norm_rms_epsilon"),
        rope=_rope(keys, head_dim, tensors),
        tied_head="output.weight" not in tensors,
    )


def _expected(spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    """(name, shape, must be F32) of every tensor that a llama of this spec has."""
    norm = (spec.hidden,)
    query, key = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    yield "token_embd.weight", (spec.vocab, spec.hidden), False
    for layer in range(spec.layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", norm, True
        yield block + "attn_q.weight", (query, spec.hidden), False
        yield block + "attn_k.weight", (key, spec.hidden), False
        yield block + "attn_v.weight", (key, spec.hidden), False
        yield block + "attn_output.weight", (spec.hidden, query), False
        yield block + "ffn_norm.weight", norm, True
        yield block + "ffn_gate.weight", (spec.feed_forward, spec.hidden), False
        yield block + "ffn_up.weight", (spec.feed_forward, spec.hidden), False
        yield block + "ffn_down.weight", (spec.hidden, spec.feed_forward), False
    yield "output_norm.weight", norm, True
    if not spec.tied_head:
        yield "output.weight", (spec.vocab, spec.hidden), False
    if spec.rope.factors is not None:
        yield spec.rope.factors, (spec.rope.dims // 2,), True


def _check_tensors(spec: ModelSpec, tensors: dict[str, Tensor]) -> None:
    """Exactly the tensors of the architecture, each with its shape; ModelFileError for the first that is not."""
    expected = {name: (shape, plain) for name, shape, plain in _expected(spec)}
    for name, tensor in tensors.items():
        if name not in expected:
            raise ModelFileError(
                f"tensor {quoted(name)} is not known to architecture '{spec.architecture}' with {spec.layers} layers, "
                "so that it would be left unused"
            )
        shape, plain = expected[name]
        if tensor.shape != shape:
            raise ModelFileError(f"tensor '{name}' has shape {tensor.shape}; the metadata says {shape}")
        if plain and tensor.type is not TensorType.F32:
            raise ModelFileError(f"tensor '{name}' has type {tensor.type.value}; it must be F32")
    missing = [name for name in expected if name not in tensors]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelFileError(f"tensor '{missing[0]}'{more} missing of the {len(expected)} that the metadata asks for")


def _tokenizer(keys: _Keys) -> TokenizerData:
    model = keys.text("tokenizer.ggml.model")
    if model != "gpt2":
        raise ModelFileError(
            f"key 'tokenizer.ggml.model' is {quoted(model)}; only 'gpt2' (byte-level BPE) is supported"
        )
    tokens = [str(token) for token in keys.array("tokenizer.ggml.tokens", (ValueType.STRING,))]
    types = [int(kind) for kind in keys.array("tokenizer.ggml.token_type", INTEGERS)]
    merges = [str(merge) for merge in keys.array("tokenizer.ggml.merges", (ValueType.STRING,))]
    vocab = len(tokens)
    if vocab == 0:
        raise ModelFileError("key 'tokenizer.ggml.tokens' is empty")
    if len(types) != vocab:
        raise ModelFileError(f"key 'tokenizer.ggml.token_type' has {len(types)} elements for {vocab} tokens")
    ends = (keys.optional_id(f"tokenizer.ggml.{name}_token_id", vocab) for name in ("eot", "eom"))
    template = keys.text("tokenizer.chat_template") if keys.has("tokenizer.chat_template") else None
    return TokenizerData(
        model=model,
        pre=keys.text("tokenizer.ggml.pre"),
        tokens=tokens,
        types=types,
        merges=merges,
        bos=keys.optional_id("tokenizer.ggml.bos_token_id", vocab),
        eos=keys.optional_id("tokenizer.ggml.eos_token_id", vocab),
        unknown=keys.optional_id("tokenizer.ggml.unknown_token_id", vocab),
        padding=keys.optional_id("tokenizer.ggml.padding_token_id", vocab),
        end_of_turn=frozenset(end for end in ends if end is not None),
        add_bos=keys.flag("tokenizer.ggml.add_bos_token", False),
        add_eos=keys.flag("tokenizer.ggml.add_eos_token", False),
        add_space_prefix=keys.flag("tokenizer.ggml.add_space_prefix", False),
        chat_template=template,
    )


def _model_file(path: Path, header: Header) -> ModelFile:
    keys = _Keys(header.values)
    architecture = _check_general(keys, header.tensors)
    tokenizer = _tokenizer(keys)
    spec = _spec(keys, architecture, header.tensors, len(tokenizer.tokens))
    _check_tensors(spec, header.tensors)
    return ModelFile(path, spec, header.tensors, tokenizer, header.size_bytes)


def read(path: Path) -> ModelFile:
    """Read and check the header of a GGUF file; no tensor data is read.

    Raises ModelFileError, naming the file and the first key or tensor that is damaged, missing, of the wrong type or
    shape, or not supported.
    """
    try:
        return _model_file(path, read_header(path, is_wanted))
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__
