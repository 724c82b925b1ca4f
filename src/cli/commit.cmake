# Writes cli/inspect/commit.h with the commit of HEAD. Runs at build time, so that `mote version` does not print
# the commit of the last configure.
execute_process(COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
    set(commit "unknown")
endif()
file(WRITE ${OUTPUT} "/* Written by the build. */\n#define MOTE_COMMIT \"${commit}\"\n")
