"""The preset of a run, read back from its manifest."""

from pathlib import Path

from gradscope.config.convert import preset_from_dict
from gradscope.config.schema import Preset
from gradscope.errors import GradscopeError
from gradscope.rundir.manifest import read_manifest


def load_settings(run_dir: Path) -> Preset:
    """Return the preset in a run's manifest.

    Raises:
        GradscopeError: There is none, or it is not of this version.
    """
    manifest = read_manifest(run_dir)
    if manifest is None:
        raise GradscopeError(f"{run_dir} holds no manifest.json", "start runs with `gradscope run`")
    return preset_from_dict(manifest.preset)
