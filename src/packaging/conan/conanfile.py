# SPDX-License-Identifier: MIT
"""The library for Conan 2, from the source tree that this lies in: conan create src/packaging/conan"""
import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir


class Threelc(ConanFile):
    name = "threelc"
    description = "Error-feedback compression of the tensors that machines exchange while they train a model together"
    license = "MIT"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "delta": [True, False], "exchange": [True, False], "codecs": ["ANY"]}
    default_options = {"shared": False, "delta": True, "exchange": True, "codecs": ""}  # codecs: 3lc;raw. None: all
    languages = "C"

    @property
    def _root(self):
        return Path(self.recipe_folder).parents[2]

    def set_version(self):
        self.version = re.search(r"^  version: '(.*)',", (self._root / "meson.build").read_text(), re.MULTILINE)[1]

    def export_sources(self):
        for pattern in ("LICENSE", "meson.build", "include/*", "src/meson.build", "src/CMakeLists.txt",
                        "src/threelcConfig.cmake", "src/*.c", "src/*.h"):
            copy(self, pattern, self._root, self.export_sources_folder)

    def requirements(self):
        self.requires("xxhash/[>=0.8 <0.9]", libs=False, visible=False)  # its header is compiled in

    def layout(self):
        cmake_layout(self, src_folder=".")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["THREELC_DELTA"] = bool(self.options.delta)
        toolchain.cache_variables["THREELC_EXCHANGE"] = bool(self.options.exchange)
        toolchain.cache_variables["THREELC_CODECS"] = str(self.options.codecs)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder="src")
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder, "licenses"))
        rmdir(self, Path(self.package_folder, "lib", "cmake"))  # CMakeDeps makes another

    def package_info(self):
        self.cpp_info.libs = ["threelc"]
        if self.settings.os != "Windows" and not self.options.shared:
            self.cpp_info.system_libs = ["m"]
