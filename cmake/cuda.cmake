# The cuda device, built where a CUDA toolkit is. The object library `cuda` holds src/device/cuda/; what links it has
# the device, as src/device/registry.c says. CUDA's runtime is linked statically, so a program starts where there is no
# driver. All other libraries of CUDA are opened when a device is.
#   -DTRIREME_CUDA=auto  builds the device where nvcc, cuBLAS and cuDNN are (default)
#   -DTRIREME_CUDA=on    ends with an error where they are not
#   -DTRIREME_CUDA=off   looks for nothing
#   -DTRIREME_CUDA_CODE=sm_90,compute_80   makes code for these alone, in half of the time
set(TRIREME_CUDA auto CACHE STRING "auto, on or off: build the cuda device")
set(TRIREME_CUDA_CODE sm_80,sm_90,compute_80 CACHE STRING "what nvcc makes code for")
set(TRIREME_CUDA_LIBRARIES "")
set(TRIREME_CUDA_FLAGS "") # that a user of libtrireme.a needs
set(TRIREME_CUDA_OBJECTS "")

# Sets `out` to the reason why the cuda device cannot be built here, or to nothing.
function(trireme_cuda_missing out)
  set(${out} "" PARENT_SCOPE)
  if(TRIREME_SANITIZE)
    set(${out} "a build with a sanitizer has none" PARENT_SCOPE)
    return()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(${out} "no nvcc that works was found" PARENT_SCOPE)
    return()
  endif()
  # cudaGetDriverEntryPointByVersion came with 12.5.
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE said ERROR_QUIET)
  if(NOT said MATCHES "V([0-9]+\\.[0-9]+\\.[0-9]+)")
    set(${out} "${CMAKE_CUDA_COMPILER} does not say its version" PARENT_SCOPE)
    return()
  endif()
  if(CMAKE_MATCH_1 VERSION_LESS 12.5)
    set(${out} "nvcc is ${CMAKE_MATCH_1}, and the device needs 12.5 or later" PARENT_SCOPE)
    return()
  endif()
  get_filename_component(bin ${CMAKE_CUDA_COMPILER} DIRECTORY)
  foreach(header cuda_runtime_api cublasLt cudnn)
    find_path(TRIREME_${header}_H ${header}.h HINTS ${bin}/../include ${bin}/../targets/x86_64-linux/include)
    mark_as_advanced(TRIREME_${header}_H)
    if(NOT TRIREME_${header}_H)
      set(${out} "${header}.h was not found" PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

if(NOT TRIREME_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "TRIREME_CUDA=${TRIREME_CUDA}: valid are auto, on and off")
endif()
set(missing "TRIREME_CUDA is off")
if(NOT TRIREME_CUDA STREQUAL "off")
  trireme_cuda_missing(missing)
endif()
if(missing)
  if(TRIREME_CUDA STREQUAL "on")
    message(FATAL_ERROR "TRIREME_CUDA=on, but ${missing}")
  endif()
  message(STATUS "device cuda: not built: ${missing}")
  return()
endif()

# Code for the Ampere and Hopper GPUs of data centers, unless TRIREME_CUDA_CODE says otherwise; the driver compiles the PTX
# for every other from 8.0 up. All are made from one PTX, because our kernels use nothing that came after 8.0.
set(CMAKE_CUDA_ARCHITECTURES OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -Xcompiler=-g1 -lineinfo")
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_RUNTIME_LIBRARY None) # it is named below
enable_language(CUDA)
set(compress "")
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
  set(compress -compress-mode=size) # programs are a fifth as large
endif()
set(werror "")
set(host_werror "")
if(TRIREME_WERROR)
  set(werror "-Werror all-warnings")
  set(host_werror ",-Werror")
endif()
find_package(CUDAToolkit REQUIRED)
message(STATUS "device cuda: built by nvcc ${CMAKE_CUDA_COMPILER_VERSION} (${CMAKE_CUDA_COMPILER}) for ${TRIREME_CUDA_CODE}")

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cuda/*.c
     ${PROJECT_SOURCE_DIR}/src/device/cuda/*.cu)
list(FILTER cuda_sources EXCLUDE REGEX "/src/device/cuda/needs/") # every build has these
add_library(cuda OBJECT ${cuda_sources})
target_include_directories(cuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(cuda SYSTEM PRIVATE ${TRIREME_cuda_runtime_api_H} ${TRIREME_cublasLt_H} ${TRIREME_cudnn_H})
target_compile_definitions(cuda PRIVATE TRIREME_CUDA_FOLDER="${CUDAToolkit_LIBRARY_DIR}")
target_compile_definitions(t_doctor PRIVATE TRIREME_CUDA_LEAST=${CUDAToolkit_VERSION_MAJOR}000
                           TRIREME_CUDA_FOLDER="${CUDAToolkit_LIBRARY_DIR}")
target_compile_options(cuda PRIVATE # CMake before 3.26 does not know that nvcc knows C++20
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-std=c++20 -gencode=arch=compute_80,code=[${TRIREME_CUDA_CODE}] ${compress} -Xptxas=-v ${werror} -Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers,-Wno-deprecated-enum-enum-conversion${host_werror},-fno-exceptions,-fno-rtti,-fno-threadsafe-statics>")
# What ptxas says of registers and spills goes to OBJECT.ptxas, and the PTX to OBJECT.ptx. tools/gpu_registers.sh --objects
# reads both.
set_target_properties(cuda PROPERTIES RULE_LAUNCH_COMPILE "${PROJECT_SOURCE_DIR}/tools/ptxas_log.sh <OBJECT>")
set_source_files_properties(${cuda_sources} PROPERTIES OBJECT_DEPENDS ${PROJECT_SOURCE_DIR}/tools/ptxas_log.sh)
# Names, not targets: CMake would else link with the CUDA compiler.
set(TRIREME_CUDA_LIBRARIES ${CUDA_cudart_static_LIBRARY} dl rt pthread)
set(TRIREME_CUDA_FLAGS "${CUDA_cudart_static_LIBRARY} -ldl -lrt")
set(TRIREME_CUDA_OBJECTS $<TARGET_OBJECTS:cuda>)
