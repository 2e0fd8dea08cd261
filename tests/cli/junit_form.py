"""The form of JUnit XML that CI systems read: elements, where they may stand, attributes, counts.

As the schema of the Jenkins plugin xUnit (junit-10.xsd) has it, which pytest's reports follow too.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

# element: its attributes (the first ones required), how many of them are, and its children
FORM: dict[str, tuple[tuple[str, ...], int, set[str]]] = {
    "testsuites": (("name", "time", "tests", "failures", "errors", "disabled"), 0, {"testsuite"}),
    "testsuite": (
        (
            *("name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id"),
            *("package", "file", "log", "url", "version", "group"),
        ),
        2,
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        ("name", "classname", "time", "group", "file", "line"),
        1,
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": (("message", "type"), 0, set()),
    "error": (("message", "type"), 0, set()),
    "skipped": (("message", "type"), 0, set()),
    "system-out": ((), 0, set()),
}
TEXTS = {"failure", "error", "skipped", "system-out"}


def check(element: ET.Element) -> None:
    """Refuse what the form does not have, here and below."""
    attributes, required, children = FORM[element.tag]
    assert set(element.keys()) <= set(attributes), element.attrib
    assert set(attributes[:required]) <= set(element.keys()), element.attrib
    if element.tag not in TEXTS:
        assert not (element.text or "").strip(), element.text
    for child in element:
        assert child.tag in children, (element.tag, child.tag)
        assert not (child.tail or "").strip(), child.tail
        check(child)


def read(text: str) -> dict[str, ET.Element]:
    """Return the cases of a report by name; its form and counts are checked."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    check(root)
    cases = list(root.iter("testcase"))
    for level in (root, *root.findall("testsuite")):
        inside = list(level.iter("testcase"))
        for attribute, outcome in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            if attribute in level.keys():
                found = sum(case.find(outcome) is not None for case in inside)
                assert int(level.attrib[attribute]) == found, (level.attrib, found)
        assert int(level.attrib["tests"]) == len(inside)
    for case in cases:
        outcomes = [child.tag for child in case if child.tag in {"failure", "error", "skipped"}]
        assert len(outcomes) <= 1, outcomes
    by_name = {case.attrib["name"]: case for case in cases}
    assert len(by_name) == len(cases), "names are there twice"
    return by_name


def failed(cases: dict[str, ET.Element]) -> set[str]:
    """Return the names of the cases that failed."""
    return {name for name, case in cases.items() if case.find("failure") is not None}
