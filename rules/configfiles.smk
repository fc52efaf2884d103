# The configuration files as they are written; what they mean together is checked in rules/common.smk.

import sys
from pathlib import Path

import yaml

from condenser.pipeline.overlays import refuse_program


def check_keys(file):
    """Refuse a key that a configuration file gives twice: YAML would silently drop the first one's settings.

    Raises:
        ValueError: `file:line: key: ...`.
    """
    # JSON may be indented by tabs, which YAML refuses
    text = file.read_text(encoding="utf-8").replace("\t", " ")
    waiting = [("", yaml.compose(text, Loader=yaml.SafeLoader))]
    seen = set()  # an anchor may stand in many places
    while waiting:
        above, node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [(above, one) for one in node.value]
            continue
        line_of = {}
        for name, value in node.value:
            key, line = f"{above}{name.value}", name.start_mark.line + 1
            if key in line_of:
                raise ValueError(
                    f"{file}:{line}: {key}: expected each key once, got it in line {line_of[key]} already. "
                    "Put the settings of both under one."
                )
            line_of[key] = line
            waiting.append((f"{key}.", value))


try:
    for file in dict.fromkeys(map(Path, workflow.configfiles)):
        refuse_program(file)
        check_keys(file)
except ValueError as error:
    sys.exit(f"error: config: {error}")
