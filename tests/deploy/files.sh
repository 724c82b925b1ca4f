#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the files of deploy/ with the programs that read them, as far as they are installed.
set -u
deploy=$(cd "$(dirname "$0")/../../deploy" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=$PATH:/usr/sbin
failures=0
checked=0

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# check PROGRAM COMMAND...: runs the command if the program is installed.
check() {
    program=$1
    shift
    command -v "$program" >/dev/null || { echo "there is no $program"; return; }
    checked=$((checked + 1))
    "$@" >"$work/out" 2>&1 || { fail "$*"; cat "$work/out"; }
}

check promtool promtool check rules "$deploy/prometheus/mote.rules.yml"
cd "$deploy/prometheus" && check promtool promtool test rules mote.rules.test.yml

# Planted fault: a rule with a metric that does not exist must be found.
mkdir "$work/planted"
cp "$deploy"/prometheus/mote.rules*.yml "$work/planted"
sed -i 's/mote_requests_rejected_total{reason="queue_full"}/mote_requests_rejected_total{reason="full"}/' \
    "$work/planted/mote.rules.yml"
if command -v promtool >/dev/null; then
    (cd "$work/planted" && promtool test rules mote.rules.test.yml >/dev/null 2>&1) &&
        fail "the test of the rules does not see a wrong label"
fi

# The documented score is 2.0; --threshold is in tenths.
check systemd-analyze systemd-analyze security --offline=true --threshold=20 "$deploy/systemd/mote.service"
sed '/^Protect\|^Private\|^Restrict\|^SystemCall\|^Capability\|^User\|^NoNew/d' \
    "$deploy/systemd/mote.service" >"$work/mote.service"
if command -v systemd-analyze >/dev/null; then
    systemd-analyze security --offline=true --threshold=20 "$work/mote.service" >/dev/null 2>&1 &&
        fail "an open unit passes for a closed one"
fi

# The program of the unit is where `cmake --install` puts it by default; tests/header tests other prefixes.
grep -q '^ExecStart=/usr/local/bin/mote serve ' "$deploy/systemd/mote.service" || fail "path of the program"
mkdir "$work/units"
cp "$deploy/systemd/mote.socket" "$work/units"
sed 's|^ExecStart=/usr/local/bin/mote|ExecStart=/bin/true|' "$deploy/systemd/mote.service" >"$work/units/mote.service"
check systemd-analyze systemd-analyze verify "$work/units/mote.service"
# The unit of a user in docs/service.md.
guide=$deploy/../docs/service.md
sed -n '/^    # ~\/.config/,/^    WantedBy/p' "$guide" | sed 's/^    //; s|/usr/local/bin/mote|/bin/true|' >"$work/units/own.service"
grep -q '^WantedBy=default.target' "$work/units/own.service" || fail "no unit in service.md"
check systemd-analyze systemd-analyze verify "$work/units/mote.service" "$work/units/own.service"
# Every directory that the unit names is created by systemd-tmpfiles.
mkdir -p "$work/root/usr/local/share/mote"
cp "$deploy/systemd/service.conf" "$work/root/usr/local/share/mote"
check systemd-tmpfiles systemd-tmpfiles --create --root="$work/root" "$deploy/systemd/mote.tmpfiles.conf"
for path in $(sed '/^#/d' "$deploy/systemd/mote.service" | grep -oE '/(var|etc)/[a-z/]*mote'); do
    command -v systemd-tmpfiles >/dev/null && [ ! -d "$work/root$path" ] && fail "nothing creates $path"
done
if command -v systemd-tmpfiles >/dev/null; then
    cmp -s "$deploy/systemd/service.conf" "$work/root/etc/mote/service.conf" || fail "no settings in /etc/mote"
fi
check systemd-sysusers systemd-sysusers --root="$work/root" "$deploy/systemd/mote.sysusers.conf"
user=$(sed -n 's/^User=//p' "$deploy/systemd/mote.service")
command -v systemd-sysusers >/dev/null && ! grep -q "^$user:" "$work/root/etc/passwd" && fail "nothing creates the user '$user'"

check haproxy haproxy -c -f "$deploy/haproxy/haproxy.cfg"
printf 'pid %s/pid; error_log stderr; events { } http { access_log off; include %s; }\n' \
    "$work" "$deploy/nginx/mote.conf" >"$work/nginx.conf"
check nginx nginx -t -q -p "$work" -c "$work/nginx.conf"

[ $failures -eq 0 ] || exit 1
[ $checked -gt 0 ] || exit 77
echo "$checked checks"
