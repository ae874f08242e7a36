"""What was sent, read into a shape of `lakequeue.wire`. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lakequeue.errors import InvalidRequest
from lakequeue.wire.shapes import AS_JSON

Shape = TypeVar("Shape", bound=BaseModel)


def valid(shape: type[Shape], given: Any, *, texts: bool = False) -> Shape:
    """`given` as a `shape`; `texts`: all its values are texts, as those of a query are.

    Raises `InvalidRequest` that names the field and all there are.
    """
    try:
        return shape.model_validate(given, context=None if texts else AS_JSON)
    except ValidationError as e:
        first = e.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])[:100]
        names = [field.alias or name for name, field in shape.model_fields.items()]
        raise InvalidRequest(
            f"{field or 'the body'}: {first['msg']}",
            hint=f"fields are {', '.join(names)}",
            field=field,
        ) from None
