"""Whether a SARIF log has the form of the standard.

Checked by the classes that the sarif_om project generated from the schema of SARIF 2.1.0 (Debian package
python3-sarif-python-om).
"""

from __future__ import annotations

import inspect

import attr
import sarif_om

CLASSES = {name: cls for name, cls in inspect.getmembers(sarif_om, inspect.isclass) if attr.has(cls)}
# Objects whose class is not called as the property that holds them.
CLASS_OF = {
    "runs": "Run",
    "driver": "ToolComponent",
    "rules": "ReportingDescriptor",
    "shortDescription": "MultiformatMessageString",
    "results": "Result",
    "locations": "Location",
    "relatedLocations": "Location",
    "logicalLocations": "LogicalLocation",
    "properties": "PropertyBag",
}


def build(name: str, value: object) -> object:
    """Return the object of a property, with all below it. Throws when the schema lacks it or needs more."""
    if isinstance(value, list):
        return [build(name, item) for item in value]
    if not isinstance(value, dict):
        return value
    cls = CLASSES[CLASS_OF.get(name, name[0].upper() + name[1:])]
    if cls is sarif_om.PropertyBag:  # of any names
        return cls()
    known = {field.metadata["schema_property_name"]: field.name for field in attr.fields(cls)}
    return cls(**{known[key].lstrip("_"): build(key, item) for key, item in value.items()})
