/* What the two halves of the extension share. */
#ifndef MILLPOND_KERNELS_H
#define MILLPOND_KERNELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "_format.h"

/* As in compiled.py: another number, another set of arguments. */
enum { INTERFACE = 2 };

PyObject *kernel_records(PyObject *module, PyObject *args);
PyObject *kernel_encode_records(PyObject *module, PyObject *args);

#endif
