"""Every public class and method of the SDK says what it takes, gives and raises."""

from __future__ import annotations

import ast
import builtins
import pydoc
from importlib import import_module
from pathlib import Path

import pytest

from lakequeue import AsyncConsumer, AsyncProducer, Consumer, Producer, errors
from lakequeue.option_help import options_of
from lakequeue.testing import MemoryQueue
from lakequeue.wire import DEFAULT_CONSUMER_URL, DEFAULT_INGEST_URL
from tools.documents.docstrings import OPTIONS, SDK, Callable, doc_of, sdk

PROJECT = Path(__file__).parents[3]
PUBLIC = sdk(PROJECT)
OURS = {"lakequeue", "memory_queue", "pyspark_lakequeue"}
CLASSES = [name for name, (top, *_) in PUBLIC.items() if top.name[0].isupper()]
EVERY = [(public, one) for public, found in PUBLIC.items() for one in found]


def faults_of(one: Callable) -> list[str]:
    doc = one.doc
    found = [f"{name} is not told" for name in one.argument_names if name not in doc.args]
    found += [f"{name} is no argument" for name in doc.args if name not in one.argument_names]
    found += [
        f"{name} is no error"
        for name in doc.raises
        if not hasattr(errors, name) and not hasattr(builtins, name)
    ]
    if bool(one.result) != bool(doc.returns):
        found.append("what it returns is not told" if one.result else "it returns nothing")
    return found if doc.text.endswith((".", ":")) else [*found, "the first part is no sentence"]


@pytest.mark.parametrize(("public", "one"), EVERY, ids=[f"{p}-{o.name}" for p, o in EVERY])
def test_what_is_public_tells_its_arguments_result_and_errors(public: str, one: Callable) -> None:
    assert faults_of(one) == [], public


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_says_what_it_means(name: str) -> None:
    rows = options_of((PROJECT / OPTIONS[name]).read_text(), name)
    assert len(rows) >= 7
    assert [option for option, _, said in rows if not said] == []


@pytest.mark.parametrize("client", [Producer, AsyncProducer, Consumer, AsyncConsumer])
def test_help_lists_every_option_with_what_it_means(client: type) -> None:
    text = pydoc.plain(pydoc.render_doc(client))
    producing = "Producer" in client.__name__
    name = "ProducerOptions" if producing else "ConsumerOptions"
    rows = options_of((PROJECT / OPTIONS[name]).read_text(), name)
    assert [option for option, kind, _ in rows if f"{option} ({kind}):" not in text] == []
    assert ("How long a batch waits" if producing else "One or several consumer-service") in text


@pytest.mark.parametrize("public", SDK)
def test_every_class_and_function_has_an_example_that_is_python(public: str) -> None:
    ast.parse(PUBLIC[public][0].doc.example)
    assert PUBLIC[public][0].doc.example


@pytest.mark.parametrize("public", [name for name in SDK if name.count(".") == 1])
def test_the_examples_of_the_clients_run(public: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On a queue in memory that answers at the addresses of the examples."""
    with MemoryQueue([DEFAULT_INGEST_URL, DEFAULT_CONSUMER_URL]) as queue:
        queue.create_topic("orders")
        queue.producer().send("orders", {"total": 1}, key="customer-1").result(5)
        exec(compile(PUBLIC[public][0].doc.example, public, "exec"), {})  # noqa: S102
    assert capsys.readouterr().out


@pytest.mark.parametrize("module", ["lakequeue", "lakequeue.spark", "lakequeue.testing"])
def test_all_that_a_package_exports_is_in_the_reference(module: str) -> None:
    exported = {f"{module}.{name}" for name in import_module(module).__all__}
    # Said at the head of the page: they are as others.
    twins = {"lakequeue.AsyncProducer", "lakequeue.AsyncConsumer", "lakequeue.Delivered"}
    assert exported - twins - PUBLIC.keys() == set()


@pytest.mark.parametrize("public", CLASSES)
def test_all_that_is_public_of_a_class_is_in_the_reference(public: str) -> None:
    module, _, name = public.rpartition(".")
    own = [
        set(vars(one)) | set(getattr(one, "__annotations__", ()))
        for one in getattr(import_module(module), name).__mro__
        if one.__module__.partition(".")[0] in OURS
    ]
    top, *methods = PUBLIC[public]
    told = {one.name for one in methods} | {one.name for one in top.attributes}
    assert {one for one in set().union(*own) if not one.startswith("_")} - told == set()


@pytest.mark.parametrize("public", PUBLIC)
def test_every_attribute_says_what_it_is(public: str) -> None:
    assert [one.name for one in PUBLIC[public][0].attributes if not one.said or not one.kind] == []


def test_what_is_missing_is_found() -> None:
    said = doc_of(
        "Do it.\n\nArgs:\n    a: One\n        and more.\n    c: Three.\n\nRaises:\n    Odd: x.\n"
    )
    assert said.args == {"a": "One and more.", "c": "Three."}
    one = Callable("do", ("a: int", "*", "b: int = 1"), "int", said)
    assert faults_of(one) == [
        "b is not told",
        "c is no argument",
        "Odd is no error",
        "what it returns is not told",
    ]
