# Copyright (c) 2026, The Tutti authors
#
# SPDX-License-Identifier: BSD-3-Clause
"""The recipe of Tutti for Spack; docs/packaging.md describes its use."""

from pathlib import Path

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator

from spack.package import *


class Tutti(CMakePackage):
    """Collective communication for machine learning: all-reduce, all-gather, all-to-all and other
    collectives among processes, over shared memory, TCP, TLS and RDMA. Members of an elastic run
    may join, fail and leave while the others continue."""

    # The repository that contains this recipe. A copy of the recipe needs the URL of a forge.
    git = "file://" + str(Path(__file__).resolve().parents[6])

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("verbs", default=True, description="RDMA devices (InfiniBand, RoCE)")
    variant("ofi", default=True, description="Networks of libfabric (EFA, Slingshot)")
    variant("etcd", default=False, description="Journals of coordinators in etcd")
    variant("pmix", default=False, description="Start-up by launchers that use PMIx")
    variant("whole", default=True, description="Optimize across files (gcc)")
    variant("man", default=True, description="Manual pages")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.11:", type="build", when="+man")
    depends_on("cmocka", type="test")
    depends_on("python@3.11:", type="test")

    depends_on("hwloc@2:")
    depends_on("json-c")
    depends_on("libmicrohttpd")
    depends_on("openssl@3:")
    depends_on("sqlite")
    depends_on("rdma-core", when="+verbs")
    # loaded at run time, so that it must be in the same environment
    depends_on("libfabric@1.9:", type=("build", "run"), when="+ofi")
    depends_on("curl", when="+etcd")
    depends_on("pmix", type=("build", "run"), when="+pmix")

    conflicts("platform=darwin", msg="Tutti needs Linux")
    conflicts("platform=windows", msg="Tutti needs Linux")

    def cmake_args(self):
        return [
            self.define_from_variant("TUTTI_VERBS", "verbs"),
            self.define_from_variant("TUTTI_OFI", "ofi"),
            self.define_from_variant("TUTTI_ETCD", "etcd"),
            self.define_from_variant("TUTTI_PMIX", "pmix"),
            self.define_from_variant("TUTTI_WHOLE", "whole"),
            self.define_from_variant("TUTTI_MAN", "man"),
            self.define("TUTTI_TESTS", self.run_tests),
        ]
