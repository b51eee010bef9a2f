"""What a variant is, how a file declares one, and how they are found.

A variant is one stem below ``variants/``: ``STEM.py`` says why it exists, its axes and its launch geometry;
``STEM.cu``, when there, is its CUDA C for the toolkits that compile it (CuPy, PyCUDA), and a file with another
toolkit's suffix (``STEM.wgsl``, ``STEM.mojo``) the kernel for that one; a function ``TOOLKIT_kernel`` in ``STEM.py``
makes its kernel for another toolkit: ``numba_kernel`` the twin for numba.cuda, ``jax_kernel`` what JAX compiles.
Nothing else has to be edited to add one: the toolkits a variant runs on are read off what its stem holds.

This module knows no toolkit: ``gravbench.toolkits.interface`` says what a variant may ask of the one it is given.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from gravbench.errors import InputError as InputError
from gravbench.errors import listed, nearest
from gravbench.model import files, importing, neighbours, stem_code
from gravbench.model.declaring import DECLARATION, declares
from gravbench.model.fork_lock import one_thread_at_a_time
from gravbench.model.interaction import Interaction
from gravbench.model.kernel_parts import Divided as Divided
from gravbench.model.kernel_parts import KernelPart as KernelPart
from gravbench.model.kernel_parts import KernelParts as KernelParts
from gravbench.model.kernel_parts import Loop as Loop
from gravbench.model.kernel_parts import Operations as Operations
from gravbench.model.kernel_parts import UnmodelledError as UnmodelledError
from gravbench.model.ranges import AxisValue as AxisValue
from gravbench.model.ranges import Range as Range
from gravbench.model.stem_code import BUILT_IN, CUDA_C
from gravbench.model.toolkits import catalogue

Axes = Mapping[str, AxisValue]
Dtype = Literal["float32", "float64"]

NUMBA = "numba"
CPU = "cpu"
KERNEL = "_kernel"
"""What follows a toolkit's name in that of the function which makes its kernel."""


class Kernel(Protocol):
    """A compiled kernel.

    One written for the threads of a GPU is called ``kernel(grid, block, *arguments)``, where ``block`` is a number
    of threads or their extents (x, y); one written for whole arrays, or for a CPU, ``kernel(*arguments)``. The
    one option, of CUDA C and numba.cuda, is ``stream``.
    """

    def __call__(self, *arguments: Any, **options: Any) -> None:
        """Launch it; on a GPU this returns before the kernel has run."""


class Source(Protocol):
    """What a toolkit compiles: a variant, or a part that variants share (``gravbench.toolkits.parts``)."""

    @property
    def module(self) -> ModuleType:
        """The module that makes the kernels which are no CUDA C."""

    def cuda_source(self, interaction: Interaction) -> str:
        """The text of the CUDA C."""


Lap = Callable[[str], None]
"""Called with the name of a stage when all of its work has been queued."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What ``prepare`` returns after uploading and compiling. Only ``launch`` is timed; a first one may only compile.

    ``bodies`` is what ``launch()`` reads: a device array of rows as defined by the interaction (gravity:
    x, y, z, mass), or four device arrays x, y, z, mass of shape (n,). ``accelerations`` is what one
    ``launch()`` overwrites completely: a device array whose rows begin with the sums of the interaction (gravity:
    the accelerations), or three device arrays of shape (n,). ``kernel`` is the kernel whose registers and
    occupancy go into the record (None without a device).

    An approximation that computes a different part of the pairs in each launch covers every pair once in ``cycle``
    launches; the mean of their accelerations is what an exact method computes in one launch.

    With ``on_host``, bodies and accelerations are host arrays, and a launch has finished when it returns.
    ``stages`` is a launch that calls its argument with the name of each stage after that stage. ``insight`` returns
    untimed counts of an evaluation: fields of ``gravbench.model.record.Inside``. ``kernels`` is the minimum number of
    kernels that one ``launch()`` queues on the device.
    """

    launch: Callable[[], None]
    bodies: Any
    accelerations: Any
    kernel: Kernel | None = None
    cycle: int = 1
    on_host: bool = False
    stages: Callable[[Lap], None] | None = None
    insight: Callable[[], Mapping[str, Any]] | None = None
    kernels: int = 1


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Accepted errors of the accelerations: the largest of any body, and the rms over all.

    They are relative to the sum of the magnitudes of the contributions to a body, which does not become small
    where these cancel. With ``of_rounding``, a direct sum is judged more strictly, by the error of a plain sum of the
    same contributions.
    """

    max: float
    rms: float
    of_rounding: bool = False


Tolerances = Mapping[str, Tolerance]

# Single precision: 2^-24 per rounding. At a million bodies added up one by one the largest error measured
# elsewhere is 4.4e-5; a body near the centre, whose contributions nearly cancel, magnifies it further.
# Double precision: the same reasoning with 2^-53, and room for the reference's own rounding.
DIRECT_SUM: Tolerances = {
    "float32": Tolerance(max=1e-3, rms=5e-5, of_rounding=True),
    "float64": Tolerance(max=1e-9, rms=1e-11, of_rounding=True),
}

Prepare = Callable[..., Prepared]


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What a stem declares of its variant.

    Attributes:
        parent: the variant that this one is derived from, None for the first of a ladder.
        source: where the technique was published.
        axes: the values of each axis that are worth sweeping.
        defaults: the default value of each axis.
        defaults_on: by toolkit, the defaults that differ there, because its kernel lacks what the usual ones ask for.
        former: axes that it once had, with the values that its kernel has kept, for the records of then.
        moved: for former axes, the variant to use for their other values.
        ranges: for numeric axes, all values that the kernel can be compiled for; without, only those in ``axes``.
        when: which combinations can run, an expression over the axes and ``toolkit``; for a toolkit whose kernel
            ignores an axis, it excludes the other values.
        loads: loads from global memory per body, an expression over n and the axes.
        approximates: what is not computed exactly; None if everything is.
        any_interaction: whether it can compute any interaction, not only gravity.
        dtypes: the number types that it computes in.
        mixed: whether its float32 kernel also computes in float64, which is a mistake in all others.
        positive_masses: whether a mass below zero makes its result wrong.
        divides_crowds: whether it is fast where thousands of bodies are in one cell of its tree.
        of_positions: whether launches at other positions than those prepared for are slower, though as accurate. May be
            a function of the axes, of which an older record may lack some.
        mutual: whether each pair is computed once for both bodies, or the name of the CUDA C function in which it is.
        on_host: whether what it prepares for a GPU is ``on_host``, as in ``Prepared``: the host works in each launch.
        tolerance: the accepted errors for each number type, or a function of the axes that returns them.
        operations: for ``gravbench ablate``, the operations in the CUDA C that ablations change.
        kernel_parts: for ``gravbench explain``, how the work of a kernel is divided that depends on the bodies.
    """

    parent: str | None
    source: str
    axes: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    defaults: Axes = field(default_factory=dict)
    defaults_on: Mapping[str, Axes] = field(default_factory=dict)
    former: Axes = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    when: str | None = None
    loads: str | None = None
    approximates: str | None = None
    any_interaction: bool = False
    dtypes: tuple[Dtype, ...] = ("float32", "float64")
    mixed: bool = False
    positive_masses: bool = False
    divides_crowds: bool = False
    of_positions: bool | Callable[[Axes], bool] = False
    mutual: bool | str = False
    on_host: bool = False
    tolerance: Tolerances | Callable[[Axes], Tolerances] = field(default_factory=lambda: DIRECT_SUM)
    operations: Operations = field(default_factory=Operations)
    kernel_parts: KernelParts | None = None


@dataclass(frozen=True, kw_only=True)
class Variant(Declaration):
    """One technique for computing the accelerations. ``toolkits`` are the toolkits its stem has a kernel for."""

    name: str
    summary: str
    explanation: str
    toolkits: tuple[str, ...]
    prepare: Prepare
    module: ModuleType = field(repr=False, compare=False)
    path: Path

    @property
    def has_cuda_c(self) -> bool:
        """Whether its stem has CUDA C."""
        return self.path.with_suffix(CUDA_C).exists()

    @property
    def kernel_files(self) -> list[Path]:
        """The files beside its Python that hold kernels: CUDA C, and a toolkit's own language."""
        suffixes = [CUDA_C, *(entry.suffix for entry in catalogue().values() if entry.suffix)]
        return [file for file in map(self.path.with_suffix, suffixes) if file.exists()]

    def cuda_source(self, interaction: Interaction) -> str:
        """Join the family's headers, the interaction and the stem's CUDA C."""
        return stem_code.cuda_source(self.path.with_suffix(CUDA_C), interaction)

    def code_sha256(self, toolkit: str, interaction: Interaction) -> str:
        """Hash what ``toolkit`` runs of the stem, of what this imports, and of the interaction."""
        return stem_code.code_sha256(self.path, toolkit, interaction)

    def accepted(self, dtype: Dtype, axes: Axes) -> Tolerance:
        """Return the errors that count as right for these values of the axes."""
        return (self.tolerance(axes) if callable(self.tolerance) else self.tolerance)[dtype]

    def suits_positions(self, axes: Axes) -> bool:
        """Tell whether what is prepared with these axes suits the positions it was given (``of_positions``)."""
        return self.of_positions(axes) if callable(self.of_positions) else self.of_positions

    def complete(self, axes: Axes) -> dict[str, AxisValue]:
        """Fill the defaults in, in the order the variant declares its axes."""
        return {name: axes.get(name, self.defaults[name]) for name in self.axes}

    def usual(self) -> dict[str, AxisValue]:
        """Return the defaults, those of ``former`` axes included, which records may have."""
        return {**self.former, **self.defaults}

    def known(self, axes: Axes) -> dict[str, AxisValue]:
        """Return the axes of a record without the former ones that the kernel has kept."""
        return {name: value for name, value in axes.items() if name not in self.former or value != self.former[name]}

    def lost(self, axis: str) -> str:
        """Say what became of a former axis; empty if it never had one of this name."""
        if axis not in self.former:
            return ""
        other = f"; for other values, use the variant {self.moved[axis]}" if axis in self.moved else ""
        return f"{self.name} no longer has the axis {axis}; it is always {self.former[axis]}{other}"

    def computes(self, axes: Axes) -> bool:
        """Tell whether the kernel still computes what a record with these axes is of."""
        return all(axes.get(name, kept) == kept for name, kept in self.former.items())

    def adapted(self, axes: Axes, toolkit: str, chosen: Container[str]) -> dict[str, AxisValue]:
        """Return axes with the defaults of a toolkit, but for those that were ``chosen``."""
        differing = self.defaults_on.get(toolkit, {})
        return {**axes, **{name: value for name, value in differing.items() if name not in chosen}}

    def find_value(self, axis: str, value: object) -> AxisValue | None:
        """Return the value of an axis that ``value`` stands for, None where it takes no such value.

        True is not 1, and 64.0 no whole number; but 1 will do for 1.0.
        """
        real = axis in self.ranges and not self.ranges[axis].whole
        kinds = {int, float} if real and type(value) in (int, float) else {type(value)}
        if type(value) is int:
            kinds.add(float)
        for usual in self.axes[axis]:
            if usual == value and type(usual) in kinds:
                return usual
        return self.ranges[axis].find(value) if axis in self.ranges else None

    def other_values(self, axis: str) -> str:
        """Say which numbers an axis takes beside those it lists, and why no others; empty where it takes none."""
        return f"{self.ranges[axis]} ({self.ranges[axis].reason})" if axis in self.ranges else ""


class variant(Declaration):  # noqa: N801 - it is a decorator
    """Declare the decorated ``prepare(toolkit, bodies, *, AXIS...)`` as the variant of its file.

    Its name is the stem of the file, and its summary the first line of the docstring.

    Raises:
        InputError: the declaration says something that is not accepted, or the file has no docstring.
    """

    if not TYPE_CHECKING:  # what is declared is known to the type checker from Declaration

        def __init__(self, **declared: Any) -> None:
            accepted = [field.name for field in fields(Declaration)]
            for name in declared:
                if name not in accepted:
                    raise InputError(f"a variant has no {name}; {nearest(name, accepted)}")
            for name in ("parent", "source"):
                if name not in declared:
                    raise InputError(f"a variant needs {name}; accepted: {name}=...")
            super().__init__(**declared)
            _check(self)

    def __call__(self, prepare: Prepare) -> Variant:
        """Make the variant of the file that ``prepare`` stands in."""
        module = sys.modules[prepare.__module__]
        path = Path(module.__file__ or "").resolve()
        explanation = (module.__doc__ or "").strip()
        if not explanation:
            raise InputError("the file of a variant begins with a docstring that says what it changes and why")
        cuda_c = path.with_suffix(CUDA_C).exists()
        toolkits = tuple(
            name
            for name, entry in catalogue().items()
            if (cuda_c and entry.cuda_c)
            or (entry.suffix and path.with_suffix(entry.suffix).exists())
            or hasattr(module, name + KERNEL)
        )
        return Variant(
            **vars(self),
            name=path.stem,
            summary=explanation.splitlines()[0],
            explanation=explanation,
            toolkits=toolkits or (CPU,),
            prepare=prepare,
            module=module,
            path=path,
        )


def _check(declared: Declaration) -> None:
    """Refuse axes and number types that no case could have."""
    for axis, values in declared.axes.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise InputError(f"axis {axis} is {values!r}; accepted: a tuple of at least one value")
        for value in values:
            if type(value) not in get_args(AxisValue) or (isinstance(value, float) and not math.isfinite(value)):
                raise InputError(
                    f"axis {axis} has the value {value!r}; accepted: finite numbers, texts, True and False"
                )
        if declared.defaults.get(axis) not in values:
            raise InputError(f"axis {axis} needs a default; accepted: one of {listed(map(str, values))}")
    for toolkit, axes in declared.defaults_on.items():
        if wrong_axes := [axis for axis, value in axes.items() if value not in declared.axes.get(axis, ())]:
            raise InputError(
                f"the default for {wrong_axes[0]} on {toolkit} is none of its values; accepted: one of them"
            )
    for axis, numbers in declared.ranges.items():
        if axis not in declared.axes:
            raise InputError(f"a range for {axis}, which is not an axis; {nearest(axis, list(declared.axes))}")
        if not isinstance(numbers, Range):
            raise InputError(f"the range of axis {axis} is {numbers!r}; accepted: Range(least, most, reason)")
    if unknown := [axis for axis in declared.defaults if axis not in declared.axes]:
        raise InputError(
            f"a default for {unknown[0]}, which is not an axis; {nearest(unknown[0], list(declared.axes))}"
        )
    if kept := [axis for axis in declared.former if axis in declared.axes]:
        raise InputError(f"{kept[0]} is an axis and a former one; accepted: one of them")
    if never := [axis for axis in declared.moved if axis not in declared.former]:
        raise InputError(f"{never[0]} has moved, but is no former axis; {nearest(never[0], list(declared.former))}")
    if wrong := [dtype for dtype in declared.dtypes if dtype not in get_args(Dtype)]:
        raise InputError(f"dtypes has {wrong[0]!r}; accepted: {listed(get_args(Dtype))}")


def _load(path: Path) -> Variant:
    name = f"gravbench_variant_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{path.stem}"
    if path.is_relative_to(BUILT_IN):
        name = ".".join(["gravbench.variants", *path.relative_to(BUILT_IN).with_suffix("").parts])
    module = importing.module(path, name, from_text=not path.is_relative_to(BUILT_IN))
    content = vars(module)
    declared = [value for value in content.values() if isinstance(value, Variant) and value.module is module]
    if not declared or any(other is not declared[0] for other in declared):
        raise InputError(f"{path}: declares {len(declared)} variants; accepted: one, by @variant(...) above prepare")
    variant = declared[0]
    # A kernel that no toolkit would ever find has a misspelt name, or stands below ``prepare``.
    for kernel in (key for key, value in content.items() if key.endswith(KERNEL) and callable(value) and key[0] != "_"):
        toolkit = kernel.removesuffix(KERNEL)
        if toolkit not in catalogue():
            accepted = [f"{other}{KERNEL}" for other in catalogue()]
            raise InputError(f"{path}: {kernel} is not a kernel for any toolkit; {nearest(kernel, accepted)}")
        if toolkit not in variant.toolkits:
            raise InputError(f"{path}: {kernel} stands below prepare; accepted: above it")
    return variant


@lru_cache
@one_thread_at_a_time
def discover(extra: Sequence[Path] = ()) -> Mapping[str, Variant]:
    """Find every variant, parents before children: those of ``variants/`` and those of ``extra`` folders.

    ``extra`` is a tuple of folders of one's own, each laid out like a family's folder. Other threads and forks wait.

    Raises:
        InputError: a folder is missing, a stem cannot be read or imported, two have one name, a parent does not exist,
            or Python imports another module than the one beside a stem.
    """
    with neighbours.forgetting_what_is_refused():
        variants: dict[str, Variant] = {}
        for root in (BUILT_IN, *extra):
            for path in _stems(root):
                variant = _load(path)
                if variant.name in variants:
                    other = variants[variant.name].path
                    raise InputError(f"{path}: variant {variant.name} is already declared by {other}")
                variants[variant.name] = variant
        return _ordered(variants)


def _stems(root: Path) -> list[Path]:
    """List the files of a folder that declare a variant; those of one's own may share a module beside them."""
    if not root.is_dir():
        raise InputError(f"{root}: no such folder of variants")
    folder = root.resolve()
    if (file := folder / f"{neighbours.PACKAGE}.py").is_file():
        raise InputError(f"{file}: Python would import it for the package {neighbours.PACKAGE}; accepted: another name")
    stems = [path for path in importing.sources(folder) if declares(path)]
    if root != BUILT_IN:
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
        neighbours.check(folder, stems)
    return stems


def _ordered(variants: Mapping[str, Variant]) -> dict[str, Variant]:
    """Put parents before their children."""
    for variant in variants.values():
        if variant.parent is not None and variant.parent not in variants:
            raise InputError(
                f"{_at(variant)}: parent {variant.parent} is not a variant; {nearest(variant.parent, list(variants))}"
            )

    def ladder(parent: str | None) -> Iterator[Variant]:
        for variant in variants.values():
            if variant.parent == parent:
                yield variant
                yield from ladder(variant.name)

    ordered = {variant.name: variant for variant in ladder(None)}
    if circle := [variant for name, variant in variants.items() if name not in ordered]:
        raise InputError(f"{_at(circle[0])}: parent {circle[0].parent} is itself derived from {circle[0].name}")
    return ordered


def _at(variant: Variant) -> str:
    """Name the file of a variant and the line that declares it."""
    lines = enumerate(files.text(variant.path).splitlines(), 1)
    return next((f"{variant.path}, line {i}" for i, line in lines if DECLARATION.search(line)), str(variant.path))


def parents(variants: Mapping[str, Variant]) -> dict[str, str | None]:
    """Map each variant to its parent, None for the first of a ladder."""
    return {name: variant.parent for name, variant in variants.items()}


def summaries(variants: Mapping[str, Variant]) -> dict[str, str]:
    """Map each variant to what it changes, in a line."""
    return {name: variant.summary for name, variant in variants.items()}
