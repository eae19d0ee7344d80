"""No instruction set leaks into another's code, and no compiler flag changes the numerics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider import _native

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
KERNELS = NATIVE / "src" / "kernels"
# compiled for one instruction set each; isa.cpp chooses among them and is plain
UNITS = sorted(path for path in KERNELS.glob("*.cpp") if path.name != "isa.cpp")
HEADERS = sorted(KERNELS.glob("*.h"))
BUILD = [ROOT / "pyproject.toml", ROOT / "dev.py", *NATIVE.rglob("CMakeLists.txt"), *NATIVE.rglob("*.cmake")]


def code(path: Path) -> str:
    """The file without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def includes(path: Path) -> set[str]:
    return set(re.findall(r'#\s*include\s*([<"][^>"]+[>"])', path.read_text()))


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: str(path.name))
def test_kernel_headers_use_nothing_of_the_standard_library(path: Path) -> None:
    """An inline function of a std header, compiled for AVX-512, could be the one copy that the linker keeps."""
    assert includes(path) == set()
    assert "std::" not in code(path)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: str(path.name))
def test_units_include_intrinsics_and_kernels_alone(path: Path) -> None:
    assert "std::" not in code(path)
    own = {f'"{header.name}"' for header in HEADERS}
    assert includes(path) - own <= {"<immintrin.h>", '"outrider/types.h"'}
    before, _, inside = code(path).partition("namespace outrider::")
    assert not includes(path) & own & set(re.findall(r'include\s*("[^"]+")', before)), "a kernel outside its namespace"
    name = re.findall(r'#define OUTRIDER_ISA_NAME "(\w+)"', path.read_text())
    assert inside.startswith(f"{name[0]} {{")
    assert name == [path.stem]


def test_the_shared_header_has_no_functions_of_the_library() -> None:
    path = NATIVE / "include" / "outrider" / "types.h"
    assert includes(path) == {"<cstddef>", "<cstdint>"}
    assert "std::" not in code(path)


def test_every_unit_is_in_the_table() -> None:
    assert len(UNITS) >= 5
    table = set(re.findall(r"OUTRIDER_TABLE\((\w+)\)", (KERNELS / "isa.cpp").read_text())) - {"isa"}
    assert table == {path.stem for path in UNITS}
    assert set(_native.isas()) <= table
    assert _native.isas()[-1] == "portable"


def test_flags_keep_the_numerics() -> None:
    cmake = (NATIVE / "CMakeLists.txt").read_text()
    options = re.findall(r"target_compile_options\(outrider_flags INTERFACE ([^)]*)\)", cmake)
    assert "-ffp-contract=off" in options[0].split()
    assert "-fno-fast-math" in options[0].split()
    assert "outrider_flags" in re.findall(r"target_link_libraries\(outrider_core PUBLIC ([^)]*)\)", cmake)[0].split()


@pytest.mark.parametrize("path", BUILD, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_flag_loosens_the_numerics(path: Path) -> None:
    loose = (
        r"march=|mtune=native|(?<!no-)fast-math|Ofast|unsafe-math|associative-math|reciprocal-math|finite-math"
        r"|ffp-contract=(?!off)"
    )
    assert re.findall(loose, re.sub(r"#.*", "", path.read_text())) == []


@pytest.mark.parametrize("path", [*UNITS, *HEADERS, *NATIVE.rglob("src/model/*")], ids=lambda path: str(path.name))
def test_no_pragma_loosens_the_numerics(path: Path) -> None:
    assert re.findall(r"#\s*pragma\s+(?!once)\w+|__attribute__\(\((?:optimize|target)", code(path)) == []
