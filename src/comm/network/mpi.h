// mpi.h -- the communicator of ranks that MPI's launcher has started (mpirun, mpiexec, srun), over the MPI library of the
// site. It is a transport of network.h: sends and receives of bytes, whose sums have the order of comm.h. The library is
// loaded when the communicator opens: Open MPI's, or one with MPICH's binary interface. The variable TRIREME_MPI is the
// path of the library, where it is not found by its name.
//
// MPI starts in the process of the rank, once. It ends when every rank has closed the communicator. After a failure a
// rank leaves without ending it.
#ifndef TRIREME_COMM_MPI_H
#define TRIREME_COMM_MPI_H

#include "comm/network/network.h"

// Opens the communicator of all ranks. It is a row of registry.c. E_USAGE for ranks that are threads, ranks that MPI's
// launcher has not started, a library that is missing, and what network_open refuses. Collective over all ranks.
status mpi_open(const comm_options *o, comm **out, err *e);

#endif
