"""Every public name is documented, and the generated pages are those that the code makes."""

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import traceanalyzer
from traceanalyzer.cli.reference import command_reference, help_module
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.reference import results_reference
from traceanalyzer.schema.reference import schema_reference

REPOSITORY = Path(__file__).parents[1]


def public_modules():
    """Names of all modules whose path has no part that begins with an underscore."""
    names = [m.name for m in pkgutil.walk_packages(traceanalyzer.__path__, "traceanalyzer.", onerror=lambda _: None)]
    return ["traceanalyzer", *(name for name in names if not any(part.startswith("_") for part in name.split(".")))]


def public_members(thing, module_name):
    """Classes and functions that a module, or a class of it, defines under a public name."""
    for name, member in vars(thing).items():
        bare = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        bare = bare.fget if isinstance(bare, property) else bare
        known = inspect.isclass(bare) or inspect.isfunction(bare)
        if not name.startswith("_") and known and bare.__module__ == module_name:
            yield name, bare


@pytest.mark.parametrize("name", public_modules())
def test_every_public_name_has_a_docstring(name):
    module = importlib.import_module(name)
    missing = [] if (module.__doc__ or "").strip() else [name]
    for member_name, member in public_members(module, name):
        if not (inspect.getdoc(member) or "").strip():
            missing.append(f"{name}.{member_name}")
        if inspect.isclass(member):
            missing += [
                f"{name}.{member_name}.{inner_name}"
                for inner_name, inner in public_members(member, name)
                if not (inspect.getdoc(inner) or "").strip()
            ]
    assert missing == []


def test_every_exported_name_is_there():
    for name in getattr(traceanalyzer, "__all__", ()):
        assert getattr(traceanalyzer, name) is not None


@pytest.mark.parametrize(
    ("page", "make"),
    [
        ("docs/reference/schema.md", schema_reference),
        ("docs/reference/results.md", results_reference),
        ("docs/reference/cli.md", command_reference),
        ("traceanalyzer/cli/help_text.py", help_module),
    ],
)
def test_generated_pages_are_current(page, make):
    assert (REPOSITORY / page).read_text(encoding="utf-8") == make(), "write it anew: see CONTRIBUTING.md"


def test_every_cause_is_explained():
    """The reference page has a row for every cause that a pass can give."""
    page = (REPOSITORY / "docs/reference/causes.md").read_text(encoding="utf-8")
    assert all(f"| `{cause.text}` | {cause.meaning} |" in page for cause in Cause)
    assert [cause.text for cause in Cause if f"| `{cause.text}` |" not in page] == []
