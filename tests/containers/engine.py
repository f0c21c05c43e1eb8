# SPDX-License-Identifier: MIT
"""The Docker engine and Compose of this machine, as commands. What a test makes carries a name of its
own, so that it is found again and nothing else is touched."""
import json
import shutil
import subprocess


def docker(*arguments, check=True, seconds=120, **options):
    """Runs docker; returns what it printed."""
    done = subprocess.run(["docker", *map(str, arguments)], capture_output=True, text=True,
                          timeout=seconds, check=False, **options)
    assert done.returncode == 0 or not check, \
        f"docker {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def compose_command():
    """The first there is of docker-compose (Debian's) and the plugin, or None."""
    for command in (["docker-compose"], ["docker", "compose"]):
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run([*command, "version"], capture_output=True, timeout=60, check=False)
        if done.returncode == 0:
            return command
    return None


def missing():
    """Why nothing can run here, or None."""
    if shutil.which("docker") is None:
        return "there is no docker"
    done = subprocess.run(["docker", "version", "-f", "{{.Server.Version}}"], capture_output=True,
                          text=True, timeout=60, check=False)
    if done.returncode != 0:
        return f"no Docker engine answers: {done.stderr.strip()[:200]}"
    return None if compose_command() else "there is no docker-compose"


def inspect(container, path="."):
    """What the engine knows of a container; path as in {{.State.Health}}."""
    return json.loads(docker("inspect", "-f", f"{{{{json {path}}}}}", container))


def has_image(name):
    return docker("images", "-q", name) != ""


def pull(name):
    """Whether a registry gave the image."""
    done = subprocess.run(["docker", "pull", "-q", name], capture_output=True, timeout=300,
                          check=False)
    return done.returncode == 0


def build(name, folder, *options, seconds=900):
    docker("build", "-q", "-t", name, *options, folder, seconds=seconds)
