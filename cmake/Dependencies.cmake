# SPDX-License-Identifier: Apache-2.0
#
# Finds what the layers link, and gives each thing one short target name:
#   ds_options  warnings and the include root, linked by every target
#   ds_llvm     LLVM's Support library, static; never for core, kernels or runtime
#   ds_onnx     the ONNX C++ library with protobuf
# Optional libraries set DS_HAVE_<X>; each can be turned off with DS_<X>=OFF.

add_library(ds_options INTERFACE)
target_include_directories(ds_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(ds_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>)
if(DS_WERROR)
  target_compile_options(ds_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC 12 and 13 report these wrongly for std::string and std::optional once they are inlined.
  target_compile_options(ds_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-error=maybe-uninitialized;-Wno-error=stringop-overflow;-Wno-error=array-bounds>)
  if(DS_SANITIZE) # instrumented code hides initialisations from the analysis
    target_compile_options(ds_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
target_link_libraries(ds_options INTERFACE Threads::Threads)

# ---- required -------------------------------------------------------------------------------------

foreach(version 14 15 16 17 18 19 20)
  list(APPEND ds_llvm_hints /usr/lib/llvm-${version}/lib/cmake/llvm)
endforeach()
find_package(LLVM REQUIRED CONFIG HINTS ${ds_llvm_hints})
if(LLVM_PACKAGE_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "LLVM 14 or newer is needed, ${LLVM_DIR} is ${LLVM_PACKAGE_VERSION}; set LLVM_DIR")
endif()
add_library(ds_llvm INTERFACE)
target_include_directories(ds_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(ds_llvm INTERFACE LLVMSupport)

find_package(Protobuf 3.21 REQUIRED)
list(APPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/.deps/onnx)
find_package(ONNX 1.17 CONFIG)
if(NOT ONNX_FOUND)
  message(FATAL_ERROR "The ONNX C++ library, 1.17 or newer, was not found; run tools/setup")
endif()
find_path(ONNX_INCLUDE onnx/onnx_pb.h HINTS ${ONNX_DIR}/../../../include) # its targets do not carry it
add_library(ds_onnx INTERFACE)
target_include_directories(ds_onnx SYSTEM INTERFACE ${ONNX_INCLUDE})
if(TARGET ONNX::onnx)
  target_link_libraries(ds_onnx INTERFACE ONNX::onnx ONNX::onnx_proto protobuf::libprotobuf)
else()
  target_link_libraries(ds_onnx INTERFACE onnx onnx_proto protobuf::libprotobuf)
endif()

find_package(fmt CONFIG REQUIRED)

# ---- optional -------------------------------------------------------------------------------------

if(DS_DNNL)
  find_path(DNNL_INCLUDE dnnl.hpp) # dnnl's own CMake file asks for OpenCL's headers, which nothing here needs
  find_library(DNNL_LIBRARY dnnl)
endif()
if(DS_HWY)
  find_package(hwy CONFIG QUIET)
endif()
if(DS_OPENMP)
  find_package(OpenMP QUIET COMPONENTS CXX)
endif()
if(DS_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
if(DS_URING)
  find_path(URING_INCLUDE liburing.h)
  find_library(URING_LIBRARY uring)
endif()
file(GLOB ds_cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
if(DS_CUDA AND ds_cuda_sources)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
    enable_language(CUDA) # in the root folder, or CMake does not learn the compiler's standards
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know nvcc's flag
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
    find_package(CUDAToolkit REQUIRED)
  endif()
endif()

macro(ds_have name condition)
  if(DS_${name} AND ${condition})
    set(DS_HAVE_${name} ON)
  else()
    set(DS_HAVE_${name} OFF)
  endif()
  message(STATUS "optional ${name}: ${DS_HAVE_${name}}")
endmacro()
ds_have(DNNL DNNL_LIBRARY)
ds_have(HWY hwy_FOUND)
ds_have(OPENMP OpenMP_CXX_FOUND)
ds_have(MPI MPI_CXX_FOUND)
ds_have(URING URING_LIBRARY)
ds_have(CUDA CMAKE_CUDA_COMPILER)
