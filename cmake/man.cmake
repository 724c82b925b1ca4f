# Man pages and completion scripts from the command table of the built program, in ${OUT}, which is
# laid out like the share directory of an installation.
#   cmake -DMOTE=program -DOUT=directory -DSOURCE_DIR=source -P man.cmake
function(mote_write path)
    execute_process(COMMAND ${MOTE} ${ARGN} OUTPUT_FILE ${OUT}/${path} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${OUT})
foreach(directory man/man1 man/man5 man/man7 bash-completion/completions zsh/site-functions
        fish/vendor_completions.d)
    file(MAKE_DIRECTORY ${OUT}/${directory})
endforeach()
execute_process(COMMAND ${MOTE} help --json OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
string(JSON n LENGTH "${table}" commands)
math(EXPR last "${n} - 1")
foreach(i RANGE ${last})
    string(JSON name GET "${table}" commands ${i} name)
    mote_write(man/man1/mote-${name}.1 help --man ${name})
endforeach()
mote_write(man/man1/mote.1 help --man)
mote_write(man/man5/mote-config.5 help --man config)
file(COPY ${SOURCE_DIR}/docs/man/mote-api.7 DESTINATION ${OUT}/man/man7)
mote_write(bash-completion/completions/mote completion bash)
mote_write(zsh/site-functions/_mote completion zsh)
mote_write(fish/vendor_completions.d/mote.fish completion fish)
