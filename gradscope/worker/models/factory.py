"""Finding and calling a user's factory, and telling apart whose mistake it was when that fails.

A name that does not exist is bad usage. What the user's own code raises is theirs: its traceback goes to stderr
whole, and the error names module, factory and the original exception.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from gradscope.core.paths import home_expanded
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.failures import is_out_of_memory
from gradscope.worker.targets import suggestion

Factory = Callable[..., Any]


def find_factory(name: str) -> Factory:
    """Import `MODULE` of `py:MODULE:FACTORY` and return its `FACTORY`.

    `MODULE` is a dotted name, looked up with the working directory first, or a path to a `.py` file.

    Raises:
        GradscopeError: The name has another form, there is no such module or factory, or the module raised.
    """
    module_name, colon, factory_name = name.removeprefix("py:").rpartition(":")
    if not (colon and module_name and factory_name):
        raise GradscopeError(f"'{name}' does not name a factory", "the form is py:MODULE:FACTORY or py:FILE.py:FACTORY")
    module = _import(name, module_name)
    factory = getattr(module, factory_name, None)
    if factory is None:
        callables = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise GradscopeError(f"{module_name} has no '{factory_name}'", suggestion(factory_name, callables))
    if not callable(factory):
        raise GradscopeError(
            f"{module_name}.{factory_name} is {type(factory).__name__}, no factory", "name a function or a class"
        )
    found: Factory = factory
    return found


def call_factory(name: str, factory: Factory, options: Mapping[str, Any]) -> Any:
    """Call the factory with `model.options` as keyword arguments.

    Raises:
        GradscopeError: It does not take these arguments, or it raised.
    """
    try:
        parameters = inspect.signature(factory)
    except (TypeError, ValueError):
        parameters = None  # some callables of C have no signature; then the call itself tells
    if parameters is not None:
        try:
            parameters.bind(**options)
        except TypeError as error:
            raise GradscopeError(f"{name}: {error}", f"model.options must fit {name}{parameters}") from error
    try:
        return factory(**options)
    except (Exception, SystemExit) as error:  # the user's code may raise anything, and all of it is told
        _blame(name, error)


def _import(name: str, module_name: str) -> ModuleType:
    if module_name.endswith(".py"):
        return _import_file(name, Path(module_name))
    here = str(Path.cwd())
    if here not in sys.path[:1]:
        sys.path.insert(0, here)
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            _blame(name, error)  # a module that the user's module imports
        raise GradscopeError(
            f"there is no module '{module_name}' ({name})",
            f"it is looked up in {here} and in Python's own path; a path to a .py file does as well",
        ) from error
    except (Exception, SystemExit) as error:  # the user's code may raise anything, and all of it is told
        _blame(name, error)


def _import_file(name: str, path: Path) -> ModuleType:
    """Import a file by its path, with its folder first on the path as for a script."""
    path = home_expanded(path).absolute()
    if not path.is_file():
        raise GradscopeError(f"there is no file {path} ({name})", "the form is py:FILE.py:FACTORY")
    sys.path.insert(0, os.fspath(path.parent))
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise GradscopeError(f"{path} cannot be imported ({name})", "it must be a Python source file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's code may raise anything, and all of it is told
        del sys.modules[path.stem]
        _blame(name, error)
    return module


def _blame(name: str, error: BaseException) -> NoReturn:
    """Print the user's own traceback, and raise what names their factory and their exception."""
    traceback.print_exception(error)
    raise GradscopeError(
        f"{name} raised {type(error).__name__}: {error}",
        "its traceback is in the run's log",
        exit_code=ExitCode.OUT_OF_MEMORY if is_out_of_memory(error) else ExitCode.FAILED,
    ) from error
