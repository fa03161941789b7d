/* What a coordinator shows over HTTP on this host. */
#ifndef TESTS_COORDINATOR_SHOWN_H
#define TESTS_COORDINATOR_SHOWN_H

/* Until it shows this under path of "127.0.0.1:port"; fails the test after a minute. */
void shown_await(const char *address, const char *path, const char *what);

#endif
