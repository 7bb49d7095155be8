/* The clock of all measurements: that on the wall, or on one thread the processor time of the process, in which nobody else has
 * a part. */
#pragma once
#include <time.h>

static clockid_t used = CLOCK_MONOTONIC;

void use_processor_time(void) { used = CLOCK_PROCESS_CPUTIME_ID; }

static double now(void) {
    struct timespec t;
    clock_gettime(used, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
