# SPDX-License-Identifier: MIT
"""A program that uses the package, built by CMake: it must print what the example says."""
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain


class ThreelcTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        self.folders.build = "../../../../build-conan"
        self.folders.generators = "../../../../build-conan/generators"

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # a file among the sources
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        program, printed = Path(self.build_folder, "context"), Path(self.build_folder, "context.txt")
        self.run(f'"{program}" > "{printed}"', env="conanrun")
        expected = Path(self.recipe_folder).parents[3] / "tests" / "examples" / "context.txt"
        if printed.read_text() != expected.read_text():
            raise ConanException(f"the example prints {printed.read_text()}")
