# Inputs of the rules in rules/ask.smk.


def read_for_known():
    """Files of configuration and code, and folders, where another file is a change too."""
    folders = {"condenser": "py", "workflow_scripts": "py", "rules": "smk", "configs/tables": "yaml"}
    code = [file for folder, kind in folders.items() for file in ROOT.glob(f"{folder}/**/*.{kind}")]
    settings = ["config.yaml", "results", *Path("results").glob("*/index.yaml"), *workflow.configfiles]
    files = [*settings, ROOT / "Snakefile", ROOT / "requirements.lock", *code]
    return map(str, [*files, *(file.parent for file in code)])
