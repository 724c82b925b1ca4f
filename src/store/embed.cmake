# embed.cmake - writes a text file as a C string: cmake -DINPUT=... -DOUTPUT=... -DNAME=... -P
file(STRINGS ${INPUT} lines)
set(text "/* Generated from ${INPUT}. */\nextern const char ${NAME}[];\nconst char ${NAME}[] =\n")
foreach(line IN LISTS lines)
    string(REPLACE "\\" "\\\\" line "${line}")
    string(REPLACE "\"" "\\\"" line "${line}")
    string(APPEND text "    \"${line}\\n\"\n")
endforeach()
file(WRITE ${OUTPUT} "${text}    ;\n")
