# SPDX-License-Identifier: Apache-2.0
# sources.sh - gets and unpacks the sources of sources.txt. Sourced by the builds of packaging/static and
# packaging/macos, which set $work, a directory with downloads/ and logs/, and $libraries_epoch, the
# time of unpacked files, and have the function `fail`.
pins=$(dirname "${BASH_SOURCE[0]}")/sources.txt

mirror() {
    local own
    own=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources \
        2>/dev/null | grep -v '^#' | grep -o 'https\?://[^ ]*/debian\(/\| \|$\)' | head -n 1 |
        sed 's,/debian[/ ]*$,,') || true
    own=${own:-"http://deb.debian.org"}
    echo "${MOTE_DEBIAN_MIRROR:-$own}"
}

# download [LIBRARY...]: their sources, or all. apt-helper uses the proxy that is configured for apt.
download() {
    local hash path file from wanted=" $* "
    from=$(mirror)
    while read -r hash path; do
        case $hash in '#'* | '') continue ;; esac
        file=${path##*/}
        [ $# -eq 0 ] || [ "${wanted#* ${file%%_*} }" != "$wanted" ] || continue
        file=$work/downloads/${path##*/}
        if ! echo "$hash  $file" | sha256sum --check --status 2>/dev/null; then
            /usr/lib/apt/apt-helper -o Acquire::Retries=3 download-file "$from/$path" "$file" \
                "SHA256:$hash" >"$work/logs/download.log" 2>&1 ||
                fail "cannot download $from/$path: $(tail -n 1 "$work/logs/download.log")"
        fi
    done <"$pins"
}

# unpack LIBRARY DIRECTORY
unpack() {
    local dsc
    dsc=$(sed -n "s,.*/\(${1}_[^/]*\.dsc\)\$,\1,p" "$pins")
    rm -rf "$2"
    mkdir -p "$(dirname "$2")"
    if [ -n "$dsc" ]; then
        dpkg-source --no-check -x "$work/downloads/$dsc" "$2"
    else
        mkdir -p "$2"
        tar -x -C "$2" --strip-components 1 -f \
            "$work/downloads/$(sed -n "s,.*/\(${1}_[^/]*\.orig\..*\)\$,\1,p" "$pins")"
    fi
    # A patch must not make files of autoconf look old: their programs would run again.
    find "$2" -exec touch --no-dereference --date "@$libraries_epoch" {} +
}
