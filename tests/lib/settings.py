# SPDX-License-Identifier: MIT
"""Settings files for tests: written so that a daemon sees each as one change."""
import hashlib
import json
import os


def key(secret, scope="in", project="default", **members):
    """A key's entry; the name is made of what it is for."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return {"name": f"{project}-{scope}-{digest[:8]}", "project": project, "scope": scope,
            "sha256": digest, **members}


def write(path, **sections):
    """Puts a file with these sections in place, by a rename; returns its path."""
    text = json.dumps({"version": 1, **sections}, indent=1)
    return write_text(path, text)


def write_text(path, text):
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)
    return path


def digest(path):
    """The settings' hash, as daemons tell it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
