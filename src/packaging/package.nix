# SPDX-License-Identifier: MIT
# nix-build -E '(import <nixpkgs> { }).callPackage ./src/packaging/package.nix { }'
{ lib, stdenv, meson, ninja, pkg-config, python3, jansson, xxHash }:

stdenv.mkDerivation {
  pname = "threelc";
  version = builtins.head (builtins.match ".*\n  version: '([^']*)'.*" (builtins.readFile ../../meson.build));
  src = lib.sourceByRegex ../.. [ "meson.*" "LICENSE" "(bench|include|src|tests)(/.*)?" ];

  nativeBuildInputs = [ meson ninja pkg-config python3 ];
  buildInputs = [ jansson xxHash ];
  mesonFlags = [ "-Dbench=disabled" "-Dmpi=disabled" "-Dtools=enabled" "-Dcpuid=builtin" "-Dxxhash=system" ];
  postPatch = "patchShebangs bench src/packaging";

  meta = {
    description = "Error-feedback compression of the tensors that machines exchange while they train a model together";
    license = lib.licenses.mit;
    platforms = lib.platforms.unix;
  };
}
