"""Rooflines of known machines and models: public anchors, and what each term of the time does."""

from __future__ import annotations

import pytest

from outrider.cost import hardware
from outrider.cost.hardware import FORMATS, MACHINES, MODELS, Machine, Roofline, Shape, Weights
from outrider.errors import UsageError

FP16 = Weights("fp16", 2, "fp16")
# 1000 bytes a second and 10,000 operations a second, so that times are round numbers.
TOY = Machine("toy", "Toy", 1000, {"fp16": 10_000}, 1e6, "invented")
DENSE = Shape("dense", "Dense", 500, 500, layers=1, attention_width=10, kv_width=5)
MIXED = Shape("mixed", "Mixed", 900, 300, layers=1, attention_width=10, kv_width=5, experts=8, chosen=2)


def roofline(target: str, machine: str, weights: str = "fp16") -> Roofline:
    return Roofline(hardware.machine(machine), hardware.shape(target), hardware.weights(weights))


def test_70b_in_fp16_on_the_bandwidth_of_an_h100() -> None:
    one = roofline("llama-70b", "h100").seconds(1, 1, 0)
    assert one == pytest.approx(0.042, abs=0.0005)
    assert 1 / one == pytest.approx(24, abs=0.5)


def test_critical_rows_are_bytes_and_operations_against_each_other() -> None:
    assert roofline("llama-70b", "h100").critical_rows() == 296  # 2 x 989.4e12 / (2 x 3.35e12) = 295.3
    assert roofline("llama-8b", "h100").critical_rows() == 296  # whatever the model's size
    assert roofline("llama-8b", "h100", "fp8").critical_rows() == 296  # half the bytes, twice the rate
    assert roofline("llama-8b", "a100", "fp8").critical_rows() == 77  # half the bytes alone: 312e12 / (2 x 2.039e12)


def test_a_machine_that_computes_at_once_has_one_critical_row() -> None:
    slow = Machine("slow", "Slow", 1e9, {"fp16": 1.0}, 1e6, "invented")
    assert Roofline(slow, DENSE, FP16).critical_rows() == 1


def test_the_time_of_the_linear_layers() -> None:
    toy = Roofline(TOY, DENSE, FP16)
    assert toy.seconds(1, 1, 0) == pytest.approx(1.0)  # 1000 bytes
    assert toy.seconds(1, 10, 0) == pytest.approx(1.0)  # 2 x 500 x 10 operations: both sides equal
    assert toy.seconds(1, 20, 0) == pytest.approx(2.0)
    assert toy.critical_rows() == 10


def test_keys_and_values_are_read_once_a_sequence() -> None:
    toy = Roofline(TOY, DENSE, FP16)
    assert DENSE.kv_bytes_tok == 20
    assert toy.seconds(1, 1, 100) == pytest.approx(1 + 2.0)
    assert toy.seconds(1, 4, 100) == pytest.approx(1 + 2.0)
    assert toy.seconds(4, 4, 100) == pytest.approx(1 + 8.0)
    assert toy.seconds(1, 8, 100) == pytest.approx(1 + 3.2)  # 4 x 10 x 8 x 100 operations are more


def test_experts_touched() -> None:
    assert MIXED.touched(1) == pytest.approx(MIXED.active)
    assert MIXED.touched(2) == pytest.approx(100 + 8 * (1 - 0.75**2) * 100)  # 100 of all, 100 in each expert
    assert MIXED.touched(1000) == pytest.approx(MIXED.parameters)
    assert DENSE.touched(1) == DENSE.touched(1000) == DENSE.parameters


def test_experts_make_a_small_pass_dearer_and_compute_bound_later() -> None:
    mixed = Roofline(TOY, MIXED, FP16)
    assert mixed.seconds(1, 1, 0) == pytest.approx(0.6)
    assert mixed.seconds(1, 2, 0) / mixed.seconds(1, 1, 0) == pytest.approx(1.5)
    rows = mixed.critical_rows()
    assert 2 * MIXED.active * rows / 10_000 >= MIXED.touched(rows) * 2 / 1000
    assert 2 * MIXED.active * (rows - 1) / 10_000 < MIXED.touched(rows - 1) * 2 / 1000
    assert rows == 30  # all 1800 bytes against 2 x 300 operations a row


def test_memory() -> None:
    toy = Roofline(TOY, DENSE, FP16)
    assert toy.weight_bytes == 1000
    assert toy.needed_bytes(3, 10) == 1000 + 3 * 10 * 20
    assert roofline("llama-70b", "h100").weight_bytes == pytest.approx(141e9, rel=0.01)
    assert roofline("llama-70b", "h100", "int4").weight_bytes < hardware.machine("h100").memory_bytes


# Bytes of keys and values a token in 16 bits, as model cards and serving guides state them.
@pytest.mark.parametrize(("name", "size"), [("llama-70b", 327_680), ("llama-8b", 131_072), ("smollm2-135m", 23_040)])
def test_kv_bytes(name: str, size: int) -> None:
    assert hardware.shape(name).kv_bytes_tok == size


@pytest.mark.parametrize("spelling", ["rtx-4090", "RTX 4090", "rtx4090", "RTX_4090"])
def test_names_are_found_however_they_are_spelt(spelling: str) -> None:
    assert hardware.machine(spelling).name == "rtx-4090"


def test_what_the_tables_hold() -> None:
    assert {machine.name for machine in MACHINES} == {"h100", "h200", "a100", "l40s", "rtx-4090", "m4-max"}
    assert all(machine.source and machine.flops["fp16"] > 10 * machine.bandwidth_bytes_s for machine in MACHINES)
    for model in MODELS:
        assert model.active <= model.parameters
        assert (model.experts == 1) == (model.active == model.parameters)
        assert model.attention_width % model.kv_width == 0
        assert model.touched(1) == pytest.approx(model.active)
    assert len({model.name for model in MODELS}) == len(MODELS)
    assert [weights.name for weights in FORMATS] == ["fp16", "fp8", "int4"]


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no hardware 'b300': give one of h100, h200"):
        hardware.machine("b300")
    with pytest.raises(UsageError, match=r"no model 'gpt-9'.*llama-70b"):
        hardware.shape("gpt-9")
    with pytest.raises(UsageError, match=r"no weight format 'int2'.*fp16, fp8, int4"):
        hardware.weights("int2")


@pytest.mark.parametrize(("sequences", "rows", "context"), [(0, 1, 0), (2, 1, 0), (1, 1, -1)])
def test_passes_that_do_not_exist(sequences: int, rows: int, context: int) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        Roofline(TOY, DENSE, FP16).seconds(sequences, rows, context)


def test_a_measured_machine_gives_back_what_was_measured() -> None:
    here = hardware.measured("a model", 500, 1000, 1e6, pass_s=2.0, row_s=0.25)
    dense = Roofline(here, DENSE, FP16)
    assert dense.seconds(1, 1, 0) == pytest.approx(2.0)
    assert dense.seconds(1, 16, 0) == pytest.approx(16 * 0.25)
    assert dense.critical_rows() == 8
    assert (here.name, here.memory_bytes) == ("here", 1e6)
