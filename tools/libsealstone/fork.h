// What happens to the library when its process forks. See fork.c.
#ifndef SEALSTONE_FORK_H
#define SEALSTONE_FORK_H

// seal_forked: this process is a child of the one that loaded the library.
// Async-signal-safe, a few nanoseconds.
int seal_forked(void);

// seal_lock_taken and seal_lock_given enter and strike out a descriptor that
// holds a lock of a store's directory.
void seal_lock_taken(int fd);
void seal_lock_given(int fd);

#endif
