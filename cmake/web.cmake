# The files of the web page as a C table (src/server/api/native/web_page.h), compressed with gzip.
#   cmake -DOUT=file.c -DSOURCE_DIR=source -P web.cmake
include(${SOURCE_DIR}/web/files.cmake)

function(mote_web_type out path)
    set(types html "text/html" css "text/css" js "text/javascript" mjs "text/javascript"
        svg "image/svg+xml")
    cmake_path(GET path EXTENSION LAST_ONLY extension)
    string(SUBSTRING "${extension}" 1 -1 extension)
    list(FIND types "${extension}" at)
    if(at EQUAL -1)
        message(FATAL_ERROR "${path}: no content type is known for .${extension}")
    endif()
    math(EXPR at "${at} + 1")
    list(GET types ${at} type)
    set(${out} "${type}; charset=utf-8" PARENT_SCOPE)
endfunction()

# The compressed file as C bytes. Bytes 4 to 7 of a gzip file are a time: 0, so that two builds are equal.
function(mote_web_bytes out path)
    file(ARCHIVE_CREATE OUTPUT ${OUT}.gz PATHS ${path} FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
    file(READ ${OUT}.gz hex HEX)
    file(REMOVE ${OUT}.gz)
    string(SUBSTRING ${hex} 0 8 head)
    string(SUBSTRING ${hex} 16 -1 tail)
    string(REGEX REPLACE "(..)" "0x\\1," bytes ${head}00000000${tail})
    set(${out} ${bytes} PARENT_SCOPE)
endfunction()

set(arrays "")
set(rows "")
set(n 0)
foreach(row IN LISTS MOTE_WEB_FILES)
    string(REPLACE "=" ";" row ${row})
    list(GET row 0 name)
    list(GET row -1 path)
    file(SHA256 ${SOURCE_DIR}/${path} hash)
    string(SUBSTRING ${hash} 0 16 hash)
    mote_web_type(type ${path})
    mote_web_bytes(bytes ${SOURCE_DIR}/${path})
    string(APPEND arrays "static const unsigned char file_${n}[] = {${bytes}};\n")
    string(APPEND rows "    {\"${name}\", \"${type}\", \"\\\"${hash}\\\"\", file_${n}, sizeof file_${n}},\n")
    math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUT} "/* Written by cmake/web.cmake. */\n#include \"server/api/native/web_page.h\"\n\n${arrays}
const web_file web_files[] = {\n${rows}};
const size_t web_n_files = sizeof web_files / sizeof *web_files;\n")
