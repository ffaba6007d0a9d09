"""`reproduce`: make the runs of targets, and render their tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments import (
    calibration_table,
    extensions,
    ood_table,
    rendering,
    rivals,
    set_table,
    splits,
    trust,
    worth,
)
from experiments import recipe as recipes
from experiments.display import Display
from experiments.factors import chosen
from experiments.recipe import Cell, Recipe
from experiments.rendering import Rendering
from experiments.runner import run_cells
from experiments.store import Store
from experiments.target_runs import TargetRuns, in_store
from graphdrop.config import auto
from graphdrop.executors import Executor
from graphdrop.metrics import ThresholdAxis

QUICK = "quick"
WITH_RUNS: dict[str, Callable[[TargetRuns], Rendering]] = {
    "table1": rendering.accuracies,
    "table2": rendering.accuracies,
    "table3": rendering.blocks,
    "control": rendering.learned_and_fixed,
    "agree": rendering.accuracies,
    "fig-pavpu": rendering.uncertainty,
    "fig-tv": rendering.smoothing,
    "fig-depth": rendering.accuracies,
    "local": rendering.local,
    "ablation": rendering.variants,
    "amortised": extensions.amortised,
    "general": extensions.general,
    "ood": extensions.out_of_distribution,
    "trust": trust.trust,
    "calibration": calibration_table.calibration,
    "sets": set_table.sets,
    "worth": worth.worth,
    "rivals": rivals.rivals,
    "splits": splits.splits,
    "ppnp": rendering.accuracies,
    "grand": rendering.accuracies,
    "gcnii": rendering.accuracies,
}
WITHOUT_RUNS: dict[str, Callable[[], Rendering]] = {
    "table4": rendering.datasets,
}
TARGETS = (*WITH_RUNS, *WITHOUT_RUNS)


@dataclass(frozen=True)
class Request:
    """The options of a reproduction."""

    recipe: str = "paper"
    runs: int | None = None
    """Seeds per cell, in place of the recipe's number."""
    jobs: int = 1
    datasets: Sequence[str] = ()
    methods: Sequence[str] = ()
    """Only cells of these are run; tables show whatever is there."""
    factors: Sequence[str] = ()
    """Only cells that these factors of a controlled experiment need are run."""
    files: Sequence[str] = ()
    """Graphs of one's own, beside those of the recipe."""
    quick: bool = False
    render_only: bool = False
    out: Path = Path("results")
    axis: ThresholdAxis = ThresholdAxis.LARGEST
    executor: Executor | None = None
    """Where runs are made; by default in `jobs` processes of this machine."""
    device: str = "cpu"
    """The device on which a run is computed, as `Trainer` takes it."""

    @property
    def folder(self) -> Path:
        """Quick runs and what is made of them live apart."""
        return self.out / QUICK if self.quick else self.out


@dataclass(frozen=True)
class Reproduced:
    """A target's tables and figures, and the files they are in."""

    target: str
    rendering: Rendering
    paths: list[Path]


def reproduce(targets: Sequence[str], request: Request) -> Iterator[Reproduced]:
    """Make the missing runs of each target in turn, and render it."""
    store = Store(request.folder)
    for target in targets:
        if target in WITHOUT_RUNS:
            rendered = WITHOUT_RUNS[target]()
            yield Reproduced(target, rendered, rendered.write(request.folder))
            continue
        recipe = recipes.read_recipe(f"{target}-{request.recipe}")
        if request.files and not (recipe.files or recipe.settings == "auto"):
            raise ValueError(
                f"--file gives {request.files[0]}, but {target} has graphs of its own: only trust, "
                "calibration, sets, worth, and ood with the recipe auto take others"
            )
        factors = list(chosen(recipe.factors, request.factors))
        cells = find_cells(recipe, store, request)
        if not request.render_only:
            needed = recipes.needed(cells, factors)
            asked = recipes.only(needed, request.datasets, request.methods)
            _make(target, recipe, asked, store, request)
        found = TargetRuns(
            target,
            recipe,
            request.recipe,
            request.quick,
            [in_store(cell, store, watch=recipe.watch) for cell in cells],
            request.axis,
        )
        rendered = ood_table.unfamiliar(found) if recipe.left_out else WITH_RUNS[target](found)
        yield Reproduced(target, rendered, rendered.write(request.folder / request.recipe))


def usual_recipe(target: str) -> str:
    """The paper's recipe, or the only one that a target has."""
    own = _recipes_of(target)
    return own[0] if len(own) == 1 else "paper"


def targets_of(target: str, recipe: str) -> list[str]:
    """The targets that a name stands for; with `all`, those that have the recipe."""
    if target == "all":
        return [one for one in TARGETS if one in WITHOUT_RUNS or recipe in _recipes_of(one)]
    if target not in TARGETS:
        raise ValueError(f"TARGET is {target!r}: give one of {', '.join(TARGETS)} or all")
    if target in WITH_RUNS and recipe not in (own := _recipes_of(target)):
        raise ValueError(
            f"--recipe is {recipe!r}, which {target} does not have: give {' or '.join(own)}"
        )
    return [target]


def _recipes_of(target: str) -> list[str]:
    begin = f"{target}-"
    return [one.removeprefix(begin) for one in recipes.names() if one.startswith(begin)]


def rows_of(targets: Sequence[str], recipe: str) -> list[str]:
    """The names of the rows of some targets with a recipe."""
    there = [f"{one}-{recipe}" for one in targets if one in WITH_RUNS]
    return [row.name for name in there for row in recipes.read_recipe(name).rows]


def find_cells(recipe: Recipe, store: Store, request: Request) -> list[Cell]:
    """The cells with the version of the recipe auto of the runs that are in the store.

    Where the store has none of an earlier version, all runs are of the current one.
    """
    cells = recipe.cells(runs=request.runs, quick=request.quick, files=request.files)
    known = store.records()
    if any(key in known for cell in cells for key in cell.keys(watch=recipe.watch)):
        return cells
    return [replace(cell, version=auto.VERSION) for cell in cells]


def _make(
    target: str, recipe: Recipe, cells: Sequence[Cell], store: Store, request: Request
) -> None:
    if recipe.settings == "auto" and any(cell.version != auto.VERSION for cell in cells):
        known = store.records()
        keys = [key for cell in cells for key in cell.keys(watch=recipe.watch)]
        if all(key in known for key in keys):
            return
        raise ValueError(
            f"{target} in {request.folder} was made with version {recipe.version} of the recipe "
            f"auto, and this is version {auto.VERSION}: give --out another folder to make all of "
            "it anew, or --render-only to show what is there"
        )
    configs = [config for cell in cells for config in cell.configs]
    title = f"{target}, {request.recipe} recipe{', quick' if request.quick else ''}"
    display = Display(title, {cell.name: cell.keys(watch=recipe.watch) for cell in cells})
    run_cells(
        configs,
        store,
        request.jobs,
        watch=recipe.watch,
        display=display,
        executor=request.executor,
        device=request.device,
    )
