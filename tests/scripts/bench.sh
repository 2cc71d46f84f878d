#!/bin/bash
# SPDX-License-Identifier: MIT
exec bash "$(dirname "$0")/../bench_cli.sh" "$@"
