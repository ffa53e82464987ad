# The files that `cmake --install` installs, the files for pkg-config and find_package, and the Debian package.
# docs/installing.md shows all of it, and tests/install runs that page.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  message(FATAL_ERROR "CMAKE_INSTALL_LIBDIR, CMAKE_INSTALL_INCLUDEDIR: valid are folders below the prefix")
endif()

# The libraries that libtrireme.a needs.
set(TRIREME_STATIC_LIBRARIES ${JANSSON_LIBRARIES} ${YAML_LIBRARIES} ${PCRE2_LIBRARIES} ${UTF8PROC_LIBRARIES} ${XXHASH_LIBRARIES}
    ${ZLIB_LIBRARIES} ${URING_LIBRARIES} ${EVENT_EXTRA_LIBRARIES} ${EVENT_LIBRARIES} ${OPENSSL_LIBRARIES} m pthread)
list(TRANSFORM TRIREME_STATIC_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE flags)
list(JOIN flags " " flags)
set(TRIREME_STATIC_FLAGS "${flags}")

install(TARGETS trireme)
install(TARGETS trireme_shared EXPORT trireme)
install(FILES ${PROJECT_BINARY_DIR}/libtrireme.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/trireme.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# pkg-config
string(APPEND TRIREME_STATIC_FLAGS " ${TRIREME_CUDA_FLAGS}")
list(APPEND TRIREME_STATIC_LIBRARIES ${TRIREME_CUDA_LIBRARIES})
file(RELATIVE_PATH TRIREME_PREFIX_OF_PC "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" TRIREME_PREFIX_OF_PC "${TRIREME_PREFIX_OF_PC}")
configure_file(cmake/trireme.pc.in trireme.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/trireme.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# find_package. Until 1.0 a minor version may change the interface; the library's name says so, too.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/trireme)
configure_package_config_file(cmake/trireme-config.cmake.in trireme-config.cmake INSTALL_DESTINATION ${package}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(trireme-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT trireme NAMESPACE trireme:: FILE trireme-targets.cmake DESTINATION ${package})
install(FILES ${PROJECT_BINARY_DIR}/trireme-config.cmake ${PROJECT_BINARY_DIR}/trireme-config-version.cmake
        DESTINATION ${package})

# The manual and the shell completion. The program itself writes them.
set(written "")
foreach(one "trireme.1;help;--man" "trireme.bash;completion;bash" "_trireme;completion;zsh")
  list(POP_FRONT one name)
  add_custom_command(OUTPUT ${name} COMMAND trireme ${one} >${name} DEPENDS trireme)
  list(APPEND written ${PROJECT_BINARY_DIR}/${name})
endforeach()
add_custom_target(trireme_written ALL DEPENDS ${written})
install(FILES ${PROJECT_BINARY_DIR}/trireme.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_BINARY_DIR}/trireme.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME trireme)
install(FILES ${PROJECT_BINARY_DIR}/_trireme DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

# cpack -G DEB
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME trireme)
set(CPACK_PACKAGE_VENDOR Trireme)
set(CPACK_PACKAGE_CONTACT "The authors of Trireme")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains neural networks on many devices")
set(CPACK_PACKAGE_DESCRIPTION "The program trireme and the library libtrireme, shared and static, with header.")
set(CPACK_STRIP_FILES TRUE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# CPack derives the run-time dependencies from the files. Only a program that links libtrireme.a needs more.
find_program(TRIREME_SHLIBDEPS dpkg-shlibdeps)
if(TRIREME_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
endif()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
    "libjansson-dev, libyaml-dev, libpcre2-dev, libutf8proc-dev, libxxhash-dev, zlib1g-dev, liburing-dev, libevent-dev, libssl-dev")
if(UCX_FOUND)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libucx0) # loaded when a run uses it
endif()
include(CPack)
