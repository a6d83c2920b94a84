"""What pyproject.toml cannot say of the build: the extension in C, on the stable ABI where there is one."""

import os
import sysconfig

from setuptools import Extension, setup

# Free-threaded Pythons have no stable ABI yet.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "millpond.record._columns",
            sources=["src/millpond/record/_columns.c", "src/millpond/record/_records.c"],
            depends=["src/millpond/record/_format.h", "src/millpond/record/_kernels.h"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            extra_compile_args=["-O3", "-std=c11"],
            # Without a compiler the installation goes on: the twins in Python do the same, slower.
            optional="MILLPOND_REQUIRE_EXTENSION" not in os.environ,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)
