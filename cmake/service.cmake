# Installs the systemd units with the path of the installed program, which `cmake --install --prefix`
# may change. /usr/local/bin in deploy/systemd/mote.service is the default.
install(CODE "
    file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/mote.service\" unit)
    string(REPLACE /usr/local/bin/mote \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/mote\" unit \"\${unit}\")
    file(WRITE \"${CMAKE_BINARY_DIR}/lib/mote.service\" \"\${unit}\")")
install(FILES ${CMAKE_BINARY_DIR}/lib/mote.service ${CMAKE_SOURCE_DIR}/deploy/systemd/mote.socket
    DESTINATION lib/systemd/system)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/mote.tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME mote.conf)
