# Installs the files of deploy/systemd with the paths of the installation, which `cmake --install --prefix`
# may change. Those of /usr/local in the files are the defaults.
install(CODE "
    foreach(file mote.service mote.tmpfiles.conf)
        file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/\${file}\" text)
        string(REPLACE /usr/local/bin/mote \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/mote\" text \"\${text}\")
        string(REPLACE /usr/local/share \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\" text \"\${text}\")
        file(WRITE \"${CMAKE_BINARY_DIR}/lib/\${file}\" \"\${text}\")
    endforeach()")
install(FILES ${CMAKE_BINARY_DIR}/lib/mote.service ${CMAKE_SOURCE_DIR}/deploy/systemd/mote.socket
    DESTINATION lib/systemd/system)
install(FILES ${CMAKE_BINARY_DIR}/lib/mote.tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME mote.conf)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/mote.sysusers.conf DESTINATION lib/sysusers.d RENAME mote.conf)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/service.conf DESTINATION ${CMAKE_INSTALL_DATADIR}/mote)
