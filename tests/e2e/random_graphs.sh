#!/bin/bash
# A thousand random graphs of each of three kinds through every pass and pipeline.
RLXC_RANDOM_GRAPHS=${RLXC_RANDOM_GRAPHS:-1000} "${RLXC_BUILD:-build}/rlxc_tests" -tc='random graphs: *' --no-colors=true
