# SPDX-License-Identifier: MIT
# find_package(threelc) gives the target threelc::threelc and, where the module for MPI is installed, threelc::mpi.
# COMPONENTS mpi fails where the module or MPI for C is missing. meson and CMake install this file, each with targets of
# its own.
include("${CMAKE_CURRENT_LIST_DIR}/threelcTargets.cmake")
if(NOT TARGET threelc::threelc)
  set(threelc_FOUND FALSE)
  return()
endif()

set(threelc_mpi_FOUND FALSE)
if(TARGET threelc::mpi)
  if(threelc_FIND_REQUIRED_mpi)
    include(CMakeFindDependencyMacro)
    find_dependency(MPI COMPONENTS C)
  else() # programs without MPI, or not in C, use the library all the same
    find_package(MPI QUIET COMPONENTS C)
  endif()
  set(threelc_mpi_FOUND ${MPI_C_FOUND})
endif()

foreach(_threelc_component IN LISTS threelc_FIND_COMPONENTS)
  if(threelc_FIND_REQUIRED_${_threelc_component} AND NOT threelc_${_threelc_component}_FOUND)
    set(threelc_FOUND FALSE)
    string(CONCAT threelc_NOT_FOUND_MESSAGE "threelc was installed without the component ${_threelc_component}. There is "
      "only mpi, the module for MPI: meson -Dmpi=enabled or cmake -DTHREELC_MPI=ON builds it.")
  endif()
endforeach()
