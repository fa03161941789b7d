"""Text of the reference that is not in the headers."""

import re

STATUS = (
    "Returns TUTTI_OK, or another status. After an error, tutti_last_error() returns the message. "
    "Outputs are written only on TUTTI_OK."
)
KERNEL_STATUS = "Returns TUTTI_OK, or another status."
ALL_ERRORS = "tutti_status(3) lists all statuses. A call may return any of them."


def return_value(group, description):
    """The paragraphs of RETURN VALUE; empty if no function of the group returns a value."""
    functions = group.functions()
    if not any(not item.is_void() for item in functions):
        return []
    found = description.returns()
    status = [item for item in functions if item.is_status()]
    if status:
        found = [STATUS if any(item.exported for item in status) else KERNEL_STATUS] + [
            one for one in found if not one.startswith("Returns TUTTI_OK, or the errors")
        ]
    return [" ".join(found)] if found else ["See DESCRIPTION."]


def full_names(names):
    """The names of errors as the headers define them: "MISMATCH or TIMEOUT" with TUTTI_ERR_."""
    return re.sub(r"\b([A-Z]{3}[A-Z_]+)\b", r"TUTTI_ERR_\1", names.replace("TUTTI_ERR_", ""))
