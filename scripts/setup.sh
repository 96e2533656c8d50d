#!/usr/bin/env bash
# Makes .venv with the pinned dependencies and sees to it that there is a Java 17+.
set -euo pipefail
cd "$(dirname "$0")/.."

python=""
for candidate in python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "setup: Python 3.11, 3.12 or 3.13 is needed (Debian and Ubuntu: apt-get install python3 python3-venv)" >&2
    exit 1
fi

java_version() {
    local java=${JAVA_HOME:+$JAVA_HOME/bin/java}
    [ -n "$java" ] && [ -x "$java" ] || java=$(command -v java || true)
    [ -n "$java" ] || { echo 0; return; }
    "$java" -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -n 1 | grep . || echo 0
}

if [ "$(java_version)" -lt 17 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing Java 17"
        (apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless) >/dev/null 2>&1 || true
    fi
    if [ "$(java_version)" -lt 17 ]; then
        echo "setup: Java 17 or newer is needed (Debian and Ubuntu: apt-get install openjdk-17-jre-headless)" >&2
        exit 1
    fi
fi

if [ ! -x .venv/bin/python ]; then
    echo "setup: making the virtual environment .venv"
    "$python" -m venv .venv
fi
echo "setup: installing pinned dependencies (the first time takes a few minutes)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt 2> >(grep -v "is ignored: it is neither" >&2)
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . 2> >(grep -v "is ignored: it is neither" >&2)
touch .venv/ready
